"""Records of an evaluation; items, responses and samples are those of the graders."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Literal

from pydantic import Field, JsonValue

from storage.evaluated import Dataset as Dataset
from storage.evaluated import Sample as Sample
from storage.records import FiniteRecord, Ref
from tasks.grading.grading_records import Counts
from tasks.grading.grading_records import Item as Item
from tasks.grading.grading_records import PriorTurn as PriorTurn
from tasks.grading.grading_records import Reply as Reply
from tasks.grading.grading_records import Response as Response
from tasks.measure.estimates import Estimate

Family = Literal["math", "choice", "rules", "judge", "code", "pretrain", "rag", "vqa", "own"]
"""Kind of grading, by which `eval list` groups benchmarks."""


class Example(FiniteRecord):
    """A solved item that may be shown before a question."""

    id: str
    prompt: str
    answer: str


class Sampling(FiniteRecord):
    """Sampling parameters; the benchmark's own, unless the run sets others."""

    temperature: float = Field(default=0.0, ge=0)
    """Above 0 answers are sampled, on every backend; 0 is greedy."""
    max_tokens: int = Field(default=2048, ge=1)
    top_p: float | None = Field(default=None, gt=0, le=1)
    stop: tuple[str, ...] = ()
    seed: int | None = 0
    """Seed of the first repeat; repeat i has seed + i. None: no seed is sent."""


class Usage(FiniteRecord):
    """Usage of the model calls of a benchmark, including those of earlier runs."""

    calls: int = 0
    """Number of answers, including recalled ones."""
    recalled: int = 0
    """Calls answered from the response store."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_s: float = 0.0
    """Summed over calls."""
    cost: float | None = None
    """Cost of all calls when made, in the currency of the prices; None without prices. See also `RunFacts.cost`."""

    def plus(self, other: Usage) -> Usage:
        """The sum of both."""
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            calls=self.calls + other.calls,
            recalled=self.recalled + other.recalled,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            latency_s=self.latency_s + other.latency_s,
            cost=sum(costs) if costs else None,
        )


class ModelFacts(FiniteRecord):
    """The measured model."""

    name: str
    backend: str
    """`openai`, `hf`, `vllm`, `curator`, `replay`, `scripted`."""
    revision: str = ""
    """Commit, fingerprint of the weights, or digest of the recorded answers; empty if unknown."""
    args: dict[str, JsonValue] = Field(default_factory=dict)
    """`--model_args` as given, without secrets."""


class TaskResult(FiniteRecord):
    """Result of one run on one benchmark, as written to the database and to JSON."""

    task: str
    version: str
    """Version of the benchmark: its number and the digest of its definition."""
    family: Family
    data: Dataset
    settings: dict[str, JsonValue]
    """Everything besides model and data that can change a figure: sampling, repeats, limit, seed, judge, template …"""
    metrics: dict[str, JsonValue]
    """Under evalchemy's keys: `accuracy_avg`, `accuracy_std_err`, `num_total` …"""
    estimates: tuple[Estimate, ...]
    counts: Counts
    usage: Usage = Usage()
    judge_usage: Usage | None = None
    judge: str | None = None
    samples: tuple[Ref, ...] = ()
    """Artifacts of graded samples (kind `samples`), JSONL of Sample, in the order of the items."""
    items: Ref | None = None
    responses: tuple[Ref, ...] = ()
    notes: tuple[str, ...] = ()
    """Remarks on the figures: `3 of 80 unscored: the judge was away` …"""

    @property
    def headline(self) -> Estimate | None:
        """The figure that a leaderboard shows; None if nothing was scored."""
        return next((one for one in self.estimates if one.headline), None)


class RunFacts(FiniteRecord):
    """One run of the evaluation."""

    id: str
    """Prefect flow run ID, or 32 random hex digits without one."""
    model: ModelFacts
    started_at: datetime
    ended_at: datetime | None = None
    status: Literal["running", "completed", "failed"] = "running"
    version: str
    git_commit: str | None = None
    calls: int = 0
    """Model calls of this run, without those recalled from the response store or a cached step."""
    cost: float | None = None
    """Cost of these calls, in the currency of the prices; None without prices."""
    environment: dict[str, JsonValue] = Field(default_factory=dict)
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """The user's configuration, without secrets."""


class AgainstLast(FiniteRecord):
    """How a run compares with the last one of the same model, tasks, data and settings."""

    lines: tuple[str, ...] = ()
    """One for each task with a run before it."""
    regressions: tuple[str, ...] = ()


class EvalReport(FiniteRecord):
    """A run with its results; in `results_TIME.json` beside evalchemy's keys."""

    run: RunFacts
    results: tuple[TaskResult, ...]
    skipped: dict[str, str] = Field(default_factory=dict)
    """Tasks that were evaluated before under the same settings → run."""
    earlier: dict[str, dict[str, JsonValue]] = Field(default_factory=dict)
    """Metrics of these tasks in that run."""
    notes: tuple[str, ...] = ()
    regressions: tuple[str, ...] = ()
    """Tasks whose headline is significantly worse than in the last run of the same settings."""


MASK = "***"
NAMES = (
    r"(?:[a-z0-9]+_)*(?:api_?key|password|passwd|secret|secret_key|access_key|authorization)"
    r"|(?:hf_|auth_|access_)?token"  # max_tokens and eos_token are none
)
NAME = re.compile(NAMES, re.IGNORECASE)
ARGUMENT = re.compile(rf"(?<![A-Za-z0-9_])({NAMES})(\s*[=:]\s*)(?:bearer\s+)?[^,\s&]+", re.IGNORECASE)
IN_ADDRESS = re.compile(r"(://[^/@:\s]*:)[^/@\s]+@")


def masked(value: Any) -> Any:
    """`value`, text or plain data, with *** in place of secrets."""
    match value:
        case str():
            return IN_ADDRESS.sub(rf"\1{MASK}@", ARGUMENT.sub(rf"\1\2{MASK}", value))
        case dict():
            secret = {name for name in value if isinstance(name, str) and NAME.fullmatch(name.replace("-", "_"))}
            return {name: MASK if name in secret and item else masked(item) for name, item in value.items()}
        case list():
            return [masked(item) for item in value]
        case tuple():
            return tuple(masked(item) for item in value)
        case _:
            return value
