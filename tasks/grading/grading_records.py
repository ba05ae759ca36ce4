"""Records of grading: an item and its response become a graded sample, and samples a summary.

GradingError
├── RulesUnusable     instructions of an item that cannot be checked: names the kind and the argument
└── TemplateUnusable  a judge prompt that is not a template, or that has a slot nothing fills
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field, JsonValue

from storage.evaluated import Sample as Sample
from storage.records import FiniteRecord

if TYPE_CHECKING:
    from tasks.measure.estimates import Estimate


REASON_CHARS = 200
"""Most characters of a refusal that a reason repeats."""
REFUSALS = {"content_filter", "refusal", "safety", "blocklist", "prohibited_content", "recitation", "spii"}
"""Reasons why an answer ended that mean a refusal: of OpenAI's API, and of Gemini's behind its OpenAI endpoint."""


class GradingError(Exception):
    """The root of grading errors; its message is a full sentence with the remedy."""


class RulesUnusable(GradingError):
    """The instructions of an item cannot be checked; the message names the kind and the argument."""


class TemplateUnusable(GradingError):
    """A judge prompt is no template, or has a slot that nothing fills."""


class PriorTurn(FiniteRecord):
    """A turn of the conversation before the first prompt of an item."""

    role: Literal["user", "assistant"]
    text: str


class Item(FiniteRecord):
    """One problem of a benchmark as the model is asked it; a line of the items artifact."""

    id: str
    """The data file's id as text (id, unique_id, idx, key, question_id, task_id); without one the row number."""
    prompts: tuple[str, ...] = Field(min_length=1)
    """The user's turns; the model's answer to one precedes the next."""
    history: tuple[PriorTurn, ...] = ()
    """The conversation before the first prompt, the same for every model."""
    system: str | None = None
    """The benchmark's system message, which the run's `--system_instruction` replaces."""
    gold: JsonValue = None
    """The right answer in the form its grader takes; None where there is none (a judge, rules)."""
    group: str | None = None
    """Part of the benchmark: subject, category, level. Metrics are also given per group."""
    detail: dict[str, JsonValue] = Field(default_factory=dict)
    """Further data for the grader: rules with their arguments, options, references."""


class Reply(FiniteRecord):
    """The answer of a model to one turn, with its cost."""

    text: str
    finish_reason: str = "stop"
    """Why the model stopped; `length` means that it was cut off at max_tokens."""
    key: str | None = None
    """Response store key; None for a recorded answer without one."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    latency_s: float | None = None
    sent: dict[str, JsonValue] = Field(default_factory=dict)
    """Sampling parameters that were sent to the backend."""


class Response(FiniteRecord):
    """All answers of a model to one item; a line of the responses artifact."""

    item: str
    repeat: int = Field(default=0, ge=0)
    turns: tuple[Reply, ...] = ()
    """One per prompt of the item; fewer where the model could not answer."""
    missed: str | None = None
    """Why turns are missing for good, such as a request longer than the model's context."""
    too_long: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether turns are missing since the request was longer than the model's context."""

    @property
    def text(self) -> str:
        """Return the text of the last turn; empty if there is none."""
        return self.turns[-1].text if self.turns else ""

    @property
    def truncated(self) -> bool:
        """Whether a turn was cut off at max_tokens."""
        return any(reply.finish_reason == "length" for reply in self.turns)

    @property
    def unanswered(self) -> Literal["refused", "too_long"] | None:
        """Why there is nothing to grade: the request or its answer was refused, or was too long; None if there is."""
        if self.too_long:
            return "too_long"
        is_refused = self.missed or any(reply.finish_reason.lower() in REFUSALS for reply in self.turns)
        return "refused" if is_refused else None

    @property
    def call_keys(self) -> tuple[str, ...]:
        """Return the response store keys of the turns."""
        return tuple(reply.key for reply in self.turns if reply.key)


def make_unanswered_sample(item: Item, response: Response) -> Sample:
    """Return the sample of a response that holds nothing to grade: it is counted as itself, and never as wrong."""
    outcome = response.unanswered
    if not (reason := response.missed):
        ends = ", ".join(dict.fromkeys(reply.finish_reason for reply in response.turns))
        reason = f"the model refused to answer (it ended with {ends}): {response.text[:REASON_CHARS]}"
    return make_sample(item, response, status="unscored", reason=reason, detail={"outcome": outcome})


def make_sample(item: Item, response: Response, **fields: Any) -> Sample:
    """Return the sample of a response. fields: of `Sample`, as the grader found them."""
    fields.setdefault("truncated", response.truncated)
    fields.setdefault("keys", response.call_keys)  # a judge adds its own
    return Sample(item=item.id, repeat=response.repeat, group=item.group, **fields)


class Counts(FiniteRecord):
    """Numbers of samples by kind; they are always shown beside the score."""

    items: int = 0
    samples: int = 0
    """Number of samples: items times repeats."""
    scored: int = 0
    unscored: int = 0
    """Samples whose grader, judge or sandbox failed."""
    refused: int = 0
    """Samples whose request was refused, or which the model refused to answer."""
    too_long: int = 0
    """Samples whose request was longer than the model's context."""
    truncated: int = 0
    missing: int = 0
    """Samples that score 0 since no answer was found."""
    differing: int = 0
    """Items that another reading policy scores otherwise than the headline's."""


class Summary(NamedTuple):
    """The metrics of a benchmark over all its samples."""

    metrics: dict[str, JsonValue]
    """Values of the metrics by the keys that evalchemy uses."""
    estimates: tuple[Estimate, ...]
    """Metrics with error bars; exactly one is the headline."""
    counts: Counts
    notes: tuple[str, ...] = ()
    """Sentences that are shown below the metrics."""
