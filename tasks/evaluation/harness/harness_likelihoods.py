"""What a model says of given texts, kept in the response store: a run that was killed asks only for what is missing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, cast

from models.protocols import LogLikelihood, LogProb
from tasks.call_thread import refuse_when_stopped
from tasks.evaluation.evaluation_records import Usage
from tasks.group_commit import GroupStore

if TYPE_CHECKING:
    from storage.responses import StoredResponse

WINDOW = 2048
"""Texts that the model gets together: enough that batches of like lengths come out full."""
STORED_TOGETHER = 64

Asked = TypeVar("Asked", tuple[str, str], str)
Told = TypeVar("Told")
Values = dict[str, float | bool | None]


class Likelihoods:
    """A LogLikelihood whose figures are stored as they come, in groups, and recalled when they are there."""

    def __init__(self, model: LogLikelihood, responses: GroupStore) -> None:
        self._model = model
        self._responses = responses
        self.usage = Usage()

    def of_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, LogProb]]:
        """Key and log-probability of each continuation after its context."""
        return self._all(pairs, self._model.loglikelihood, keep=_of_logprob, read=_logprob)

    def of_texts(self, texts: Sequence[str]) -> list[tuple[str, float]]:
        """Key and log-probability of each whole text."""
        return self._all(
            texts, self._model.loglikelihood_rolling, keep=lambda total: {"total": _finite(total)}, read=_total
        )

    def _all(
        self,
        asked: Sequence[Asked],
        ask: Callable[[Sequence[Asked]], Iterator[tuple[int, Told]]],
        *,
        keep: Callable[[Told], Values],
        read: Callable[[Any], Told],
    ) -> list[tuple[str, Told]]:
        told: list[tuple[str, Told]] = []
        coming = iter(asked)
        while window := list(islice(coming, WINDOW)):
            keys = [_key(self._model.id, each) for each in window]
            known = {key: read(stored.response) for key, stored in self._responses.many(list(set(keys))).items()}
            missing = {key: each for key, each in zip(keys, window, strict=True) if key not in known}
            known |= self._new(missing, ask, keep)
            self.usage = self.usage.plus(Usage(calls=len(window), recalled=len(window) - len(missing)))
            told += [(key, known[key]) for key in keys]
        return told

    def _new(
        self,
        missing: dict[str, Asked],
        ask: Callable[[Sequence[Asked]], Iterator[tuple[int, Told]]],
        keep: Callable[[Told], Values],
    ) -> dict[str, Told]:
        keys, texts = list(missing), list(missing.values())
        told: dict[str, Told] = {}
        unsaved: dict[str, StoredResponse] = {}
        try:
            for number, result in ask(texts) if texts else ():
                key = keys[number]
                told[key] = result
                unsaved[key] = self._stored(texts[number], keep(result))
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

    def _stored(self, asked: tuple[str, str] | str, values: Values) -> StoredResponse:
        from storage.responses import StoredResponse  # brings SQLAlchemy

        kind, _, model = self._model.id.partition(":")
        request: Any = {"loglikelihood": list(asked) if isinstance(asked, tuple) else asked}
        response = cast("Any", values)
        return StoredResponse(backend=kind, model=model, request=request, response=response, latency_s=0.0)


def _key(model: str, asked: tuple[str, str] | str) -> str:
    text = json.dumps({"backend": model, "loglikelihood": asked}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _of_logprob(result: LogProb) -> Values:
    return {"total": _finite(result.total), "greedy": result.greedy}


def _finite(total: float) -> float | None:
    """JSON has no infinity: what a model holds for impossible has no figure."""
    return total if total > float("-inf") else None


def _logprob(response: Any) -> LogProb:
    return LogProb(_total(response), response["greedy"])


def _total(response: Any) -> float:
    return float("-inf") if response["total"] is None else response["total"]
