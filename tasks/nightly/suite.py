"""A suite: which models are measured on what every night, and what counts as a regression. Frozen, as it was read."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue

from storage.records import Record

Strategy = Literal["similarity", "mmr", "bm25", "rrf"]


class SuiteModel(Record):
    """A model of the suite with everything that `trivet eval run` is told to measure it."""

    label: str
    """What reports call it; its history goes by this name, whatever weights stand behind it."""
    flags: dict[str, JsonValue]
    """Names of `trivet eval run` → values; what the suite's `settings` and `tasks` say is among them."""
    lines: dict[str, int] = Field(default_factory=dict)
    """Name → line of the suite file, so that a refusal names it."""
    line: int
    """On which the entry begins."""


class SuiteIndex(Record):
    """An index that is refreshed before anything is measured, and then measured with questions."""

    build: dict[str, JsonValue]
    """Parameters of the flow `rag`: documents, index, embedder …"""
    questions: Path | None = None
    """JSONL of questions with their gold pages; none: the index is refreshed and not measured."""
    split: str | None = None
    """Only the questions of this split."""
    strategy: Strategy = "rrf"
    """How chunks are found."""
    bm25_weight: float = Field(default=1.0, ge=0)
    route: bool = True
    """Look first in the documents that a question names."""
    rerank: str | None = None
    """Cross-encoder by name or path."""
    llm: str | None = None
    """Who answers; unset: as the settings of the machine say."""
    answers: bool = False
    """Check answers too."""
    line: int = 1


class SuiteSelector(Record):
    """The training of a selector of demonstrations."""

    config: Path
    """YAML of the parameters of the flow `lever`."""
    line: int = 1


class RegressionRules(Record):
    """When a night counts as regressed."""

    fail: bool = False
    """End the night as failed, with the name `Regressed`."""
    least_drop: float = Field(default=0.0, ge=0)
    """A smaller drop of a score is let pass, even when it is not chance; in the units of the score."""


class Suite(Record):
    """A suite file, read and checked; all paths are absolute."""

    name: str
    """Stem of the file."""
    file: Path
    output: Path
    """Folder of the report, the plots and the results files; `nightly/NAME` beside the file unless said."""
    nights: int = Field(default=30, ge=2)
    """So many are shown in trends, the last one included."""
    models: tuple[SuiteModel, ...] = ()
    index: SuiteIndex | None = None
    selector: SuiteSelector | None = None
    regression: RegressionRules = RegressionRules()
