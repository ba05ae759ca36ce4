"""`trivet lever`: a small network learns which demonstrations to show a vision-language model."""

from __future__ import annotations

from flows.cli.commands import App
from flows.cli.lever import file_commands, lever_run_command

app = App(help="Train a small network that selects demonstrations for a vision-language model.")
for commands in (lever_run_command, file_commands):
    commands.register(app)
