"""Our backends as an `lm_eval.api.model.LM`; log-probabilities are kept in the response store, so that runs resume."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from models.model_errors import ContextOverflow, ModelError, RequestRefused
from models.protocols import ChatRequest, LogLikelihood, LogProb
from tasks.calls import Answer, ResponseStore, refuse_when_stopped
from tasks.evaluation.benchmarks.base import AskAll
from tasks.evaluation.evaluation_records import Response, Usage
from tasks.evaluation.running.generation import build_reply
from tasks.evaluation.running.whole_benchmarks import MAX_TOKENS, Templated, read_messages, read_sampling

if TYPE_CHECKING:
    from storage.responses import StoredResponse

WINDOW = 2048
"""Number of texts per model call: enough to fill batches with texts of similar lengths."""
STORED_TOGETHER = 64
"""Number of log-probabilities that are written to the response store at once."""
ANSWER_TOKENS = 256
"""Token limit of tasks that set none, as in lm_eval."""
DEFAULT_TEMPERATURE = 1.0
"""Temperature of tasks that sample and set none, as in transformers."""

LikelihoodInput = tuple[str, str] | str
"""What a log-probability is asked for: a continuation behind its context, or a whole text."""


class Likelihoods:
    """Log-probabilities of a model, stored in groups in the response store and recalled from there."""

    def __init__(self, model: LogLikelihood, responses: ResponseStore) -> None:
        self._model = model
        self._responses = responses
        self.usage = Usage()

    def weigh(self, texts: Sequence[LikelihoodInput]) -> list[tuple[str, LogProb]]:
        """Return store key and log-probability of each text, in order; `greedy` is always False for whole texts."""
        weighed: list[tuple[str, LogProb]] = []
        for start in range(0, len(texts), WINDOW):
            window = texts[start : start + WINDOW]
            keys: list[str] = []
            for text_input in window:
                identity = {"backend": self._model.id, "loglikelihood": text_input}
                text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
                keys.append(hashlib.sha256(text.encode()).hexdigest())
            log_probs: dict[str, LogProb] = {}
            for key, stored in self._responses.many(list(set(keys))).items():
                response: Any = stored.response
                total = float("-inf") if response["total"] is None else response["total"]
                log_probs[key] = LogProb(total, response.get("greedy", False))
            missing = {key: text_input for key, text_input in zip(keys, window, strict=True) if key not in log_probs}
            log_probs |= self._ask(missing)
            self.usage = self.usage.plus(Usage(calls=len(window), recalled=len(window) - len(missing)))
            weighed += [(key, log_probs[key]) for key in keys]
        return weighed

    def _ask(self, missing: Mapping[str, LikelihoodInput]) -> dict[str, LogProb]:
        """Return log-probabilities of texts that are not stored, by key; stores them. Raises RuntimeError for gaps."""
        from storage.responses import StoredResponse  # brings SQLAlchemy

        keys, texts = list(missing), list[Any](missing.values())
        kind, _, model = self._model.id.partition(":")
        log_probs: dict[str, LogProb] = {}
        unsaved: dict[str, StoredResponse] = {}
        is_whole_text = bool(texts) and isinstance(texts[0], str)
        results: Iterator[tuple[int, LogProb]] = iter(())
        if is_whole_text:
            totals = self._model.loglikelihood_rolling(texts)
            results = ((number, LogProb(total, greedy=False)) for number, total in totals)
        elif texts:
            results = iter(self._model.loglikelihood(texts))
        try:
            for number, result in results:
                log_probs[keys[number]] = result
                request: Any = {"loglikelihood": texts[number] if is_whole_text else list(texts[number])}
                # JSON has no infinity
                response: Any = {"total": result.total if result.total > float("-inf") else None}
                response |= {} if is_whole_text else {"greedy": result.greedy}
                unsaved[keys[number]] = StoredResponse(
                    backend=kind, model=model, request=request, response=response, latency_s=0.0
                )
                if len(unsaved) >= STORED_TOGETHER:
                    self._responses.put_many(unsaved)
                    unsaved = {}
                    refuse_when_stopped()
        finally:
            if unsaved:
                self._responses.put_many(unsaved)
        if len(log_probs) < len(texts):
            raise RuntimeError(f"{self._model.id} said nothing of {len(texts) - len(log_probs)} of {len(texts)} texts")
        return log_probs


class DocKey(NamedTuple):
    """Identifies an item of a task of the harness by its number."""

    task: str
    number: int


class AnswerLog:
    """Collects the model's answers to each item and their keys, in the order in which the harness asked.

    chosen: by task, the numbers of the items that `--samples` asks, which the harness counts anew from 0.
    """

    def __init__(self, chosen: Mapping[str, Sequence[int]]) -> None:
        self.answers: defaultdict[DocKey, list[Answer | ModelError]] = defaultdict(list)
        self.keys: defaultdict[DocKey, list[str]] = defaultdict(list)
        self._chosen = chosen

    def doc_key(self, task: str, place: int) -> DocKey:
        """Return the key of the item at this place among those of a task that are asked."""
        chosen = self._chosen.get(task)
        return DocKey(task, chosen[place] if chosen else place)

    def responses(self, doc: DocKey, *, item: str) -> list[Response]:
        """Return the responses to an item, one per repeat, `missed` if refused, without those that failed for now."""
        responses: list[Response] = []
        for repeat, answer in enumerate(self.answers[doc]):
            if isinstance(answer, Answer):
                responses.append(Response(item=item, repeat=repeat, turns=(build_reply(answer),)))
            elif isinstance(answer, RequestRefused):
                too_long = isinstance(answer, ContextOverflow)
                responses.append(Response(item=item, repeat=repeat, missed=str(answer), too_long=too_long))
        return responses

    def is_answered(self, doc: DocKey) -> bool:
        """Return whether all repeats of an item have an answer that can be graded; True if none was to be generated."""
        responses = self.responses(doc, item="")
        return len(responses) == len(self.answers[doc]) and not any(response.unanswered for response in responses)


def harness_model(
    name: str,
    *,
    ask_all: AskAll,
    likelihoods: Likelihoods | None,
    answer_log: AnswerLog,
    template: bool | str,
    seed: int,
) -> Any:
    """Return an lm_eval LM that asks one of our models.

    likelihoods: None for a backend that gives none; no task that wants any may be run then.
    template: of answers to messages; a prompt that is plain text goes out as it stands.
    seed: of the first repeat.
    """
    from lm_eval.api.model import LM

    def weigh(requests: Sequence[Any], parts: int) -> list[LogProb]:
        """Return each request's log-probability, in order, and log its key. parts: 1 for whole texts, 2 for pairs."""
        assert likelihoods is not None, "tasks that want log-probabilities are refused before"
        texts = [instance.args[0] if parts == 1 else tuple(instance.args[:parts]) for instance in requests]
        weighed = likelihoods.weigh(texts)
        for instance, (key, _) in zip(requests, weighed, strict=True):
            answer_log.keys[answer_log.doc_key(instance.task_name, instance.doc_id)].append(key)
        return [result for _, result in weighed]

    class Model(LM):
        """An lm_eval LM that asks through our calls and records the answers in `answer_log`."""

        @property
        def tokenizer_name(self) -> str:
            return name

        def apply_chat_template(
            self,
            chat_history: list[dict[str, str]],
            add_generation_prompt: bool = True,  # noqa: ARG002 the backend sees it from the last message
        ) -> str:
            """Return the messages as a str that `generate_until` sends as messages."""
            # the template is the model's own: the messages travel to it inside a str
            return Templated(chat_history)

        def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
            """Return the answers in order, empty for failed requests, and log them."""
            answers: list[Answer | ModelError | None] = [None] * len(requests)
            for number, answer in ask_all(_chat_requests(requests, template=template, seed=seed)):
                answers[number] = answer
            texts: list[str] = []
            for instance, answer in zip(requests, answers, strict=True):
                assert answer is not None, "ask_all answers every request"
                answer_log.answers[answer_log.doc_key(instance.task_name, instance.doc_id)].append(answer)
                texts.append(answer.response.text if isinstance(answer, Answer) else "")
            return texts

        def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
            return [(result.total, result.greedy) for result in weigh(requests, 2)]

        def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
            return [result.total for result in weigh(requests, 1)]

    return Model()


def leave_out_unanswered(name: str, task: Any, answer_log: AnswerLog) -> None:
    """Patch a harness task so that an item with an unanswered repeat enters no metric; requests stay as they are."""
    read_docs, process_results = task.doc_iterator, task.process_results
    place = 0

    def doc_iterator(**options: Any) -> Iterator[tuple[int, Any]]:
        nonlocal place
        for numbered in read_docs(**options):  # the harness grades each before it asks for the next
            place = numbered[0]
            yield numbered

    def process_answered(doc: Any, results: Any) -> dict[str, Any]:
        return process_results(doc, results) if answer_log.is_answered(answer_log.doc_key(name, place)) else {}

    task.doc_iterator, task.process_results = doc_iterator, process_answered


def _chat_requests(instances: Sequence[Any], *, template: bool | str, seed: int) -> Iterator[tuple[int, ChatRequest]]:
    """Yield each instance's number and request; one a repeat. A `temperature` above 0 samples despite `do_sample`."""
    repeats: defaultdict[int, int] = defaultdict(int)
    for number, instance in enumerate(instances):
        prompt, options = instance.args[:2]
        # the same instance, passed again, is another repeat: it has no number of its own
        draw = repeats[id(instance)]
        repeats[id(instance)] += 1
        arguments = dict(options)
        if not any(arguments.get(name) for name in MAX_TOKENS):
            arguments["max_gen_toks"] = ANSWER_TOKENS
        if arguments.get("do_sample") and arguments.get("temperature") is None:
            arguments["temperature"] = DEFAULT_TEMPERATURE
        sampling = read_sampling(arguments)
        parameters: dict[str, Any] = sampling.model_dump() | {
            "seed": draw + ((sampling.seed or 0) if "seed" in arguments else seed),
            "stop": tuple(text for text in sampling.stop if text),
        }
        chat = template if isinstance(prompt, Templated) else False
        yield number, ChatRequest(messages=read_messages(prompt), draw=draw, template=chat, **parameters)
