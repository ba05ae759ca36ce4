"""`trivet lever`: a small network learns which demonstrations to show a vision-language model."""

from __future__ import annotations

from flows.cli.commands import App
from flows.cli.lever import predicting, running, vqa_score

app = App(help="A small network learns which demonstrations to show a vision model.")
for commands in (running, predicting, vqa_score):
    commands.register(app)
