"""A run for the Prefect UI: a table of scores, a report in markdown, a plot with error bars."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any

from tasks.evaluation.evaluation_records import EvalReport, TaskResult
from tasks.evaluation.results.ranking import columns_of
from tasks.measure.plot_style import Bar, draw

WORST = 5
"""Number of groups of a task that are named, lowest scores first."""


def rows_of(report: EvalReport) -> list[dict[str, Any]]:
    """A row per task, as a table artifact wants them."""
    return [_row(result) for result in report.results]


def headline_of(result: TaskResult) -> str:
    """A task in a line: `AIME24: accuracy 0.433 (0.260 – 0.606), 30 items`."""
    if (headline := result.headline) is None:
        return f"{result.task}: none of {result.counts.items} items scored"
    interval = f" ({low:.3f} – {high:.3f})" if (low := headline.low) is not None and (high := headline.high) else ""
    return f"{result.task}: {headline.metric} {headline.value:.3f}{interval}, {headline.n} items"


def markdown_of(report: EvalReport, *, file: str | None = None, plot: str | None = None) -> str:
    """The report. file: path of the results file; plot: URL of the picture."""
    shown = ["", f"![Scores with their 95 % intervals]({plot})"] if plot else []
    kept = [f"`{file}`"] if file else []
    return "\n".join([*_lines(report), *shown, *_section("Results file", kept)])


def image_of(report: EvalReport) -> str:
    """The plot as a data URL: Prefect UIs show image artifacts only by their address."""
    return "data:image/png;base64," + base64.b64encode(plot_results(report)).decode()


def _row(result: TaskResult) -> dict[str, Any]:
    headline = result.headline
    return {
        "task": result.task,
        "metric": headline.metric if headline else None,
        "score": headline and round(headline.value, 4),
        "low": headline and headline.low and round(headline.low, 4),
        "high": headline and headline.high and round(headline.high, 4),
        **columns_of(result),
    }


def _lines(report: EvalReport) -> Iterator[str]:
    run = report.run
    yield f"# {run.model.name}"
    revision = run.model.revision or "unknown"
    yield f"run `{run.id}` · {run.model.backend} · revision `{revision}` · {run.started_at:%F %R} UTC"
    yield ""
    yield "| task | metric | score | 95 % interval | items |"
    yield "|---|---|---:|---|---:|"
    for result in report.results:
        yield _score(result)
    yield from _section("Worse than in the last run", report.regressions)
    noted = [f"{result.task}: {note}" for result in report.results for note in result.notes]
    yield from _section("To know", [*report.notes, *noted])
    yield from _section("Weakest groups", [line for result in report.results for line in _weakest(result)])
    yield from _section("Skipped", [f"{task}: evaluated by run `{run[:8]}`" for task, run in report.skipped.items()])


def _score(result: TaskResult) -> str:
    if (headline := result.headline) is None:
        return f"| {result.task} | none scored | — | — | {result.counts.items} |"
    low, high = headline.low, headline.high
    interval = f"{low:.3f} – {high:.3f}" if low is not None and high is not None else "—"
    return f"| {result.task} | {headline.metric} | {headline.value:.3f} | {interval} | {headline.n} |"


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield f"## {title}"
        yield from (f"- {line}" for line in lines)


def _weakest(result: TaskResult) -> Iterator[str]:
    headline = result.headline
    groups = [one for one in result.estimates if headline and one.metric == headline.metric and one.part]
    for group in sorted(groups, key=lambda one: one.value)[:WORST]:
        yield f"{result.task}, {group.part.removeprefix('group=')}: {group.value:.3f} ({group.n} items)"


def plot_results(report: EvalReport) -> bytes:
    """The headlines of a run with their intervals as a PNG; equal values give equal bytes."""
    bars = list[Bar]()
    for result in report.results:
        if one := result.headline:
            unscored = f" · {result.counts.unscored:,} unscored" if result.counts.unscored else ""
            bars.append(Bar(result.task, f"{one.metric} · {one.n:,} items{unscored}", one.value, one.low, one.high))
    return draw(bars, title=report.run.model.name)
