"""A run for the Prefect UI: a report in markdown with a table of scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tasks.evaluation.evaluation_records import EvalReport, TaskResult
from tasks.evaluation.results.ranking import COLUMNS, format_value

WORST = 5
"""Number of groups of a task that the report names, those with the lowest scores first."""


def format_headline(result: TaskResult) -> str:
    """Return the result of a task in a line, such as `AIME24: accuracy 0.433 (0.260 – 0.606), 30 items`."""
    headline = result.headline
    if headline is None:
        return f"{result.name}: none of {result.counts.items} items scored"
    low, high = headline.low, headline.high
    interval = f" ({low:.3f} – {high:.3f})" if low is not None and high is not None else ""
    return f"{result.name}: {headline.metric} {headline.value:.3f}{interval}, {headline.n} items"


def render_markdown(report: EvalReport, *, file: str | None = None) -> str:
    """Return the report of a run as markdown. file: path of the results file, which the report names."""
    run, names = report.run, [column.name for column in COLUMNS]
    rows, weakest = list[str](), list[str]()
    for result in report.results:
        metric, score, interval = "none scored", "–", "–"
        if headline := result.headline:
            low, high = headline.low, headline.high
            metric, score = headline.metric, f"{headline.value:.3f}"
            interval = f"{low:.3f} – {high:.3f}" if low is not None and high is not None else "–"
        counted = (format_value(column.value(result.counts, result.usage)) for column in COLUMNS)
        rows.append(f"| {' | '.join([result.name, metric, score, interval, *counted])} |")
        groups = [
            estimate
            for estimate in result.estimates
            if headline and estimate.metric == headline.metric and estimate.part
        ]
        for group in sorted(groups, key=lambda estimate: estimate.value)[:WORST]:
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
        *_render_section("Worse than in the last run", report.regressions),
        *_render_section("To know", notes),
        *_render_section("Weakest groups", weakest),
        *_render_section("Skipped", [f"{task}: evaluated by run `{run[:8]}`" for task, run in report.skipped.items()]),
        *_render_section("Results file", [f"`{file}`"] if file else []),
    ]
    return "\n".join(lines)


def _render_section(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield f"## {title}"
        yield from (f"- {line}" for line in lines)
