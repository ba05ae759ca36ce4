"""How likely a model finds answers to a prompt: each computed once, and kept in the response store as it comes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pydantic import JsonValue

from models.model_errors import RequestRefused
from models.protocols import AnswerLikelihood, Chat, ChatRequest, LogLikelihood, Text
from tasks.budget import Budget, BudgetSpent, Tokens
from tasks.bulk import UNSTORED
from tasks.calls import Limits, ResponseStore, canonical, digest, estimate, refuse_when_stopped
from tasks.lever.lever_errors import JudgeUnusable

if TYPE_CHECKING:
    from storage.responses import StoredResponse

MATTERS = ("messages", "template")
"""Fields of a request that the likelihood of an answer depends on."""


class Weighed(NamedTuple):
    """A prompt, and the answers that are weighed behind it: a single one, its end included, or all that may be chosen.

    Choices are weighed as the words that follow the prompt, without an end.
    """

    request: ChatRequest
    answers: tuple[str, ...]

    @property
    def tokens(self) -> Tokens:
        """Tokens that are read, on the high side; none is written."""
        return Tokens(prompt=estimate(self.request).prompt + len(self.answers), answer=0)

    def plain(self) -> dict[str, Any]:
        """As JSON; of the request only what matters."""
        request = {name: value for name, value in canonical(self.request).items() if name in MATTERS}
        asked = {"log-prob": self.answers[0]} if len(self.answers) == 1 else {"log-probs": list(self.answers)}
        return {**asked, "request": request}

    def key(self, backend: str) -> str:
        """Its key in the response store."""
        return digest({"backend": backend} | self.plain())

    def stored(self, backend: str, log_probs: Sequence[float], *, latency_s: float) -> StoredResponse:
        """What the response store holds."""
        from storage.responses import StoredResponse  # brings SQLAlchemy

        kind, _, model = backend.partition(":")
        values: list[JsonValue] = [one if math.isfinite(one) else str(one) for one in log_probs]  # JSON has no infinity
        response: dict[str, JsonValue] = {"log_prob": values[0]} if len(values) == 1 else {"log_probs": values}
        return StoredResponse(backend=kind, model=model, request=self.plain(), response=response, latency_s=latency_s)


def weigh(
    judge: Chat,
    asked: Mapping[str, Weighed],
    *,
    responses: ResponseStore,
    limits: Limits,
    budget: Budget | None = None,
) -> tuple[dict[str, tuple[float, ...]], RequestRefused | None]:
    """Natural log-probabilities by key, from the store or from the judge; and its word where it refuses some.

    Each is stored while the judge goes on, so that a kill loses the last few. A prompt is one call of the budget,
    however many answers are weighed behind it. Raises JudgeUnusable where the judge gives none, or NaN, and
    BudgetSpent and what else the judge and the store raise, when what was given is stored.
    """
    found = dict[str, tuple[float, ...]]()
    for key, kept in responses.many(list(asked)).items():
        response = cast("dict[str, Any]", kept.response)
        found[key] = tuple(map(float, response["log_probs"] if "log_probs" in response else [response["log_prob"]]))
    new = {key: one for key, one in asked.items() if key not in found}
    if not new:
        return found, None
    keys, spent, budget = list[str](), None, budget or Budget()
    for key, one in new.items():  # what the judge refuses is paid for, too
        try:
            budget.take(one.tokens)
        except BudgetSpent as error:
            spent = error
            break
        keys.append(key)
    started = limits.clock()
    given: dict[str, tuple[float, ...]] = {}
    refusal: RequestRefused | None = None
    unstored: dict[str, StoredResponse] = {}
    try:
        for number, log_probs in _given(judge, [new[key] for key in keys]):
            if any(map(math.isnan, log_probs)):
                raise JudgeUnusable(f"{judge.id} gave NaN as a log-probability; its weights or precision are bad")
            key = keys[number]
            unstored[key] = new[key].stored(judge.id, log_probs, latency_s=limits.clock() - started)
            given[key] = log_probs
            if len(unstored) >= UNSTORED:
                responses.put_many(unstored)
                unstored = {}
            refuse_when_stopped()
    except RequestRefused as error:
        refusal = error
    finally:
        if unstored:
            responses.put_many(unstored)
    if spent:
        raise spent
    if len(given) < len(keys) and refusal is None:
        raise RuntimeError(f"{judge.id} gave {len(given)} log-probabilities for {len(keys)} answers")
    return found | given, refusal


def _given(judge: Chat, asked: Sequence[Weighed]) -> Iterator[tuple[int, tuple[float, ...]]]:
    """What the judge gives, with its number; prompts with choices and those with a single answer do not mix."""
    if not asked:
        return
    if len(asked[0].answers) > 1:
        yield from _of_choices(judge, asked)
    elif isinstance(judge, AnswerLikelihood):
        for number, log_prob in judge.answer_log_probs([(one.request, one.answers[0]) for one in asked]):
            yield number, (log_prob,)
    else:
        raise JudgeUnusable(
            f"{judge.id} gives no log-probabilities of answers; take one in this process (`hf:…`, `vllm:…`, `digits`)"
        )


def _of_choices(judge: Chat, asked: Sequence[Weighed]) -> Iterator[tuple[int, tuple[float, ...]]]:
    """All choices of a prompt at once: a model in this process reads what they have in common once."""
    if not isinstance(judge, LogLikelihood):
        raise JudgeUnusable(
            f"{judge.id} gives no log-probabilities of labels; take a model in this process (`hf:…`, `vllm:…`)"
        )
    places = [(number, place) for number, one in enumerate(asked) for place in range(len(one.answers))]
    contexts = [
        "".join(part.text for message in one.request.messages for part in message.content if isinstance(part, Text))
        for one in asked
    ]
    pairs = [(contexts[number], f" {asked[number].answers[place]}") for number, place in places]
    found: dict[int, dict[int, float]] = {}
    for at, log_prob in judge.loglikelihood(pairs):
        number, place = places[at]
        known = found.setdefault(number, {})
        known[place] = log_prob.total
        if len(known) == len(asked[number].answers):
            yield number, tuple(known[place] for place in sorted(found.pop(number)))
