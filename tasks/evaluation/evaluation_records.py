"""Records of an evaluation; items, responses and samples are those of the graders."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    """A solved item that may be shown to the model before a question, as a demonstration."""

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
    """Number of answers, including those recalled from the response store."""
    recalled: int = 0
    """Number of calls that the response store answered."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_s: float = 0.0
    """Seconds of waiting, summed over calls."""
    cost: float | None = None
    """Cost of all calls when made, in the currency of the prices; None without prices. See also `RunFacts.cost`."""

    def plus(self, usage: Usage) -> Usage:
        """Return the sum of this usage and another; the cost is None only if both have none."""
        costs = [cost for cost in (self.cost, usage.cost) if cost is not None]
        return Usage(
            calls=self.calls + usage.calls,
            recalled=self.recalled + usage.recalled,
            prompt_tokens=self.prompt_tokens + usage.prompt_tokens,
            completion_tokens=self.completion_tokens + usage.completion_tokens,
            latency_s=self.latency_s + usage.latency_s,
            cost=sum(costs) if costs else None,
        )


class ModelFacts(FiniteRecord):
    """The model that a run measured."""

    name: str
    backend: str
    """Kind of backend: `openai`, `hf`, `vllm`, `curator`, `replay` or `scripted`."""
    revision: str = ""
    """Commit, fingerprint of the weights, or digest of the recorded answers; empty if unknown."""
    args: dict[str, JsonValue] = Field(default_factory=dict)
    """Arguments of the model as the user gave them in `--model_args`, without secrets."""

    @property
    def label(self) -> str:
        """Name and revision: two sets of weights under one name have two labels."""
        return f"{self.name}@{self.revision}" if self.revision else self.name


class TaskResult(FiniteRecord):
    """Result of one run on one benchmark, as written to the database and to JSON."""

    task: str
    version: str
    """Version of the benchmark: its number and the digest of its definition."""
    family: Family
    data: Dataset
    settings: dict[str, JsonValue]
    """Everything besides model and data that can change a score: sampling, repeats, limit, seed, judge, template …"""
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
    """Remarks on the metrics: `3 of 80 unscored: the judge was away` …"""

    @property
    def name(self) -> str:
        """Name of the task, marked where only a part of its items was asked."""
        return mark_partial(self.task, self.settings)

    @property
    def headline(self) -> Estimate | None:
        """The estimate of the headline metric, which a leaderboard shows; None if nothing was scored."""
        return next((estimate for estimate in self.estimates if estimate.headline), None)


def mark_partial(task: str, settings: Mapping[str, JsonValue]) -> str:
    """Return the name of a task, with `(partial)` where the settings ask only a part of its items."""
    return f"{task} (partial)" if settings.get("limit") or settings.get("samples") else task


class RunFacts(FiniteRecord):
    """One run of the evaluation pipeline."""

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
    """Configuration that the user gave, without secrets."""


class AgainstLast(FiniteRecord):
    """The comparison of a run with the last run of the same model, tasks, data and settings."""

    lines: tuple[str, ...] = ()
    """A line for each task that was evaluated before."""
    regressions: tuple[str, ...] = ()


class EvalReport(FiniteRecord):
    """A run with its results; in `results_TIME.json` beside evalchemy's keys."""

    run: RunFacts
    results: tuple[TaskResult, ...]
    skipped: dict[str, str] = Field(default_factory=dict)
    """Tasks that were evaluated before under the same settings, each with the ID of that run."""
    lacking: dict[str, str] = Field(default_factory=dict)
    """Tasks that were left out as they or their data are not here, each with the reason."""
    earlier: dict[str, dict[str, JsonValue]] = Field(default_factory=dict)
    """Metrics of the skipped tasks, as their earlier runs found them."""
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
IN_ADDRESS = re.compile(r"(://[^/@:\s]*:)[^/@\s]+@")  # https://user:password@host
SECRET = re.compile(
    r"(?://|^postgres(?:ql)?:)[^/?#\s@\[]*:(?!\d*(?:[,/?#]|$))\S+@"  # a password, and no port
    r"|https?://[^/?#\s@]+@"  # a token in place of user and password
    rf"|(?:^|[?&;,\"'])(?:{NAMES.replace('_', '[-_]')}|key|sig)(?:=[^&\s]|[\"']\s*:)",
    re.IGNORECASE,
)
"""A text with a secret: an address with a password, or a key among arguments."""
WITHOUT_SECRET = (
    "a password or key would be stored with the run; name a variable of its worker (api_key_env, base_url_env), "
    "or leave the password of a database to PGPASSWORD or ~/.pgpass"
)


def find_secret(value: Any, place: str = "") -> str | None:
    """Return the dotted place, below `place`, of the first secret in plain data of any depth; None without one."""
    if isinstance(value, str):
        is_key = NAME.fullmatch(place.rpartition(".")[2].replace("-", "_"))
        return place if value and (is_key or SECRET.search(value)) else None
    parts: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    places = (find_secret(part, f"{place}.{name}".strip(".")) for name, part in parts)
    return next(filter(None, places), None)


def mask_secrets(value: Any) -> Any:
    """Return `value`, a text or plain data of any depth, with *** in place of secrets."""
    match value:
        case str():
            return IN_ADDRESS.sub(rf"\1{MASK}@", ARGUMENT.sub(rf"\1\2{MASK}", value))
        case dict():
            secret = {name for name in value if isinstance(name, str) and NAME.fullmatch(name.replace("-", "_"))}
            return {name: MASK if name in secret and item else mask_secrets(item) for name, item in value.items()}
        case list():
            return [mask_secrets(item) for item in value]
        case tuple():
            return tuple(mask_secrets(item) for item in value)
        case _:
            return value
