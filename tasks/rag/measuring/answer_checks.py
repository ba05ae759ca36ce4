"""Checks answers against gold: the number or words, a citation of a gold page, abstention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
        """An answer where the documents do not tell is wrong; None: unscored, or answerable without a gold answer."""
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


def calibration_of(checks: Sequence[AnswerCheck]) -> Calibration:
    """Return the confidences of right and of wrong answers, from checks of answers that were all given.

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

    return Calibration(n=len(judged), right=confidences("right"), wrong=confidences("wrong"))


OF_GOLD = ("correct", "number", "contains", "citation", "document")
"""Names of the checks that only answerable questions get."""


def summarise_answers(checks: Sequence[AnswerCheck]) -> AnswerScores:
    """Return the shares of right answers, with 95 % intervals, over the questions that could be asked."""
    scored = [check for check in checks if check.unscored is None]
    answerable = [check for check in scored if check.answerable]
    unanswerable = [check.abstained for check in scored if not check.answerable]
    verdicts = [check.verdict for check in scored if check.verdict]

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
        unscored=len(checks) - len(scored),
    )


def _share(values: Sequence[bool | None]) -> Share | None:
    numbers = [float(value) for value in values if value is not None]
    return Share(**mean_of(numbers).model_dump(), n=len(numbers)) if numbers else None
