"""Selectors that were trained with other data or another judge, measured here beside the one that was trained here."""

from __future__ import annotations

from pathlib import Path

from storage.records import Record
from tasks.lever.learning.selector_comparison import SeedEstimate, Summary
from tasks.lever.lever_records import SIMILARITY

FROM = "from_"
SEED = "{seed}"
"""In the path of a checkpoint: stands for the seed that is measured."""


class TransferRow(Record):
    """A selector, by what it was trained on."""

    trained_on: str
    """Its name in the configuration; of the selector that was trained here, the dataset's."""
    measured_on: str
    """The dataset."""
    selector: str
    """Its row in the tables."""
    accuracy: SeedEstimate
    over_similarity: SeedEstimate
    """Paired by query and seed."""


def selector_from(name: str) -> str:
    """The row of a selector that was trained elsewhere."""
    return f"{FROM}{name}"


def of_seed(checkpoint: Path, seed: int) -> Path:
    """The checkpoint of a seed, where the path names one."""
    return Path(str(checkpoint).replace(SEED, str(seed)))


def transfer_of(summary: Summary) -> tuple[TransferRow, ...]:
    """What was trained elsewhere, and the last stage here, at the trained shots; empty where nothing is from elsewhere.

    A selector from elsewhere may have been trained for other shots: what counts is how many it shows here.
    """
    shots, own = summary.conditions.trained_shots, summary.headline.better if summary.headline else None
    gains = {gain.better: gain for gain in summary.gains if gain.worse == SIMILARITY and gain.shots == shots}
    elsewhere = [name for name in gains if name.startswith(FROM)]
    rows = list[TransferRow]()
    for name in [*([own] if own and elsewhere else []), *elsewhere]:
        figure = summary.figure(name, shots=shots)
        assert figure
        rows.append(
            TransferRow(
                trained_on=summary.conditions.dataset if name == own else name.removeprefix(FROM),
                measured_on=summary.conditions.dataset,
                selector=name,
                accuracy=figure.accuracy,
                over_similarity=gains[name].accuracy,
            )
        )
    return tuple(rows)
