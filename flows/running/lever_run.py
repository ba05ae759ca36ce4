"""State of a lever run: stages done, results, and what could not be finished."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import uuid4

from flows.running.environment import environment, git_commit, program_version
from storage.records import Ref
from storage.storage_errors import StorageError
from tasks.lever.learning.lever_results import LeverReport, SeedReport
from tasks.lever.learning.selector_comparison import Summary
from tasks.lever.lever_errors import Unfinished
from tasks.lever.lever_records import TrainedSelector
from tasks.resources import kept_responses
from tasks.step import Gathered

R = TypeVar("R")


class _Enough(Exception):
    """The last requested stage is done."""


@dataclass
class Ongoing:
    """Gathers what the stages of all seeds give."""

    run: str
    config: dict[str, Any]
    until: str
    started: datetime
    stages: list[str] = field(default_factory=list[str])
    seeds: list[SeedReport] = field(default_factory=list[SeedReport])
    files: list[str] = field(default_factory=list[str])
    unfinished: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[str] = field(default_factory=list[str])
    summary: Summary | None = None

    @contextmanager
    def seed(self, seed: int) -> Generator[None]:
        """Context of one seed; it ends early after the last stage that was asked for."""
        self.seeds.append(SeedReport(seed=seed))
        with suppress(_Enough):
            yield

    def done(self, stage: str) -> None:
        """Mark a stage as done; ends the seed if it is the last stage that was asked for."""
        if stage not in self.stages:
            self.stages.append(stage)
        if stage == self.until:
            raise _Enough

    def note(self, gathered: Gathered[R]) -> list[R]:
        """The results of steps; what they left unfinished goes into the report."""
        self.unfinished |= gathered.unfinished
        return gathered.results

    def trained(self, selector: TrainedSelector) -> Ref:
        """The weights of a selector, which the report names."""
        last = self.seeds[-1]
        self.seeds[-1] = last.model_copy(update={"trained": (*last.trained, selector)})
        return selector.weights

    def say(self, *notes: str) -> None:
        """Add notes for readers of the figures."""
        self.notes = list(dict.fromkeys((*self.notes, *notes)))

    def attempt(self, step: Callable[[], object], what: str) -> None:
        """Do a step; storage that is away costs a note, not the run."""
        try:
            step()
        except StorageError as error:
            self.unfinished[what] = str(error)

    def evaluated(self, outcome: Ref) -> None:
        """Keep the evaluation of the current seed."""
        self.seeds[-1] = self.seeds[-1].model_copy(update={"evaluated": outcome})

    def wrote(self, files: dict[str, str]) -> None:
        """Add files that were written for the user."""
        self.files += [path for path in files if path not in self.files]

    def report(self) -> LeverReport:
        """The report of the run so far."""
        trouble = kept_responses().trouble
        return LeverReport(
            run=self.run,
            started_at=self.started,
            ended_at=datetime.now(UTC),
            version=program_version(),
            git_commit=git_commit(),
            environment=environment(),
            config=self.config,
            stages=tuple(self.stages),
            seeds=tuple(self.seeds),
            summary=self.summary,
            files=tuple(self.files),
            notes=(*self.notes, *((trouble,) if trouble else ())),
            unfinished=self.unfinished,
        )

    def end(self) -> LeverReport:
        """The report of a finished run. Raises Unfinished."""
        report = self.report()
        if self.unfinished:
            raise Unfinished(self.unfinished, report=report)
        return report


def begin(run: object, config: dict[str, Any], *, until: str) -> Ongoing:
    """A run that has just begun; `run` is the id of its flow run."""
    return Ongoing(str(run or uuid4()).replace("-", ""), config, until, datetime.now(UTC))
