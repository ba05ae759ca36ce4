"""Values that the lever's steps exchange, and functions that open them: a world with its judge, a training."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from storage.files import alone
from storage.records import Record, Ref
from tasks import progress
from tasks.budget import Spending
from tasks.calls import wait_for_twin
from tasks.keys import content_key
from tasks.lever.judge.demonstration_task import DemonstrationTask, PromptSettings, open_task
from tasks.lever.judge.judges import JudgeSpec
from tasks.lever.lever_options import RewardMode
from tasks.lever.lever_records import BeamPart, Curve, Dataset, Embedded, PointerRecord, Pools, Stage, TrainedSelector
from tasks.resources import artifacts, budget, optional_responses, resources
from tasks.step import paying_run

if TYPE_CHECKING:
    from models.pointer import PointerSelector
    from tasks.lever.learning.training_inputs import Groups, Setting
    from tasks.lever.learning.training_loop import Trained, TrainingRun

QUERIES_PER_SHARD = 64
"""Judged together: a judge in this process gets the same batches however often it is interrupted."""
TRAINING_VERSION = 2
"""Raise it, with the steps', when a training would learn otherwise: no half-trained state of before is taken up."""


class World(Record):
    """Inputs common to all steps after the embeddings."""

    dataset: Ref
    embedded: Embedded
    judge: JudgeSpec
    prompts: PromptSettings = PromptSettings()
    threshold: float = Field(default=0.5, gt=0, le=1)  # Lever-Plus counts every accuracy above 0 as right
    """Accuracy from which an answer counts as right."""
    stem: bool = False
    """Compare stems of words, as OK-VQA does; of questions about pictures."""


class DatasetRead(Record):
    """A dataset that was read, with the number of its train queries."""

    dataset: Ref
    train_queries: int
    notes: tuple[str, ...] = ()
    """Notes for the user on what was left out."""


class Learning(Record):
    """The number of shots and the seed of a training."""

    shots: int = Field(default=2, ge=1)
    """Number of demonstrations in a prompt."""
    seed: int = 0


class Effort(Record):
    """Device and budget of a step; its result does not depend on them."""

    device: str | None = None
    """`cpu`, `cuda:0` …; unset: a GPU if there is one."""
    spending: Spending = Spending()
    """Limits on the calls of the judge."""


def open_setting(world: World, effort: Effort) -> Setting:
    """Open the dataset of a world with its vectors, and its judge, whose calls the run of this step pays for."""
    from tasks.lever.data.embeddings import EmbeddingBank
    from tasks.lever.judge.judges import limits_of, open_judge
    from tasks.lever.judge.judging import Judging
    from tasks.lever.learning.training_inputs import Setting

    dataset, judge = _dataset(world.dataset.model_dump_json()), open_judge(world.judge)
    judging = Judging(
        judge,
        {item.id: item for item in dataset.items},
        _task(world.dataset.model_dump_json(), world.prompts.model_dump_json(), stem=world.stem),
        threshold=world.threshold,
        responses=optional_responses(),
        limits=limits_of(world.judge.name),
        budget=budget(paying_run(), effort.spending),
    )
    queries, candidates = (EmbeddingBank.from_bytes(artifacts().get(ref)) for ref in world.embedded.visible_banks)
    return Setting(dataset, queries, candidates, judging)


@lru_cache(maxsize=1)
def _dataset(ref: str) -> Dataset:
    """Read a dataset, once for all shards that follow one another. ref: Ref as JSON."""
    return artifacts().load(Dataset, Ref.model_validate_json(ref))


@lru_cache(maxsize=1)
def _task(dataset: str, prompts: str, *, stem: bool) -> DemonstrationTask[Any]:
    """Open a task once, so that shards share the pictures that it has read. All parameters as JSON."""
    return open_task(_dataset(dataset), PromptSettings.model_validate_json(prompts), stem=stem)


def open_weights(weights: Ref, device: str = "cpu") -> PointerSelector:
    """Load the selector that has these weights, on a device."""
    from tasks.lever.learning.checkpoints import load_selector

    return load_selector(artifacts().get(weights), device=device)


def open_beams(parts: Sequence[Ref]) -> Mapping[str, tuple[PointerRecord, ...]]:
    """Load the beam data of all parts, by query."""
    return {query: records for part in parts for query, records in artifacts().load(BeamPart, part).queries.items()}


def shard_numbers(queries: int) -> range:
    """Return the numbers of the shards of so many queries."""
    return range(-(-queries // QUERIES_PER_SHARD))  # rounded up


def ids_in_shard(ids: Sequence[str], shard: int) -> Sequence[str]:
    """Return the ids of the shard of this number."""
    return ids[shard * QUERIES_PER_SHARD : (shard + 1) * QUERIES_PER_SHARD]


class Training(NamedTuple):
    """A training that is about to run: its inputs, and how its result is stored."""

    stage: Stage
    world: World
    setting: Setting
    pools: Pools
    run: TrainingRun

    def groups(self, data: Ref, mode: RewardMode, *, shots: int) -> Groups:
        """Load the judged pointers of RL data as tensors."""
        from tasks.lever.learning.training_inputs import make_groups

        banks: Any = {"queries": self.setting.queries, "candidates": self.setting.candidates}
        return make_groups(artifacts().path(data), **banks, mode=mode, shots=shots)

    def store(self, trained: Trained) -> TrainedSelector:
        """Store the trained selector and its curve as artifacts; the checkpoint records the recipe of its pools."""
        from tasks.lever.learning.checkpoints import POOLS_OF, save_selector

        meta = {
            "stage": self.stage,
            "chosen_epoch": trained.chosen_epoch,
            "encoder": self.world.embedded.visible_encoder,
            POOLS_OF: self.pools.recipe.model_dump(mode="json"),
        }
        return TrainedSelector(
            stage=self.stage,
            weights=artifacts().put("selector", save_selector(trained.selector, meta=meta)),
            curve=artifacts().save("curve", Curve(points=trained.curve)),
            chosen_epoch=trained.chosen_epoch,
            validation=trained.validation,
        )


@contextmanager
def open_training(
    stage: Stage, world: World, learning: Learning, effort: Effort, *, epochs: int, pools: Ref, **inputs: object
) -> Generator[Training]:
    """Open a training, and resume it if one of the same inputs was interrupted. inputs: what else it depends on."""
    from models.causal_weights import device_for
    from tasks.lever.learning.training_inputs import make_validation, single_threaded
    from tasks.lever.learning.training_loop import TrainingRun

    device, name = device_for(effort.device), f"train {stage.upper()}"
    key = content_key(stage, TRAINING_VERSION, {"world": world, "learning": learning, "pools": pools, **inputs})[:32]
    home = resources().home
    folder = home / "cache" / "training" / key  # equal for equal inputs, and of one run at a time
    with alone(home, f"training {key}", wait=wait_for_twin), single_threaded(device):
        setting, candidates = open_setting(world, effort), artifacts().load(Pools, pools)
        accuracy = make_validation(setting, candidates, shots=learning.shots)
        progress.expect(name, epochs + 1)

        def validate(selector: PointerSelector) -> float:
            value = accuracy(selector)
            progress.advance(name)
            return value

        yield Training(stage, world, setting, candidates, TrainingRun(validate, learning.seed, folder, device))
        shutil.rmtree(folder, ignore_errors=True)  # not reached by an error: the next try goes on from the state


def report_progress(stage: str, count: int) -> Callable[[int], None]:
    """Return a function that reports progress: it is called with the number of items of `count` newly done."""
    progress.expect(stage, count)
    return lambda done: progress.advance(stage, done)
