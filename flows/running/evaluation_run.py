"""State of an evaluation run: results, what could not be finished, and what could not be kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import uuid4

from pydantic import JsonValue

from flows.running.environment import environment, git_commit, program_version
from models.model_errors import ModelError
from storage.storage_errors import StorageError
from tasks.budget import Budget
from tasks.evaluation.evaluation_errors import NotKept, TasksFailed, Unfinished
from tasks.evaluation.evaluation_records import EvalReport, RunFacts, TaskResult
from tasks.evaluation.masking import masked
from tasks.evaluation.running.planning import EXPECTED_ERRORS, Plan
from tasks.resources import evaluations, kept_responses
from tasks.step import Gathered

R = TypeVar("R")


@dataclass
class Ongoing:
    """Collects the results of steps; a failure of one task ends no other."""

    started: datetime
    run: str
    config: dict[str, JsonValue]
    unfinished: dict[str, str] = field(default_factory=dict[str, str])
    """Item or call → reason; it may succeed on a retry."""
    failed: dict[str, Exception] = field(default_factory=dict[str, Exception])
    """Task → the error that ended it."""
    lost: list[str] = field(default_factory=list[str])
    """What could not be kept, and why."""
    results: list[TaskResult] = field(default_factory=list[TaskResult])
    written: str | None = None
    """Path of the results file."""
    in_database: bool = False
    """Whether the run is in the database."""

    def note(self, gathered: Gathered[R]) -> list[R]:
        """The results of steps; items that they left unfinished are recorded."""
        self.unfinished |= gathered.unfinished
        return gathered.results

    def guard(self, task: str, work: Callable[[], R]) -> R | None:
        """The result of `work`; None, and the error recorded, if the task failed."""
        try:
            return work()
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
            raise Unfinished(self.unfinished, report=report)
        if self.lost:
            raise NotKept(self.lost, report=report, file=self.written, in_database=self.in_database)
        return report

    def report(self, planned: Plan, *, spent: Budget) -> EvalReport:
        """The report of the run; spent: calls and cost."""
        facts = RunFacts(
            id=self.run,
            model=planned.model,
            started_at=self.started,
            ended_at=datetime.now(UTC),
            status="failed" if self.unfinished or self.failed else "completed",
            calls=spent.calls,
            cost=spent.cost if spent.priced else None,
            version=program_version(),
            git_commit=git_commit(),
            environment=environment(),
            config=self.config,
        )
        trouble = kept_responses().trouble
        return EvalReport(
            run=facts,
            results=tuple(self.results),
            skipped=planned.skipped,
            earlier=metrics_of(planned.skipped),
            notes=(trouble,) if trouble else (),
        )


def metrics_of(skipped: Mapping[str, str]) -> dict[str, dict[str, JsonValue]]:
    """Metrics of skipped tasks from earlier runs, so that a results file covers all tasks."""
    found: dict[str, dict[str, JsonValue]] = {}
    for task, run in skipped.items():
        try:
            rows = evaluations().task_results(run)
        except StorageError:
            continue
        if metrics := next((row.task.metrics for row in rows if row.task and row.task.task == task), None):
            found[task] = metrics
    return found


def begin(run: object, config: dict[str, Any]) -> Ongoing:
    """A run that begins now; run: ID of its flow run."""
    return Ongoing(started=datetime.now(UTC), run=str(run or uuid4()).replace("-", ""), config=masked(config))
