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
from flows.running.run_reporting import notes_on_retries
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
from tasks.resources import evaluations, kept_responses
from tasks.step import Gathered

P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class RunState:
    """A run that has begun."""

    run: str
    config: dict[str, Any]
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    unfinished: dict[str, str] = field(default_factory=dict[str, str])
    """Item or call → reason; it may succeed on a retry."""

    @classmethod
    def begin(cls, run: object, config: dict[str, Any]) -> Self:
        """A run that begins now; run: ID of its flow run, if it has one."""
        return cls(str(run or uuid4()).replace("-", ""), config)

    def note(self, gathered: Gathered[R]) -> list[R]:
        """The results of steps; items that they left unfinished are recorded."""
        self.unfinished |= gathered.unfinished
        return gathered.results

    def facts(self) -> dict[str, Any]:
        """Fields of a report that say when, where and how the run was made."""
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
    lost: list[str] = field(default_factory=list[str])
    """What could not be kept, and why."""
    results: list[TaskResult] = field(default_factory=list[TaskResult])
    written: str | None = None
    """Path of the results file."""
    in_database: bool = False

    def __post_init__(self) -> None:
        self.config = mask_secrets(self.config)

    def guard(self, task: str, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """What `work` returns; None, and the error recorded, if the task failed."""
        try:
            return work(*args, **kwargs)
        except (*EXPECTED_ERRORS, ModelError, StorageError) as error:
            self.failed[task] = error
            return None

    def attempt(self, step: Callable[[], R], what: str) -> R | None:
        """The result of a step; unavailable storage is recorded, and does not end the run."""
        try:
            return step()
        except StorageError as error:
            self.lost.append(f"{what}: {error}")
            return None

    def end(self, report: EvalReport) -> EvalReport:
        """The report of a complete run. Raises what ended the only task, TasksFailed, Unfinished, NotKept."""
        if self.failed:
            if not report.results:
                raise next(iter(self.failed.values()))
            raise TasksFailed({task: str(error) for task, error in self.failed.items()}, report=report)
        if self.unfinished:
            raise EvaluationUnfinished(self.unfinished, report=report)
        if self.lost:
            raise NotKept(self.lost, report=report, file=self.written, in_database=self.in_database)
        return report

    def report(self, planned: Plan, *, spent: Budget) -> EvalReport:
        """The report of the run; spent: calls and cost."""
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
        trouble = kept_responses().trouble
        return EvalReport(
            run=facts,
            results=tuple(self.results),
            skipped=planned.skipped,
            earlier=earlier,
            notes=(*planned.notes, *notes_on_retries(), *((trouble,) if trouble else ())),
        )


class _Enough(Exception):
    """The last requested stage is done."""


@dataclass
class LeverRun(RunState):
    """Collects what the stages of all seeds give."""

    stages: list[str] = field(default_factory=list[str])
    seeds: list[SeedReport] = field(default_factory=list[SeedReport])
    files: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    summary: Summary | None = None

    @contextmanager
    def seed(self, seed: int) -> Generator[None]:
        """Context of one seed; it ends early after the last stage that was asked for."""
        self.seeds.append(SeedReport(seed=seed))
        with suppress(_Enough):
            yield

    def finish_stage(self, stage: str) -> None:
        """Mark a stage as done; ends the seed if it is the last stage that was asked for."""
        if stage not in self.stages:
            self.stages.append(stage)
        if stage == self.config["until"]:
            raise _Enough

    def trained(self, selector: TrainedSelector) -> Ref:
        """The weights of a selector, which the report names."""
        last = self.seeds[-1]
        self.seeds[-1] = last.model_copy(update={"trained": (*last.trained, selector)})
        return selector.weights

    def evaluated(self, outcome: Ref) -> None:
        """Keep the evaluation of the current seed."""
        self.seeds[-1] = self.seeds[-1].model_copy(update={"evaluated": outcome})

    def say(self, *notes: str) -> None:
        """Add notes for readers of the figures."""
        self.notes = list(dict.fromkeys((*self.notes, *notes)))

    def wrote(self, files: dict[str, str]) -> None:
        """Add files that were written for the user."""
        self.files += [path for path in files if path not in self.files]

    def attempt(self, step: Callable[[], object], what: str) -> None:
        """Do a step; unavailable storage is recorded, and does not end the run."""
        try:
            step()
        except StorageError as error:
            self.unfinished[what] = str(error)

    def report(self) -> LeverReport:
        """The report of the run so far."""
        trouble = kept_responses().trouble
        return LeverReport(
            run=self.run,
            stages=tuple(self.stages),
            seeds=tuple(self.seeds),
            summary=self.summary,
            files=tuple(self.files),
            notes=(*self.notes, *notes_on_retries(), *((trouble,) if trouble else ())),
            unfinished=self.unfinished,
            **self.facts(),
        )

    def end(self) -> LeverReport:
        """The report of a finished run. Raises Unfinished."""
        report = self.report()
        if self.unfinished:
            raise LeverUnfinished(self.unfinished, report=report)
        return report
