"""What the evaluation tables hold: runs and the models they measured, tasks, figures, samples."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Literal

from pydantic import ConfigDict, Field, JsonValue

from storage.records import Record


class _Row(Record):
    model_config = ConfigDict(allow_inf_nan=False)  # jsonb has no NaN


class Dataset(_Row):
    """Items that were measured on; another content is another data set, whatever its name."""

    name: str
    source: str
    """Where it came from: a path, a hub id."""
    checksum: str = Field(pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the items."""
    count: int = Field(ge=0)


class EvalSettings(_Row):
    """Everything besides model, index and data that can change a figure."""

    name: str
    """`rag`, or the task: equal parameters of two tasks are two settings."""
    parameters: dict[str, JsonValue]

    @property
    def digest(self) -> str:
        """Equal settings have equal digests."""
        plain = json.dumps([self.name, self.parameters], sort_keys=True, ensure_ascii=True, allow_nan=False)
        return hashlib.sha256(plain.encode()).hexdigest()


class Model(_Row):
    """What was measured, known by name, revision and backend; the rest is for people who look."""

    name: str
    revision: str = ""
    """Of the weights; empty where nothing tells."""
    backend: str
    is_external: bool = False
    """It answers at an endpoint, and its weights are not at hand."""
    weights_location: str | None = None
    """A path or a hub id."""
    base_model: str | None = None
    """What it was trained from."""
    training_parameters: dict[str, JsonValue] | None = None
    git_commit: str | None = None
    """Of the code that trained it."""


class Run(_Row):
    """One evaluation from start to end; written again under the same id, it replaces what it said before."""

    id: str
    kind: Literal["rag", "benchmark", "lever"]
    started_at: datetime
    ended_at: datetime | None = None
    status: Literal["running", "completed", "failed"]
    version: str
    """Of Trivet."""
    git_commit: str | None = None
    index_generation: str | None = None
    index_digest: str | None = None
    environment: dict[str, JsonValue] = Field(default_factory=dict)
    """Embedder, tokenizer, folder of the index … for people who look."""
    model: Model | None = None
    """None where an index was measured."""
    model_args: dict[str, JsonValue] = Field(default_factory=dict)
    """How this run opened the model, without secrets."""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """What the user asked for, without secrets."""
    skipped: dict[str, str] = Field(default_factory=dict)
    """Tasks that an earlier run had done, with its id."""
    notes: tuple[str, ...] = ()


class Task(_Row):
    """What a run says of one benchmark as a whole."""

    task: str
    version: str
    """Of the benchmark."""
    family: str
    metrics: dict[str, JsonValue]
    """Under evalchemy's keys."""
    counts: dict[str, int]
    usage: dict[str, JsonValue]
    judge: str | None = None
    judge_usage: dict[str, JsonValue] | None = None
    notes: tuple[str, ...] = ()
    artifacts: dict[str, JsonValue] = Field(default_factory=dict)
    """Refs of items, responses and samples."""


class Result(_Row):
    """A figure."""

    metric: str
    """`page.mrr@10`, `answers.number`, `accuracy` …"""
    part: str = ""
    """Of which items: `kind=table`; empty for all."""
    value: float
    std_err: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = Field(ge=0)
    """Items that it is a mean of."""
    headline: bool = False
    higher_is_better: bool = True


class Sample(_Row):
    """What became of one item."""

    item: str
    repeat: int = Field(default=0, ge=0)
    detail: dict[str, JsonValue]
    status: Literal["scored", "unscored"] = "scored"
    score: float | None = None
    extracted: str | None = None
    gold: str | None = None
    reason: str = ""
    item_group: str | None = None
    """`group` is a word of SQL's own."""
    figures: dict[str, float] = Field(default_factory=dict)
    """More figures of this sample, by name."""
    response_keys: tuple[str, ...] = ()
    truncated: bool = False
    missing: bool = False


class Evaluated(_Row):
    """What one run found on one data set."""

    run: Run
    dataset: Dataset
    settings: EvalSettings
    results: tuple[Result, ...]
    samples: tuple[Sample, ...] = ()
    task: Task | None = None
    """The benchmark that was run; None where an index was measured."""
    more_samples: Callable[[], Iterable[Sample]] | None = Field(default=None, exclude=True, repr=False)
    """Makes more samples while they are written, so that they need not be held; a lost connection calls it again."""


class StoredScore(_Row):
    """A figure of a model on a benchmark, with everything that a leaderboard needs."""

    run: str
    status: Literal["running", "completed", "failed"]
    """Of the run."""
    model: str
    revision: str
    backend: str
    task: str
    dataset_checksum: str
    settings_digest: str
    metric: str
    part: str
    value: float
    std_err: float | None
    low: float | None
    high: float | None
    n: int
    unscored: int
    headline: bool
    higher_is_better: bool
    ended_at: datetime | None
