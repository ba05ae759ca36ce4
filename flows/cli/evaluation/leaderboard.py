"""`trivet eval results`: what was measured, ranked, on the screen or as a file."""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.evaluation import show_leaderboard
from flows.cli.output import REFUSED, fail, harmless, plain_errors

if TYPE_CHECKING:
    from storage.evaluated import StoredScore
    from tasks.evaluation.leaderboard import Board


class Format(enum.StrEnum):
    """What a leaderboard is written as."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"
    html = "html"


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `trivet eval`."""
    app.command()(results)


def results(
    task: Annotated[
        list[str] | None, typer.Option("--task", "--tasks", help="Only this benchmark; may be given again, or A,B.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", "--models", help="Only this model; may be given again.")
    ] = None,
    format: Annotated[Format, typer.Option(help="html: one page with plots, sortable, that fetches nothing.")] = (
        Format.table
    ),
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write here instead of to stdout.")] = None,
    all_runs: Annotated[
        bool,
        typer.Option("--all-runs", help="Every run, not only a model's last with the same settings."),
    ] = False,
    path: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Read results files there instead of the database.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As --format json.")] = False,
) -> None:
    """Rank models on benchmarks, with error bars; only equal data and settings are ranked together."""
    from storage.errors import StorageError
    from tasks.evaluation.errors import EvaluationError
    from tasks.evaluation.leaderboard import rank

    format = Format.json if as_json else format
    tasks = [name for given in task or () for name in given.split(",") if name] or None
    with plain_errors(EvaluationError, failed=(StorageError,)):
        found = _from_files(path, all_runs) if path else _from_database(all_runs)
        boards = rank(_chosen(found, tasks, model))
        written = _as(format, boards, source=str(path) if path else "the database")
        if out:
            from storage.files import write

            write(out, written.encode("utf-8", "replace"))
    if out:
        typer.echo(f"{out}: {len(boards)} rankings", err=True)
    elif format is Format.table:
        show_leaderboard.leaderboard(boards)
    else:
        sys.stdout.write(written)


def _from_database(all_runs: bool) -> Sequence[StoredScore]:
    from flows.settings import configure_steps
    from tasks.resources import evaluations

    configure_steps()
    return evaluations().scores(all_runs=all_runs)


def _from_files(path: Path, all_runs: bool) -> Sequence[StoredScore]:
    """The figures of every results file below `path`; one that cannot be read costs a note, unless all are so."""
    from tasks.evaluation.errors import ResultsUnusable
    from tasks.evaluation.leaderboard import latest, scores_of
    from tasks.evaluation.results_file import read_results

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
    """Those of the tasks and models named; a name that nothing has ends with what there is."""
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
    from tasks.evaluation import leaderboard

    if format is Format.html:
        from tasks.evaluation.leaderboard_page import render_page

        return render_page(boards, made_at=datetime.now(UTC), source=source)
    if format is Format.json:
        return json.dumps({"scores": leaderboard.as_rows(boards)}, ensure_ascii=False, allow_nan=False) + "\n"
    if format is Format.csv:
        return leaderboard.as_csv(boards)
    return leaderboard.as_markdown(boards)  # a table in a file is one of markdown
