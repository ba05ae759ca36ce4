"""The `trivet` command: one file per group; anything heavy is imported inside the command that needs it."""

from __future__ import annotations

import sys

import typer

from flows.cli import (
    asking,
    chatting,
    db,
    deploying,
    evaluation,
    house,
    lever,
    measuring,
    nightly,
    output,
    rag,
    rerunning,
    searching,
    service,
    serving,
)
from flows.cli.commands import App

app = App(
    name="trivet",
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Pipelines of ML teams as cached, resumable flows: documents, evaluation, demonstrations.",
)
for group in (searching, asking, chatting, serving, measuring):
    group.register(rag.app)
app.add_typer(rag.app, name="rag")
app.add_typer(evaluation.app, name="eval")
app.add_typer(lever.app, name="lever")
app.add_typer(db.app, name="db")
for commands in (service, deploying, rerunning, nightly, house):
    commands.register(app)


@app.callback()
def options(debug: bool = typer.Option(False, "--debug", help="Show tracebacks.")) -> None:
    """Options of every command."""
    output.state["debug"] = debug


def main() -> None:
    """Run the command; what nobody expected is still said in one sentence unless --debug."""
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
