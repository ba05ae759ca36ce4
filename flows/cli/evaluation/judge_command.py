"""`trivet eval judge-check`: how far a judge agrees with people, what biases it has, and its score corrected."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from flows.cli.commands import Json
from flows.cli.output import Screen, emit, plain_errors
from tasks.grading.grading_records import GradingError

if TYPE_CHECKING:
    from tasks.grading.judge_check import JudgeCheck
    from tasks.measure.estimates import Estimate

MEANING = {
    "agreement": "judge and people say the same",
    "sensitivity": "called right, of what people call right",
    "specificity": "called wrong, of what people call wrong",
    "consistent": "the same answer preferred when both change places",
    "first": "the first answer preferred; .5 without a bias of position",
    "longer": "the longer answer preferred more often than by people; 0 without a bias of length",
    "corrected": "of the unlabelled, right after correction for the judge's errors",
}


def judge_check(
    labels: Annotated[
        Path,
        typer.Argument(
            metavar="LABELS.jsonl",
            help="Lines {human, judge}: true or false; or A, B, C (tie), with swapped, length_a, length_b. Lines of "
            "verdicts without `human` are those whose score is corrected.",
        ),
    ],
    as_json: Json = False,
) -> None:
    """Compare a judge's verdicts with those of people: agreement, bias, and a score corrected for its errors."""
    from tasks.grading.judge_check import check_judge, read_labels

    with plain_errors(GradingError):
        found = check_judge(list(read_labels(labels)))
    emit(found, as_json, lambda: _show(found))


def _show(found: JudgeCheck) -> None:
    screen = Screen()
    table = Table("figure", box=None, pad_edge=False, header_style="dim")
    for name in ("value", "95 % interval", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", style="dim")
    for one in (*found.figures, *((found.corrected,) if found.corrected else ())):
        table.add_row(one.metric, f"{one.value:.3f}", _interval(one), f"{one.n:,}", MEANING[one.metric])
    screen.print(table)
    if found.kappa is not None:
        screen.print(f"agreement beyond chance (kappa): {found.kappa:.3f}")
    if found.judge_score is not None:
        screen.print(f"the judge calls {found.judge_score:.3f} of {found.judged:,} unlabelled answers right")
    for note in found.notes:
        screen.print(note)


def _interval(estimate: Estimate) -> str:
    return "—" if estimate.low is None or estimate.high is None else f"{estimate.low:.3f} – {estimate.high:.3f}"
