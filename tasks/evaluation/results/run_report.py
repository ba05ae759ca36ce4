"""A run for the Prefect UI: a report in markdown with a table of scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tasks.evaluation.evaluation_records import EvalReport, TaskResult
from tasks.evaluation.results.ranking import COLUMNS, columns_of, format_value

WORST = 5
"""Number of groups of a task that are named, lowest scores first."""


def headline_of(result: TaskResult) -> str:
    """A task in a line: `AIME24: accuracy 0.433 (0.260 – 0.606), 30 items`."""
    if (headline := result.headline) is None:
        return f"{result.task}: none of {result.counts.items} items scored"
    interval = f" ({low:.3f} – {high:.3f})" if (low := headline.low) is not None and (high := headline.high) else ""
    return f"{result.task}: {headline.metric} {headline.value:.3f}{interval}, {headline.n} items"


def markdown_of(report: EvalReport, *, file: str | None = None) -> str:
    """The report. file: path of the results file."""
    run, names = report.run, [column.name for column in COLUMNS]
    rows, weakest = list[str](), list[str]()
    for result in report.results:
        metric, score, interval = "none scored", "–", "–"
        if headline := result.headline:
            low, high = headline.low, headline.high
            metric, score = headline.metric, f"{headline.value:.3f}"
            interval = f"{low:.3f} – {high:.3f}" if low is not None and high is not None else "–"
        counted = map(format_value, columns_of(result).values())
        rows.append(f"| {' | '.join([result.task, metric, score, interval, *counted])} |")
        groups = [one for one in result.estimates if headline and one.metric == headline.metric and one.part]
        for group in sorted(groups, key=lambda one: one.value)[:WORST]:
            weakest.append(f"{result.task}, {group.part.removeprefix('group=')}: {group.value:.3f} ({group.n} items)")
    notes = [*report.notes, *(f"{result.task}: {note}" for result in report.results for note in result.notes)]
    lines = [
        f"# {run.model.name}",
        f"run `{run.id}` · {run.model.backend} · revision `{run.model.revision or 'unknown'}` · "
        f"{run.started_at:%F %R} UTC",
        "",
        f"| {' | '.join(['task', 'metric', 'score', '95 % interval', *names])} |",
        f"|---|---|---:|---|{'---:|' * len(names)}",
        *rows,
        *_section("Worse than in the last run", report.regressions),
        *_section("To know", notes),
        *_section("Weakest groups", weakest),
        *_section("Skipped", [f"{task}: evaluated by run `{run[:8]}`" for task, run in report.skipped.items()]),
        *_section("Results file", [f"`{file}`"] if file else []),
    ]
    return "\n".join(lines)


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield f"## {title}"
        yield from (f"- {line}" for line in lines)
