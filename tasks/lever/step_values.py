"""Values that the lever's steps exchange: small records that refer to everything large by its digest."""

from __future__ import annotations

from pydantic import Field

from storage.records import Record, Ref
from tasks.budget import Spending
from tasks.lever.judge.judges import JudgeSpec, PromptSettings
from tasks.lever.lever_records import Embedded


class World(Record):
    """Inputs common to all steps after the embeddings."""

    dataset: Ref
    embedded: Embedded
    judge: JudgeSpec
    prompts: PromptSettings = PromptSettings()
    threshold: float = Field(default=0.5, gt=0, le=1)
    """VQA accuracy from which an answer counts as right."""
    stem: bool = False
    """Compare stems of words, as OK-VQA does."""


class DatasetRead(Record):
    """A dataset that was read, with its counts."""

    dataset: Ref
    candidates: int
    train_queries: int
    validation: int
    test: int
    left_out: int
    """Questions without a picture or an answer."""


class Learning(Record):
    """Shots and seed of a training."""

    shots: int = Field(default=2, ge=1)
    """Demonstrations in a prompt."""
    seed: int = 0


class Effort(Record):
    """Device, concurrency and budget of a step; its result does not depend on them."""

    device: str | None = None
    """`cpu`, `cuda:0` …; none: a GPU if there is one."""
    concurrency: int = Field(default=16, ge=1)
    """Questions under way at once, at an endpoint."""
    spending: Spending = Spending()
    """When to stop asking the judge."""
