"""`trivet eval export` and `trivet eval import`: runs for other programs, and results files for the database."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.commands import Json
from flows.cli.evaluation.show_command import RunArgument
from flows.cli.output import DONE_WITH_FAILURES, REFUSED, emit, fail, plain_errors

if TYPE_CHECKING:
    from tasks.evaluation.evaluation_records import EvalReport
    from tasks.evaluation.results.result_rows import Imported

PathArgument = Annotated[
    Path, typer.Argument(metavar="FILE|FOLDER", help="A results file, or a folder with any number of them.")
]


class Format(StrEnum):
    """Who is to read it."""

    lm_eval = "lm-eval"
    model_card = "model-card"


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `trivet eval`."""
    app.command()(export)
    app.command("import")(import_results)


def export(
    run: RunArgument,
    format: Annotated[
        Format,
        typer.Option(help="lm-eval: results of the lm-evaluation-harness; model-card: YAML front matter for the hub."),
    ] = Format.lm_eval,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="File to write. Unset: stdout.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on stdout, the text under `content`.")
    ] = False,
) -> None:
    """Write a run in a form that other programs read."""
    from storage import files
    from storage.storage_errors import StorageError
    from tasks.evaluation.evaluation_errors import EvaluationError
    from tasks.evaluation.results.finding_runs import find_run
    from tasks.resources import evaluations

    with plain_errors(EvaluationError, failed=(StorageError,)):
        text = _text(find_run(run, evaluations()).report, format)
        if out is None:
            told = {"run": run, "format": format.value, "content": text}
            emit(told, as_json, lambda: typer.echo(text, nl=False))
            return
        files.write(out.absolute(), text.encode("utf-8", "replace"))
    typer.echo(f"wrote {out}", err=True)


def _text(report: EvalReport, format: Format) -> str:
    from tasks.evaluation.results.foreign_results import lm_eval_of, model_card_of

    if format is Format.model_card:
        return model_card_of(report)
    return json.dumps(lm_eval_of(report), ensure_ascii=False, indent=2) + "\n"


def import_results(
    path: PathArgument,
    as_json: Json = False,
) -> None:
    """Write results files into the database, as after a run that could not reach it; again changes nothing."""
    from storage.storage_errors import StorageError
    from tasks.evaluation.evaluation_errors import EvaluationError
    from tasks.evaluation.results.result_rows import import_all
    from tasks.resources import evaluations, kept_responses

    with plain_errors(EvaluationError, failed=(StorageError,)):
        done, unusable = import_all(path, evaluations())
        answers = kept_responses().store_unsaved()
    told = {"imported": [one.model_dump(mode="json") for one in done], "unusable": unusable, "answers": answers}
    emit(told, as_json, lambda: _say(done, unusable, answers))
    if unusable:
        fail(f"{len(unusable)} files were not imported", DONE_WITH_FAILURES if done else REFUSED)


def _say(done: list[Imported], unusable: dict[str, str], answers: int) -> None:
    from flows.cli.output import harmless

    for one in done:
        rows = f"{one.changed} rows written" if one.changed else "everything was there already"
        typer.echo(harmless(f"{one.file}: run {one.run}, {', '.join(one.tasks)}, {one.samples} samples; {rows}"))
        for note in one.notes:
            typer.echo(harmless(f"  note: {note}"))
    if answers:
        typer.echo(f"{answers} answers that waited for the database are in the response store now")
    for reason in unusable.values():
        typer.echo(harmless(f"not imported: {reason}"))
