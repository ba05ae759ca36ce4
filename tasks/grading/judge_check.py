"""How far a judge can be trusted: its agreement with people, its biases, and a score corrected for its errors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast

from pydantic import Field, ValidationError, model_validator

from storage.records import FiniteRecord
from tasks.grading.grading_records import GradingError
from tasks.measure.estimates import Estimate, Z, estimate

FLIPPED = {"A": "B", "B": "A", "C": "C"}
Preference = Literal["A", "B", "C"]
Line = TypeVar("Line", bound=FiniteRecord)


class LabelsUnusable(GradingError):
    """A file of labels that cannot be read, or in which a figure has no basis."""


class Label(FiniteRecord):
    """A line of the file: a verdict right or wrong, or a preference between two answers."""

    id: str | int | None = None
    human: bool | Preference | None = None
    """What a person says; None: only the judge was asked. Preferences: the first answer, the second, or C for a tie."""
    judge: bool | Preference
    swapped: Preference | None = None
    """What the judge says when the answers change places; A is the one that it sees first."""
    length_a: int | None = Field(default=None, ge=0)
    length_b: int | None = Field(default=None, ge=0)
    """Lengths of the answers, in whatever unit."""

    @model_validator(mode="after")
    def _of_one_kind(self) -> Label:
        if self.human is not None and isinstance(self.human, bool) != isinstance(self.judge, bool):
            raise ValueError("`human` and `judge` are of two kinds; give true or false in both, or A, B or C in both")
        return self


class JudgeCheck(FiniteRecord):
    """What labels say of a judge."""

    labelled: int
    judged: int
    """Lines without a person's label, of which the score is corrected."""
    kappa: float | None
    """Agreement beyond chance (Cohen); None where both always say the same one thing."""
    figures: tuple[Estimate, ...]
    """`agreement`; of verdicts `sensitivity` and `specificity`; of preferences `consistent` when answers change places,
    `first` (the first answer preferred, .5 without a bias) and `longer` (preferred more often than by people)."""
    judge_score: float | None = None
    """Share of the lines without a label that the judge calls right."""
    corrected: Estimate | None = None
    """That share, corrected for the errors of the judge."""
    notes: tuple[str, ...] = ()


def read_labels(path: Path) -> Iterator[Label]:
    """The labels of a JSONL file. Raises LabelsUnusable with file and line."""
    return (label for _, label in label_lines(path, Label, "{human, judge}"))


def label_lines(path: Path, kind: type[Line], expected: str) -> Iterator[tuple[int, Line]]:
    """Records of a JSONL file with their line numbers; other fields are left out.

    Raises LabelsUnusable with file and line.
    """
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LabelsUnusable(f"{path} cannot be read ({error}); give a JSONL file of {expected}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            plain = json.loads(line)
            if isinstance(plain, dict):
                known = cast("dict[str, Any]", plain)
                plain = {name: value for name, value in known.items() if name in kind.model_fields}
            yield number, kind.model_validate(plain)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"][:1])
            raise LabelsUnusable(f"{path}, line {number}: {where}: {first['msg']}") from error
        except ValueError as error:
            raise LabelsUnusable(f"{path}, line {number}: not JSON ({error})") from error


def check_judge(labels: Sequence[Label]) -> JudgeCheck:
    """The figures of a file of labels. Raises LabelsUnusable without labels of people, or where kinds are mixed."""
    with_label = [one for one in labels if one.human is not None]
    if not with_label:
        raise LabelsUnusable("no line has a `human` label; label some of what the judge has judged")
    if len({isinstance(one.judge, bool) for one in labels}) > 1:
        raise LabelsUnusable("some lines hold verdicts and some preferences; check them in two files")
    agreement = _share("agreement", [one.human == one.judge for one in with_label], headline=True)
    common: dict[str, Any] = {"labelled": len(with_label), "judged": len(labels) - len(with_label)}
    common["kappa"] = kappa([(one.human, one.judge) for one in with_label])
    if not isinstance(labels[0].judge, bool):
        return JudgeCheck(**common, figures=(agreement, *_of_preferences(labels)))
    return _of_verdicts(labels, with_label, agreement, common)


def kappa(pairs: Sequence[tuple[object, object]]) -> float | None:
    """Cohen's kappa of two raters."""
    n = len(pairs)
    seen = sum(one == other for one, other in pairs) / n
    ones, others = Counter(one for one, _ in pairs), Counter(other for _, other in pairs)
    chance = sum(ones[name] * others[name] for name in ones) / n**2
    return None if chance == 1 else (seen - chance) / (1 - chance)


def _of_verdicts(
    labels: Sequence[Label], with_label: Sequence[Label], agreement: Estimate, common: Mapping[str, Any]
) -> JudgeCheck:
    right = [bool(one.judge) for one in with_label if one.human]
    wrong = [not one.judge for one in with_label if not one.human]
    judged = [bool(one.judge) for one in labels if one.human is None]
    shares = [_share(name, said) for name, said in (("sensitivity", right), ("specificity", wrong)) if said]
    notes: list[str] = []
    corrected = None
    if not (right and wrong):
        notes.append("people call all answers right, or all wrong; label some of both for sensitivity and specificity")
    elif judged:
        corrected = rogan_gladen(
            Counted(sum(judged), len(judged)), Counted(sum(right), len(right)), Counted(sum(wrong), len(wrong))
        )
        if corrected is None:
            notes.append("sensitivity and specificity sum to 1 or less: the judge says nothing that could be corrected")
    return JudgeCheck(
        **common,
        figures=(agreement, *shares),
        judge_score=sum(judged) / len(judged) if judged else None,
        corrected=corrected,
        notes=tuple(notes),
    )


class Counted(NamedTuple):
    """How many of how many."""

    hits: int
    n: int


def rogan_gladen(judged: Counted, right: Counted, wrong: Counted) -> Estimate | None:
    """The share of right answers from a judge's verdicts on unlabelled ones, with a 95 % interval.

    judged: called right, of the unlabelled. right: called right, of those that people call right (sensitivity); wrong:
    called wrong, of those that people call wrong (specificity). None if the judge is no better than chance.
    Source: Rogan and Gladen 1978; interval of Lang and Reiczigel 2014, as arXiv 2511.21140 advises.
    """
    p, q1, q0 = (one.hits / one.n for one in (judged, right, wrong))
    n, m1, m0 = judged.n + Z**2, right.n + 2, wrong.n + 2
    p_adjusted = (judged.hits + Z**2 / 2) / n
    q1_adjusted, q0_adjusted = (right.hits + 1) / m1, (wrong.hits + 1) / m0
    slope = q0_adjusted + q1_adjusted - 1
    if q0 + q1 <= 1 or slope <= 0:
        return None
    value = (p_adjusted + q0_adjusted - 1) / slope
    of_right, of_wrong = q1_adjusted * (1 - q1_adjusted) / m1, q0_adjusted * (1 - q0_adjusted) / m0
    error = sqrt(p_adjusted * (1 - p_adjusted) / n + value**2 * of_right + (1 - value) ** 2 * of_wrong) / slope
    middle = value + 2 * Z**2 * (value * of_right - (1 - value) * of_wrong)
    return Estimate(
        metric="corrected",
        value=_within((p + q0 - 1) / (q0 + q1 - 1)),
        std_err=error,
        low=_within(middle - Z * error),
        high=_within(middle + Z * error),
        n=judged.n,
    )


def _within(share: float) -> float:
    return min(1.0, max(0.0, share))


def _of_preferences(labels: Sequence[Label]) -> Iterator[Estimate]:
    if swapped := [one for one in labels if one.swapped]:
        yield _share("consistent", [FLIPPED[str(one.swapped)] == one.judge for one in swapped])
        firsts = [[str(one.judge), str(one.swapped)] for one in swapped]
        yield _mean("first", [sum(_FIRST[label] for label in pair) / 2 for pair in firsts])
    compared = [
        (_longer(one.human, one), _longer(one.judge, one))
        for one in labels
        if one.human not in (None, "C") and one.judge != "C" and _lengths_differ(one)
    ]
    if compared:
        yield _mean("longer", [float(judge) - float(human) for human, judge in compared])


_FIRST = {"A": 1.0, "B": 0.0, "C": 0.5}


def _lengths_differ(label: Label) -> bool:
    return label.length_a is not None and label.length_b is not None and label.length_a != label.length_b


def _longer(said: object, label: Label) -> bool:
    """Whether the longer answer is preferred."""
    return (said == "A") == (cast("int", label.length_a) > cast("int", label.length_b))


def _share(metric: str, said: Sequence[bool], *, headline: bool = False) -> Estimate:
    return _mean(metric, [float(one) for one in said], headline=headline)


def _mean(metric: str, values: Sequence[float], *, headline: bool = False) -> Estimate:
    return estimate(metric, {str(number): [value] for number, value in enumerate(values)}, headline=headline)
