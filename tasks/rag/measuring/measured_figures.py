"""What a file of questions says of an index: retrieval, answers, and both for each kind of question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

from tasks.measure.estimates import Estimate
from tasks.rag.measuring.answer_checks import AnswerCheck, AnswerFigures, Share, summarise_answers
from tasks.rag.measuring.ranking_metrics import Evaluation, Mean, Question, Ranked, summarise

USUAL_LABELS = ("kind", "lang")
"""Figures are grouped by these when the lines have them."""
MOST_GROUPS = 50
"""Values of one label; one with more, such as an author's note on each line, groups nothing."""
NAMES_SHOWN = 3


class Measured(Evaluation):
    """Retrieval figures, with those of the answers and of the groups where they were asked for."""

    answers: AnswerFigures | None = None
    groups: dict[str, dict[str, Measured]] = Field(default_factory=dict)
    """Label → value → figures of the questions that have it."""


def measure(
    questions: Sequence[Question],
    ranked: Sequence[Ranked],
    checks: Sequence[AnswerCheck] | None = None,
    *,
    by: Sequence[str] = (),
    seed: int = 0,
) -> Measured:
    """The figures of all questions, and of the groups that the labels `by` make; checks: None without answers."""
    of_all = _measured(ranked, checks, seed=seed)
    groups = {label: _groups(questions, ranked, checks, label=label, seed=seed) for label in by}
    return of_all.model_copy(update={"groups": groups})


def labels_of(questions: Sequence[Question], asked: Sequence[str] | None) -> tuple[str, ...]:
    """The labels to group by: those that were asked for, else the usual ones that the lines have.

    Raises ValueError for a label that no line has, or with a value of its own on nearly every line.
    """
    values = {name: {question.labels.get(name) for question in questions} for name in _label_names(questions)}
    if asked is None:
        return tuple(name for name in USUAL_LABELS if len(values.get(name, ())) > 1)
    if unknown := [name for name in asked if name not in values]:
        has = ", ".join(sorted(values)) or "no other fields"
        raise ValueError(f"no question has the field {unknown[0]!r} to group by; the lines have {has}")
    if crowded := [name for name in asked if len(values[name]) > MOST_GROUPS]:
        raise ValueError(
            f"the field {crowded[0]!r} has {len(values[crowded[0]])} values, which makes as many groups; group by one "
            f"with at most {MOST_GROUPS}"
        )
    return tuple(dict.fromkeys(asked))


def choose(questions: Sequence[Question], split: str | None) -> list[Question]:
    """The questions of the split, or all. Raises ValueError when there are none."""
    chosen = [question for question in questions if split is None or question.labels.get("split") == split]
    if chosen:
        return chosen
    if split is None:
        raise ValueError("there are no questions to evaluate; give at least one line")
    known = sorted({question.labels["split"] for question in questions if "split" in question.labels})
    has = f"they have {', '.join(known)}" if known else "none of them has the field `split`"
    raise ValueError(f"no question is of the split {split!r}; {has}")


def unknown_documents(questions: Sequence[Question], names: set[str]) -> str | None:
    """A sentence about gold documents that the index lacks; None when it has all."""
    lacking = [question for question in questions if question.document and question.document not in names]
    if not lacking:
        return None
    documents = list(dict.fromkeys(str(question.document) for question in lacking))
    more = f" and {len(documents) - NAMES_SHOWN} more" if len(documents) > NAMES_SHOWN else ""
    return (
        f"the index has no document {', '.join(documents[:NAMES_SHOWN])}{more}, which is the gold of {len(lacking)} "
        f"of {len(questions)} questions; they count as misses"
    )


def figures(measured: Measured, part: str = "") -> Iterator[Estimate]:
    """All figures by their full names, `page.mrr@10` or `answers.abstention.false_answer_rate`; the groups' last."""
    for unit, found, n in (("page", measured.page, measured.paged), ("document", measured.document, measured.n)):
        for name, mean in found.items():
            yield _estimate(f"{unit}.{name}", part, mean, n)
    if measured.answers:
        shares = dict(measured.answers) | {
            f"abstention.{name}": share for name, share in dict(measured.answers.abstention).items()
        }
        for name, share in shares.items():
            if isinstance(share, Share):
                yield _estimate(f"answers.{name}", part, share, share.n)
    for label, groups in measured.groups.items():
        for value, group in groups.items():
            yield from figures(group, part=f"{label}={value}")


def _estimate(metric: str, part: str, mean: Mean, n: int) -> Estimate:
    return Estimate(metric=metric, part=part, value=mean.value, low=mean.low, high=mean.high, n=n)


def _measured(ranked: Sequence[Ranked], checks: Sequence[AnswerCheck] | None, *, seed: int) -> Measured:
    # questions may all be unanswerable: then there is nothing to find, and abstention alone is measured
    found = summarise(ranked, seed=seed) if ranked else Evaluation(n=0, page={}, document={}, paged=0)
    answers = summarise_answers(checks, seed=seed) if checks is not None else None
    return Measured(**dict(found), answers=answers)


def _groups(
    questions: Sequence[Question],
    ranked: Sequence[Ranked],
    checks: Sequence[AnswerCheck] | None,
    *,
    label: str,
    seed: int,
) -> dict[str, Measured]:
    groups: dict[str, set[str]] = {}
    for question in questions:
        if label in question.labels:
            groups.setdefault(question.labels[label], set()).add(question.id)
    return {
        value: _measured(
            [one for one in ranked if one.id in ids],
            None if checks is None else [check for check in checks if check.id in ids],
            seed=seed,
        )
        for value, ids in sorted(groups.items())
    }


def _label_names(questions: Sequence[Question]) -> set[str]:
    return {name for question in questions for name in question.labels}
