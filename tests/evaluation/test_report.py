"""A run as the Prefect UI shows it."""

from __future__ import annotations

from tasks.evaluation.evaluation_records import Counts, Estimate
from tasks.evaluation.results.run_report import WORST, format_headline, render_markdown
from tests.evaluation.reports import report, task_result

NOT_SCORED = task_result(
    "Empty", estimates=(), counts=Counts(items=2, samples=2, unscored=2), notes=("2 of 2 unscored",)
)


def test_the_words_hold_scores_notes_and_what_was_skipped() -> None:
    lines = render_markdown(report(task_result(), NOT_SCORED).model_copy(update={"regressions": ("Sums",)})).split("\n")
    assert lines == [
        "# org/tiny",
        "run `a1b2c3d4e5f60718` · hf · revision `abc` · 2026-03-01 12:00 UTC",
        "",
        "| task | metric | score | 95 % interval | items | samples | unscored | refused | too long | cut off | "
        "no answer | differing | tokens | cost |",
        "|---|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        "| Sums | accuracy_avg | 0.500 | 0.100 – 0.900 | 2 | 4 | 1 | 0 | 0 | 1 | 1 | 0 | 120 | 0.01 |",
        "| Empty | none scored | – | – | 2 | 2 | 2 | 0 | 0 | 0 | 0 | 0 | 120 | 0.01 |",
        "",
        "## Worse than in the last run",
        "- Sums",
        "",
        "## To know",
        "- a note",
        "- Sums: 1 of 4 are unscored",
        "- Empty: 2 of 2 unscored",
        "",
        "## Weakest groups",
        "- Sums, easy: 0.500 (1 items)",
        "",
        "## Skipped",
        "- Old: evaluated by run `00000000`",
    ]


def test_the_weakest_groups_are_named_the_worst_first() -> None:
    groups = [Estimate(metric="accuracy", part=f"group=g{n}", value=n / 10, n=3) for n in (6, 1, 3, 2, 5, 4, 0)]
    other = Estimate(metric="pass@2", part="group=g9", value=0.0, n=3)
    headline = Estimate(metric="accuracy", value=0.3, n=21, headline=True)
    text = render_markdown(report(task_result(estimates=(headline, other, *groups))))
    lines = text.partition("## Weakest groups\n")[2].split("\n")[:WORST]
    assert lines == [f"- Sums, g{n}: {n / 10:.3f} (3 items)" for n in range(5)]


def test_a_line_has_an_interval_that_ends_at_zero() -> None:
    headline = Estimate(metric="adjusted_score", value=-0.5, low=-1.0, high=0.0, n=3, headline=True)
    line = format_headline(task_result(estimates=(headline,)))
    assert line == "Sums: adjusted_score -0.500 (-1.000 – 0.000), 3 items"
