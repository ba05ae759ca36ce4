"""What the steps of the lever open and keep: a world with its judge, a selector, a shard, a training's folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from storage.records import Ref
from tasks import progress
from tasks.calls import wait_for_twin
from tasks.keys import content_key
from tasks.lever.lever_records import Curve, Dataset, Stage, TrainedSelector
from tasks.lever.step_values import Effort, Learning, World
from tasks.resources import artifacts, budget, kept_responses, resources

if TYPE_CHECKING:
    from models.pointer import PointerSelector
    from tasks.lever.learning.training_inputs import Setting
    from tasks.lever.learning.training_loop import Trained, TrainingPlace, Validate

QUERIES_PER_SHARD = 64
"""Judged together: a judge in this process gets the same batches however often it is interrupted."""
TRAINING_VERSION = 1
"""Raise it, with the steps', when a training would learn otherwise: no half-trained state of before is taken up."""


def open_setting(world: World, effort: Effort, *, run: str) -> Setting:
    """The dataset of a world with its vectors, and its judge; run: whose budget the judge is asked from."""
    from tasks.lever.data.banks import EmbeddingBank
    from tasks.lever.judge.judges import limits_of, open_judge
    from tasks.lever.judge.judging import Judging
    from tasks.lever.learning.training_inputs import Setting

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
    from tasks.lever.learning.checkpoints import load_selector

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
    from storage.files import alone

    key = content_key(name, TRAINING_VERSION, inputs)[:32]
    folder = resources().home / "cache" / "training" / key
    with alone(resources().home, f"training {key}", wait=wait_for_twin):
        yield folder
        shutil.rmtree(folder, ignore_errors=True)


def trained_selector(
    stage: Stage,
    run: Callable[[TrainingPlace], Trained],
    world: World,
    learning: Learning,
    effort: Effort,
    **inputs: object,
) -> TrainedSelector:
    """Train in the folder of these inputs, where an interrupted training is resumed; gives what was kept.

    run: the training. inputs: everything beside the world that it depends on.
    """
    from tasks.lever.learning.checkpoints import save_selector
    from tasks.lever.learning.training_inputs import device_of, steady
    from tasks.lever.learning.training_loop import TrainingPlace

    device = device_of(effort.device)
    about = {"world": world, "learning": learning, **inputs}
    with training_folder(stage, **about) as folder, steady(device):
        trained = run(TrainingPlace(folder=folder, device=device))
        meta = {"stage": stage, "chosen_epoch": trained.chosen_epoch, "encoder": world.embedded.encoder}
        return TrainedSelector(
            stage=stage,
            weights=artifacts().put("selector", save_selector(trained.selector, meta=meta)),
            curve=artifacts().save("curve", Curve(points=trained.curve)),
            chosen_epoch=trained.chosen_epoch,
            validation=trained.validation,
        )


def shown(stage: str, epochs: int, validate: Validate) -> Validate:
    """`validate`, called before the first epoch and after each, which advances the progress bar of the stage."""
    progress.expect(stage, epochs + 1)

    def validated(selector: PointerSelector) -> float:
        accuracy = validate(selector)
        progress.advance(stage)
        return accuracy

    return validated


def telling(stage: str, count: int) -> Callable[[int], None]:
    """Tells whoever watches that so many more of `count` are done."""
    progress.expect(stage, count)
    return lambda done: progress.advance(stage, done)
