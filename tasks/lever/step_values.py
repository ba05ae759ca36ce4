"""What the steps of the lever hand on: small values that name everything big by its content."""

from __future__ import annotations

from pydantic import Field

from storage.records import Record, Ref
from tasks.budget import Spending
from tasks.lever.judges import JudgeSpec
from tasks.lever.prompting import PromptSettings
from tasks.lever.records import Embedded


class World(Record):
    """What every step behind the embeddings starts from."""

    dataset: Ref
    embedded: Embedded
    judge: JudgeSpec
    prompts: PromptSettings = PromptSettings()
    threshold: float = Field(default=0.5, gt=0, le=1)
    """VQA accuracy from which an answer counts as right."""
    stem: bool = False
    """Compare stems of words, as OK-VQA does."""


class DatasetRead(Record):
    """A dataset as it was found."""

    dataset: Ref
    candidates: int
    train_queries: int
    validation: int
    test: int
    left_out: int
    """Questions without a picture or an answer."""


class Learning(Record):
    """What a selector learns, beside the settings of its stage."""

    shots: int = Field(default=2, ge=1)
    """Demonstrations in a prompt."""
    seed: int = 0


class Effort(Record):
    """How hard a step may work; it finds the same however hard that is."""

    device: str | None = None
    """`cpu`, `cuda:0` …; none: a GPU if there is one."""
    concurrency: int = Field(default=16, ge=1)
    """Questions under way at once, at an endpoint."""
    spending: Spending = Spending()
    """When to stop asking the judge."""
