"""The `trivet` command: one file per group; anything heavy is imported inside the command that needs it."""

from __future__ import annotations

import sys

import typer

from flows.cli import (
    ask_command,
    chat_command,
    evaluation,
    house_commands,
    lever,
    measure_command,
    nightly_commands,
    output,
    rag_commands,
    serve_command,
    service_commands,
)
from flows.cli.commands import PIPELINES, UPKEEP, App

app = App(
    name="trivet",
    pretty_exceptions_enable=False,
    help="ML pipelines as cached, resumable flows: document QA, model evaluation, selection of demonstrations.",
)
for group in (ask_command, chat_command, serve_command, measure_command):
    group.register(rag_commands.app)
app.add_typer(rag_commands.app, name="rag", rich_help_panel=PIPELINES)
app.add_typer(evaluation.app, name="eval", rich_help_panel=PIPELINES)
app.add_typer(lever.app, name="lever", rich_help_panel=PIPELINES)
app.add_typer(nightly_commands.app, name="nightly", rich_help_panel=PIPELINES)
for commands in (service_commands, house_commands):
    commands.register(app)
app.add_typer(house_commands.db, name="db", rich_help_panel=UPKEEP)


@app.callback()
def options(debug: bool = typer.Option(False, "--debug", help="Show tracebacks.")) -> None:
    """Set what holds for every command."""
    output.state["debug"] = debug


def main() -> None:
    """Run the command; an unexpected error is one sentence too, and a traceback with --debug."""
    try:
        app()
    except Exception as error:
        if output.state["debug"]:
            raise
        typer.secho(
            f"error: {type(error).__name__}: {error}\nRun again with `trivet --debug …` for the traceback.",
            fg="red",
            err=True,
        )
        sys.exit(output.FAILED)
