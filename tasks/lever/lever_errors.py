"""Errors of the lever: LeverError, and the classes below it, each of which is its direct child."""

from __future__ import annotations

from typing import Any


class LeverError(Exception):
    """Root; its text is a full sentence with the remedy."""


class OptionUnusable(LeverError):
    """A name that does not exist here; the text lists those that do."""


class DatasetUnusable(LeverError):
    """Questions, annotations or pictures that are missing or malformed; the text names file and entry."""


class FileUnusable(LeverError):
    """Embeddings, beam data, RL data or a checkpoint that cannot be read; the text names file and key."""


class PoolTooSmall(LeverError):
    """A query has fewer candidates than demonstrations are to be shown."""


class PointerUnusable(LeverError):
    """A pointer outside its pool, repeated, or of the wrong length."""


class RewardUnusable(LeverError):
    """A reward that is no number, or a record without what its reward mode needs."""


class JudgeUnusable(LeverError):
    """The judge cannot do what is asked of it, such as log-probabilities or pictures."""


class TrainingDiverged(LeverError):
    """A loss or gradient is no number any more; the state on disk is that of before."""


class Unfinished(LeverError):
    """Some items could not be judged, but may be later; `report` holds the rest."""

    def __init__(self, items: dict[str, str], *, report: Any) -> None:
        name, why = next(iter(items.items()))
        super().__init__(
            f"{len(items)} not finished ({name}: {why}); run the same command again, or retry the run: only these are "
            "done"
        )
        self.report = report
