"""Models ranked per task, data, settings and metric: as csv, markdown, JSON, and as one sortable HTML page."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import JsonValue

from storage.evaluated import EvalSettings, StoredScore
from tasks.evaluation.evaluation_records import Counts, EvalReport, TaskResult, Usage
from tasks.evaluation.results.run_comparison import flat
from tasks.measure.page_style import Axis, axis_around, render
from tasks.measure.page_style import plain_markdown as _plain

Value = int | float | None
_Model = tuple[str, str, str]
PARTS = Path(__file__).parent / "page"
STEPS = 5
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a cell that a spreadsheet would evaluate."""


class TaskColumn(NamedTuple):
    """A column, computed from the counts and the usage of a task."""

    name: str
    """Heading in tables, key in csv and JSON."""
    value: Callable[[Counts, Usage], Value]
    is_ranked: bool = False
    """Shown on leaderboards too."""
    is_defect: bool = False
    """A value above 0 is a warning."""


COLUMNS = (
    TaskColumn("items", lambda counts, _: counts.items),
    TaskColumn("samples", lambda counts, _: counts.samples),
    TaskColumn("unscored", lambda counts, _: counts.unscored, is_ranked=True, is_defect=True),
    TaskColumn("cut off", lambda counts, _: counts.truncated),
    TaskColumn("no answer", lambda counts, _: counts.missing),
    TaskColumn("differing", lambda counts, _: counts.differing, is_ranked=True),
    TaskColumn("tokens", lambda _, usage: usage.prompt_tokens + usage.completion_tokens, is_ranked=True),
    TaskColumn("cost", lambda _, usage: usage.cost, is_ranked=True),
)
RANKED = tuple(column for column in COLUMNS if column.is_ranked)


def columns_of(result: TaskResult) -> dict[str, Value]:
    return {column.name: column.value(result.counts, result.usage) for column in COLUMNS}


def format_value(value: Value, *, thousands: str = "") -> str:
    if value is None:
        return "–"
    return f"{value:{thousands}}" if isinstance(value, int) else f"{value:{thousands}.4g}"


MOST_NAMED = 3
VALUE_CHARS = 24
LAST_NAMED = ("version", "grader")
"""Digests and numbers of ours, named only where nothing else differs."""
_LEFT_OUT = ("part", "headline", "counts", "usage", "settings")
_FIELDS = [name for name in StoredScore.model_fields if name not in _LEFT_OUT]
_FIGURES = _FIELDS.index("n") + 1
EXPORTED = ("board", "rank", *_FIELDS[:_FIGURES], *(column.name for column in RANKED), *_FIELDS[_FIGURES:])


@dataclass(frozen=True)
class Row:
    """A model on a board."""

    rank: int
    """From 1; equal figures share a rank."""
    name: str
    """Name of the model, with revision and backend if the name alone is ambiguous."""
    score: StoredScore

    @cached_property
    def columns(self) -> dict[str, Value]:
        """Values of the board's further columns by name."""
        counts, usage = Counts.model_validate(self.score.counts), Usage.model_validate(self.score.usage)
        return {column.name: column.value(counts, usage) for column in RANKED}


@dataclass(frozen=True)
class Board:
    """The ranking of one task, run in one way."""

    task: str
    variant: str
    """Data and settings, if the task was run in several ways; else empty."""
    metric: str
    higher_is_better: bool
    rows: tuple[Row, ...]
    """Best first."""

    @property
    def name(self) -> str:
        return f"{self.task} · {self.variant}" if self.variant else self.task

    @property
    def columns(self) -> tuple[TaskColumn, ...]:
        """Further columns."""
        return RANKED

    @cached_property
    def axis(self) -> Axis:
        """Round numbers around all figures and intervals; shares of one stay within 0 and 1."""
        ends = [end for row in self.rows for end in (row.score.low, row.score.value, row.score.high) if end is not None]
        low, high = min(ends), max(ends)
        size = max(abs(low), abs(high))
        reach = next(reach for reach in (high - low, size, 1.0) if reach > 1e-6 * max(size, 1))
        return axis_around(low, high, step_at_least=reach / STEPS)

    @cached_property
    def decimals(self) -> int:
        """Decimals of all figures of the board."""
        return 3 if all(abs(row.score.value) <= 1 for row in self.rows) else 2

    def format_score(self, value: float | None) -> str:
        """`value` with as many decimals as all figures of the board have."""
        return "–" if value is None else f"{value:.{self.decimals}f}"

    @cached_property
    def latest(self) -> dict[str, Row]:
        """Name of a model → its row, the latest if it has several."""
        return {row.name: row for row in sorted(self.rows, key=lambda row: _when(row.score))}

    def interval(self, score: StoredScore) -> str:
        return "–" if score.low is None else f"{self.format_score(score.low)}–{self.format_score(score.high)}"


def rank(scores: Iterable[StoredScore]) -> tuple[Board, ...]:
    """Boards of the headlines, by task; among those of a task the one with most models first."""
    by_board = dict[tuple[str, ...], list[StoredScore]]()
    for score in scores:
        if score.headline and not score.part:
            key = (score.task, score.metric, score.dataset_checksum, score.settings_digest)
            by_board.setdefault(key, []).append(score)
    # the name of a model, with what distinguishes it from namesakes; imported ones say so
    models = {_model(score) for of_board in by_board.values() for score in of_board}
    names = dict[_Model, str]()
    for model in models:
        name, revision, backend = model
        namesakes = [other for other in models if other[0] == name]
        marks = [backend] if backend == "imported" or len({other[2] for other in namesakes}) > 1 else []
        if len({other[1] for other in namesakes}) > 1:
            marks.append(revision[:12] or "no revision")
        names[model] = f"{name} ({', '.join(marks)})" if marks else name

    boards: list[Board] = []
    for key in sorted(by_board, key=lambda key: (key[0].casefold(), -len(by_board[key]), key)):
        of_board = by_board[key]
        up = of_board[0].higher_is_better
        ordered = sorted(of_board, key=lambda score: (-score.value if up else score.value, score.model, score.run))
        ranks = {score.value: rank for rank, score in reversed([*enumerate(ordered, start=1)])}
        rows = tuple(Row(ranks[score.value], names[_model(score)], score) for score in ordered)
        boards.append(Board(key[0], _variant(key, by_board), key[1], up, rows))
    return tuple(boards)


def latest(scores: Iterable[StoredScore]) -> list[StoredScore]:
    """The figures of the last of several equal runs of a model on a task; finished runs take precedence."""
    last = dict[tuple[str, ...], StoredScore]()
    kept = list(scores)
    for score in kept:
        other = last.get(_identity_of(score))
        if other is None or _when(score) > _when(other):
            last[_identity_of(score)] = score
    return [score for score in kept if score.run == last[_identity_of(score)].run]


def scores_of(report: EvalReport) -> list[StoredScore]:
    """The figures of a results file, as stored scores."""
    run, model = report.run, report.run.model
    return [
        StoredScore(
            run=run.id,
            status=run.status,
            model=model.name,
            revision=model.revision,
            backend=model.backend,
            task=result.task,
            dataset_checksum=result.data.checksum,
            settings_digest=EvalSettings(name=result.task, parameters=result.settings).digest,
            settings=result.settings,
            counts=result.counts.model_dump(),
            usage=result.usage.model_dump(),
            ended_at=run.ended_at,
            **estimate.model_dump(),
        )
        for result in report.results
        for estimate in result.estimates
    ]


def models_of(boards: Sequence[Board]) -> list[str]:
    """Models by number of first ranks, then by name."""
    firsts = dict[str, int]()
    for board in boards:
        for row in board.rows:
            firsts[row.name] = firsts.get(row.name, 0) + (row.rank == 1)
    return sorted(firsts, key=lambda name: (-firsts[name], name.casefold()))


def cell(board: Board, model: str) -> Row | None:
    """The model's row of a board, its latest if it has several."""
    return board.latest.get(model)


def as_rows(boards: Sequence[Board]) -> list[dict[str, Any]]:
    """The rows of csv and JSON: one per model and board, with everything that identifies the score."""
    found = (
        {"board": board.name, "rank": row.rank} | row.score.model_dump(mode="json") | row.columns
        for board in boards
        for row in board.rows
    )
    return [{name: values[name] for name in EXPORTED} for values in found]


def as_csv(boards: Sequence[Board]) -> str:
    """A line per model and board; an apostrophe precedes text that a spreadsheet would evaluate."""
    out = io.StringIO()
    writer = csv.DictWriter(out, EXPORTED, lineterminator="\n")
    writer.writeheader()
    for row in as_rows(boards):
        risky = {name for name, value in row.items() if isinstance(value, str) and value.startswith(FORMULA_STARTS)}
        writer.writerow({name: f"'{value}" if name in risky else value for name, value in row.items()})
    return out.getvalue()


def as_markdown(boards: Sequence[Board]) -> str:
    """A table per board; markdown and HTML in names are escaped."""
    tables: list[str] = []
    for board in boards:
        names = [column.name for column in board.columns]
        lines = [
            f"### {_plain(board.name)} — {_plain(board.metric)}\n",
            f"| {' | '.join(['#', 'model', 'score', '95 %', 'n', *names, 'backend', 'date', 'run'])} |",
            f"| ---: | :--- | ---: | :---: | ---: |{' ---: |' * len(names)} :--- | :--- | :--- |",
        ]
        for row in board.rows:
            score = row.score
            cells = (
                str(row.rank),
                _plain(row.name),
                board.format_score(score.value),
                board.interval(score),
                str(score.n),
            )
            further = (format_value(row.columns[name]) for name in names)
            last = (_plain(score.backend), when(score), _plain(score.run[:8]))
            lines.append(f"| {' | '.join([*cells, *further, *last])} |")
        tables.append("\n".join(lines) + "\n")
    return "\n".join(tables)


def when(score: StoredScore) -> str:
    """The day a run ended."""
    return f"{score.ended_at:%Y-%m-%d}" if score.ended_at else "–"


def _variant(key: tuple[str, ...], boards: Mapping[tuple[str, ...], Sequence[StoredScore]]) -> str:
    """What distinguishes a board from the others of its task."""
    ways = [other for other in boards if other[0] == key[0]]
    settings = {way[3]: boards[way][0].settings for way in ways}
    words = (key[1], f"data {key[2][:8]}", setting_words(settings)[key[3]])
    return ", ".join(word for place, word in enumerate(words, start=1) if len({way[place] for way in ways}) > 1)


def setting_words(settings: Mapping[str, Mapping[str, JsonValue]]) -> dict[str, str]:
    """Digest → what its settings have otherwise than the others; the digest's beginning where no word tells."""
    leaves: dict[str, dict[str, str]] = {}
    for digest, one in settings.items():
        leaves[digest] = {}
        for name, value in flat(one):
            text = " ".join(("unset" if value is None else str(value)).split())
            leaves[digest][name] = text if len(text) <= VALUE_CHARS else f"{text[: VALUE_CHARS - 1]}…"
    names = sorted({name for values in leaves.values() for name in values})
    names = [name for name in names if len({values.get(name, "unset") for values in leaves.values()}) > 1]
    names = [name for name in names if name not in LAST_NAMED] or names
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    words = {
        digest: ", ".join(
            # `max_tokens` for `sampling.max_tokens`, `judge name` for `judge.name`
            f"{name.removeprefix('sampling.').replace('.', ' ')} {values.get(name, 'unset')}"
            for name in names[:MOST_NAMED]
        )
        + more
        for digest, values in leaves.items()
    }
    every = list(words.values())
    return {
        digest: word if names and every.count(word) == 1 else f"settings {digest[:8]}" for digest, word in words.items()
    }


def _model(score: StoredScore) -> _Model:
    return score.model, score.revision, score.backend


def _identity_of(score: StoredScore) -> tuple[str, ...]:
    return (*_model(score), score.task, score.dataset_checksum, score.settings_digest)


def _when(score: StoredScore) -> tuple[bool, float, str]:
    ended: datetime | None = score.ended_at
    return score.status == "completed", ended.timestamp() if ended else 0.0, score.run


def render_page(boards: Sequence[Board], *, made_at: datetime, source: str = "") -> str:
    """The leaderboard page. source: origin of the figures, shown in its header."""
    values = page_values(boards, made_at=made_at, source=source)
    return render(PARTS / "leaderboard.html", script=PARTS / "leaderboard.js", **values)


def page_values(boards: Sequence[Board], *, made_at: datetime, source: str = "") -> dict[str, Any]:
    """What the template of the leaderboard shows."""
    return {
        "boards": boards,
        "models": models_of(boards),
        "runs": len({row.score.run for board in boards for row in board.rows}),
        "cell": cell,
        "drawn_of": drawn_of,
        "ticks_of": ticks_of,
        "when": when,
        "shown": format_value,
        "made_at": made_at,
        "source": source,
    }


def ticks_of(board: Board) -> list[tuple[str, float]]:
    """The ticks of its axis: position and value."""
    return [(board.axis.across(tick), tick) for tick in board.axis.ticks]


def drawn_of(board: Board, row: Row) -> dict[str, Any]:
    """Positions of a row's dot and bar, in per cent of the axis, with the band of the best interval."""
    axis, score, best = board.axis, row.score, board.rows[0].score
    band = None
    if best.low is not None and best.high is not None:
        band = axis.across(best.low), f"{100 * (axis.share(best.high) - axis.share(best.low)):.2f}%"
    return {"dot": axis.across(score.value), "bar": axis.span(score.low, score.high), "band": band}
