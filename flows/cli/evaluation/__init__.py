"""`trivet eval`: measure models, and find, compare and grade every score again."""

from __future__ import annotations

from flows.cli.commands import App, command
from flows.cli.evaluation import (
    compare_command,
    list_command,
    results_command,
    run_command,
    score_command,
    show_command,
)

app = App(help="Measure models on benchmarks; every score can be traced, compared and graded again.")
command(app, "run", run_command.OPTIONS, cls=run_command.RunCommand)(run_command.run)
app.command("list")(list_command.list_benchmarks)
app.command("new")(list_command.new)
app.command("check")(list_command.check)
command(app, "score", score_command.OPTIONS, cls=run_command.RunCommand)(score_command.score)
app.command("grade")(score_command.grade)
app.command("results")(results_command.results)
app.command("compare")(compare_command.compare)
app.command("show")(show_command.show)
app.command("export")(results_command.export)
app.command("import")(results_command.import_results)
