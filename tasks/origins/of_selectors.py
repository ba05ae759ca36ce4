"""What a run of selectors used and learnt, found by its lineage: the items of its dataset, and its learning curves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from storage.artifacts import Artifacts
from storage.lineage import Lineage
from tasks.lever.lever_records import Curve, CurvePoint, Dataset

DATASET = "vqa-dataset"
"""Kind of the artifact of a dataset, of texts too."""


class Learnt(NamedTuple):
    """One training of a run."""

    stage: str
    """`sft`, `rce`, `grpo`."""
    points: tuple[CurvePoint, ...]


def dataset_of(run: str, artifacts: Artifacts, lineage: Lineage) -> Dataset | None:
    """The dataset of a run; None where nobody recorded it, or `trivet gc` took it."""
    paths = (artifacts.find(DATASET, digest) for digest in _used(run, lineage))
    found = next((path for path in paths if path), None)
    return Dataset.model_validate_json(found.read_bytes()) if found else None


def trainings_of(run: str, artifacts: Artifacts, lineage: Lineage) -> list[Learnt]:
    """The trainings of a run, stage by stage, one for each seed; none where nobody recorded them."""
    return [*_trainings(run, artifacts, lineage)]


def _trainings(run: str, artifacts: Artifacts, lineage: Lineage) -> Iterator[Learnt]:
    used = _used(run, lineage)
    makers = lineage.origins(used, most=len(used))
    ran = sorted((origin.step.at, digest) for digest, origin in makers.items() if origin.step and digest in used)
    for _, digest in ran:
        step = makers[digest].step
        if step and ".train_" in step.step and (path := artifacts.find("curve", digest)):
            curve = Curve.model_validate_json(path.read_bytes())
            yield Learnt(step.step.rpartition(".train_")[2], curve.points)


def _used(run: str, lineage: Lineage) -> tuple[str, ...]:
    """Digests of what the rows of a run were made of."""
    return lineage.origins([run], most=1)[run].used
