"""The leaderboard as one HTML file: sortable, with error bars."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tasks.evaluation.results.ranking import Board, Row, cell, models_of, when
from tasks.evaluation.results.task_columns import shown
from tasks.measure.page_style import render

PARTS = Path(__file__).parent / "page"


def render_page(boards: Sequence[Board], *, made_at: datetime, source: str = "") -> str:
    """The page. source: where the figures are from, for the head of the page."""
    return render(
        PARTS / "leaderboard.html",
        script=PARTS / "leaderboard.js",
        boards=boards,
        models=models_of(boards),
        runs=len({row.score.run for board in boards for row in board.rows}),
        cell=cell,
        drawn_of=drawn_of,
        ticks_of=ticks_of,
        when=when,
        shown=shown,
        made_at=made_at,
        source=source,
    )


def ticks_of(board: Board) -> list[tuple[str, float]]:
    """The marks of its axis: place and value."""
    return [(board.axis.across(tick), tick) for tick in board.axis.ticks]


def drawn_of(board: Board, row: Row) -> dict[str, Any]:
    """Where dot and bar of a row are, in per cent of the axis, with the band that is the interval of the best."""
    axis, score, best = board.axis, row.score, board.rows[0].score

    def span(low: float | None, high: float | None) -> tuple[str, str] | None:
        return None if low is None or high is None else (axis.across(low), axis.across(high))

    def width(low: float | None, high: float | None) -> str:
        return "0" if low is None or high is None else f"{100 * (axis.share(high) - axis.share(low)):.2f}%"

    return {
        "dot": axis.across(score.value),
        "bar": span(score.low, score.high),
        "band": best.low is not None and (axis.across(best.low), width(best.low, best.high)),
    }
