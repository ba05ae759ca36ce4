"""`trivet lever`: a small network learns which demonstrations to show a vision-language model."""

from __future__ import annotations

import typer

from flows.cli.lever import predicting, running, vqa_score

app = typer.Typer(no_args_is_help=True, help="A small network learns which demonstrations to show a vision model.")
for commands in (running, predicting, vqa_score):
    commands.register(app)
