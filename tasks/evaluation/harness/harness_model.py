"""Our backends as an `lm_eval.api.model.LM`; log-probabilities are kept in the response store, so that runs resume."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from models.model_errors import ModelError
from models.protocols import ChatRequest, LogLikelihood, LogProb
from tasks.calls import Answer, ResponseStore, refuse_when_stopped
from tasks.evaluation.benchmarks.base import AskAll
from tasks.evaluation.evaluation_records import Usage
from tasks.evaluation.running.whole_benchmarks import MAX_TOKENS, Templated, messages_of, sampling_of

if TYPE_CHECKING:
    from storage.responses import StoredResponse

WINDOW = 2048
"""Texts per model call: enough to fill batches of similar lengths."""
STORED_TOGETHER = 64
ANSWER_TOKENS = 256
"""Token limit of tasks that set none, as in lm_eval."""
HOTTEST_BY_DEFAULT = 1.0
"""Temperature of tasks that sample and set none, as in transformers."""

Asked = TypeVar("Asked", tuple[str, str], str)
Ask = Callable[[Sequence[Asked]], Iterator[tuple[int, LogProb]]]


class Likelihoods:
    """A LogLikelihood whose results are stored in groups and recalled from the store."""

    def __init__(self, model: LogLikelihood, responses: ResponseStore) -> None:
        self._model = model
        self._responses = responses
        self.usage = Usage()

    def of_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, LogProb]]:
        """Key and log-probability of each continuation after its context."""
        return self._all(pairs, self._model.loglikelihood)

    def of_texts(self, texts: Sequence[str]) -> list[tuple[str, LogProb]]:
        """Key and log-probability of each whole text, of which `greedy` is not known."""

        def ask(texts: Sequence[str]) -> Iterator[tuple[int, LogProb]]:
            return ((at, LogProb(total, greedy=False)) for at, total in self._model.loglikelihood_rolling(texts))

        return self._all(texts, ask)

    def _all(self, asked: Sequence[Asked], ask: Ask[Asked]) -> list[tuple[str, LogProb]]:
        told: list[tuple[str, LogProb]] = []
        coming = iter(asked)
        while window := list(islice(coming, WINDOW)):
            keys = [_key(self._model.id, each) for each in window]
            known = {key: _read(stored.response) for key, stored in self._responses.many(list(set(keys))).items()}
            missing = {key: each for key, each in zip(keys, window, strict=True) if key not in known}
            known |= self._new(missing, ask)
            self.usage = self.usage.plus(Usage(calls=len(window), recalled=len(window) - len(missing)))
            told += [(key, known[key]) for key in keys]
        return told

    def _new(self, missing: dict[str, Asked], ask: Ask[Asked]) -> dict[str, LogProb]:
        keys, texts = list(missing), list(missing.values())
        told: dict[str, LogProb] = {}
        unsaved: dict[str, StoredResponse] = {}
        try:
            for number, result in ask(texts) if texts else ():
                key = keys[number]
                told[key] = result
                unsaved[key] = self._stored(texts[number], result)
                if len(unsaved) >= STORED_TOGETHER:
                    self._responses.put_many(unsaved)
                    unsaved = {}
                    refuse_when_stopped()
        finally:
            if unsaved:
                self._responses.put_many(unsaved)
        if len(told) < len(texts):
            raise RuntimeError(f"{self._model.id} said nothing of {len(texts) - len(told)} of {len(texts)} texts")
        return told

    def _stored(self, asked: tuple[str, str] | str, result: LogProb) -> StoredResponse:
        from storage.responses import StoredResponse  # brings SQLAlchemy

        kind, _, model = self._model.id.partition(":")
        request: Any = {"loglikelihood": list(asked) if isinstance(asked, tuple) else asked}
        # JSON has no infinity
        response: Any = {"total": result.total if result.total > float("-inf") else None}
        response |= {"greedy": result.greedy} if isinstance(asked, tuple) else {}
        return StoredResponse(backend=kind, model=model, request=request, response=response, latency_s=0.0)


def _read(response: Any) -> LogProb:
    total = response["total"]
    return LogProb(float("-inf") if total is None else total, response.get("greedy", False))


def _key(model: str, asked: tuple[str, str] | str) -> str:
    text = json.dumps({"backend": model, "loglikelihood": asked}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class Doc(NamedTuple):
    """An item of a task of the harness."""

    task: str
    number: int


class Heard:
    """The model's answers to each item and their keys, in the order in which the harness asked."""

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

    def note_keys(requests: Sequence[Any], told: Sequence[tuple[str, object]]) -> None:
        for instance, (key, _) in zip(requests, told, strict=True):
            heard.keys[_doc(instance)].append(key)

    class Model(LM):
        """Asks through our calls and records the answers in `heard`."""

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
            assert likelihoods is not None, "tasks that want log-probabilities are refused before"
            told = likelihoods.of_pairs([instance.args[:2] for instance in requests])
            note_keys(requests, told)
            return [(result.total, result.greedy) for _, result in told]

        def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
            assert likelihoods is not None, "tasks that want log-probabilities are refused before"
            told = likelihoods.of_texts([instance.args[0] for instance in requests])
            note_keys(requests, told)
            return [result.total for _, result in told]

    return Model()


def _doc(instance: Any) -> Doc:
    return Doc(str(instance.task_name), int(instance.doc_id))


def _chat_requests(instances: Sequence[Any], *, template: bool | str, seed: int) -> Iterator[tuple[int, ChatRequest]]:
    """The harness passes an instance once per repeat."""
    repeats: defaultdict[int, int] = defaultdict(int)
    for number, instance in enumerate(instances):
        prompt, options = instance.args[:2]
        draw = repeats[id(instance)]
        repeats[id(instance)] += 1
        yield number, _chat_request(prompt, options, template=template, seed=seed + draw, draw=draw)


def _chat_request(
    prompt: str, options: Mapping[str, Any], *, template: bool | str, seed: int, draw: int
) -> ChatRequest:
    """`temperature` above 0 samples, whatever `do_sample` is."""
    wanted = dict(options)
    if not any(wanted.get(name) for name in MAX_TOKENS):
        wanted["max_gen_toks"] = ANSWER_TOKENS
    if wanted.get("do_sample") and wanted.get("temperature") is None:
        wanted["temperature"] = HOTTEST_BY_DEFAULT
    sampling = sampling_of(wanted)
    asked: dict[str, Any] = sampling.model_dump() | {
        "seed": (sampling.seed or 0) + draw if "seed" in wanted else seed,
        "stop": tuple(text for text in sampling.stop if text),
    }
    template = template if isinstance(prompt, Templated) else False
    return ChatRequest(messages=messages_of(prompt), draw=draw, template=template, **asked)
