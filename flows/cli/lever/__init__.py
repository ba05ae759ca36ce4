"""`trivet lever`: train a selector of demonstrations, whole or stage by stage; `predict`, `vqa-score`."""

from __future__ import annotations

from flows.cli.commands import App, command
from flows.cli.lever.file_commands import predict, vqa_score
from flows.cli.lever.stage_commands import STAGES, stage_command
from flows.cli.lever.stage_options import OPTIONS

app = App(help="Train a small network that selects demonstrations for a vision-language model.")
for _name, _about in STAGES.items():
    command(app, _name, OPTIONS, help=_about)(stage_command(_name))
app.command("predict")(predict)
app.command("vqa-score")(vqa_score)
