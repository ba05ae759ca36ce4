"""The records of a night, its runs and scores and their comparison with earlier nights, and the errors of nights.

NightlyError
├── SuiteUnusable    the suite file cannot be understood: names file and line
├── NoNight          nothing to report: no night has run
├── NoIncident       no open incident, or no night, has the ID that was given
├── NightUnfinished  parts are missing that may succeed another time: the report holds the rest
├── NightFailed      nothing could be measured, and nothing of it may succeed another time
└── NightRegressed   a score is worse than its baseline, beyond chance
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from storage.evaluated import Result
from storage.incidents import Incident
from storage.records import FiniteRecord, Record
from tasks.evaluation.evaluation_records import Counts
from tasks.evaluation.results.run_comparison import Change as Flip

State = Literal["Completed", "CompletedWithFailures", "Failed", "Regressed"]
"""Final state of a night, and name of the state of its flow run."""
Verdict = Literal["worse", "drifting", "better", "within noise", "same run", "first", "not comparable"]


class Failure(FiniteRecord):
    """A part of a night that is missing or incomplete."""

    what: str
    """Name of the part: `model small`, `index`, `selector` or `database`."""
    why: str
    may_pass: bool
    """Whether a retry, which repeats only this part, may succeed."""


class ModelRun(FiniteRecord):
    """A model of the suite, with the runs of its scores in this night."""

    label: str
    run: str
    tasks: dict[str, str]
    """The run of each benchmark: this night's, or an earlier one with equal weights, data and settings."""
    calls: int = 0
    """Model calls of this night's run, without recalled ones."""
    cost: float | None = None
    """Cost of these calls; None without prices."""
    seconds: float | None = None


class IndexRun(FiniteRecord):
    """The index that a night refreshed."""

    run: str
    """ID of the night that refreshed it."""
    generation: str
    documents: int
    failed: int
    """Number of documents that could not be read."""
    chunks: int
    measured: str | None = None
    """ID of the run of its scores; None if the index was not measured."""


class SelectorRun(FiniteRecord):
    """A selector of demonstrations that a night trained."""

    run: str | None
    """ID of the run of its scores; None if the selector was not measured."""


class Night(FiniteRecord):
    """A night in the history of a suite, by the IDs of its runs; its scores are in the database."""

    run: str
    """ID of the night's flow run in Prefect."""
    suite: str
    file: str
    started_at: datetime
    ended_at: datetime
    version: str
    git_commit: str | None = None
    models: tuple[ModelRun, ...] = ()
    index: IndexRun | None = None
    selector: str | None = None
    """ID of the run that trained and measured the selector."""
    failures: tuple[Failure, ...] = ()


class Nights(Record):
    """The nights of a suite, oldest first."""

    nights: tuple[Night, ...] = ()


class Measure(Result):
    """A score with its interval and its run."""

    run: str


class Score(FiniteRecord):
    """The score of a model on a benchmark."""

    model: str
    task: str
    measure: Measure | None
    counts: Counts
    run: str
    earlier: bool
    """Whether the run is of an earlier night, because nothing has changed since."""


class Change(FiniteRecord):
    """A score compared with its baseline: the pinned one, that of an open incident, or that of the last good night."""

    of: str
    """Label of the model, `index` or `selector`."""
    task: str
    """Name of the benchmark, or metric of the index."""
    verdict: Verdict
    now: Measure
    before: Measure | None = None
    night: datetime | None = None
    difference: float | None = None
    low: float | None = None
    """Lower end of the 95 % interval of the difference."""
    high: float | None = None
    p: float | None = None
    n: int | None = None
    """Number of items that are scored in both runs."""
    wins: int | None = None
    losses: int | None = None
    paired: bool = False
    """Whether items were compared one by one; else the two intervals were, which detects only larger differences."""
    worse: tuple[Flip, ...] = ()
    """Some of the items that got worse, the largest change first."""
    why: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Key that the change of the same score has in every night."""
        return self.of, self.task

    @property
    def gain(self) -> float:
        """The difference, positive where the score is better; 0 without a difference."""
        difference = self.difference or 0.0
        return difference if self.now.higher_is_better else -difference

    @property
    def regressed(self) -> bool:
        """Whether the score fell beyond noise, at once or slowly."""
        return self.verdict in ("worse", "drifting")


class Point(FiniteRecord):
    """A score of a night, as a point of a trend."""

    night: datetime
    measure: Measure


class Series(FiniteRecord):
    """The scores of a model through the nights, without those of other data or settings than the last night's."""

    label: str
    points: tuple[Point, ...]


class Trend(FiniteRecord):
    """The scores on a benchmark through the nights."""

    task: str
    metric: str
    series: tuple[Series, ...]


class ModelFactsOfNight(ModelRun):
    """A model of a night with what it took to measure it."""

    name: str
    backend: str
    revision: str
    status: str
    answers: int
    """Number of answers to the items of all benchmarks, including recalled ones."""
    tokens: int


class NightReport(FiniteRecord):
    """Content of the report of a night; every score is from the database and names its run."""

    night: Night
    state: State
    models: tuple[ModelFactsOfNight, ...] = ()
    scores: tuple[Score, ...] = ()
    changes: tuple[Change, ...] = ()
    trends: tuple[Trend, ...] = ()
    index: tuple[Measure, ...] = ()
    selector: tuple[Measure, ...] = ()
    incidents: tuple[Incident, ...] = ()
    """Scores that got worse: open incidents, and those that ended within the nights of the report, oldest first."""
    failures: tuple[Failure, ...] = ()
    nights: int = Field(default=1, ge=1)
    """Number of known nights of the suite, including this one."""
    fails_on_regression: bool = False

    @property
    def regressions(self) -> tuple[Change, ...]:
        """The scores that fell beyond noise in this night."""
        return tuple(change for change in self.changes if change.regressed)

    @property
    def open_incidents(self) -> tuple[Incident, ...]:
        """The incidents that are still open after this night."""
        return tuple(incident for incident in self.incidents if incident.open)


class NightlyError(Exception):
    """Root; its text is a full sentence with the remedy."""


class SuiteUnusable(NightlyError):
    """A suite file that cannot be understood."""


class NoNight(NightlyError):
    """No night is stored, of this suite or at all."""


class NoIncident(NightlyError):
    """No open incident, or no night, has this ID."""


class _EndedNight(NightlyError):
    """A night that did not complete; `report` holds its results."""

    def __init__(self, message: str, *, report: NightReport) -> None:
        super().__init__(message)
        self.report = report


class NightUnfinished(_EndedNight):
    """Some parts of the night are missing; a retry may succeed."""


class NightFailed(_EndedNight):
    """The night measured nothing; the report says why."""


class NightRegressed(_EndedNight):
    """Something got significantly worse; the report says what."""
