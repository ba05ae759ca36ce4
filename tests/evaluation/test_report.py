"""A run as the Prefect UI shows it."""

from __future__ import annotations

import base64

import pytest

from tasks.evaluation.evaluation_records import Counts, Estimate
from tasks.evaluation.results.run_report import WORST, image_of, markdown_of, rows_of
from tests.evaluation.reports import report, task_result

NOT_SCORED = task_result(
    "Empty", estimates=(), counts=Counts(items=2, samples=2, unscored=2), notes=("2 of 2 unscored",)
)


def test_the_table_has_a_row_for_each_task() -> None:
    first, second = rows_of(report(task_result(), NOT_SCORED))
    assert first == {
        "task": "Sums",
        "metric": "accuracy_avg",
        "score": 0.5,
        "low": 0.1,
        "high": 0.9,
        "items": 2,
        "samples": 4,
        "unscored": 1,
        "cut off": 1,
        "no answer": 1,
        "differing": 0,
        "tokens": 120,
        "cost": 0.01,
    }
    assert (second["metric"], second["score"], second["low"], second["unscored"]) == (None, None, None, 2)


@pytest.mark.parametrize(("value", "low", "high"), [(0.0, 0.0, 0.3), (1.0, 0.7, 1.0), (0.5, None, None)])
def test_ends_of_the_scale_and_missing_intervals_are_told_apart(
    value: float, low: float | None, high: float | None
) -> None:
    headline = Estimate(metric="accuracy", value=value, low=low, high=high, n=3, headline=True)
    [row] = rows_of(report(task_result(estimates=(headline,))))
    assert (row["score"], row["low"], row["high"]) == (value, low, high)


def test_the_words_hold_scores_notes_and_what_was_skipped() -> None:
    lines = markdown_of(report().model_copy(update={"regressions": ("Sums",)})).split("\n")
    assert lines == [
        "# org/tiny",
        "run `a1b2c3d4e5f60718` · hf · revision `abc` · 2026-03-01 12:00 UTC",
        "",
        "| task | metric | score | 95 % interval | items |",
        "|---|---|---:|---|---:|",
        "| Sums | accuracy_avg | 0.500 | 0.100 – 0.900 | 2 |",
        "",
        "## Worse than in the last run",
        "- Sums",
        "",
        "## To know",
        "- a note",
        "- Sums: 1 of 4 are unscored",
        "",
        "## Weakest groups",
        "- Sums, easy: 0.500 (1 items)",
        "",
        "## Skipped",
        "- Old: evaluated by run `00000000`",
    ]


def test_what_could_not_be_kept_is_told_too() -> None:
    noted = report().model_copy(update={"notes": ("3 answers are kept in files",)})
    assert "- 3 answers are kept in files" in markdown_of(noted).split("\n")


def test_a_task_that_could_not_be_scored_is_in_the_words() -> None:
    assert "| Empty | none scored | — | — | 2 |" in markdown_of(report(NOT_SCORED)).split("\n")


def test_the_weakest_groups_are_named_the_worst_first() -> None:
    groups = [Estimate(metric="accuracy", part=f"group=g{n}", value=n / 10, n=3) for n in (6, 1, 3, 2, 5, 4, 0)]
    other = Estimate(metric="pass@2", part="group=g9", value=0.0, n=3)
    headline = Estimate(metric="accuracy", value=0.3, n=21, headline=True)
    text = markdown_of(report(task_result(estimates=(headline, other, *groups))))
    lines = text.partition("## Weakest groups\n")[2].split("\n")[:WORST]
    assert lines == [f"- Sums, g{n}: {n / 10:.3f} (3 items)" for n in range(5)]


def test_the_plot_is_an_address_that_holds_a_picture() -> None:
    kind, _, data = image_of(report()).partition(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(data, validate=True).startswith(b"\x89PNG\r\n")


def test_a_run_without_a_score_has_a_plot_too() -> None:
    assert image_of(report(NOT_SCORED)).startswith("data:image/png;base64,")
