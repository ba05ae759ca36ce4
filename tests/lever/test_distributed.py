"""Two processes train as one does, and none is left behind, whatever happens."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from models.pointer import PointerSelector
from tasks.lever.errors import TrainingDiverged, WorkerFailed
from tasks.lever.settings import GrpoSettings, RceSettings, SftSettings
from tasks.lever.training import train_grpo, train_rce, train_sft
from tasks.lever.training_loop import Trained, TrainingPlace
from tests.lever.small_trainings import (
    CONFIG,
    GRPO,
    HERE,
    FeatureJudge,
    GreedyReward,
    small_groups,
    small_grpo,
    small_labelled,
    small_start,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TWO = TrainingPlace(processes=2)
GROUPS = small_groups()
GONE_S = 20


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _children() -> dict[int, str]:
    """Process id → rank of the processes of trainings on this machine that come from this one; launchers have none."""
    found: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_text()
            entries = [entry.partition("=") for entry in (folder / "environ").read_text().split("\0")]
        except OSError:
            continue
        environment = {name: value for name, _, value in entries}
        if "training_worker" in command and environment.get("PYTEST_CURRENT_TEST") == os.environ["PYTEST_CURRENT_TEST"]:
            found[int(folder.name)] = environment.get("RANK", "")
    return found


def _wait_until_gone() -> dict[int, str]:
    deadline = time.monotonic() + GONE_S
    while (left := _children()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def _ranks_end() -> bool:
    deadline = time.monotonic() + GONE_S
    while (alive := any(_children().values())) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not alive


def _train(stage: str, place: TrainingPlace) -> Trained:
    validate = GreedyReward(GROUPS)
    if stage == "sft":
        settings = SftSettings(epochs=3, batch_size=8)
        labelled = small_labelled(GROUPS)
        one_shot = labelled._replace(labels=labelled.labels[:, :1])  # the gate is not used, and gets no gradient
        return train_sft(CONFIG, one_shot, settings, seed=0, validate=validate, place=place)
    if stage == "rce":
        settings = RceSettings(epochs=3, batch_size=3)  # the last batch is smaller than the number of processes
        groups = GROUPS._replace(judged=GROUPS.judged.clone().index_fill(0, torch.tensor([1, 4]), False))
        groups.judged[:, 0] = True
        return train_rce(small_start(), groups, settings, seed=0, validate=validate, place=place)
    return small_grpo(place=place, validate=validate, judge=FeatureJudge(GROUPS))


@pytest.mark.parametrize("stage", ["sft", "rce", "grpo"])
def test_two_processes_train_as_one_does(stage: str):
    one, two = _train(stage, HERE), _train(stage, TWO)
    for name, weights in one.selector.state_dict().items():
        torch.testing.assert_close(two.selector.state_dict()[name], weights, rtol=0, atol=1e-9)
    assert (two.validation, two.chosen_epoch) == (one.validation, one.chosen_epoch)
    assert [(point.step, point.epoch, sorted(point.figures)) for point in two.curve] == [
        (point.step, point.epoch, sorted(point.figures)) for point in one.curve
    ]
    for mine, theirs in zip(one.curve, two.curve, strict=True):
        assert theirs.figures == pytest.approx(mine.figures, abs=1e-9)


def test_one_process_goes_on_from_where_two_were(tmp_path: Path):
    class Stop(Exception):
        pass

    def validate(selector: PointerSelector) -> float:
        if (tmp_path / "stop").exists():
            raise Stop
        (tmp_path / "stop").touch()
        return 0.1

    with pytest.raises(Stop):  # what the callback raises comes out as it is
        small_grpo(place=TrainingPlace(tmp_path, processes=2), validate=validate)
    assert _wait_until_gone() == {}
    resumed = small_grpo(place=TrainingPlace(tmp_path), validate=lambda _: 0.2)
    whole = small_grpo(validate=lambda _: 0.2)
    assert resumed.validation == whole.validation | {0: 0.1}
    assert resumed.curve[-1].figures == pytest.approx(whole.curve[-1].figures, abs=1e-9)


class KillingJudge(FeatureJudge):
    """Kills rank 1 as soon as it is asked."""

    def __call__(self, asked: Sequence[tuple[int, tuple[int, ...]]]) -> list[float]:
        for pid, rank in _children().items():
            if rank == "1":
                os.kill(pid, signal.SIGKILL)
        return super().__call__(asked)


@pytest.mark.drill
def test_a_rank_that_dies_is_named_and_the_others_are_ended():
    with pytest.raises(WorkerFailed, match=r"rank 1 of the training ended with exit code -9"):
        train_grpo(
            small_start(),
            GROUPS,
            GrpoSettings(offline_epochs=0, rounds=500, draws=4),
            seed=0,
            validate=GreedyReward(GROUPS),
            place=TWO,
            judge=KillingJudge(GROUPS),
        )
    assert _wait_until_gone() == {}


@pytest.mark.drill
def test_ctrl_c_ends_all_ranks():
    def validate(selector: PointerSelector) -> float:
        assert sorted(_children().values()) == ["", "0", "1"]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small_grpo(place=TWO, validate=validate)
    assert _wait_until_gone() == {}


@pytest.mark.drill
def test_ranks_whose_launcher_is_killed_end_themselves():
    def validate(selector: PointerSelector) -> float:
        launcher = next(pid for pid, rank in _children().items() if not rank)
        os.kill(launcher, signal.SIGKILL)
        assert _ranks_end()
        return 0.5

    with pytest.raises(WorkerFailed, match="exit code -9"):
        small_grpo(place=TWO, validate=validate)
    assert _wait_until_gone() == {}


def test_what_a_training_refuses_it_refuses_across_processes_too():
    settings = GRPO.model_copy(update={"lr": 1e300, "clip_norm": 1e300})
    with pytest.raises(TrainingDiverged, match=r"update \d+ of 18"):
        small_grpo(place=TWO, settings=settings, judge=lambda asked: [math.sin(number) for number in range(len(asked))])


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_gpus_train_as_one_does():
    one, two = (small_grpo(place=TrainingPlace(device="cuda", amp=False, processes=count)) for count in (1, 2))
    for name, weights in one.selector.state_dict().items():
        torch.testing.assert_close(two.selector.state_dict()[name], weights, rtol=0, atol=1e-6)
