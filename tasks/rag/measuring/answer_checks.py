"""Checks answers against gold: the number or words, a citation of a gold page, abstention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, get_args

from storage.records import Record
from tasks.grading.cited_answers import has_close_number, has_words
from tasks.language.numbers import read_numbers
from tasks.language.sentences import strip_marks
from tasks.measure.estimates import clopper_pearson
from tasks.rag.answers import Answered, Calibration
from tasks.rag.measuring.ranking_metrics import Mean, Place, Question, mean_of
from tasks.rag.planning.plan import history_of

if TYPE_CHECKING:
    from tasks.rag.answering.assistant import Answering

Verdict = Literal["right", "wrong", "abstained"]


class AnswerCheck(Record):
    """The checks of one answer; None where the question has no gold for a check."""

    id: str
    kind: str = ""
    """Kind of the question, as its line says; empty where it says none."""
    answerable: bool
    abstained: bool = False
    number: bool | None = None
    """The numbers of the gold answer stand in the answer, in whatever spelling; a single one also in another unit."""
    contains: bool | None = None
    """The words of a gold answer without numbers stand in the answer."""
    citation: bool | None = None
    """A citation is on a gold page; in the gold document, where that has no pages."""
    document: bool | None = None
    supported: bool | None = None
    """No sentence of the answer is marked as unsupported; None for an abstention."""
    answer: str = ""
    cited: tuple[Place, ...] = ()
    """Document and page of each citation, in the order of the answer, each once."""
    confidence: float | None = None
    """How likely the answer is right, by what gave it; None where a model wrote it."""
    model_away: bool = False
    """True: the model failed, and the answer was extracted from the documents."""
    unscored: str | None = None
    """Why there was no answer to check; such a question counts in no figure."""

    @property
    def correct(self) -> bool | None:
        """Whether the answer holds the gold answer: its numbers, or its words where it has none; None without gold."""
        return self.contains if self.number is None else self.number

    @property
    def verdict(self) -> Verdict | None:
        """Verdict, wrong if the documents do not tell; None if unscored, or answerable without a gold answer."""
        if self.unscored is not None or (self.answerable and self.correct is None):
            return None
        if self.abstained:
            return "abstained"
        return "right" if self.answerable and self.correct else "wrong"


class Share(Mean):
    """A share of questions with its 95 % bootstrap interval."""

    n: int


class Abstention(Record):
    """Whether answers abstain when the documents do not tell, and only then; None without such questions."""

    answerable_answered: Share | None
    unanswerable_abstained: Share | None
    false_answer_rate: Share | None
    """Share of unanswerable questions that were answered."""


class RiskPoint(Record):
    """A point of a risk–coverage curve: what the surest answers are worth."""

    coverage: float
    """Share of the questions that are answered at this confidence or above."""
    risk: float
    """Share of wrong answers among these."""
    confidence: float


class KindScores(Record):
    """Answers to the questions of one kind, as they stand to their confidence."""

    n: int
    right: int
    wrong: int
    abstained: int
    calibration_error: float | None
    """Mean distance between confidence and share of right answers, over bins of equally many; None below LEAST_BIN."""
    curve: tuple[RiskPoint, ...]
    """The surest tenth of the questions, the surest fifth … and all that were answered."""

    def risk_at(self, coverage: float) -> float | None:
        """Return the share of wrong answers at a coverage; None where fewer questions were answered."""
        return next((point.risk for point in self.curve if point.coverage >= coverage), None)


class AnswerScores(Record):
    """Shares over the questions that have the gold for them; an abstention is a miss. None without such questions."""

    n: int
    """Questions that were answered or abstained from."""
    right: Share | None
    """Of the questions with a gold answer and the unanswerable ones, as `wrong` and `abstained`; they add to 1. Their
    intervals are Clopper and Pearson's."""
    wrong: Share | None
    """Questions that got another answer, or one although the documents do not tell."""
    abstained: Share | None
    correct: Share | None
    """Answers that hold the gold answer: `number` where it has numbers, else `contains`."""
    number: Share | None
    contains: Share | None
    citation: Share | None
    document: Share | None
    """Answers with a citation in the gold document, on whatever page."""
    supported: Share | None
    """Answers, to whatever question, none of whose sentences is marked as unsupported."""
    abstention: Abstention
    kinds: dict[str, KindScores]
    """By kind of question, in the order of the kinds' names; `all` are the first."""
    unscored: int = 0


def check_answers(
    questions: Iterable[Question], assistant: Answering, *, name_of: Callable[[str], str] = str
) -> tuple[AnswerCheck, ...]:
    """Ask every question, after its earlier turns, and return the checks of each answer against its gold.

    name_of: the catalogue's name of a gold document. A question that is refused is unscored; a broken index raises.
    """
    checks: list[AnswerCheck] = []
    for question in questions:
        earlier: list[Answered] = []
        try:
            for turn in (*question.turns, question.question):
                # turns are answered by the program, not by the gold
                earlier.append(assistant.ask(turn, history=history_of(earlier)))
        except ValueError as error:
            checks.append(AnswerCheck(id=question.id, answerable=question.answerable, unscored=str(error)))
            continue
        document = name_of(question.document) if question.document else None
        checks.append(check_answer(question, earlier[-1], document=document))
    return tuple(checks)


def check_answer(question: Question, answered: Answered, *, document: str | None) -> AnswerCheck:
    """Return the checks of an answer against its gold; document: the gold document's name in the catalogue."""
    is_answered = not answered.abstained
    check = AnswerCheck(
        id=question.id,
        kind=question.labels.get("kind", ""),
        answerable=question.answerable,
        abstained=answered.abstained,
        supported=not answered.unsupported if is_answered else None,  # nothing was claimed
        model_away=answered.model_away or answered.model_refused,
        answer=answered.answer,
        confidence=answered.confidence,
        cited=tuple(dict.fromkeys(Place(citation.document, citation.page) for citation in answered.citations)),
    )
    if not question.answerable or document is None:
        return check
    in_gold = [citation for citation in answered.citations if citation.document == document]
    text, gold = strip_marks(answered.answer), question.answer
    numeric = gold is not None and bool(read_numbers(gold))
    return check.model_copy(
        update={
            "number": is_answered and has_close_number(text, gold) if gold and numeric else None,
            "contains": is_answered and has_words(text, gold) if gold and not numeric else None,
            "citation": is_answered
            and any(not question.pages or citation.page in question.pages for citation in in_gold),
            "document": is_answered and bool(in_gold),
        }
    )


def calibration_of(checks: Sequence[AnswerCheck], *, questions: str, made_on: date) -> Calibration:
    """Return the confidences of right and of wrong answers, from checks of answers that were all given.

    questions: name of their file.

    Raises ValueError without a verdict, or where a model wrote an answer, whose confidence nobody knows.
    """
    judged = [check for check in checks if check.verdict]
    if not judged:
        raise ValueError(
            "no question has a gold answer, or is marked as unanswerable: there is nothing to calibrate on"
        )
    if any(check.confidence is None for check in judged if not check.abstained):
        raise ValueError("answers that a model writes have no confidence; calibrate without a model (--llm none)")

    def confidences(verdict: Verdict) -> tuple[float, ...]:
        return tuple(sorted(round(check.confidence or 0.0, 6) for check in judged if check.verdict == verdict))

    right, wrong = confidences("right"), confidences("wrong")
    return Calibration(questions=questions, made_on=made_on, n=len(judged), right=right, wrong=wrong)


OF_GOLD = ("correct", "number", "contains", "citation", "document")
"""Names of the checks that only answerable questions get."""


def summarise_answers(checks: Sequence[AnswerCheck]) -> AnswerScores:
    """Return the shares of right answers, with 95 % intervals, over the questions that could be asked."""
    scored = [check for check in checks if check.unscored is None]
    answerable = [check for check in scored if check.answerable]
    unanswerable = [check.abstained for check in scored if not check.answerable]
    judged = [check for check in scored if check.verdict]
    verdicts = [check.verdict for check in judged]
    by_kind = {kind: [check for check in judged if check.kind == kind] for kind in sorted({c.kind for c in judged})}

    def share_of(verdict: Verdict) -> Share | None:
        k, n = verdicts.count(verdict), len(verdicts)  # exact: a bootstrap of 8 wrong answers in 160 says too little
        return Share(value=k / n, **clopper_pearson(k, n)._asdict(), n=n) if n else None

    return AnswerScores(
        n=len(scored),
        **{name: share_of(name) for name in get_args(Verdict)},
        **{name: _share([getattr(check, name) for check in answerable]) for name in OF_GOLD},
        supported=_share([check.supported for check in scored]),
        abstention=Abstention(
            answerable_answered=_share([not check.abstained for check in answerable]),
            unanswerable_abstained=_share(unanswerable),
            false_answer_rate=_share([not abstained for abstained in unanswerable]),
        ),
        kinds={"all": _score_kind(judged)} | {kind: _score_kind(part) for kind, part in by_kind.items() if kind}
        if judged
        else {},
        unscored=len(checks) - len(scored),
    )


LEAST_BIN, MOST_BINS = 10, 10


def _score_kind(judged: Sequence[AnswerCheck]) -> KindScores:
    """Return counts, calibration error and risk–coverage curve of questions that have a verdict."""
    verdicts = Counter(check.verdict for check in judged)
    answers = [
        (check.confidence, check.verdict == "right")
        for check in judged
        if check.verdict != "abstained" and check.confidence is not None
    ]
    answers.sort(key=lambda answer: -answer[0])
    bins = min(MOST_BINS, len(answers) // LEAST_BIN)
    edges = [round(part * len(answers) / bins) for part in range(bins + 1)] if bins else []
    # the sum over a bin's answers of confidence less success, as its distance weighs by its size
    distances = [abs(sum(sure - right for sure, right in answers[a:b])) for a, b in pairwise(edges)]
    # answers of equal confidence are given or withheld together
    counts = [at for at, (sure, _) in enumerate(answers, 1) if at == len(answers) or answers[at][0] < sure]
    tenths = [next((count for count in counts if 10 * count >= part * len(judged)), None) for part in range(1, 11)]
    curve = dict.fromkeys(count for count in (*tenths, *counts[-1:]) if count)
    return KindScores(
        n=len(judged),
        right=verdicts["right"],
        wrong=verdicts["wrong"],
        abstained=verdicts["abstained"],
        calibration_error=sum(distances) / len(answers) if bins else None,
        curve=tuple(
            RiskPoint(
                coverage=count / len(judged),
                risk=sum(not right for _, right in answers[:count]) / count,
                confidence=answers[count - 1][0],
            )
            for count in curve
        ),
    )


def _share(values: Sequence[bool | None]) -> Share | None:
    numbers = [float(value) for value in values if value is not None]
    return Share(**mean_of(numbers).model_dump(), n=len(numbers)) if numbers else None
