"""The trainings of a selector, stage by stage: what it learns from, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable

from models.pointer import PointerSelector
from storage.records import Ref
from tasks import progress
from tasks.lever import training
from tasks.lever.checkpoints import save_selector
from tasks.lever.learning import (
    Setting,
    device_of,
    groups_in,
    labelled_of,
    online_rewards,
    pools_in,
    steady,
    validation_of,
)
from tasks.lever.opening import open_weights, training_folder
from tasks.lever.options import NetworkSettings, RewardMode
from tasks.lever.records import BeamPart, Curve, Pools, Stage, TrainedSelector
from tasks.lever.settings import GrpoSettings, RceSettings, SftSettings
from tasks.lever.step_values import Effort, Learning, World
from tasks.lever.training import Trained, TrainingPlace
from tasks.resources import artifacts


def train_sft(
    setting: Setting,
    world: World,
    *,
    pools: Ref,
    beams: tuple[Ref, ...],
    network: NetworkSettings,
    settings: SftSettings,
    learning: Learning,
    effort: Effort,
) -> TrainedSelector:
    """A selector that imitates the best pointers."""
    candidates = artifacts().load(Pools, pools)
    found = {query: best for part in beams for query, best in artifacts().load(BeamPart, part).queries.items()}
    labelled = labelled_of(setting, candidates, found)
    validate = _told("train SFT", settings.epochs, validation_of(setting, candidates, shots=learning.shots))

    def run(place: TrainingPlace) -> Trained:
        config = network.config(world.embedded.dimension)
        return training.train_sft(config, labelled, settings, seed=learning.seed, validate=validate, place=place)

    inputs = {"pools": pools, "beams": beams, "network": network, "settings": settings}
    return _train("sft", run, world, learning, effort, **inputs)


def train_rce(
    setting: Setting,
    world: World,
    *,
    pools: Ref,
    data: Ref,
    selector: Ref,
    reward: RewardMode,
    settings: RceSettings,
    learning: Learning,
    effort: Effort,
) -> TrainedSelector:
    """The selector learns the whole group of pointers, each as far as it was rewarded."""
    groups = groups_in(setting, artifacts().get(data), mode=reward, shots=learning.shots)
    candidates = artifacts().load(Pools, pools)
    validate = _told("train RCE", settings.epochs, validation_of(setting, candidates, shots=learning.shots))

    def run(place: TrainingPlace) -> Trained:
        start = open_weights(selector, place.device)
        return training.train_rce(start, groups, settings, seed=learning.seed, validate=validate, place=place)

    inputs = {"pools": pools, "data": data, "selector": selector, "reward": reward, "settings": settings}
    return _train("rce", run, world, learning, effort, **inputs)


def train_grpo(
    setting: Setting,
    world: World,
    *,
    pools: Ref,
    data: Ref,
    selector: Ref,
    reward: RewardMode,
    settings: GrpoSettings,
    learning: Learning,
    effort: Effort,
) -> TrainedSelector:
    """The selector is moved towards the pointers that are better than others of their group, and judged as it goes."""
    groups = groups_in(setting, artifacts().get(data), mode=reward, shots=learning.shots)
    candidates = artifacts().load(Pools, pools)
    epochs = settings.offline_epochs + (0 if settings.offline_only else settings.rounds)
    validate = _told("train GRPO", epochs, validation_of(setting, candidates, shots=learning.shots))
    judge = online_rewards(setting, pools_in(artifacts().get(data), candidates), groups.ids, mode=reward)

    def run(place: TrainingPlace) -> Trained:
        start = open_weights(selector, place.device)
        asked = None if settings.offline_only else judge
        return training.train_grpo(
            start, groups, settings, seed=learning.seed, validate=validate, place=place, judge=asked
        )

    inputs = {"pools": pools, "data": data, "selector": selector, "reward": reward, "settings": settings}
    return _train("grpo", run, world, learning, effort, **inputs)


def _train(
    stage: Stage,
    run: Callable[[TrainingPlace], Trained],
    world: World,
    learning: Learning,
    effort: Effort,
    **inputs: object,
) -> TrainedSelector:
    """Train in a folder of these inputs' own, where a killed training is taken up again."""
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


def _told(stage: str, epochs: int, validate: Callable[[PointerSelector], float]) -> Callable[[PointerSelector], float]:
    """`validate`, which is called before the first epoch and after each; whoever watches sees them pass."""
    progress.expect(stage, epochs + 1)

    def validated(selector: PointerSelector) -> float:
        accuracy = validate(selector)
        progress.advance(stage)
        return accuracy

    return validated
