"""What the steps of the lever open: a world with its judge, a selector, a shard of queries, a folder to train in."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from storage.records import Ref
from tasks import progress
from tasks.keys import content_key
from tasks.lever.records import Dataset
from tasks.lever.step_values import Effort, World
from tasks.resources import artifacts, budget, kept_responses, resources

if TYPE_CHECKING:
    from models.pointer import PointerSelector
    from tasks.lever.learning import Setting

QUERIES_PER_SHARD = 64
"""Judged together: a judge in this process gets the same batches however often it is interrupted."""
TRAINING_VERSION = 1
"""Raise it, with the steps', when a training would learn otherwise: no half-trained state of before is taken up."""


def open_setting(world: World, effort: Effort, *, run: str) -> Setting:
    """The dataset of a world with its vectors, and its judge; run: whose budget the judge is asked from."""
    from tasks.lever.banks import EmbeddingBank
    from tasks.lever.judges import limits_of, open_judge
    from tasks.lever.judging import Judging
    from tasks.lever.learning import Setting

    dataset = artifacts().load(Dataset, world.dataset)
    judging = Judging(
        open_judge(world.judge),
        {item.id: item for item in (*dataset.train, *dataset.validation, *dataset.test)},
        prompts=world.prompts,
        threshold=world.threshold,
        stem=world.stem,
        responses=kept_responses(),
        limits=limits_of(world.judge.name, concurrency=effort.concurrency),
        budget=budget(run, effort.spending),
    )
    queries, candidates = (EmbeddingBank.from_bytes(artifacts().get(ref)) for ref in world.embedded.seen)
    return Setting(dataset, queries, candidates, judging)


def open_weights(weights: Ref, device: str) -> PointerSelector:
    """The selector that has these weights, on a device."""
    from tasks.lever.checkpoints import load_selector

    return load_selector(artifacts().get(weights)).to(device)


def shards_of(queries: int) -> range:
    """Numbers of the shards of so many queries."""
    return range(-(-queries // QUERIES_PER_SHARD))


def in_shard(ids: Sequence[str], shard: int) -> Sequence[str]:
    """The queries of the shard of this number."""
    return ids[shard * QUERIES_PER_SHARD : (shard + 1) * QUERIES_PER_SHARD]


@contextmanager
def training_folder(name: str, **inputs: object) -> Generator[Path]:
    """Where a training keeps its state until it is through: the same one for the same inputs, for one run at a time."""
    from storage.locking import alone
    from tasks.evaluation.asking import wait_for_twin

    key = content_key(name, TRAINING_VERSION, inputs)[:32]
    folder = resources().home / "cache" / "training" / key
    with alone(resources().home, f"training {key}", wait=wait_for_twin):
        yield folder
        shutil.rmtree(folder, ignore_errors=True)


def telling(stage: str, count: int) -> Callable[[int], None]:
    """Tells whoever watches that so many more of `count` are done."""
    progress.expect(stage, count)
    return lambda done: progress.advance(stage, done)
