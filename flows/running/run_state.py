"""State of a run of `flows.evaluate` or `flows.lever`: its results, and what could not be finished or kept."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ParamSpec, Self, TypeVar
from uuid import uuid4

from pydantic import JsonValue

from flows.running.environment import environment, git_commit, program_version
from models.model_errors import ModelError
from storage.records import Ref
from storage.storage_errors import StorageError
from tasks.budget import Budget
from tasks.evaluation.evaluation_errors import NotKept, TasksFailed
from tasks.evaluation.evaluation_errors import Unfinished as EvaluationUnfinished
from tasks.evaluation.evaluation_records import EvalReport, RunFacts, TaskResult, mask_secrets
from tasks.evaluation.running.planning import EXPECTED_ERRORS, Plan
from tasks.lever.learning.lever_results import LeverReport, SeedReport
from tasks.lever.learning.selector_comparison import Summary
from tasks.lever.lever_errors import Unfinished as LeverUnfinished
from tasks.lever.lever_records import TrainedSelector
from tasks.resources import evaluations, optional_responses
from tasks.step import Gathered

P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class RunState:
    """The state that runs of evaluations and of selectors share: when they began, and what they left unfinished."""

    run: str
    config: dict[str, Any]
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    unfinished: dict[str, str] = field(default_factory=dict[str, str])
    """Item or call → why it is unfinished; it may succeed on a retry."""

    @classmethod
    def begin(cls, run: object, config: dict[str, Any]) -> Self:
        """Return the state of a run that begins now. run: ID of its flow run, if it has one."""
        return cls(str(run or uuid4()).replace("-", ""), config)

    def note(self, gathered: Gathered[R]) -> list[R]:
        """Return the results of steps, and record the items that they left unfinished."""
        self.unfinished |= gathered.unfinished
        return gathered.results

    def facts(self) -> dict[str, Any]:
        """Return the fields of a report that say when, where and how the run was made."""
        return {
            "started_at": self.started,
            "ended_at": datetime.now(UTC),
            "config": self.config,
            "version": program_version(),
            "git_commit": git_commit(),
            "environment": environment(),
        }


@dataclass
class EvaluationRun(RunState):
    """Collects the results of an evaluation; a failure of one task ends no other."""

    failed: dict[str, Exception] = field(default_factory=dict[str, Exception])
    """Task → the error that ended it."""
    not_kept: list[str] = field(default_factory=list[str])
    """Each destination that could not be written, with the reason: `the database: …`."""
    results: list[TaskResult] = field(default_factory=list[TaskResult])
    written: str | None = None
    """Path of the results file."""
    in_database: bool = False

    def __post_init__(self) -> None:
        self.config = mask_secrets(self.config)  # it goes into the database and the results file

    def guard(self, task: str, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """Return what `work` returns; None if the task failed as tasks may, which is recorded. Raises other errors."""
        try:
            return work(*args, **kwargs)
        except (*EXPECTED_ERRORS, ModelError, StorageError) as error:
            self.failed[task] = error
            return None

    def attempt(self, step: Callable[[], R], destination: str) -> R | None:
        """Return the result of a step; None if storage is unavailable, which is recorded and does not end the run."""
        try:
            return step()
        except StorageError as error:
            self.not_kept.append(f"{destination}: {error}")
            return None

    def end(self, report: EvalReport) -> EvalReport:
        """Return the report of a complete run. Raises what ended the only task, TasksFailed, Unfinished, NotKept."""
        if self.failed:
            if not report.results:
                raise next(iter(self.failed.values()))
            raise TasksFailed({task: str(error) for task, error in self.failed.items()}, report=report)
        if self.unfinished:
            raise EvaluationUnfinished(self.unfinished, report=report)
        if self.not_kept:
            raise NotKept(self.not_kept, report=report, file=self.written, in_database=self.in_database)
        return report

    def report(self, planned: Plan, *, spent: Budget) -> EvalReport:
        """Build the report of the run. spent: its calls and cost."""
        facts = RunFacts(
            id=self.run,
            model=planned.model,
            status="failed" if self.unfinished or self.failed else "completed",
            calls=spent.calls,
            cost=spent.cost if spent.priced else None,
            **self.facts(),
        )
        # metrics of skipped tasks from earlier runs, so that a results file covers all tasks
        earlier: dict[str, dict[str, JsonValue]] = {}
        for task, run in planned.skipped.items():
            with suppress(StorageError):
                rows = [row.task for row in evaluations().task_results(run) if row.task and row.task.task == task]
                if rows:
                    earlier[task] = rows[0].metrics
        trouble = optional_responses().trouble
        return EvalReport(
            run=facts,
            results=tuple(self.results),
            skipped=planned.skipped,
            lacking=planned.lacking,
            earlier=earlier,
            notes=(*planned.notes, *((trouble,) if trouble else ())),
        )


class _LastStageReached(Exception):
    """The last requested stage of a seed has finished."""


@dataclass
class LeverRun(RunState):
    """Collects what the stages of all seeds make: selectors, evaluations, files and notes."""

    stages: list[str] = field(default_factory=list[str])
    seeds: list[SeedReport] = field(default_factory=list[SeedReport])
    files: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    summary: Summary | None = None

    @contextmanager
    def seed(self, seed: int) -> Generator[None]:
        """Run the block for one seed; it ends early after the last stage that was asked for."""
        self.seeds.append(SeedReport(seed=seed))
        with suppress(_LastStageReached):
            yield

    def finish_stage(self, stage: str) -> None:
        """Record that a stage has finished, and end the seed if it is the last stage that was asked for."""
        if stage not in self.stages:
            self.stages.append(stage)
        if stage == self.config["until"]:
            raise _LastStageReached

    def add_selector(self, selector: TrainedSelector) -> Ref:
        """Add a trained selector to the report, and return its weights."""
        last = self.seeds[-1]
        self.seeds[-1] = last.model_copy(update={"trained": (*last.trained, selector)})
        return selector.weights

    def add_evaluation(self, outcome: Ref) -> None:
        """Add the evaluation of the current seed to the report."""
        self.seeds[-1] = self.seeds[-1].model_copy(update={"evaluated": outcome})

    def add_notes(self, *notes: str) -> None:
        """Add notes for readers of the scores, each once."""
        self.notes = list(dict.fromkeys((*self.notes, *notes)))

    def add_files(self, files: dict[str, str]) -> None:
        """Add the paths of files that were written for the user, each once."""
        self.files += [path for path in files if path not in self.files]

    def attempt(self, step: Callable[[], object], destination: str) -> None:
        """Run a step; unavailable storage is recorded as unfinished, and does not end the run."""
        try:
            step()
        except StorageError as error:
            self.unfinished[destination] = str(error)

    def report(self) -> LeverReport:
        """Build the report of the run so far."""
        trouble = optional_responses().trouble
        return LeverReport(
            run=self.run,
            stages=tuple(self.stages),
            seeds=tuple(self.seeds),
            summary=self.summary,
            files=tuple(self.files),
            notes=(*self.notes, *((trouble,) if trouble else ())),
            unfinished=self.unfinished,
            **self.facts(),
        )

    def end(self) -> LeverReport:
        """Return the report of a finished run. Raises Unfinished."""
        report = self.report()
        if self.unfinished:
            raise LeverUnfinished(self.unfinished, report=report)
        return report
