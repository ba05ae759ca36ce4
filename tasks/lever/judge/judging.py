"""Asks the judge queries with demonstrations, each distinct prompt once, in this run and in all others."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pydantic import JsonValue

from models.model_errors import ModelError, RequestRefused, TransientModelError
from models.prompts import raw_prompt
from models.protocols import AnswerLikelihood, Chat, ChatRequest, LogLikelihood
from tasks.budget import Budget, BudgetSpent, Tokens
from tasks.bulk import UNSTORED, ask_all
from tasks.calls import Limits, ResponseStore, canonical_form, digest, estimate_tokens, refuse_when_stopped
from tasks.lever.judge.demonstration_task import DemonstrationTask
from tasks.lever.lever_errors import DatasetUnusable, JudgeUnusable
from tasks.lever.lever_records import Item

if TYPE_CHECKING:
    from storage.responses import StoredResponse

log = logging.getLogger(__name__)

TOGETHER = 512
"""Answers whose log-probabilities are looked up and asked for at once."""
REMEMBERED = 100_000
"""Judgments above which those of before are forgotten here; the response store has them."""
MATTERS = ("messages", "template")
"""Fields of a request that the likelihood of an answer depends on."""


class PromptedQuery(NamedTuple):
    """A query, and what is shown before it."""

    query: str
    """Id of the item that is asked about."""
    demonstrations: tuple[str, ...]
    """Ids of items, in the order of their picks."""


class Judgment(NamedTuple):
    """The judge's answer to a prompt with its score, or why there is none."""

    answer: str | None = None
    correct: int | None = None
    """1 from the threshold on, else 0."""
    accuracy: float | None = None
    """The task's score of the answer, 0 to 1."""
    failed: str | None = None
    retryable: bool = False
    """True when the judge may answer another time; False where it will not, as for an item that cannot be shown."""
    key: str | None = None
    """Key of the answer in the response store."""


class _Likelihoods(NamedTuple):
    """Log-probabilities of the answers of a prompt; NaN, and no key, where the prompt cannot be shown or is refused."""

    log_probs: tuple[float, ...]
    key: str | None


@dataclass(eq=False)
class Judging:
    """A judge of one dataset, asked through the response store; its last answers are also remembered here.

    Where the task has choices, the one that the judge finds likeliest is its answer, and likelihoods are relative to
    them. Log-probabilities are those of a model in this process; a prompt whose answers are weighed is one call.
    """

    chat: Chat
    items: Mapping[str, Item]
    task: DemonstrationTask[Any]
    _: KW_ONLY
    threshold: float
    """Accuracy from which an answer counts as right."""
    responses: ResponseStore
    limits: Limits
    budget: Budget | None = None

    def __post_init__(self) -> None:
        self._judged: dict[PromptedQuery, Judgment] = {}
        self._likelihoods: dict[tuple[PromptedQuery, tuple[str, ...]], _Likelihoods] = {}

    def judge(self, prompts: Sequence[PromptedQuery], tell: Callable[[int], None] | None = None) -> list[Judgment]:
        """Return a judgment for each prompt, in order; equal ones are asked once. `tell` gets counts of those done.

        A request that the model refuses is a failed judgment. Raises DatasetUnusable for an id that is no item's,
        JudgeUnusable where everything was refused so far, models.model_errors.ModelUnavailable, BudgetSpent, and what
        the store raises, when what was answered is stored.
        """
        self._refuse_unknown_items(prompts)
        if len(self._judged) > REMEMBERED:
            self._judged.clear()
        distinct = set(prompts)
        new = sorted((prompt for prompt in distinct if prompt not in self._judged), key=self._prefix)
        if tell:
            tell(len(distinct) - len(new))
        postponed: dict[PromptedQuery, Judgment] = {}
        if self.task.choices:
            self._choose(new, tell)
        elif new:
            postponed = self._ask(new, tell)
        return [self._judged.get(prompt) or postponed[prompt] for prompt in prompts]

    def answer_log_probs(self, prompts: Sequence[PromptedQuery]) -> list[float]:
        """Return log P(right answer | prompt) of each prompt; NaN as in `log_probs`.

        Of several right answers it is the one that demonstrations show. Where the task has choices, P is the share
        among them. Raises as `log_probs` does.
        """
        self._refuse_unknown_items(prompts)
        right_answers = [self.items[prompt.query].shown_answer for prompt in prompts]
        choices = self.task.choices
        if not choices:
            return self.log_probs(list(zip(prompts, right_answers, strict=True)))
        shares = list[float]()
        for likelihoods, answer in zip(
            self._weigh([(prompt, choices) for prompt in prompts]), right_answers, strict=True
        ):
            log_total = max(likelihoods.log_probs)
            if math.isfinite(log_total):
                log_total += math.log(
                    math.fsum(math.exp(log_prob - log_total) for log_prob in likelihoods.log_probs)
                )  # log Σ exp
            shares.append(likelihoods.log_probs[choices.index(answer)] - log_total)
        return shares

    def log_probs(self, pairs: Sequence[tuple[PromptedQuery, str]]) -> list[float]:
        """Return log P(answer | prompt) of each pair, in order, its end included; NaN where it is refused or unusable.

        Raises JudgeUnusable where the judge gives none, DatasetUnusable for an id that is no item's, and what else the
        judge raises, when what it gave is stored.
        """
        return [
            likelihoods.log_probs[0] for likelihoods in self._weigh([(prompt, (answer,)) for prompt, answer in pairs])
        ]

    def gt_prob(self, prompts: Sequence[PromptedQuery]) -> list[float]:
        """Return Σ over the right answers of worth · P(answer | prompt) of each, 0 to 1; NaN where `log_probs` has it.

        Where the task has choices, there is one right answer, and this is its share. Raises as `log_probs` does.
        """
        if self.task.choices:
            return [math.exp(log_prob) for log_prob in self.answer_log_probs(prompts)]
        self._refuse_unknown_items(prompts)
        worth = [self.task.worth(self.items[prompt.query]) for prompt in prompts]
        pairs = [(prompt, answer) for prompt, answers in zip(prompts, worth, strict=True) for answer in answers]
        log_probs = iter(self.log_probs(pairs))
        shares = [[share * math.exp(next(log_probs)) for share in answers.values()] for answers in worth]
        return [min(math.fsum(terms), 1.0) for terms in shares]  # rounding may lead above 1

    def _refuse_unknown_items(self, prompts: Iterable[PromptedQuery]) -> None:
        for name in (name for prompt in prompts for name in (prompt.query, *prompt.demonstrations)):
            if name not in self.items:
                raise DatasetUnusable(f"there is no item {name} in this dataset; its pools or pointers are another's")

    def _prefix(self, prompt: PromptedQuery) -> tuple[tuple[str, ...], str]:
        """Return what stands first in a prompt: sorted by it, an engine computes a common beginning once."""
        return self.task.prompts.in_order(prompt.demonstrations), prompt.query

    def _choose(self, new: Sequence[PromptedQuery], tell: Callable[[int], None] | None) -> None:
        """Judge each prompt by its likeliest choice, and remember the judgments."""
        choices = self.task.choices
        for part in _split(new, max(1, TOGETHER // len(choices))):
            for prompt, likelihoods in zip(part, self._weigh([(prompt, choices) for prompt in part]), strict=True):
                if likelihoods.key is None:
                    self._judged[prompt] = Judgment(failed="the judge refuses the prompt, or it cannot be shown")
                else:
                    likeliest = max(range(len(choices)), key=likelihoods.log_probs.__getitem__)
                    self._judged[prompt] = self._score_answer(prompt, choices[likeliest], key=likelihoods.key)
            if tell:
                tell(len(part))

    def _ask(self, new: Sequence[PromptedQuery], tell: Callable[[int], None] | None) -> dict[PromptedQuery, Judgment]:
        """Ask, remember judgments, and return those to be asked again. Raises JudgeUnusable if all were refused."""

        def requests() -> Iterator[tuple[PromptedQuery, ChatRequest]]:
            """Yield each new prompt with its request; one whose picture is unusable gets a failed judgment instead."""
            for prompt in new:
                try:
                    yield prompt, self._request(prompt)
                except DatasetUnusable as error:
                    self._judged[prompt] = Judgment(failed=str(error))

        postponed, refused = dict[PromptedQuery, Judgment](), dict[PromptedQuery, RequestRefused]()
        for prompt, answer in ask_all(
            self.chat, requests(), responses=self.responses, limits=self.limits, budget=self.budget
        ):
            if isinstance(answer, ModelError):
                judgment = Judgment(failed=str(answer), retryable=isinstance(answer, TransientModelError))
            else:
                judgment = self._score_answer(prompt, self.task.answer_in(answer.response.text), key=answer.key)
            (postponed if judgment.retryable else self._judged)[prompt] = judgment
            if isinstance(answer, RequestRefused):
                refused[prompt] = answer
            if tell and judgment.failed is None:
                tell(1)
        # one refusal is that prompt's failure; a judge that refused every prompt so far is the wrong one
        if refused and not postponed and all(judgment.failed is not None for judgment in self._judged.values()):
            raise self._refusal_error(list(refused), next(iter(refused.values())))
        return postponed

    def _refusal_error(self, refused: Sequence[PromptedQuery], error: RequestRefused) -> JudgeUnusable:
        return JudgeUnusable(
            f"{self.chat.id} refused all {len(refused)} questions that it got, as {refused[0].query}: {error}"
        )

    def _request(self, prompt: PromptedQuery) -> ChatRequest:
        """Render a prompt. Raises DatasetUnusable for an item that cannot be shown."""
        return self.task.request(self.items[prompt.query], [self.items[name] for name in prompt.demonstrations])

    def _score_answer(self, prompt: PromptedQuery, answer: str, *, key: str) -> Judgment:
        accuracy = self.task.accuracy(self.items[prompt.query], answer)
        return Judgment(answer, int(accuracy >= self.threshold), accuracy, key=key)

    def _weigh(self, requests: Sequence[tuple[PromptedQuery, tuple[str, ...]]]) -> list[_Likelihoods]:
        """Return each pair's log-probabilities, in order, asked for once. Raises JudgeUnusable where none has any."""
        self._refuse_unknown_items([prompt for prompt, _ in requests])
        new = (pair for pair in dict.fromkeys(requests) if pair not in self._likelihoods)
        pairs = sorted(new, key=lambda pair: self._prefix(pair[0]))
        for part in _split(pairs, max(1, TOGETHER // max((len(answers) for _, answers in pairs), default=1))):
            weighed_of: dict[str, WeighedPrompt] = {}
            key_of: dict[tuple[PromptedQuery, tuple[str, ...]], str] = {}
            for prompt, answers in part:
                try:
                    weighed = WeighedPrompt(self._request(prompt), answers)
                except DatasetUnusable:
                    continue  # it cannot be shown
                key = key_of[prompt, answers] = digest({"backend": self.chat.id} | weighed.to_json())
                weighed_of[key] = weighed
            log_probs_of, refusal = self._look_up(weighed_of)
            for prompt, answers in part:
                key = key_of.get((prompt, answers), "")
                log_probs = log_probs_of.get(key)
                self._likelihoods[prompt, answers] = _Likelihoods(
                    log_probs or (math.nan,) * len(answers), key if log_probs else None
                )
            refused = [prompt for (prompt, _), key in key_of.items() if key not in log_probs_of]
            if refused and refusal:
                if all(likelihoods.key is None for likelihoods in self._likelihoods.values()):
                    raise self._refusal_error(refused, refusal)
                log.warning("no log-probability prompts=%d query=%s error=%s", len(refused), refused[0].query, refusal)
        return [self._likelihoods[pair] for pair in requests]

    def _look_up(
        self, prompts: Mapping[str, WeighedPrompt]
    ) -> tuple[dict[str, tuple[float, ...]], RequestRefused | None]:
        """Return natural log-probabilities by key, from the store or the judge, and the judge's refusal of some.

        Each is stored while the judge goes on, so that a kill loses the last few. A prompt is one call of the budget,
        however many answers are weighed behind it. Raises JudgeUnusable where the judge gives none, or NaN, and
        BudgetSpent and what else the judge and the store raise, when what was given is stored.
        """
        log_probs_of = dict[str, tuple[float, ...]]()
        for key, stored in (self.responses.many(list(prompts)) if prompts else {}).items():
            response = cast("dict[str, Any]", stored.response)
            values = response["log_probs"] if "log_probs" in response else [response["log_prob"]]
            log_probs_of[key] = tuple(map(float, values))
        new, spent = list[str](), None
        try:
            for key in (key for key in prompts if key not in log_probs_of):
                if self.budget:  # what the judge refuses is paid for, too
                    self.budget.take(prompts[key].tokens)
                new.append(key)
        except BudgetSpent as error:
            spent = error
        started, refusal, unstored = self.limits.clock(), None, dict[str, "StoredResponse"]()
        try:
            for number, log_probs in _log_probs_of(self.chat, [prompts[key] for key in new]):
                if any(map(math.isnan, log_probs)):
                    raise JudgeUnusable(
                        f"{self.chat.id} gave NaN as a log-probability; its weights or precision are bad"
                    )
                key, latency_s = new[number], self.limits.clock() - started
                log_probs_of[key] = log_probs
                unstored[key] = prompts[key].to_response(self.chat.id, log_probs, latency_s=latency_s)
                if len(unstored) >= UNSTORED:
                    self.responses.put_many(unstored)
                    unstored = {}
                refuse_when_stopped()  # raises when the program ends: the `finally` stores what was given
        except RequestRefused as error:
            refusal = error
        finally:
            if unstored:
                self.responses.put_many(unstored)
        if spent:
            raise spent
        if refusal is None and (missing := [key for key in new if key not in log_probs_of]):
            raise RuntimeError(f"{self.chat.id} gave no log-probabilities for {len(missing)} of {len(new)} prompts")
        return log_probs_of, refusal


def _split(whole: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    yield from (whole[start : start + size] for start in range(0, len(whole), size))


class WeighedPrompt(NamedTuple):
    """A prompt, and the answers that are weighed behind it: a single one, its end included, or all that may be chosen.

    Choices are weighed as the words that follow the prompt, without an end.
    """

    request: ChatRequest
    answers: tuple[str, ...]

    @property
    def tokens(self) -> Tokens:
        """Tokens that are read, on the high side; none is written."""
        return Tokens(prompt=estimate_tokens(self.request).prompt + len(self.answers), answer=0)

    def to_json(self) -> dict[str, Any]:
        """Return the fields that decide the log-probabilities, as JSON: the store's key is their digest."""
        request = {name: value for name, value in canonical_form(self.request).items() if name in MATTERS}
        answer_fields = {"log-prob": self.answers[0]} if len(self.answers) == 1 else {"log-probs": list(self.answers)}
        return {**answer_fields, "request": request}

    def to_response(self, backend: str, log_probs: Sequence[float], *, latency_s: float) -> StoredResponse:
        """Return the log-probabilities as an entry of the response store."""
        from storage.responses import StoredResponse  # brings SQLAlchemy

        kind, _, model = backend.partition(":")
        # JSON has no infinity
        values: list[JsonValue] = [value if math.isfinite(value) else str(value) for value in log_probs]
        response: dict[str, JsonValue] = {"log_prob": values[0]} if len(values) == 1 else {"log_probs": values}
        return StoredResponse(backend=kind, model=model, request=self.to_json(), response=response, latency_s=latency_s)


def _log_probs_of(judge: Chat, prompts: Sequence[WeighedPrompt]) -> Iterator[tuple[int, tuple[float, ...]]]:
    """Yield number and log-probabilities of each prompt: of one answer, or of equal choices. Raises JudgeUnusable."""
    if not prompts:
        return
    if len(prompts[0].answers) == 1:
        if not isinstance(judge, AnswerLikelihood):
            raise JudgeUnusable(
                f"{judge.id} gives no log-probabilities of answers; take one in this process (`hf:…`, `vllm:…`, "
                "`digits`)"
            )
        for number, log_prob in judge.answer_log_probs([(prompt.request, prompt.answers[0]) for prompt in prompts]):
            yield number, (log_prob,)
        return
    if not isinstance(judge, LogLikelihood):
        raise JudgeUnusable(
            f"{judge.id} gives no log-probabilities of labels; take a model in this process (`hf:…`, `vllm:…`)"
        )
    # all choices of a prompt at once: a model in this process reads what they have in common once
    count, totals_of = len(prompts[0].answers), defaultdict[int, dict[int, float]](dict)
    pairs = [(raw_prompt(prompt.request), f" {answer}") for prompt in prompts for answer in prompt.answers]
    for pair, log_prob in judge.loglikelihood(pairs):
        number, place = divmod(pair, count)
        totals_of[number][place] = log_prob.total
        if len(totals_of[number]) == count:
            totals = totals_of.pop(number)
            yield number, tuple(totals[place] for place in range(count))
