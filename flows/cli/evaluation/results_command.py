"""`trivet eval results`, `export` and `import`: the leaderboard, runs for other programs, files for the database."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.cli.commands import Json
from flows.cli.evaluation.board_tables import show_boards
from flows.cli.evaluation.show_command import RunArgument, TasksOption, named_tasks
from flows.cli.output import DONE_WITH_FAILURES, REFUSED, emit, fail, harmless, plain_errors
from storage.files import write
from storage.storage_errors import StorageError
from tasks.evaluation.evaluation_errors import EvaluationError, ResultsUnusable

if TYPE_CHECKING:
    from storage.evaluated import StoredScore
    from tasks.evaluation.results.finding_runs import FoundRun
    from tasks.evaluation.results.ranking import Board
    from tasks.evaluation.results.result_rows import Imported


Format = Literal["table", "json", "csv", "markdown", "html"]
ExportFormat = Literal["inspect", "lm-eval"]


def results(
    task: TasksOption = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", "--models", help="Only this model; may be repeated.")
    ] = None,
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
    from tasks.evaluation.results.foreign_results import lm_eval_of
    from tasks.evaluation.results.inspect_logs import inspect_log
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
        yield place, _indented(lm_eval_of(report))


def _indented(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode("utf-8", "replace")


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
