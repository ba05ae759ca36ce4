"""Our backends in the shape that the lm-evaluation-harness asks: an `lm_eval.api.model.LM`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from models.model_errors import ModelError
from models.protocols import ChatRequest, Message, Text
from tasks.calls import Answer
from tasks.evaluation.benchmarks.as_lm import MAX_TOKENS, Templated, sampling_of
from tasks.evaluation.benchmarks.base import AskAll
from tasks.evaluation.harness.harness_likelihoods import Likelihoods

ANSWER_TOKENS = 256
"""Most tokens of an answer where a task names none, as in lm_eval."""
HOTTEST_BY_DEFAULT = 1.0
"""Temperature of a task that samples and names none, as in transformers."""


class Doc(NamedTuple):
    """An item of a task of the harness."""

    task: str
    number: int


class Heard:
    """What the model said to each item, in the order in which the harness asked."""

    def __init__(self) -> None:
        self.answers: defaultdict[Doc, list[Answer | ModelError]] = defaultdict(list)
        self.keys: defaultdict[Doc, list[str]] = defaultdict(list)


def harness_model(
    name: str, *, ask_all: AskAll, likelihoods: Likelihoods | None, heard: Heard, template: bool | str, seed: int
) -> Any:
    """An lm_eval LM.

    likelihoods: None for a backend that gives none; no task that wants any may be run then.
    template: of answers to messages; a prompt that is plain text goes out as it stands.
    seed: of the first repeat.
    """
    from lm_eval.api.model import LM

    class Model(LM):
        """Asks through our calls; what it was told is in `heard`."""

        @property
        def tokenizer_name(self) -> str:
            return name

        def apply_chat_template(
            self,
            chat_history: list[dict[str, str]],
            add_generation_prompt: bool = True,  # noqa: ARG002 the backend sees it from the last message
        ) -> str:
            # the template is the model's own: the messages travel to it inside a str
            return Templated(chat_history)

        def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
            answers: list[Answer | ModelError | None] = [None] * len(requests)
            for number, answer in ask_all(_chat_requests(requests, template=template, seed=seed)):
                answers[number] = answer
            texts: list[str] = []
            for instance, answer in zip(requests, answers, strict=True):
                assert answer is not None, "ask_all answers every request"
                heard.answers[_doc(instance)].append(answer)
                texts.append(answer.response.text if isinstance(answer, Answer) else "")
            return texts

        def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
            told = _given(likelihoods).of_pairs([instance.args[:2] for instance in requests])
            for instance, (key, _result) in zip(requests, told, strict=True):
                heard.keys[_doc(instance)].append(key)
            return [(result.total, result.greedy) for _, result in told]

        def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
            told = _given(likelihoods).of_texts([instance.args[0] for instance in requests])
            for instance, (key, _result) in zip(requests, told, strict=True):
                heard.keys[_doc(instance)].append(key)
            return [total for _, total in told]

    return Model()


def _given(likelihoods: Likelihoods | None) -> Likelihoods:
    assert likelihoods is not None, "tasks that want log-probabilities are refused before"
    return likelihoods


def _doc(instance: Any) -> Doc:
    return Doc(str(instance.task_name), int(instance.doc_id))


def _chat_requests(instances: Sequence[Any], *, template: bool | str, seed: int) -> Iterator[tuple[int, ChatRequest]]:
    """The harness gives an instance once for each repeat."""
    repeats: defaultdict[int, int] = defaultdict(int)
    for number, instance in enumerate(instances):
        prompt, options = instance.args[:2]
        draw = repeats[id(instance)]
        repeats[id(instance)] += 1
        yield number, _chat_request(prompt, options, template=template, seed=seed + draw, draw=draw)


def _chat_request(
    prompt: str, options: Mapping[str, Any], *, template: bool | str, seed: int, draw: int
) -> ChatRequest:
    """`temperature` above 0 samples, whatever `do_sample` says."""
    wanted = dict(options)
    if not any(wanted.get(name) for name in MAX_TOKENS):
        wanted["max_gen_toks"] = ANSWER_TOKENS
    if wanted.get("do_sample") and wanted.get("temperature") is None:
        wanted["temperature"] = HOTTEST_BY_DEFAULT
    sampling = sampling_of(wanted)
    return ChatRequest(
        messages=prompt.messages if isinstance(prompt, Templated) else (_user(prompt),),
        temperature=sampling.temperature,
        max_tokens=sampling.max_tokens,
        seed=(sampling.seed or 0) + draw if "seed" in wanted else seed,
        top_p=sampling.top_p,
        stop=tuple(text for text in sampling.stop if text),
        draw=draw,
        template=template if isinstance(prompt, Templated) else False,
    )


def _user(prompt: str) -> Message:
    return Message(role="user", content=(Text(text=prompt),))
