"""A parameter sweep: its grid of chunkings and searches, the measurement at each point, their comparison, its plot."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field, JsonValue, ValidationError

from storage.records import Record
from tasks.keys import content_key
from tasks.measure.plot_style import COLOURS, LEFT, SOFT, Format, new_figure, rows, save
from tasks.rag.measuring.ranking_metrics import Evaluation, Mean, Ranked, paired_difference
from tasks.rag.retrieval.strategies import StrategyName, find_strategy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Unit = Literal["page", "document"]

SWEEP_VERSION = 1
"""Increment when the same point on the same index would give other figures."""
DECIDING = "mrr@10"
"""The figure that points are sorted and compared by."""
OVERLAP_MOST = 0.5
"""Largest share of a chunk that may be overlap; beyond it an index holds every sentence several times."""


class Chunking(Record):
    """How documents are cut."""

    chunk_chars: int = Field(ge=100, le=20_000)
    overlap_chars: int = Field(ge=0)

    @property
    def name(self) -> str:
        """`800/120`."""
        return f"{self.chunk_chars}/{self.overlap_chars}"


class Point(Record):
    """A chunking with a search."""

    chunking: Chunking
    strategy: StrategyName
    bm25_weight: float | None = None
    """None for strategies that do not weigh words."""
    reranker: str | None = None

    @property
    def search_name(self) -> str:
        """`rrf, BM25 × 0.5, reranked`."""
        weight = f", BM25 × {self.bm25_weight:g}" if self.bm25_weight is not None else ""
        return f"{self.strategy}{weight}{', reranked' if self.reranker else ''}"

    @property
    def name(self) -> str:
        return f"{self.chunking.name} {self.search_name}"


class Swept(Record):
    """The measurement of a point: one line of `points.jsonl`."""

    key: str
    """Key of the point, the content of the index, the questions and the other settings."""
    point: Point
    index_generation: str
    index_digest: str
    chunks: int
    evaluation: Evaluation
    ranked: tuple[Ranked, ...]
    question_ms: float
    """Median time of a search, the embedding of the question included."""
    started_at: datetime
    ended_at: datetime


class Row(NamedTuple):
    """A point among the others."""

    swept: Swept
    value: Mean
    difference: Mean | None
    """Difference to the baseline, paired by question; None for the baseline itself."""


class Compared(NamedTuple):
    """All points, the best first."""

    unit: Unit
    """What ranks are of: pages, or documents where no question has a gold page."""
    baseline: Point
    rows: tuple[Row, ...]


def read_chunkings(text: str) -> tuple[Chunking, ...]:
    """`800/120,300/50` as values, each once. Raises ValueError naming the part that is wrong."""
    chunkings: dict[Chunking, None] = {}
    for part in map(str.strip, text.split(",")):
        size, slash, overlap = part.partition("/")
        if not (slash and size.isdecimal() and overlap.isdecimal()):
            raise ValueError(f"{part!r} is not CHARACTERS/OVERLAP; write for example 800/120,300/50")
        try:
            chunking = Chunking(chunk_chars=int(size), overlap_chars=int(overlap))
        except ValidationError as error:
            raise ValueError(f"{part!r}: a chunk has 100 to 20,000 characters") from error
        if chunking.overlap_chars > OVERLAP_MOST * chunking.chunk_chars:
            raise ValueError(f"{part!r}: the overlap is more than half of the chunk; write a smaller one")
        chunkings[chunking] = None
    return tuple(chunkings)


def read_weights(text: str) -> tuple[float, ...]:
    """`0.5,1,2` as numbers, each once. Raises ValueError naming the part that is wrong."""
    weights: dict[float, None] = {}
    for part in map(str.strip, text.split(",")):
        try:
            weight = float(part)
        except ValueError as error:
            raise ValueError(f"{part!r} is no number; write for example 0.5,1,2") from error
        if not 0 <= weight < float("inf"):
            raise ValueError(f"{part!r} cannot be a weight; it is 0 or more")
        weights[weight] = None
    return tuple(weights)


def grid(
    chunkings: Sequence[Chunking],
    strategies: Sequence[str],
    *,
    bm25_weights: Sequence[float],
    rerankers: Sequence[str | None],
) -> tuple[Point, ...]:
    """Every combination once, chunking by chunking; weights multiply only strategies that weigh words."""
    return tuple(
        Point(chunking=chunking, strategy=strategy, bm25_weight=weight, reranker=reranker)
        for chunking, strategy in itertools.product(chunkings, strategies)
        for weight in (bm25_weights if find_strategy(strategy).weighs_words else (None,))
        for reranker in rerankers
    )


def baseline(points: Sequence[Point], usual: Point) -> Point:
    """The point that the others are compared with: the `usual` one if it is among them, else the first."""
    return usual if usual in points else points[0]


def point_key(point: Point, *, index_digest: str, questions: str, settings: Mapping[str, JsonValue]) -> str:
    """Key of a measurement; questions: digest of what is asked; settings: what else changes a figure."""
    return content_key("sweep", SWEEP_VERSION, {"point": point, "settings": dict(settings)}, index_digest, questions)


def read_kept(lines: Iterable[str]) -> dict[str, Swept]:
    """Earlier measurements by key; lines that an interrupted run left incomplete are skipped."""
    kept: dict[str, Swept] = {}
    for line in lines:
        try:
            swept = Swept.model_validate_json(line)
        except ValidationError:
            continue
        kept[swept.key] = swept
    return kept


def compare(swept: Sequence[Swept], base: Point) -> Compared:
    """The points by MRR@10, each with its difference to `base`. Raises ValueError if `base` was not measured."""
    unit: Unit = "page" if all(one.evaluation.paged for one in swept) else "document"
    against = next((_by_question(one, unit) for one in swept if one.point == base), None)
    if against is None:
        raise ValueError(f"the point {base.name}, which the others are compared with, was not measured")
    rows = [
        Row(
            one,
            (one.evaluation.page if unit == "page" else one.evaluation.document)[DECIDING],
            None if one.point == base else paired_difference(_by_question(one, unit), against),
        )
        for one in swept
    ]
    by_value = sorted(rows, key=lambda row: (-row.value.value, row.difference is not None, row.swept.point.name))
    return Compared(unit, base, tuple(by_value))


def as_json(compared: Compared) -> dict[str, JsonValue]:
    """All rows as `sweep.json` has them."""
    return {
        "unit": compared.unit,
        "sorted_by": f"{compared.unit} {DECIDING}",
        "baseline": compared.baseline.model_dump(mode="json"),
        "points": [
            row.swept.model_dump(mode="json", exclude={"ranked"})
            | {"difference": row.difference.model_dump(mode="json") if row.difference else None}
            for row in compared.rows
        ],
    }


def as_csv(compared: Compared) -> str:
    """A line per point, for spreadsheets."""
    lines = [_row_csv(row) for row in compared.rows]
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(dict.fromkeys(name for line in lines for name in line)))
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def _by_question(swept: Swept, unit: Unit) -> dict[str, float]:
    """Reciprocal rank by the id of the question, over the questions that have one."""
    scores = {one.id: one.page if unit == "page" else one.document for one in swept.ranked}
    return {name: score[DECIDING] for name, score in scores.items() if score}


def _row_csv(row: Row) -> dict[str, str | int | float | None]:
    swept, point = row.swept, row.swept.point
    line: dict[str, str | int | float | None] = {
        "chunk_chars": point.chunking.chunk_chars,
        "overlap_chars": point.chunking.overlap_chars,
        "strategy": point.strategy,
        "bm25_weight": point.bm25_weight,
        "reranker": point.reranker,
        "chunks": swept.chunks,
        "questions": swept.evaluation.n,
        "question_ms": round(swept.question_ms, 3),
    }
    for unit, found in (("page", swept.evaluation.page), ("document", swept.evaluation.document)):
        for name, estimate in found.items():
            line |= _cells(f"{unit}_{name}", estimate)
    return line | _cells("difference", row.difference)


def _cells(name: str, mean: Mean | None) -> dict[str, str | int | float | None]:
    parts = {"": "value", "_low": "low", "_high": "high"}
    return {f"{name}{end}": None if mean is None else round(getattr(mean, part), 6) for end, part in parts.items()}


MARKERS = ("o", "s", "D", "^", "v", "P", "X")
WIDTH_IN, ROW_IN, FRAME_IN = 9.6, 0.2, 1.9


def draw_sweep(compared: Compared, format: Format) -> bytes:
    """The figure as a file of that format; equal values give equal bytes."""
    return save(lambda: _figure(compared), format)


class _Layout(NamedTuple):
    """Which row and which colour a point has."""

    searches: list[str]
    chunkings: list[Chunking]

    def height(self, point: Point) -> float:
        """Where the point stands: within the row of its search, a step per chunking."""
        step = 0.72 / len(self.chunkings)
        return self.searches.index(point.search_name) + step * (self.style(point) - (len(self.chunkings) - 1) / 2)

    def style(self, point: Point) -> int:
        return self.chunkings.index(point.chunking)


def _figure(compared: Compared) -> Figure:
    points = [row.swept.point for row in compared.rows]
    layout = _Layout(
        searches=list(dict.fromkeys(point.search_name for point in points)),
        chunkings=sorted(
            dict.fromkeys(point.chunking for point in points), key=lambda one: (-one.chunk_chars, one.overlap_chars)
        ),
    )
    rows_in = ROW_IN * len(layout.searches) * (len(layout.chunkings) + 1)
    figure = new_figure(WIDTH_IN, FRAME_IN + max(rows_in, 0.8))
    values, differences = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    for axes in (values, differences):
        rows(axes, layout.searches)
    for row in compared.rows:
        _draw(values, row.value, row, layout)
        at = (row.value.high, layout.height(row.swept.point))  # the label stands right of the interval
        values.annotate(
            f"{row.value.value:.3f}", at, (5, 0), textcoords="offset points", va="center", fontsize=8, color=SOFT
        )
        if row.difference:
            _draw(differences, row.difference, row, layout)
    measured = f"{compared.unit} {DECIDING.replace('mrr', 'MRR')}"
    values.set_xlabel(measured)
    values.margins(x=0.12)  # room for the labels
    differences.set_xlabel("difference to the hollow one, paired by question")
    differences.axvline(0, color=SOFT, linewidth=1.1, zorder=1)
    title = f"{measured[0].upper()}{measured[1:]} by search and chunking"
    figure.suptitle(title, x=LEFT, ha="left", fontsize=13, fontweight="bold")
    _explain(figure, compared, layout)
    return figure


def _draw(axes: Axes, mean: Mean, row: Row, layout: _Layout) -> None:
    """A dot with its interval; hollow for the point that the others are compared with."""
    style = layout.style(row.swept.point)
    colour = COLOURS[style % len(COLOURS)]
    axes.errorbar(
        mean.value,
        layout.height(row.swept.point),
        xerr=[[max(mean.value - mean.low, 0)], [max(mean.high - mean.value, 0)]],
        fmt=MARKERS[style % len(MARKERS)],
        color=colour,
        markerfacecolor=colour if row.difference else "white",
        markeredgewidth=1.4,
        markersize=6,
        elinewidth=1.6,
        capsize=0,
    )


def _explain(figure: Figure, compared: Compared, layout: _Layout) -> None:
    """A legend below: the colours, and what dots and bars are."""
    from matplotlib.lines import Line2D

    keys = [
        Line2D([], [], color=COLOURS[at % len(COLOURS)], marker=MARKERS[at % len(MARKERS)], linewidth=1.6, markersize=6)
        for at in range(len(layout.chunkings))
    ]
    names = [f"chunks of {one.chunk_chars:,} characters, {one.overlap_chars} shared" for one in layout.chunkings]
    evaluation = compared.rows[0].swept.evaluation
    asked = evaluation.paged if compared.unit == "page" else evaluation.n
    figure.legend(
        keys,
        names,
        loc="outside lower left",
        ncols=min(len(names), 3),
        frameon=False,
        title=f"{asked:,} questions; dots are means, bars 95 % bootstrap intervals, hollow is {compared.baseline.name}",
        alignment="left",
        title_fontsize=9,
        fontsize=9,
    )
