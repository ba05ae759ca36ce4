"""The picture of a run: the headline of each benchmark with its 95 % interval."""

from __future__ import annotations

from tasks.evaluation.evaluation_records import Estimate, EvalReport, TaskResult
from tasks.measure.bar_plot import Bar, draw
from tasks.measure.plot_style import Format


def plot_results(report: EvalReport, format: Format = "png") -> bytes:
    """The headlines of a run with their intervals; equal values give equal bytes."""
    bars = [_bar(result, result.headline) for result in report.results if result.headline]
    return draw(bars, title=report.run.model.name, format=format)


def _bar(result: TaskResult, one: Estimate) -> Bar:
    detail = f"{one.metric} · {one.n:,} items{_unscored(result.counts.unscored)}"
    return Bar(result.task, detail, one.value, one.low, one.high)


def _unscored(count: int) -> str:
    return f" · {count:,} unscored" if count else ""
