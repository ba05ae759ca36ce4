"""`trivet eval`: models are measured, and every score can be found, compared and graded again."""

from __future__ import annotations

from flows.cli.commands import App
from flows.cli.evaluation import (
    compare_command,
    export_command,
    grade_command,
    leaderboard_command,
    list_command,
    run_command,
    score_command,
    show_command,
)

app = App(help="Measure models on benchmarks; every score can be traced, compared and graded again.")
for commands in (
    run_command,
    list_command,
    score_command,
    grade_command,
    leaderboard_command,
    compare_command,
    show_command,
    export_command,
):
    commands.register(app)
