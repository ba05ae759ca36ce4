"""`trivet eval`: models are measured, and every score can be found, compared and graded again."""

from __future__ import annotations

from flows.cli.commands import App
from flows.cli.evaluation import comparing, exporting, grading, leaderboard, listing, running, scoring, showing

app = App(help="Models are measured on benchmarks; every score can be found again.")
for commands in (running, listing, scoring, grading, leaderboard, comparing, showing, exporting):
    commands.register(app)
