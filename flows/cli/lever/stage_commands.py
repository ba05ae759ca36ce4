"""`trivet lever run` and its stages: train a selector of demonstrations, or say what that would ask the judge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from flows.cli.commands import Given, Json
from flows.cli.engine import expected_errors, prefect_for_a_command, run_flow
from flows.cli.lever.read_config import config_of, sentences_of
from flows.cli.lever.show_report import show
from flows.cli.output import FAILED, REFUSED, Screen, emit, fail
from flows.cli.shared_options import refuse_unusable
from tasks.lever import lever_errors as errors

if TYPE_CHECKING:
    from flows.running.judge_calls import CallCounts
    from flows.running.lever_config import LeverConfig

STAGES = {
    "run": "Train a selector of demonstrations and measure it; an interrupted run continues when started again.",
    "embed": "Export the vectors of pictures and questions.",
    "pools": "Choose the candidates of every query.",
    "sft": "Train a selector that imitates the best demonstrations.",
    "rl-data": "Let a trained selector draw demonstrations, and have the judge answer with them.",
    "rce": "Train on rewarded groups of demonstrations.",
    "grpo": "Train on comparisons within groups, which the judge answers during training.",
    "evaluate": "Measure selectors against zero-shot, random choice, nearest neighbours and the oracle.",
}
"""Command → help. Each but `run` is also the name of the last stage of the flow that it runs."""


def stage_command(name: str) -> Callable[..., None]:
    until = "evaluate" if name == "run" else name

    def stage(
        given: Given,
        config: Annotated[
            Path | None, typer.Option(help="YAML file of the flow's parameters; options override it.")
        ] = None,
        settings: Annotated[
            list[str] | None,
            typer.Option("--set", metavar="NAME=VALUE", help="Any parameter, such as grpo.rounds=10; may be repeated."),
        ] = None,
        dry_run: Annotated[
            bool,
            typer.Option("--dry-run", help="Count the judge's calls by stage, and do nothing."),
        ] = False,
        as_json: Json = False,
    ) -> None:
        try:
            with expected_errors():
                chosen = config_of(given, until=until, file=config, settings=settings or ())
            if dry_run:
                _count_calls(chosen, as_json)
                return
            with prefect_for_a_command(quiet=as_json):
                from flows.lever import post_train
                from tasks.lever.judge.judges import DIGITS

                if chosen.judge != DIGITS and chosen.until not in ("embed", "pools"):
                    refuse_unusable(chosen.judge, f"--judge {chosen.judge}", pictures=not chosen.of_texts)
                outcome = run_flow(post_train, chosen, errors.Unfinished)
        except ValidationError as error:
            fail(sentences_of(error), REFUSED)
        emit(outcome.report.told(), as_json, lambda: show(outcome.report))
        if outcome.unfinished:
            fail(outcome.unfinished, FAILED)

    return stage


def _count_calls(config: LeverConfig, as_json: bool) -> None:
    """Print what the stages would ask the judge."""
    from flows.running.judge_calls import count_calls

    with expected_errors():
        counted = count_calls(config)
    emit(counted, as_json, lambda: _show_calls(counted))


def _show_calls(counted: CallCounts) -> None:
    screen = Screen()
    for stage, count in [*counted.calls.items(), ("total", counted.total)]:
        screen.print(f"{stage:<10}{count:>12,}{'  at most' if stage in ('oracle', 'total') else ''}", markup=False)
