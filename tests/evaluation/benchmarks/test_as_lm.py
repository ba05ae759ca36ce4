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


def test_answers_come_in_the_order_of_the_instances() -> None:
    model = AsLM(Asked(), name="m")
    prompts = [model.apply_chat_template([{"role": "user", "content": str(number)}]) for number in range(5)]
    assert model.generate_until([instance(one) for one in prompts]) == [f"echo {number}" for number in range(5)]


def test_what_is_refused_is_an_empty_answer() -> None:
    model = AsLM(Asked(), name="m")
    assert model.generate_until([instance("a"), instance("too long"), instance("b")]) == ["echo a", "", "echo b"]


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


def test_a_plain_text_goes_to_the_model_as_it_stands() -> None:
    asked = Asked()
    AsLM(asked, name="m").generate_until([instance("def f():")])
    assert asked.requests[0].template is False


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


def test_what_the_run_sets_goes_before_what_the_benchmark_asks_for() -> None:
    asked = Asked()
    model = AsLM(asked, name="m", system="Answer in French.", overrides={"max_tokens": 9, "temperature": 0.0})
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "?"}]
    model.generate_until([instance(prompt, max_gen_toks=100, temperature=1.0)])
    (sent,) = asked.requests
    assert (sent.max_tokens, sent.temperature) == (9, 0.0)
    assert [words(one) for one in sent.messages] == ["Answer in French.", "?"]


def test_log_probabilities_are_refused_by_name() -> None:
    with pytest.raises(NeedsLogLikelihood, match="log-probabilities"):
        AsLM(Asked(), name="m").loglikelihood([])
