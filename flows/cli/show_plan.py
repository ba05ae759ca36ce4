"""`--plan` of the commands that run a flow: a line per step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from flows.cli.output import REFUSED, Screen, fail

if TYPE_CHECKING:
    from flows.running.foresight.foreseeing import PlannedStep, RunPlan

console = Screen()
PlanOption = Annotated[
    bool, typer.Option("--plan", help="Only show which steps would run and why, what is cached, and how long it takes.")
]


def refuse_both(plan: bool, dry_run: bool) -> None:
    """Exit where both are asked for."""
    if plan and dry_run:
        fail("--plan and --dry-run: give one of them; a plan shows the calls of --dry-run too", REFUSED)


def show_steps(plan: RunPlan) -> None:
    """Print the steps of a plan."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("step")
    for name in ("cached", "runs", "unknown"):
        table.add_column(name, justify="right")
    table.add_column("seconds", justify="right")
    table.add_column("why", overflow="fold")
    for step in plan.steps:
        unknown = f"≤ {step.unknown:,}" if step.unknown else ""
        counts = (_count(step.cached), _count(step.runs), unknown)
        style = "" if step.runs or step.unknown else "dim"
        table.add_row(step.step, *counts, between(step.seconds), escape("; ".join(step.reasons)), style=style)
    console.print(table)
    console.print_line(_summary(plan))


def _summary(plan: RunPlan) -> str:
    runs, unknown = (sum(getattr(step, what) for step in plan.steps) for what in ("runs", "unknown"))
    at_most = f" and at most {unknown:,} more" if unknown else ""
    took = f", {between(plan.seconds)} s of work" if plan.seconds else ""
    if all(_only_looks(step) for step in plan.steps):
        return f"nothing to do but {runs:,} looks at the world{took}"
    return f"{runs:,} runs of steps{at_most}{took}"


def _only_looks(step: PlannedStep) -> bool:
    from flows.running.foresight.foreseeing import WORLD

    return not step.unknown and (not step.runs or step.reasons[0].startswith(WORLD))


def _count(number: int) -> str:
    return f"{number:,}" if number else ""


def between(seconds: tuple[float, float] | None) -> str:
    """`0.4 … 2.1`; empty for None."""
    return "" if seconds is None else f"{seconds[0]:,.1f} … {seconds[1]:,.1f}"
