"""The `trivet` command: one file per group; anything heavy is imported inside the command that needs it."""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys

import typer

from flows.cli import (
    ask_command,
    chat_command,
    eval_results_command,
    eval_run_command,
    eval_score_command,
    eval_show_command,
    house_commands,
    index_command,
    lever_commands,
    measure_command,
    nightly_commands,
    numbers_command,
    output,
    rag_commands,
    service_commands,
    why_command,
)
from flows.cli.commands import PIPELINES, SERVICE, UPKEEP, App, command
from flows.running.config_reading import explain_removal, replacements
from flows.running.environment import program

rag = App(help="Index documents, and answer questions with the page of every claim.")
command(rag, "index", index_command.OPTIONS)(index_command.index)
command(rag, "text", rag_commands.READING)(rag_commands.text)
command(rag, "numbers", rag_commands.READING)(numbers_command.numbers)
rag.command("chunks")(rag_commands.chunks)
rag.command("status")(rag_commands.status)
rag.command("search")(rag_commands.search)
command(rag, "ask", ask_command.OPTIONS)(ask_command.ask)
command(rag, "batch", ask_command.OPTIONS)(ask_command.batch)
command(rag, "chat", ask_command.MODEL_OPTIONS)(chat_command.chat)
command(rag, "serve", ask_command.MODEL_OPTIONS)(service_commands.serve)
command(rag, "eval", measure_command.OPTIONS)(measure_command.evaluate)

evaluation = App(help="Measure models on benchmarks; every score can be traced, compared and graded again.")
command(evaluation, "run", eval_run_command.OPTIONS, cls=eval_run_command.RunCommand)(eval_run_command.run)
evaluation.command("list")(eval_results_command.list_benchmarks)
command(evaluation, "score", eval_score_command.OPTIONS, cls=eval_run_command.RunCommand)(eval_score_command.score)
evaluation.command("results")(eval_results_command.results)
evaluation.command("compare")(eval_show_command.compare)
evaluation.command("show")(eval_show_command.show)
evaluation.command("export")(eval_results_command.export)
evaluation.command("import")(eval_results_command.import_results)

app = App(
    name="trivet",
    pretty_exceptions_enable=False,
    help="ML pipelines as cached, resumable flows: document QA, model evaluation, selection of demonstrations.",
)
app.add_typer(rag, name="rag", rich_help_panel=PIPELINES)
app.add_typer(evaluation, name="eval", rich_help_panel=PIPELINES)
app.add_typer(lever_commands.app, name="lever", rich_help_panel=PIPELINES)
app.add_typer(nightly_commands.app, name="nightly", rich_help_panel=PIPELINES)
app.command(rich_help_panel=PIPELINES)(why_command.why)
for function in service_commands.COMMANDS:
    app.command(rich_help_panel=SERVICE)(function)
for function in house_commands.COMMANDS:
    app.command(rich_help_panel=UPKEEP)(function)
app.add_typer(house_commands.db, name="db", rich_help_panel=UPKEEP)


def show_version(is_wanted: bool) -> None:
    """Print the version, with the commit of a checkout, and end."""
    if is_wanted:
        typer.echo(f"trivet {program()}")
        raise typer.Exit


@app.callback()
def options(
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks."),
    version: bool = typer.Option(  # noqa: ARG001 its callback acts
        False, "--version", help="Print the version.", is_eager=True, callback=show_version
    ),
) -> None:
    """Read the options before the command."""
    output.state["debug"] = debug
    for name in replacements()["environment"].keys() & os.environ.keys():  # else ignored in silence
        typer.secho(f"note: {explain_removal('environment', name)}", fg="yellow", err=True)


def main() -> None:
    """Run the command; an unexpected error is one sentence too, and a traceback with --debug."""
    if sys.getfilesystemencoding() == "ascii":  # LC_ALL=C PYTHONUTF8=0, in which a Korean question has no letter
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    gc.set_threshold(50_000)  # imports and records make few cycles; Python would look for them 70 times as often
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # CP949 of a Korean console has no `›`, which citations print
            stream.reconfigure(errors="replace")
    atexit.register(gc.freeze)  # else Python looks through every object once more as it ends: .4 s after a flow
    try:
        app()
    except Exception as error:
        if output.state["debug"]:
            raise
        unexpected = f"{type(error).__name__}: {error}\nRun again with `trivet --debug …` for the traceback."
        typer.secho(f"error: {output.find_full_disk(error) or unexpected}", fg="red", err=True)
        sys.exit(output.FAILED)
