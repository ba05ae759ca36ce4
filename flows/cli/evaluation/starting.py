"""Starts the flow behind `trivet eval run`, or only counts what it would ask."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.cli.engine import Outcome, prefect_for_a_command, progress_bars, run_flow
from flows.cli.output import plain_errors

if TYPE_CHECKING:
    from flows.cli.placing import TaskRunnerName
    from flows.evaluate import EvaluateConfig
    from tasks.evaluation.estimating import RunEstimate
    from tasks.evaluation.records import EvalReport


def start(
    flags: Mapping[str, Any],
    file: Path | None,
    *,
    quiet: bool,
    task_runner: TaskRunnerName | None = None,
    cluster: str | None = None,
) -> Outcome[EvalReport]:
    """Run `evaluate` here and now. Raises pydantic.ValidationError for options that do not fit."""
    with prefect_for_a_command(expected_errors(), quiet=quiet):
        from flows.cli.evaluation.config import config_of
        from flows.evaluate import evaluate
        from flows.runners import placed
        from tasks.evaluation.errors import NotKept, TasksFailed, Unfinished

        config = config_of(flags, file)
        _refuse_unusable(config)
        return run_flow(placed(evaluate, task_runner, cluster), config, TasksFailed, Unfinished, NotKept)


def dry_run_of(flags: Mapping[str, Any], file: Path | None, *, quiet: bool) -> RunEstimate:
    """What a run would ask, how many tokens that may take and what it may cost; asks nobody."""
    from flows.settings import configure_steps

    configure_steps()
    with expected_errors(), progress_bars(quiet):
        from flows.cli.evaluation.config import config_of
        from tasks.evaluation.choosing import choose
        from tasks.evaluation.estimating import estimate_run
        from tasks.resources import artifacts, evaluations, responses

        config = config_of(flags, file)
        _refuse_unusable(config)
        planned = choose(
            config.tasks,
            artifacts(),
            model=config.model,
            judge=config.judge,
            auto_judge=config.auto_judge,
            data_dir=config.data_dir,
            include_path=config.include_path,
            settings=config.settings,
            known=None if config.overwrite else evaluations(),
        )
        return estimate_run(planned, config.model, artifacts(), responses(), prices=config.spending.prices)


def _refuse_unusable(config: EvaluateConfig) -> None:
    """End where it is plain that the model, or the judge that was named, cannot be asked."""
    from flows.cli.refusing import refuse_unusable_spec

    refuse_unusable_spec(config.model, "model")
    if config.judge and not config.auto_judge:
        refuse_unusable_spec(config.judge, "annotator_model")


@contextmanager
def expected_errors() -> Generator[None]:
    """What an evaluation may refuse or miss, as a sentence."""
    from flows.runners import ClusterUnusable
    from flows.server import ServerDidNotStart
    from models.errors import ModelError
    from storage.errors import StorageError
    from tasks.evaluation.errors import (
        BenchmarkUnusable,
        DataMissing,
        DataUnusable,
        EvaluationError,
        NeedsLogLikelihood,
        OptionUnusable,
        PreflightFailed,
        ResultsUnusable,
        UnknownTask,
    )
    from tasks.evaluation.sandbox.engines import UnsafeCodeRefused

    asked = (OptionUnusable, UnknownTask, PreflightFailed, NeedsLogLikelihood, UnsafeCodeRefused)
    read = (DataMissing, DataUnusable, BenchmarkUnusable, ResultsUnusable)
    broken = (EvaluationError, StorageError, ModelError, ServerDidNotStart, ClusterUnusable)
    with plain_errors(*asked, *read, failed=broken):
        yield
