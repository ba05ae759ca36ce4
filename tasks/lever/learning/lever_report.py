"""The report of a run: stages that were done, files that were written, and the accuracy of the selectors."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from storage.records import Record, Ref
from tasks.lever.learning.selector_comparison import Summary
from tasks.lever.lever_records import TrainedSelector


class SeedReport(Record):
    """Results of one seed."""

    seed: int
    trained: tuple[TrainedSelector, ...] = ()
    evaluated: Ref | None = None
    """Artifact of kind Evaluated."""


class LeverReport(Record):
    """A run from its first stage to its last."""

    run: str
    started_at: datetime
    ended_at: datetime
    version: str
    """Version of Trivet."""
    git_commit: str | None
    environment: dict[str, Any]
    config: dict[str, Any]
    stages: tuple[str, ...]
    """Those that it went through."""
    seeds: tuple[SeedReport, ...] = ()
    summary: Summary | None = None
    """Figures over all seeds, if the run got so far."""
    files: tuple[str, ...] = ()
    """Written for users."""
    notes: tuple[str, ...] = ()
    unfinished: dict[str, str] = Field(default_factory=dict[str, str])
    """Item → why it may succeed another time."""

    def told(self) -> dict[str, Any]:
        """As `--json` has it: `{selector: {accuracy, se}}` at the shots that were trained for, and the rest."""
        figures = self.summary.figures if self.summary else ()
        shots = self.summary.conditions.trained_shots if self.summary else None
        at = {
            one.selector: {"accuracy": one.accuracy.value, "se": one.accuracy.se}
            for one in figures
            if one.shots == shots
        }
        rest = self.model_dump(mode="json", exclude={"config", "environment", "seeds"})
        return at | rest | {"seeds": [one.model_dump(mode="json") for one in self.seeds]}
