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
from tasks.evaluation.evaluation_records import Counts, EvalReport, Usage, mark_partial
from tasks.evaluation.results.run_comparison import flatten_settings
from tasks.measure.page_style import Axis, axis_around, render
from tasks.measure.page_style import plain_markdown as _plain

Value = int | float | None
_Model = tuple[str, str, str]
PARTS = Path(__file__).parent / "page"
STEPS = 5
"""Number of steps between the ticks of an axis, at most."""
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # OWASP, "CSV Injection"
"""First characters of a cell that a spreadsheet would evaluate."""


class TaskColumn(NamedTuple):
    """A column of tables, computed from the counts and the usage of a task."""

    name: str
    """Heading of the column in tables, and its key in csv and JSON."""
    value: Callable[[Counts, Usage], Value]
    is_ranked: bool = False
    """Whether leaderboards show the column too."""
    is_defect: bool = False
    """Whether a value above 0 is a warning."""


COLUMNS = (
    TaskColumn("items", lambda counts, _: counts.items),
    TaskColumn("samples", lambda counts, _: counts.samples),
    TaskColumn("unscored", lambda counts, _: counts.unscored, is_ranked=True, is_defect=True),
    TaskColumn("refused", lambda counts, _: counts.refused, is_ranked=True, is_defect=True),
    TaskColumn("too long", lambda counts, _: counts.too_long, is_ranked=True, is_defect=True),
    TaskColumn("cut off", lambda counts, _: counts.truncated),
    TaskColumn("no answer", lambda counts, _: counts.missing),
    TaskColumn("differing", lambda counts, _: counts.differing, is_ranked=True),
    TaskColumn("tokens", lambda _, usage: usage.prompt_tokens + usage.completion_tokens, is_ranked=True),
    TaskColumn("cost", lambda _, usage: usage.cost, is_ranked=True),
)
RANKED = tuple(column for column in COLUMNS if column.is_ranked)


def format_value(value: Value, *, thousands: str = "") -> str:
    """Return a number with four significant digits where it is no integer; a dash for None."""
    if value is None:
        return "–"
    return f"{value:{thousands}}" if isinstance(value, int) else f"{value:{thousands}.4g}"


MOST_NAMED = 3
"""Most settings that the name of a board spells out."""
VALUE_CHARS = 24
"""Most characters of a setting's value in the name of a board."""
LAST_NAMED = ("version", "grader")
"""Settings that are digests and numbers of ours, which are named only where nothing else differs."""
_NOT_EXPORTED = ("part", "headline", "counts", "usage", "settings")
_FIELDS = [name for name in StoredScore.model_fields if name not in _NOT_EXPORTED]
_SCORE_END = _FIELDS.index("n") + 1
EXPORTED = ("board", "rank", *_FIELDS[:_SCORE_END], *(column.name for column in RANKED), *_FIELDS[_SCORE_END:])


@dataclass(frozen=True)
class Row:
    """A model's row on a leaderboard."""

    rank: int
    """Rank from 1; equal scores share a rank."""
    name: str
    """Name of the model, with revision and backend where the name alone is ambiguous."""
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
    """Rows of the models, the best score first."""

    @property
    def name(self) -> str:
        """Name of the task, with the variant where there are several; `(partial)` where not all items were asked."""
        task = mark_partial(self.task, self.rows[0].score.settings)
        return f"{task} · {self.variant}" if self.variant else task

    @cached_property
    def axis(self) -> Axis:
        """Axis of round numbers around all scores and intervals; scores that are shares stay within 0 and 1."""
        ends = [end for row in self.rows for end in (row.score.low, row.score.value, row.score.high) if end is not None]
        low, high = min(ends), max(ends)
        size = max(abs(low), abs(high))
        # where all scores are equal, an axis as wide as the score, or 1
        reach = next(reach for reach in (high - low, size, 1.0) if reach > 1e-6 * max(size, 1))
        return axis_around(low, high, step_at_least=reach / STEPS)

    @cached_property
    def decimals(self) -> int:
        """Number of decimals of all scores of the board."""
        return 3 if all(abs(row.score.value) <= 1 for row in self.rows) else 2

    def format_score(self, value: float | None) -> str:
        """Return `value` with as many decimals as all scores of the board have; a dash for None."""
        return "–" if value is None else f"{value:.{self.decimals}f}"

    @cached_property
    def latest(self) -> dict[str, Row]:
        """The row of each model by its name, the latest where it has several."""
        return {row.name: row for row in sorted(self.rows, key=lambda row: _recency_of(row.score))}

    def interval(self, score: StoredScore) -> str:
        """Return the 95 % interval of a score with the decimals of the board; a dash without one."""
        return "–" if score.low is None else f"{self.format_score(score.low)}–{self.format_score(score.high)}"


def rank(scores: Iterable[StoredScore]) -> tuple[Board, ...]:
    """Return the boards of the headline metrics, by task without case; of one task, that with most scores first."""
    by_board = dict[tuple[str, ...], list[StoredScore]]()
    for score in scores:
        if score.headline and not score.part:
            key = (score.task, score.metric, score.dataset_checksum, score.settings_digest)
            by_board.setdefault(key, []).append(score)
    # the name of a model, with what distinguishes it from namesakes; imported ones say so
    models = {_model_key(score) for board_scores in by_board.values() for score in board_scores}
    names = dict[_Model, str]()
    for model in models:
        name, revision, backend = model
        namesakes = [namesake for namesake in models if namesake[0] == name]
        marks = [backend] if backend == "imported" or len({namesake[2] for namesake in namesakes}) > 1 else []
        if len({namesake[1] for namesake in namesakes}) > 1:
            marks.append(revision[:12] or "no revision")
        names[model] = f"{name} ({', '.join(marks)})" if marks else name

    boards: list[Board] = []
    for key in sorted(by_board, key=lambda key: (key[0].casefold(), -len(by_board[key]), key)):
        board_scores = by_board[key]
        higher_is_better = board_scores[0].higher_is_better
        ordered = sorted(
            board_scores, key=lambda score: (-score.value if higher_is_better else score.value, score.model, score.run)
        )
        ranks = {score.value: rank for rank, score in reversed([*enumerate(ordered, start=1)])}  # equal: the first
        rows = tuple(Row(ranks[score.value], names[_model_key(score)], score) for score in ordered)
        boards.append(Board(key[0], _describe_variant(key, by_board), key[1], higher_is_better, rows))
    return tuple(boards)


def select_latest(scores: Iterable[StoredScore]) -> list[StoredScore]:
    """Return the scores of the last of several equal runs of a model on a task; finished runs take precedence."""
    all_scores = list(scores)
    last_runs = {_identity_of(score): score.run for score in sorted(all_scores, key=_recency_of)}
    return [score for score in all_scores if score.run == last_runs[_identity_of(score)]]


def read_scores(report: EvalReport) -> list[StoredScore]:
    """Return the estimates of a results file as stored scores."""
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


def order_models(boards: Sequence[Board]) -> list[str]:
    """Return the names of the models, those with most first ranks first, then by name."""
    firsts = dict[str, int]()
    for board in boards:
        for row in board.rows:
            firsts[row.name] = firsts.get(row.name, 0) + (row.rank == 1)
    return sorted(firsts, key=lambda name: (-firsts[name], name.casefold()))


def as_rows(boards: Sequence[Board]) -> list[dict[str, Any]]:
    """Return the rows of csv and JSON, one for each score of a board, best first; the keys are EXPORTED."""
    rows = (
        {"board": board.name, "rank": row.rank} | row.score.model_dump(mode="json") | row.columns
        for board in boards
        for row in board.rows
    )
    return [{name: values[name] for name in EXPORTED} for values in rows]


def as_csv(boards: Sequence[Board]) -> str:
    """Return csv with a line for each score of a board; an apostrophe guards text that a spreadsheet would evaluate."""
    out = io.StringIO()
    writer = csv.DictWriter(out, EXPORTED, lineterminator="\n")
    writer.writeheader()
    for row in as_rows(boards):
        risky = {name for name, value in row.items() if isinstance(value, str) and value.startswith(FORMULA_STARTS)}
        writer.writerow({name: f"'{value}" if name in risky else value for name, value in row.items()})
    return out.getvalue()


def as_markdown(boards: Sequence[Board]) -> str:
    """Return a markdown table for each board; markdown and HTML in names are escaped."""
    tables: list[str] = []
    for board in boards:
        names = [column.name for column in RANKED]
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
            last = (_plain(score.backend), format_day(score), _plain(score.run[:8]))
            lines.append(f"| {' | '.join([*cells, *further, *last])} |")
        tables.append("\n".join(lines) + "\n")
    return "\n".join(tables)


def format_day(score: StoredScore) -> str:
    """Return the day on which the run of a score ended; a dash where it has not."""
    return f"{score.ended_at:%Y-%m-%d}" if score.ended_at else "–"


def _describe_variant(key: tuple[str, ...], boards: Mapping[tuple[str, ...], Sequence[StoredScore]]) -> str:
    """Return in words what distinguishes a board from the others of its task; empty if it is the only one."""
    board_keys = [board_key for board_key in boards if board_key[0] == key[0]]
    settings = {board_key[3]: boards[board_key][0].settings for board_key in board_keys}
    words = (key[1], f"data {key[2][:8]}", describe_settings(settings)[key[3]])
    return ", ".join(
        word for place, word in enumerate(words, start=1) if len({board_key[place] for board_key in board_keys}) > 1
    )


def describe_settings(settings: Mapping[str, Mapping[str, JsonValue]]) -> dict[str, str]:
    """Return, for each digest, in words how its settings differ from the others; else the beginning of the digest."""
    leaves = {digest: dict(flatten_settings(parameters)) for digest, parameters in settings.items()}
    names = sorted({name for values in leaves.values() for name in values})
    names = [name for name in names if len({str(values.get(name)) for values in leaves.values()}) > 1]
    names = [name for name in names if name not in LAST_NAMED][:MOST_NAMED] or names[:MOST_NAMED]
    words: dict[str, str] = {}
    for digest, values in leaves.items():
        texts = ("unset" if values.get(name) is None else str(values[name])[:VALUE_CHARS] for name in names)
        # `max_tokens` for `sampling.max_tokens`, `judge name` for `judge.name`
        plain = (name.removeprefix("sampling.").replace(".", " ") for name in names)
        words[digest] = ", ".join(map(" ".join, zip(plain, texts, strict=True)))
    all_words = list(words.values())
    is_named = {digest: bool(names) and all_words.count(word) == 1 for digest, word in words.items()}
    return {digest: word if is_named[digest] else f"settings {digest[:8]}" for digest, word in words.items()}


def _model_key(score: StoredScore) -> _Model:
    return score.model, score.revision, score.backend


def _identity_of(score: StoredScore) -> tuple[str, ...]:
    return (*_model_key(score), score.task, score.dataset_checksum, score.settings_digest)


def _recency_of(score: StoredScore) -> tuple[bool, float, str]:
    ended: datetime | None = score.ended_at
    # an end that is unknown is the earliest; the ID makes the order total
    return score.status == "completed", ended.timestamp() if ended else 0.0, score.run


def render_page(boards: Sequence[Board], *, made_at: datetime, source: str = "") -> str:
    """Return the leaderboard as an HTML page. source: origin of the scores, which its header shows."""
    values = page_values(boards, made_at=made_at, source=source)
    return render(PARTS / "leaderboard.html", script=PARTS / "leaderboard.js", **values)


def page_values(boards: Sequence[Board], *, made_at: datetime, source: str = "") -> dict[str, Any]:
    """Return the variables of the leaderboard's template."""
    return {
        "boards": boards,
        "columns": RANKED,
        "models": order_models(boards),
        "runs": len({row.score.run for board in boards for row in board.rows}),
        "drawn_of": compute_drawing,
        "ticks_of": compute_ticks,
        "when": format_day,
        "shown": format_value,
        "made_at": made_at,
        "source": source,
    }


def compute_ticks(board: Board) -> list[tuple[str, float]]:
    """Return position and value of each tick of a board's axis."""
    return [(board.axis.across(tick), tick) for tick in board.axis.ticks]


def compute_drawing(board: Board, row: Row) -> dict[str, Any]:
    """Return a row's dot and bar, in per cent of the axis, and the best row's interval as a band; None without one."""
    axis, score, best = board.axis, row.score, board.rows[0].score
    band = None
    if best.low is not None and best.high is not None:
        band = axis.across(best.low), f"{100 * (axis.share(best.high) - axis.share(best.low)):.2f}%"
    return {"dot": axis.across(score.value), "bar": axis.span(score.low, score.high), "band": band}
