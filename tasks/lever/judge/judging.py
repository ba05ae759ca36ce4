"""Puts questions to the judge, each with its demonstrations: every distinct one once, in this run and in all others."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from models.model_errors import ModelError, RequestRefused, TransientModelError
from models.protocols import AnswerLikelihood, Chat, ChatRequest
from tasks.budget import Budget
from tasks.bulk import ask_all
from tasks.call_thread import refuse_when_stopped
from tasks.calls import Answer, Limits, ResponseStore, canonical, digest
from tasks.grading.vqa_accuracy import ENOUGH, accuracy_among, people
from tasks.group_commit import GroupCommit
from tasks.lever.data.dataset_pictures import Pictures
from tasks.lever.judge.judges import PromptSettings, answer_in, in_prompt_order, prompt
from tasks.lever.lever_errors import DatasetUnusable, JudgeUnusable
from tasks.lever.lever_records import VqaItem

if TYPE_CHECKING:
    from storage.responses import StoredResponse

log = logging.getLogger(__name__)

TOGETHER = 512
"""Answers whose log-probabilities are looked up and asked for at once."""
MATTERS = ("messages", "template")
"""Fields of a request that the likelihood of an answer depends on."""


class Asked(NamedTuple):
    """A question, and what is shown before it."""

    query: str
    """Id of an item."""
    demonstrations: tuple[str, ...]
    """Ids of items, in the order of their picks."""


class Judgment(NamedTuple):
    """What the judge made of it: an answer with its worth, or why there is none."""

    answer: str | None = None
    correct: int | None = None
    """1 from the threshold on, else 0."""
    accuracy: float | None = None
    """VQA accuracy, 0 to 1."""
    failed: str | None = None
    retryable: bool = False
    """True when the judge may answer another time; a picture that cannot be shown stays so."""
    key: str | None = None
    """Key of the answer in the response store."""


@dataclass(eq=False)
class Judging:
    """A judge of one dataset, asked through the response store; its answers are also remembered here.

    Log-probabilities are those of a model in this process; they count towards no budget.
    """

    chat: Chat
    items: Mapping[str, VqaItem]
    _: KW_ONLY
    prompts: PromptSettings
    threshold: float
    """VQA accuracy from which an answer counts as right."""
    responses: ResponseStore
    limits: Limits
    budget: Budget | None = None
    stem: bool = False
    """As in tasks.grading.vqa_accuracy."""

    def __post_init__(self) -> None:
        self._pictures = Pictures(longest_side_px=self.prompts.longest_side_px)
        self._judged: dict[Asked, Judgment] = {}
        self._likely: dict[tuple[Asked, str], float] = {}

    def judge(self, asked: Sequence[Asked], tell: Callable[[int], None] | None = None) -> list[Judgment]:
        """One judgment for each, in order; equal ones are asked once. `tell` hears of each number newly answered.

        A request that a model in this process refuses is a failed judgment. Raises DatasetUnusable for an id that is no
        item's, JudgeUnusable where everything was refused so far, models.model_errors.ModelUnavailable, BudgetSpent, an
        endpoint's RequestRefused and what the store raises, when what was answered is stored.
        """
        self._refuse_strangers(asked)
        distinct = set(asked)
        new = self._sorted({one for one in distinct if one not in self._judged})
        if tell:
            tell(len(distinct) - len(new))
        away = self._ask(new, tell) if new else {}
        return [self._judged.get(one) or away[one] for one in asked]

    def log_probs(self, asked: Sequence[tuple[Asked, str]]) -> list[float]:
        """log P(answer | prompt) of each, in order, its end included; NaN where it cannot be shown or is refused.

        Raises JudgeUnusable where the judge gives none, DatasetUnusable for an id that is no item's, and what else the
        judge raises, when what it gave is stored.
        """
        judge = self.chat
        if not isinstance(judge, AnswerLikelihood):
            raise JudgeUnusable(
                f"{self.chat.id} gives no log-probabilities of answers; take one in this process (`hf:…`, `vllm:…`, "
                "`digits`)"
            )
        self._refuse_strangers([one for one, _ in asked])
        answers: dict[Asked, list[str]] = {}
        for one, answer in dict.fromkeys(asked):
            if (one, answer) not in self._likely:
                answers.setdefault(one, []).append(answer)
        new = [(one, answer) for one in self._sorted(answers) for answer in answers[one]]
        for start in range(0, len(new), TOGETHER):
            self._find_log_probs(judge, new[start : start + TOGETHER])
        return [self._likely[pair] for pair in asked]

    def gt_prob(self, asked: Sequence[Asked]) -> list[float]:
        """Σ over the answers of people of min(people / 3, 1) · P(answer | prompt); NaN where `log_probs` has it.

        Raises as `log_probs` does.
        """
        counted = [Counter(self.items[one.query].answers) for one in asked]
        pairs = [(one, answer) for one, counts in zip(asked, counted, strict=True) for answer in counts]
        likely = iter(self.log_probs(pairs))
        worth = [[min(count / ENOUGH, 1.0) for count in counts.values()] for counts in counted]
        return [min(math.fsum(share * math.exp(next(likely)) for share in shares), 1.0) for shares in worth]

    def _sorted(self, asked: Iterable[Asked]) -> list[Asked]:
        """By what stands first in the prompt, so that an engine computes a common beginning once."""
        return sorted(asked, key=lambda one: (in_prompt_order(one.demonstrations, self.prompts), one.query))

    def _ask(self, new: Sequence[Asked], tell: Callable[[int], None] | None) -> dict[Asked, Judgment]:
        """Remembers the judgments; gives those that may turn out otherwise another time."""
        away: dict[Asked, Judgment] = {}
        refused: dict[Asked, RequestRefused] = {}
        answers = ask_all(
            self.chat, self._requests(new), responses=self.responses, limits=self.limits, budget=self.budget
        )
        for one, answer in answers:
            judgment = self._judgment(one, answer)
            (away if judgment.retryable else self._judged)[one] = judgment
            if isinstance(answer, RequestRefused):
                refused[one] = answer
            if tell and judgment.failed is None:
                tell(1)
        if refused and not away and all(one.failed is not None for one in self._judged.values()):
            raise self._useless(refused)
        return away

    def _useless(self, refused: Mapping[Asked, RequestRefused]) -> JudgeUnusable:
        one, error = next(iter(refused.items()))
        return JudgeUnusable(
            f"{self.chat.id} refused all {len(refused)} questions that it got, as {one.query}: {error}"
        )

    def _requests(self, new: Iterable[Asked]) -> Iterator[tuple[Asked, ChatRequest]]:
        for one in new:
            try:
                request = self._request(one)
            except DatasetUnusable as error:
                self._judged[one] = Judgment(failed=str(error))
            else:
                yield one, request

    def _request(self, asked: Asked) -> ChatRequest:
        """Raises DatasetUnusable for a picture that cannot be shown."""
        shown = [self.items[one] for one in asked.demonstrations]
        return prompt(self.items[asked.query], shown, self.prompts, self._pictures)

    def _judgment(self, asked: Asked, answer: Answer | ModelError) -> Judgment:
        if isinstance(answer, ModelError):
            return Judgment(failed=str(answer), retryable=isinstance(answer, TransientModelError))
        said = answer_in(answer.response.text)
        accuracy = accuracy_among(people(self.items[asked.query].answers, stem=self.stem), said)
        return Judgment(said, int(accuracy >= self.threshold), accuracy, key=answer.key)

    def _find_log_probs(self, judge: AnswerLikelihood, pairs: Sequence[tuple[Asked, str]]) -> None:
        """Remember them, from the store or from the judge; NaN where it refuses.

        Raises JudgeUnusable where no question at all has a log-probability.
        """
        questions: dict[str, _Question] = {}
        for one, group in groupby(pairs, key=lambda pair: pair[0]):
            answers = [answer for _, answer in group]
            try:
                request = self._request(one)
            except DatasetUnusable:
                self._likely |= {(one, answer): math.nan for answer in answers}
                continue
            for question in (_Question(request, answer, []) for answer in answers):
                questions.setdefault(question.key(judge.id), question).asked_by.append(one)
        stored = self.responses.many(list(questions))
        found = {key: float(cast("dict[str, Any]", kept.response)["log_prob"]) for key, kept in stored.items()}
        given, refusal = self._new_log_probs(judge, {key: one for key, one in questions.items() if key not in found})
        found |= given
        for key, value in found.items():
            self._likely |= {(one, questions[key].answer): value for one in questions[key].asked_by}
        if refusal is None:
            return
        left = [(who, one.answer) for key, one in questions.items() if key not in found for who in one.asked_by]
        asked = {who: refusal for who, _ in left}
        if all(math.isnan(one) for one in self._likely.values()):
            raise self._useless(asked)
        log.warning("no log-probability prompts=%d query=%s error=%s", len(asked), next(iter(asked)).query, refusal)
        self._likely |= dict.fromkeys(left, math.nan)

    def _new_log_probs(
        self, judge: AnswerLikelihood, questions: Mapping[str, _Question]
    ) -> tuple[dict[str, float], RequestRefused | None]:
        """By key, from the judge, and its word where it refuses some, which have none then.

        Each is stored while the judge goes on, so that a kill loses the last few.
        """
        if not questions:
            return {}, None
        keys, started = list(questions), self.limits.clock()
        given: dict[str, float] = {}
        refusal: RequestRefused | None = None
        troubles: list[Exception | None] = []
        with GroupCommit[None](self.responses, stored=lambda _, trouble: troubles.append(trouble)) as commit:
            try:
                for number, value in judge.answer_log_probs([(one.request, one.answer) for one in questions.values()]):
                    if math.isnan(value):
                        raise JudgeUnusable(
                            f"{judge.id} gave NaN as a log-probability; its weights or precision are bad"
                        )
                    key = keys[number]
                    latency_s = self.limits.clock() - started
                    commit.begin(key, questions[key].stored(judge.id, value, latency_s=latency_s), None)
                    given[key] = value
                    refuse_when_stopped()
            except RequestRefused as error:
                refusal = error
        if trouble := next(filter(None, troubles), None):
            raise trouble
        if len(given) < len(keys) and refusal is None:
            raise RuntimeError(f"{judge.id} gave {len(given)} log-probabilities for {len(keys)} answers")
        return given, refusal

    def _refuse_strangers(self, asked: Iterable[Asked]) -> None:
        for one in asked:
            for name in (one.query, *one.demonstrations):
                if name not in self.items:
                    raise DatasetUnusable(
                        f"there is no question {name} in this dataset; its pools or pointers are another's"
                    )


class _Question(NamedTuple):
    """A request for the likelihood of an answer, and where its result goes."""

    request: ChatRequest
    answer: str
    asked_by: list[Asked]

    def plain(self) -> dict[str, Any]:
        """As JSON; of the request only what matters."""
        request = {name: value for name, value in canonical(self.request).items() if name in MATTERS}
        return {"log-prob": self.answer, "request": request}

    def key(self, backend: str) -> str:
        """Its key in the response store."""
        return digest({"backend": backend} | self.plain())

    def stored(self, backend: str, log_prob: float, *, latency_s: float) -> StoredResponse:
        """What the response store holds."""
        from storage.responses import StoredResponse  # brings SQLAlchemy

        kind, _, model = backend.partition(":")
        value = log_prob if math.isfinite(log_prob) else str(log_prob)  # JSON has no infinity
        return StoredResponse(
            backend=kind, model=model, request=self.plain(), response={"log_prob": value}, latency_s=latency_s
        )
