"""The nouns of a night: what it measured and under which run, how that stands against the nights before."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import ConfigDict, Field

from storage.records import Record
from tasks.evaluation.comparing import Change as Flip
from tasks.evaluation.records import Counts, Usage

State = Literal["Completed", "CompletedWithFailures", "Failed", "Regressed"]
"""How a night ends, as its flow run is called in the UI."""
Verdict = Literal["worse", "better", "within noise", "same run", "first", "not comparable"]


class _Value(Record):
    model_config = ConfigDict(allow_inf_nan=False)


class Failure(_Value):
    """A part of the night that is missing, or of which something is."""

    what: str
    """`model small`, `index`, `selector`, `database`."""
    why: str
    """With the items and the remedy."""
    may_pass: bool
    """*Retry* may mend it, and does only this again."""


class ModelRun(_Value):
    """A model of the suite, and the runs whose figures are its figures of this night."""

    label: str
    run: str
    """Id of the run that this night made."""
    tasks: dict[str, str]
    """Benchmark → run that measured it: this night's, or an earlier one of the same weights, data and settings."""
    calls: int = 0
    """Model calls that this night's run made; what the response store remembered is not among them."""
    cost: float | None = None
    """Of these calls; None without prices."""
    seconds: float | None = None


class IndexRun(_Value):
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


class SelectorRun(_Value):
    """A selector of demonstrations that a night trained."""

    run: str | None
    """Under which its figures are kept; None where it was not measured."""


class Night(_Value):
    """What a night did, by the ids of its runs: the history of a suite. Its figures are in the database."""

    run: str
    """Id of its flow run."""
    suite: str
    file: str
    """The suite file."""
    started_at: datetime
    ended_at: datetime
    version: str
    """Of Trivet."""
    git_commit: str | None = None
    models: tuple[ModelRun, ...] = ()
    index: IndexRun | None = None
    selector: str | None = None
    """Run that trained and measured it."""
    failures: tuple[Failure, ...] = ()


class Nights(Record):
    """The nights of a suite, the first one first."""

    nights: tuple[Night, ...] = ()


class Measure(_Value):
    """A figure with its interval and the run that it is from."""

    metric: str
    part: str = ""
    """Of what: `selector=grpo`; empty for all."""
    value: float
    low: float | None = None
    high: float | None = None
    n: int
    run: str
    higher_is_better: bool = True


class Score(_Value):
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


class Change(_Value):
    """A figure against that of the last night that it can be compared with."""

    of: str
    """Label of the model, `index` or `selector`."""
    task: str
    """Benchmark, or metric of the index."""
    verdict: Verdict
    now: Measure
    before: Measure | None = None
    night: datetime | None = None
    """When the night began that is compared with."""
    difference: float | None = None
    low: float | None = None
    """Of the 95 % interval of the difference."""
    high: float | None = None
    p: float | None = None
    n: int | None = None
    """Items that both runs could score."""
    wins: int | None = None
    losses: int | None = None
    paired: bool = False
    """By item; else from the two intervals, which shows only larger drops."""
    worse: tuple[Flip, ...] = ()
    """Items that it lost, the largest change first; the first few."""
    why: tuple[str, ...] = ()
    """Why it cannot be compared."""

    @property
    def regressed(self) -> bool:
        """It is worse, by more than noise and more than the suite lets pass."""
        return self.verdict == "worse"


class Point(_Value):
    """A figure of a night."""

    night: datetime
    measure: Measure


class Series(_Value):
    """A model through the nights; figures of other data or settings than the last night's are not among them."""

    label: str
    points: tuple[Point, ...]


class Trend(_Value):
    """A benchmark through the nights."""

    task: str
    metric: str
    series: tuple[Series, ...]


class ModelFactsOfNight(_Value):
    """A model of the night and what measuring it took."""

    label: str
    name: str
    backend: str
    revision: str
    run: str
    status: str
    answers: int
    """To all items of all benchmarks, recalled ones too."""
    calls: int
    """Made by this night's run."""
    tokens: int
    cost: float | None
    seconds: float | None


class NightReport(_Value):
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
