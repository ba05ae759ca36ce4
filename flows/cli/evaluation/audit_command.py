"""`trivet eval audit`: published per-item logs graded again, and every verdict that differs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape
from rich.table import Table

from flows.cli.commands import Json
from flows.cli.engine import expected_errors
from flows.cli.output import DONE_WITH_FAILURES, REFUSED, Screen, emit, fail

if TYPE_CHECKING:
    from tasks.evaluation.results.audit import Audit, LogAudit


def audit(
    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOGS...",
            help="Files, or folders of them: logs of MMLU-Pro, GSM8K's model solutions, lm_eval (samples_*.jsonl), "
            "Qwen2.5-Math or inspect_ai (.eval), or lines {response, gold, verdict}; .json, .jsonl, .gz, .zip.",
        ),
    ],
    task: Annotated[str, typer.Option(help="The benchmark that was answered.")],
    extract: Annotated[
        Literal["published", "strict", "flexible"],
        typer.Option(help="How our graders read the answers that are compared with the published verdicts."),
    ] = "flexible",
    data_dir: Annotated[
        Path | None,
        typer.Option(envvar="TRIVET_DATA_DIR", help="Folder of benchmark data, whose golds count before a log's."),
    ] = None,
    cases: Annotated[int, typer.Option(min=0, help="Number of disagreements to show; --json lists all.")] = 5,
    as_json: Json = False,
) -> None:
    """Grade published per-item logs again: verdicts reproduced, and why the others differ.

    Exit 3 where some answers could not be graded.
    """
    from tasks.evaluation.results.audit import audit as audited

    missing = next((path for path in logs if not path.exists()), None)
    if missing:
        fail(f"there is no file {missing}; name a log, or a folder of logs", REFUSED)
    with expected_errors():
        found = audited(logs, task, data_dir=data_dir, extract=extract)
    emit(found, as_json, lambda: _show(found, cases))
    if any(one.unscored for one in found.logs):
        raise typer.Exit(DONE_WITH_FAILURES)


def _show(found: Audit, cases: int) -> None:
    screen = Screen()
    for one in found.logs:
        screen.print_line(f"[bold]{escape(one.log)}[/bold] {escape(one.group)} [dim]{one.layout}[/dim]")
        _show_log(screen, one, found.extract)
    for case in found.disagreements[:cases]:
        verdict = "right" if case.published else "wrong"
        gold = case.gold if case.our_gold is None else f"{case.gold}, in the data {case.our_gold}"
        place = case.place if len(found.logs) == 1 else f"{case.log}, {case.place}"
        screen.print_line(
            f"[dim]{escape(place)}[/dim] {case.kind}: published {verdict}; "
            f"they read {escape(repr(case.published_answer))}, we {escape(repr(case.our_answer))}; gold {escape(gold)}"
        )
    screen.print_notes(found.notes)


def _show_log(screen: Screen, log: LogAudit, extract: str) -> None:
    verdicts = log.answers - log.without_verdict
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    table.add_row("published", _share(log.published), f"of {verdicts:,} answers; in {log.unread:,} nothing was read")
    table.add_row(
        "reproduced", f"{log.reproduced:,}", f"of {verdicts:,} verdicts, by the source's reading and equality"
    )
    for policy, share in log.ours.items():
        table.add_row(f"ours, {policy}", _share(share), "")
    table.add_row("the same", f"{log.agreed:,}", f"of {log.compared:,} verdicts, ours {extract}")
    for kind, split in log.disagreements.items():
        if count := split.published_right + split.ours_right:
            table.add_row(
                f"by {kind}",
                f"{count:,}",
                f"{split.ours_right:,} right by ours alone, {split.published_right:,} by theirs",
            )
    if log.unscored:
        table.add_row("not graded", f"{log.unscored:,}", "")
    screen.print(table)


def _share(value: float | None) -> str:
    return "—" if value is None else f"{100 * value:.2f} %"
