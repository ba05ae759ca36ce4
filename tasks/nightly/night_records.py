"""Records of a night: what it measured, under which runs, how that compares with earlier nights; and its errors.

NightlyError
├── SuiteUnusable    the suite file cannot be understood: names file and line
├── NoNight          nothing to report: no night has run
├── NightUnfinished  parts are missing that may succeed another time: the report holds the rest
├── NightFailed      nothing could be measured, and nothing of it may succeed another time
└── NightRegressed   a figure is worse than in the nights before, beyond chance
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from storage.records import FiniteRecord, Record
from tasks.evaluation.evaluation_records import Counts, Usage
from tasks.evaluation.results.run_comparison import Change as Flip

State = Literal["Completed", "CompletedWithFailures", "Failed", "Regressed"]
"""How a night ends, as its flow run is called in the UI."""
Verdict = Literal["worse", "better", "within noise", "same run", "first", "not comparable"]


class Failure(FiniteRecord):
    """A part of the night that is missing, wholly or partly."""

    what: str
    """`model small`, `index`, `selector`, `database`."""
    why: str
    """The reason, with the items and the remedy."""
    may_pass: bool
    """True where a retry may succeed; it repeats only this part."""


class ModelRun(FiniteRecord):
    """A model of the suite, and the runs whose figures are its figures of this night."""

    label: str
    run: str
    """Id of the run that this night made."""
    tasks: dict[str, str]
    """Benchmark → run that measured it: this night's, or an earlier one of the same weights, data and settings."""
    calls: int = 0
    """Model calls that this night's run made; what the response store remembered is not among them."""
    cost: float | None = None
    """Cost of these calls; None without prices."""
    seconds: float | None = None


class IndexRun(FiniteRecord):
    """The index of a night."""

    run: str
    """Id of the night that refreshed it."""
    generation: str
    documents: int
    failed: int
    """Documents that could not be read."""
    chunks: int
    measured: str | None = None
    """Run under which its figures are kept; None where it was not measured."""


class SelectorRun(FiniteRecord):
    """A selector of demonstrations that a night trained."""

    run: str | None
    """ID of the run that its figures are kept under; None where it was not measured."""


class Night(FiniteRecord):
    """What a night did, by the ids of its runs: the history of a suite. Its figures are in the database."""

    run: str
    """Prefect flow run ID."""
    suite: str
    file: str
    """The suite file."""
    started_at: datetime
    ended_at: datetime
    version: str
    """Trivet version."""
    git_commit: str | None = None
    models: tuple[ModelRun, ...] = ()
    index: IndexRun | None = None
    selector: str | None = None
    """Run that trained and measured it."""
    failures: tuple[Failure, ...] = ()


class Nights(Record):
    """The nights of a suite, the first one first."""

    nights: tuple[Night, ...] = ()


class Measure(FiniteRecord):
    """A figure with its interval and the run that it is from."""

    metric: str
    part: str = ""
    """The items it is over: `selector=grpo`; empty for all."""
    value: float
    low: float | None = None
    high: float | None = None
    n: int
    run: str
    higher_is_better: bool = True


class Score(FiniteRecord):
    """A model on a benchmark."""

    model: str
    task: str
    measure: Measure | None
    """None where nothing could be scored."""
    counts: Counts
    usage: Usage
    judge_usage: Usage | None = None
    run: str
    earlier: bool
    """The run is of an earlier night: nothing had changed, so nothing was asked again."""
    notes: tuple[str, ...] = ()


class Change(FiniteRecord):
    """A figure against that of the last night that it can be compared with."""

    of: str
    """Label of the model, `index` or `selector`."""
    task: str
    """Benchmark, or metric of the index."""
    verdict: Verdict
    now: Measure
    before: Measure | None = None
    night: datetime | None = None
    """Start of the night that it is compared with."""
    difference: float | None = None
    low: float | None = None
    """Lower end of the 95 % interval of the difference."""
    high: float | None = None
    p: float | None = None
    n: int | None = None
    """Items that both runs could score."""
    wins: int | None = None
    losses: int | None = None
    paired: bool = False
    """Compared item by item; else by the two intervals, which shows only larger drops."""
    worse: tuple[Flip, ...] = ()
    """The first few items that got worse, the largest change first."""
    why: tuple[str, ...] = ()
    """Why it cannot be compared."""

    @property
    def regressed(self) -> bool:
        """Worse beyond noise, and by more than the suite tolerates."""
        return self.verdict == "worse"


class Point(FiniteRecord):
    """A figure of a night."""

    night: datetime
    measure: Measure


class Series(FiniteRecord):
    """A model through the nights; figures of other data or settings than the last night's are not among them."""

    label: str
    points: tuple[Point, ...]


class Trend(FiniteRecord):
    """A benchmark through the nights."""

    task: str
    metric: str
    series: tuple[Series, ...]


class ModelFactsOfNight(FiniteRecord):
    """A model of the night and what measuring it took."""

    label: str
    name: str
    backend: str
    revision: str
    run: str
    status: str
    answers: int
    """Number of answers to the items of all benchmarks, including recalled ones."""
    calls: int
    """Number of model calls that this night's run made."""
    tokens: int
    cost: float | None
    seconds: float | None


class NightReport(FiniteRecord):
    """A night with everything that its report shows; every figure is from the database and names its run."""

    night: Night
    state: State
    models: tuple[ModelFactsOfNight, ...] = ()
    scores: tuple[Score, ...] = ()
    changes: tuple[Change, ...] = ()
    trends: tuple[Trend, ...] = ()
    index: tuple[Measure, ...] = ()
    selector: tuple[Measure, ...] = ()
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
    nights: int = Field(default=1, ge=1)
    """How many nights of the suite are known, this one included."""
    fails_on_regression: bool = False

    @property
    def regressions(self) -> tuple[Change, ...]:
        """What got worse beyond noise."""
        return tuple(change for change in self.changes if change.regressed)

    @property
    def compared(self) -> int:
        """How many figures were compared with an earlier run's."""
        return sum(change.difference is not None for change in self.changes)


class NightlyError(Exception):
    """Root; its text is a full sentence with the remedy."""


class SuiteUnusable(NightlyError):
    """A suite file that cannot be understood."""


class NoNight(NightlyError):
    """No night of this suite, or none at all, was kept."""


class _EndedNight(NightlyError):
    """A night that did not end well; `report` holds what there is."""

    def __init__(self, message: str, *, report: NightReport) -> None:
        super().__init__(message)
        self.report = report


class NightUnfinished(_EndedNight):
    """Some parts of the night are missing and may still succeed."""


class NightFailed(_EndedNight):
    """The night measured nothing; the report says why."""


class NightRegressed(_EndedNight):
    """Something got worse beyond chance; the report says what."""
