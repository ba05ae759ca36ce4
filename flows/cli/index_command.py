"""`trivet rag index`: make or update the index of a folder of documents."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from flows.cli.commands import ConfigFile, Flag, Json, Options, OptionValues, Settings, report_invalid
from flows.cli.engine import prefect_for_command, progress_bars, run_flow
from flows.cli.output import REFUSED, Screen, emit, fail, plain_errors
from flows.cli.shared_options import AnyIndexFolder, default_index, keep_last_index, refuse_unusable
from flows.running.config_reading import index_place, merge_parameters
from models.model_errors import ModelUnavailable
from models.permissions import read_variable
from storage.engines import index_name
from tasks.rag.rag_errors import Unfinished

if TYPE_CHECKING:
    from flows.running.rag_config import IndexConfig
    from tasks.rag.indexing.figures import FigurePlan
    from tasks.rag.indexing.index_report import IndexReport

console = Screen()
CHANGES = ("ok", "unchanged", "renamed", "failed", "removed")
OPTIONS = Options(
    "flows.running.rag_config:IndexConfig",
    {
        "metadata": Flag(),
        "include": Flag(),
        "password_env": Flag(metavar="NAME"),
        "reading.pdf_reader": Flag(),
        "chunk_chars": Flag(),
        "embedder": Flag(),
        "vlm": Flag(metavar="MODEL"),
        "spending.max_calls": Flag("--max-vlm-calls"),
        "spending.max_cost": Flag(),
    },
)


def index(
    values: OptionValues,
    documents: Annotated[
        Path, typer.Argument(help="Folder of PDF, HWP, Office, CSV, HTML, text, mail, pictures, ZIP.")
    ],
    index: AnyIndexFolder = None,
    config: ConfigFile = None,
    settings: Settings = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count figures and model calls.")] = False,
    as_json: Json = False,
) -> None:
    """Index a folder; unchanged documents are skipped, and unreadable ones are reported.

    Without --index it makes TRIVET_HOME/index/default.
    """
    if documents.is_dir() and os.access(documents, os.R_OK) and not any(documents.iterdir()):
        fail(f"{documents} is empty; put documents there, or name the folder that they lie in", REFUSED)
    require_variable(values["password_env"])
    folders = {"documents": documents, "index": index}
    with report_invalid(OPTIONS):
        parameters = merge_parameters({**values, **folders}, file=config, settings=settings or ())
    index = parameters["index"] = index_place(str(parameters.get("index") or default_index(documents))).absolute()
    if dry_run:
        from flows.running.rag_config import IndexConfig

        with report_invalid(OPTIONS), progress_bars(as_json):
            figures = plan_figures(IndexConfig.model_validate(parameters))
        emit(figures, as_json, lambda: show_plan(figures))
        return
    try:
        build_and_show(parameters, index, as_json=as_json)
    finally:
        keep_last_index(index)


def build_and_show(parameters: dict[str, Any], index: Path, *, as_json: bool) -> None:
    """Build the index and print its report; exits with the code of what failed."""
    from flows.running.rag_config import IndexConfig

    with plain_errors(), report_invalid(OPTIONS):
        config = IndexConfig.model_validate(parameters)
        config.require_inputs()
        _vision_model(config)
    with plain_errors(), prefect_for_command(quiet=as_json):
        from flows.rag import build_index

        outcome = run_flow(build_index, config, Unfinished)
    report: IndexReport = outcome.report
    documents, figures, name = report.documents, report.figures, escape(index_name(index))

    def show() -> None:
        """Print what the build indexed, its warnings and its failures."""
        changes = [f"{count} {change}" for change in CHANGES if (count := getattr(documents, change))]
        console.print(f"[bold]{name}[/bold] is at version {report.generation}")
        console.print(f"  documents  {documents.total}: {', '.join(changes).replace('ok', 'indexed')}")
        console.print(f"  pages      {report.pages:,}")
        console.print(f"  chunks     {report.chunks:,}")
        console.print(
            f"  figures    {figures.found:,} found, {figures.kept:,} worth a question, "
            f"{figures.described:,} described, {figures.skipped:,} skipped"
        )
        console.print(f"  seconds    {report.seconds:.1f}")
        for warning in report.warnings:
            console.print(f"  [yellow]note[/yellow]       {escape(warning)}")
        if documents.failed:
            console.print("  see [bold]trivet rag status[/bold] for what failed, and why")

    emit(report, as_json, show)
    outcome.end(has_failures=documents.failed > 0)


def build_from_stdin() -> None:
    """Build once for the server of an index, with parameters from stdin as JSON; ends as `rag index --json` does."""
    parameters = json.load(sys.stdin)
    try:
        build_and_show(parameters, Path(parameters["index"]), as_json=True)
    except typer.Exit as ended:
        sys.exit(ended.exit_code)


def plan_figures(config: IndexConfig) -> FigurePlan:
    """Count the figures of a folder and the model calls for them; calls no model, writes no index. Exits as a build."""
    from tasks.rag.indexing.picturing import plan_folder
    from tasks.resources import artifacts, responses, vision

    vlm = _vision_model(config)
    return plan_folder(
        config.documents,
        artifacts(),
        include=config.include,
        exclude=config.left_out,
        settings=config.figures,
        limits=config.limits,
        password=read_variable(config.password_env) if config.password_env else None,
        chat=vision(vlm) if vlm else None,
        responses=responses(),
    )


def _vision_model(config: IndexConfig) -> str | None:
    """Return the full name of the vision model, None without one; exits where it surely cannot be used."""
    from tasks.rag.indexing.picturing import figure_model

    if config.vlm is None:
        return None
    option = f"--vlm {config.vlm}"
    with plain_errors(ModelUnavailable, option=option):
        vlm = figure_model(config.vlm, config.figures)
    if vlm:
        refuse_unusable(vlm, option)
    return vlm


def require_variable(variable: str | None) -> str | None:
    """Return the value of the variable that --password-env names, None without the option; exits if it is not set."""
    if variable and variable not in os.environ:
        fail(f"--password-env {variable}: there is no such environment variable; export it first", REFUSED)
    return os.environ[variable] if variable else None


def show_plan(plan: FigurePlan) -> None:
    """Print how many documents, figures and model calls a build would have; `--dry-run` does."""
    console.print(f"{plan.documents:,} documents")
    console.print(f"{plan.found:,} figures found, {plan.kept:,} worth a question, {plan.duplicates:,} duplicates")
    for reason, count in plan.dropped.items():
        console.print(f"  dropped {count:,}: {escape(reason)}")
    console.print(f"{plan.expected_calls:,} questions to a vision model ({plan.answered:,} answered before)")
