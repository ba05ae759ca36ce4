"""`trivet eval results`, `export` and `import`: the leaderboard, runs for other programs, files for the database."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from flows.cli.commands import Json
from flows.cli.evaluation.show_command import RunArgument, TasksOption, named_tasks
from flows.cli.output import DONE_WITH_FAILURES, REFUSED, Screen, emit, fail, harmless, plain_errors
from storage.files import write
from storage.storage_errors import StorageError
from tasks.evaluation.evaluation_errors import EvaluationError, ResultsUnusable

if TYPE_CHECKING:
    from storage.evaluated import StoredScore
    from tasks.evaluation.results.finding_runs import FoundRun
    from tasks.evaluation.results.ranking import Board, Row, TaskColumn
    from tasks.evaluation.results.result_rows import Imported


Format = Literal["table", "json", "csv", "markdown", "html"]
ExportFormat = Literal["inspect", "lm-eval"]
MODEL_WIDTH, MIN_SCORE = 20, 5
MOST_ROWS = 100
"""Rows of a table in a terminal; every other format has all of them."""
LEFT_OUT = ("date", "differing", "n")
"""Columns that a narrow terminal goes without, the first one first."""


def results(
    task: TasksOption = None,
    model: Annotated[list[str] | None, typer.Option("--model", help="Only this model; may be repeated.")] = None,
    format: Annotated[Format, typer.Option(help="html: a sortable page with plots, complete in itself.")] = "table",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write here instead of to stdout.")] = None,
    all_runs: Annotated[
        bool, typer.Option("--all-runs", help="Include every run, not only the last of each model and settings.")
    ] = False,
    path: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Read results files from this folder instead of the database.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Rank models on benchmarks, with error bars; only equal data and settings are ranked together."""
    from tasks.evaluation.results.ranking import rank
    from tasks.resources import evaluations

    format = "json" if as_json else format
    with plain_errors(EvaluationError, failed=(StorageError,)):
        found = _from_files(path, all_runs) if path else evaluations().scores(all_runs=all_runs)
        boards = rank(_chosen(found, named_tasks(task), model))
        written = _as(format, boards, source=str(path) if path else "the database")
        if out:
            write(out, written.encode("utf-8", "replace"))
    if out:
        typer.echo(f"{out}: {len(boards)} rankings", err=True)
    elif format == "table":
        show_boards(boards)
    else:
        sys.stdout.write(written)


def _from_files(path: Path, all_runs: bool) -> Sequence[StoredScore]:
    """The figures of every results file below `path`; unreadable files are noted. Raises ResultsUnusable if all are."""
    from tasks.evaluation.results.ranking import latest, scores_of
    from tasks.evaluation.results.results_file import read_results

    if not path.exists():
        raise ResultsUnusable(f"there is no {path}; name a results file or a folder of some")
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    scores: list[StoredScore] = []
    unread: list[ResultsUnusable] = []
    for file in files:
        try:
            scores.extend(scores_of(read_results(file)))
        except ResultsUnusable as unusable:
            unread.append(unusable)
    if not scores:
        raise unread[0] if len(unread) == 1 else ResultsUnusable(f"{path} holds no results file that can be read")
    if unread:
        more = f"; {len(unread) - 1} more files were not read either" if len(unread) > 1 else ""
        typer.secho(f"note: {harmless(str(unread[0]))}{more}", fg="yellow", err=True)
    return scores if all_runs else latest(scores)


def _chosen(scores: Sequence[StoredScore], tasks: list[str] | None, models: list[str] | None) -> list[StoredScore]:
    """The scores of the named tasks and models; exits if a name is unknown."""
    for wanted, known, kind in (
        (tasks, {score.task for score in scores}, "task"),
        (models, {score.model for score in scores}, "model"),
    ):
        unknown = [name for name in wanted or () if name not in known]
        if unknown:
            there = ", ".join(sorted(known)) or "none yet"
            fail(f"no result for {kind} {', '.join(unknown)}; there are results for {there}", REFUSED)
    return [
        score
        for score in scores
        if (tasks is None or score.task in tasks) and (models is None or score.model in models)
    ]


def _as(format: Format, boards: Sequence[Board], *, source: str) -> str:
    from tasks.evaluation.results import ranking

    if format == "html":
        return ranking.render_page(boards, made_at=datetime.now(UTC), source=source)
    if format == "json":
        return json.dumps({"scores": ranking.as_rows(boards)}, ensure_ascii=False, allow_nan=False) + "\n"
    if format == "csv":
        return ranking.as_csv(boards)
    return ranking.as_markdown(boards)  # a table in a file is one of markdown


def show_boards(boards: Sequence[Board]) -> None:
    """Print the rankings; a table that would be too wide goes without some columns, and no heading is cut."""
    from tasks.evaluation.results.ranking import models_of

    console = Screen()
    if not boards:
        console.print("no results yet; evaluate a model with `trivet eval run`, or name a folder with --path")
        return
    models = models_of(boards)
    if len(boards) > 1 and len(models) > 1:
        for together in _side_by_side(boards, models, console.width):
            console.print(_overview(together, models[:MOST_ROWS]), "")
    left_out = set[str]()
    for board in boards:
        lower = "" if board.higher_is_better else ", lower is better"
        title = f"[bold]{escape(board.name)}[/bold]  [dim]{escape(board.metric)}{lower}[/dim]"
        console.print(title, soft_wrap=True)
        console.print(_ranking(board, console.width, left_out), "")
    if longest := max((len(board.rows) for board in boards if len(board.rows) > MOST_ROWS), default=0):
        said = f"the first {MOST_ROWS} of up to {longest:,} models are shown; --model has others, and --format all"
        console.print(f"[yellow]{said}[/yellow]", "")
    console.print(
        "[dim]95 %: interval · unscored samples are in no score · only equal data and settings are ranked[/dim]"
    )
    if left_out:
        console.print(f"[dim]a wider terminal, or --format, has {', '.join(sorted(left_out))} too[/dim]")


def _side_by_side(boards: Sequence[Board], models: Sequence[str], width: int) -> Iterator[list[Board]]:
    """Boards whose columns stand beside each other without a word of a heading being cut."""
    room = width - min(MODEL_WIDTH, max(map(cell_len, models)))
    together, taken = cast("list[Board]", []), 0
    for board in boards:
        needed = 2 + max(MIN_SCORE, *map(cell_len, board.name.split()))
        if together and taken + needed > room:
            yield together
            together, taken = [], 0
        together.append(board)
        taken += needed
    yield together


def _overview(boards: Sequence[Board], models: Sequence[str]) -> Table:
    from tasks.evaluation.results.ranking import cell

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("model", overflow="fold")
    for board in boards:
        longest = max(MIN_SCORE, *map(cell_len, board.name.split()))
        table.add_column(escape(board.name), justify="right", min_width=longest)
    for model in models:
        table.add_row(escape(model), *(_cell(board, cell(board, model)) for board in boards))
    return table


def _cell(board: Board, row: Row | None) -> str:
    if row is None:
        return "[dim]–[/dim]"
    value = board.shown(row.score.value)
    return f"[bold]{value}[/bold]" if row.rank == 1 and len(board.rows) > 1 else value


def _ranking(board: Board, width: int, left_out: set[str]) -> Table:
    """The table of a board; `left_out` gets the columns for which the terminal is too narrow."""
    shown = [_cells(board, row) for row in board.rows[:MOST_ROWS]]
    columns = {name: [cells[name] for cells in shown] for name in _names(board)}
    room = {
        name: max(cell_len(name), *(Text.from_markup(cell).cell_len for cell in cells))
        for name, cells in columns.items()
    }
    room["model"] = min(room["model"], MODEL_WIDTH)
    for name in LEFT_OUT:
        if sum(room.values()) + len(room) - 1 > width:
            left_out |= {name} & room.keys()
            room.pop(name, None)
    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    for name in room:
        justify = "left" if name in ("model", "date", "run") else "right"
        if name == "model":
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify=justify, min_width=room[name], no_wrap=True)
    for cells in zip(*(columns[name] for name in room), strict=True):
        table.add_row(*cells)
    return table


def _names(board: Board) -> Iterator[str]:
    further = [column.name for column in board.columns if any(row.columns[column.name] for row in board.rows)]
    yield from ("#", "model", "score", "95 %", "n", *further, "date", "run")


def _cells(board: Board, row: Row) -> dict[str, str]:
    from tasks.evaluation.results.ranking import when

    one = row.score
    return {
        "#": str(row.rank),
        "model": escape(row.name),
        "score": board.shown(one.value),
        "95 %": board.interval(one),
        "n": f"{one.n:,}",
        **{column.name: _further(column, row) for column in board.columns},
        "date": when(one) if one.status == "completed" else f"[yellow]{one.status}[/yellow]",
        "run": escape(one.run[:8]),
    }


def _further(column: TaskColumn, row: Row) -> str:
    from tasks.evaluation.results.ranking import shown

    value = row.columns[column.name]
    text = shown(value, thousands=",")
    return f"[yellow]{text}[/yellow]" if column.is_defect and value else text


def export(
    run: RunArgument,
    format: Annotated[
        ExportFormat,
        typer.Option(
            help="inspect: a log of inspect_ai, one for each task; lm-eval: results of the lm-evaluation-harness."
        ),
    ] = "lm-eval",
    task: Annotated[str | None, typer.Option(help="Only this task.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to write; for inspect a folder, or FILE.eval. Unset: stdout."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, with the text under `content`.")
    ] = False,
) -> None:
    """Write a run in a form that other programs read; for inspect with its samples."""
    from storage import files
    from tasks.evaluation.results.finding_runs import find_run
    from tasks.resources import evaluations

    with plain_errors(EvaluationError, failed=(StorageError,)):
        found = find_run(run, evaluations())
        if task is not None:
            found.require(task)
            chosen = tuple(one for one in found.report.results if one.task == task)
            found.report = found.report.model_copy(update={"results": chosen})
        written = dict(_exported(found, format, out))
        if out is None:
            [content] = written.values()
            told = {"run": run, "format": format, "content": content.decode()}
            emit(told, as_json, lambda: typer.echo(told["content"], nl=False))
            return
        for place, content in written.items():
            files.write(place.absolute(), content)
    for place in written:
        typer.echo(f"wrote {place}", err=True)


def _exported(found: FoundRun, format: ExportFormat, out: Path | None) -> Iterator[tuple[Path, bytes]]:
    """What is written, and where."""
    from tasks.evaluation.results.foreign_results import inspect_log, lm_eval_of
    from tasks.resources import artifacts

    report, place = found.report, out or Path("-")
    if format == "inspect":
        if out is None or (out.suffix == ".eval" and len(report.results) != 1):
            tasks = ", ".join(result.task for result in report.results)
            fail(
                f"a log of inspect_ai is of one task; give --out FOLDER, or --task and --out FILE.eval ({tasks})",
                REFUSED,
            )
        for result in report.results:
            log = out if out.suffix == ".eval" else out / f"{result.task}_{report.run.id[:8]}.eval"
            yield log, inspect_log(report, result, found.told(result, artifacts()))
    else:
        written = json.dumps(lm_eval_of(report), ensure_ascii=False, indent=2)
        yield place, f"{written}\n".encode("utf-8", "replace")


def import_results(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|FOLDER",
            help="A results file of Trivet, evalchemy or lm_eval, or a folder of such files.",
        ),
    ],
    as_json: Json = False,
) -> None:
    """Write results files into the database; repeating it changes nothing."""
    from tasks.evaluation.results.result_rows import import_all
    from tasks.resources import evaluations

    with plain_errors(EvaluationError, failed=(StorageError,)):
        done, unusable = import_all(path, evaluations())
    told = {"imported": [one.model_dump(mode="json") for one in done], "unusable": unusable}
    emit(told, as_json, lambda: _say(done, unusable))
    if unusable:
        fail(f"{len(unusable)} files were not imported", DONE_WITH_FAILURES if done else REFUSED)


def _say(done: list[Imported], unusable: dict[str, str]) -> None:
    for one in done:
        rows = f"{one.changed} rows written" if one.changed else "everything was there already"
        typer.echo(
            harmless(f"{one.file}: {one.model}, run {one.run}, {', '.join(one.tasks)}, {one.samples} samples; {rows}")
        )
        for note in one.notes:
            typer.echo(harmless(f"  note: {note}"))
    for reason in unusable.values():
        typer.echo(harmless(f"not imported: {reason}"))
