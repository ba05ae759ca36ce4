"""What the evaluation tables hold: runs and the models they measured, tasks, results, samples."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Literal, NamedTuple

from pydantic import Field, JsonValue

from storage.records import FiniteRecord

SHOWN_CHARS = 200
"""Longest extracted answer or gold that a comparison shows; one character more says that there was more."""


class Dataset(FiniteRecord):
    """Items that were measured on; another content is another data set, whatever its name."""

    name: str
    source: str
    """The path or hub id that the items were read from."""
    checksum: str = Field(pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the items, hex."""
    count: int = Field(ge=0)


class EvalSettings(FiniteRecord):
    """Everything besides model, index and data that can change a result."""

    name: str
    """`rag`, or the task: equal parameters of two tasks are two settings."""
    parameters: dict[str, JsonValue]

    @property
    def digest(self) -> str:
        """SHA-256 of name and parameters, hex; equal settings have equal digests."""
        plain = json.dumps([self.name, self.parameters], sort_keys=True, ensure_ascii=True, allow_nan=False)
        return hashlib.sha256(plain.encode()).hexdigest()


class Model(FiniteRecord):
    """The model that was measured, identified by name, revision and backend; the other fields only describe it."""

    name: str
    revision: str = ""
    """Revision of the weights; empty if it is not known."""
    backend: str
    is_external: bool = False
    """It answers at an endpoint, and its weights are not at hand."""
    weights_location: str | None = None
    """The path or hub id that the weights were read from."""
    base_model: str | None = None
    """Name of the model that training started from."""
    training_parameters: dict[str, JsonValue] | None = None
    git_commit: str | None = None
    """Commit of the code that trained the model."""


class Run(FiniteRecord):
    """One evaluation from start to end; written again under the same id, it replaces what it said before."""

    id: str
    kind: Literal["rag", "benchmark", "lever"]
    started_at: datetime
    ended_at: datetime | None = None
    status: Literal["running", "completed", "failed"]
    version: str
    """Version of Trivet that ran the evaluation."""
    git_commit: str | None = None
    index_generation: str | None = None
    index_digest: str | None = None
    environment: dict[str, JsonValue] = Field(default_factory=dict)
    """Embedder, tokenizer, folder of the index … for people who look."""
    model: Model | None = None
    """The model that was measured; None where an index was measured."""
    model_args: dict[str, JsonValue] = Field(default_factory=dict)
    """Arguments that this run opened the model with, without secrets."""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """The configuration that the user asked for, without secrets."""
    skipped: dict[str, str] = Field(default_factory=dict)
    """Tasks that an earlier run had done, with its id."""
    notes: tuple[str, ...] = ()
    calls: int | None = None
    """Model calls that it made, without recalled ones; None if unknown."""
    cost: float | None = None
    """Cost of these calls, in the currency of the prices; None without prices."""


class Task(FiniteRecord):
    """The version, metrics, counts and model calls of one benchmark in a run."""

    task: str
    version: str
    """Version of the benchmark's definition."""
    family: str
    metrics: dict[str, JsonValue]
    """Values of the metrics, under the names that evalchemy gives them."""
    counts: dict[str, int]
    usage: dict[str, JsonValue]
    judge: str | None = None
    judge_usage: dict[str, JsonValue] | None = None
    notes: tuple[str, ...] = ()
    artifacts: dict[str, JsonValue] = Field(default_factory=dict)
    """Refs of the artifacts that hold items, responses and samples."""


class Result(FiniteRecord):
    """The value of a metric over the items of a run, with its error bars."""

    metric: str
    """Name of the metric: `accuracy`, `prompt_level_strict`, `pass@4`, `page.mrr@10` …"""
    part: str = ""
    """The items it is over: `group=algebra`, `kind=table`; empty for all."""
    value: float
    std_err: float | None = None
    """Standard error, clustered by item where there are repeats; None for a single item."""
    low: float | None = None
    """Lower end of the 95 % interval of `value`."""
    high: float | None = None
    n: int = Field(ge=0)
    """Number of items that `value` was worked out over."""
    headline: bool = False
    """True for the one result that a leaderboard shows."""
    higher_is_better: bool = True


Outcome = Literal["scored", "unread", "refused", "too_long", "unscored"]
"""What came of an item; a `failed` one, which the model may still answer, has no sample."""


class Sample(FiniteRecord):
    """A graded response; a line of the samples artifact and of the samples file, a row of the database."""

    item: str
    repeat: int = Field(default=0, ge=0)
    status: Literal["scored", "unscored"] = "scored"
    """`unscored`: the request was refused, or the grader or its judge failed; such a sample is in no mean."""
    score: float | None = None
    """0 to 1 for right and wrong, the judge's scale for ratings; None exactly when unscored."""
    extracted: str | None = None
    """The answer found in the response; None: there was none."""
    gold: str | None = None
    """The right answer, kept for display only."""
    reason: str = ""
    """The stage that decided, the rule that failed or the judge's words; never empty when unscored."""
    group: str | None = None
    values: dict[str, float] = Field(default_factory=dict)
    """Further values of this sample, by name: `prompt_level_strict`, `Turn 1` …"""
    detail: dict[str, JsonValue] = Field(default_factory=dict)
    """Data for a re-score or for inspection: rules followed, the whole judgment."""
    truncated: bool = False
    """Whether the response was cut off at max_tokens."""
    missing: bool = False
    """No answer was found in it, or there was no response."""
    keys: tuple[str, ...] = ()
    """Response store keys of its model calls: the answer's, then the judge's."""

    @property
    def outcome(self) -> Outcome:
        """Outcome of the item: `unread` is graded as wrong; `detail` says which unscored ones got no answer."""
        if self.status == "scored":
            return "unread" if self.missing else "scored"
        outcome = self.detail.get("outcome")
        return outcome if outcome in ("refused", "too_long") else "unscored"


SAMPLE_COLUMNS = {"group": "item_group", "values": "figures", "keys": "response_keys"}
"""Fields of `Sample` whose columns have other names: `group` and `values` are words of SQL's own."""


class Graded(NamedTuple):
    """The fields of a `Sample` that a comparison of two runs needs."""

    item: str
    status: str
    score: float | None
    extracted: str | None
    """Up to SHOWN_CHARS characters, and one more where it is longer."""
    gold: str | None
    """The right answer, up to SHOWN_CHARS characters, and one more where it is longer."""
    missing: bool


class Evaluated(FiniteRecord):
    """The results of one run on one data set, and its samples where the run keeps them."""

    run: Run
    dataset: Dataset
    settings: EvalSettings
    results: tuple[Result, ...]
    samples: tuple[Sample, ...] = ()
    task: Task | None = None
    """The benchmark that was run; None where an index was measured."""
    more_samples: Callable[[], Iterable[Sample]] | None = Field(default=None, exclude=True, repr=False)
    """Makes more samples while they are written, so that they need no memory; a lost connection calls it again."""


class StoredScore(FiniteRecord):
    """A score of a model on a benchmark, with everything that a leaderboard needs."""

    run: str
    status: Literal["running", "completed", "failed"]
    """State of the run that the score belongs to."""
    model: str
    revision: str
    backend: str
    task: str
    dataset_checksum: str
    settings_digest: str
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    """Parameters of the evaluation settings."""
    metric: str
    part: str
    value: float
    std_err: float | None
    low: float | None
    high: float | None
    n: int
    counts: dict[str, int] = Field(default_factory=dict)
    """Number of samples of each kind, as in `Task.counts`."""
    usage: dict[str, JsonValue] = Field(default_factory=dict)
    """Counts of model calls and tokens, as in `Task.usage`."""
    headline: bool
    higher_is_better: bool
    ended_at: datetime | None


def without_values(metrics: Mapping[str, JsonValue], results: Iterable[Result]) -> dict[str, JsonValue]:
    """Return `metrics` with None for the values that `results` over all items hold, so that each is kept once."""
    values = {result.metric: result.value for result in results if not result.part}
    return {name: None if name in values and values[name] == value else value for name, value in metrics.items()}


def with_values(task: Task, results: Iterable[Result]) -> Task:
    """Return the task with the values of `results` in place of the nulls that `without_values` left."""
    values = {result.metric: result.value for result in results if not result.part}
    metrics = {name: values.get(name) if value is None else value for name, value in task.metrics.items()}
    return task.model_copy(update={"metrics": metrics})
