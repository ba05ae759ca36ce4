from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from models.model_errors import ModelError, RequestRefused
from models.protocols import ChatRequest, ChatResponse, Message, Text
from tasks.calls import Answer
from tasks.evaluation.evaluation_errors import NeedsLogLikelihood
from tasks.evaluation.running.whole_benchmarks import AsLM

Instance = pytest.importorskip("lm_eval.api.instance").Instance


class Asked:
    """Answers each request by its last words, in reverse order; those that say `too long` are refused."""

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []

    def __call__(self, requests: Iterable[tuple[Any, ChatRequest]]) -> Iterator[tuple[Any, Answer | ModelError]]:
        pairs = list(requests)
        self.requests += [request for _, request in pairs]
        for tag, request in reversed(pairs):
            said = words(request.messages[-1])
            if "too long" in said:
                yield tag, RequestRefused("too long")
            else:
                response = ChatResponse(text=f"echo {said}", finish_reason="stop")
                yield tag, Answer(response, "key", cached=False, latency_s=0.0)


def words(message: Message) -> str:
    (part,) = message.content
    assert isinstance(part, Text)
    return part.text


def instance(prompt: Any, **arguments: Any) -> Any:
    return Instance("generate_until", {}, (prompt, arguments), 0)


def test_a_templated_prompt_is_a_text_that_keeps_its_messages() -> None:
    asked = Asked()
    model = AsLM(asked, name="m")
    prompt = model.apply_chat_template(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"}], add_generation_prompt=True
    )
    assert "1+1?" in prompt
    model.generate_until([instance(prompt)])
    assert [(one.role, words(one)) for one in asked.requests[0].messages] == [("system", "Be brief."), ("user", "1+1?")]
    assert asked.requests[0].template is True


def test_generation_arguments_become_sampling() -> None:
    asked = Asked()
    one = instance(
        [{"role": "user", "content": "?"}],
        do_sample=False,
        temperature=0.7,
        max_new_tokens=32768,
        seed=[3, 1237, 1237, 1237],
        until=["###"],
        top_p=0.9,
    )
    one.repeat_idx = 3
    AsLM(asked, name="m").generate_until([one])
    (sent,) = asked.requests
    assert (sent.temperature, sent.max_tokens, sent.seed, sent.stop, sent.top_p, sent.draw) == (
        *(0.7, 32768, 3, ("###",), 0.9),
        3,
    )


def test_log_probabilities_are_refused_by_name() -> None:
    with pytest.raises(NeedsLogLikelihood, match="log-probabilities"):
        AsLM(Asked(), name="m").loglikelihood([])
