"""What the lever can refuse.

LeverError
├── OptionUnusable       a name that nothing here has: lists what there is
├── DatasetUnusable      questions, annotations or pictures that are missing or malformed: names file and entry
├── FileUnusable         embeddings, beam data, RL data or a checkpoint that cannot be read as such: names file and key
├── PoolTooSmall         fewer candidates than shots
├── PointerUnusable      a pointer outside its pool, repeated, or of the wrong length
├── RewardUnusable       a reward that is no number, or a record without what its mode needs
├── JudgeUnusable        the judge cannot do what is asked of it: no log-probabilities, no pictures
├── TrainingDiverged     a loss or gradient that is no number any more: names the update
└── Unfinished           some items could not be judged, but may be later: the rest is kept
"""

from __future__ import annotations

from typing import Any


class LeverError(Exception):
    """Root; its text is a full sentence with the remedy."""


class OptionUnusable(LeverError):
    """A name that nothing here has."""


class DatasetUnusable(LeverError):
    """Questions, annotations or pictures that cannot be used."""


class FileUnusable(LeverError):
    """A file that is not what it should be."""


class PoolTooSmall(LeverError):
    """A query has fewer candidates than are to be shown."""


class PointerUnusable(LeverError):
    """Not an ordered choice of distinct positions in a pool."""


class RewardUnusable(LeverError):
    """Nothing that can be learnt from."""


class JudgeUnusable(LeverError):
    """The judge lacks an ability."""


class TrainingDiverged(LeverError):
    """A training went astray; its state on disk is that of before."""


class Unfinished(LeverError):
    """Some items may still get what they lack; `report` holds what there is."""

    def __init__(self, items: dict[str, str], *, report: Any) -> None:
        name, why = next(iter(items.items()))
        super().__init__(
            f"{len(items)} not finished ({name}: {why}); run the same command again, or retry the run: only these are "
            "done"
        )
        self.report = report
        self.items = items
