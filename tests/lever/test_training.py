"""SFT, RCE and GRPO: what they must learn, what must not matter to them, and what they say of themselves."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from statistics import fmean

import pytest
import torch

from models.pointer import PointerSelector
from tasks.lever.learning import trainings
from tasks.lever.learning.losses import adapt_beta
from tasks.lever.learning.training_inputs import Groups
from tasks.lever.learning.training_loop import Loop, Trained, TrainingRun
from tasks.lever.learning.trainings import learn_grpo, learn_rce, learn_sft
from tasks.lever.lever_options import GrpoSettings, RceSettings, SftSettings
from tests.lever.small_trainings import (
    CONFIG,
    DROPPING,
    GRPO,
    SHOTS,
    FeatureJudge,
    GreedyReward,
    Interrupted,
    same,
    small_groups,
    small_grpo,
    small_start,
)

pytestmark = pytest.mark.usefixtures("one_thread")
OFFLINE = GRPO.model_copy(update={"rounds": 0})
ONLINE = GRPO.model_copy(update={"offline_epochs": 0})


def _likelihood(selector: PointerSelector, groups: Groups, number: int) -> float:
    """Mean probability of the pointers of that number."""
    with torch.no_grad():
        pool = groups.bank[groups.pools]
        return selector.log_probs(groups.queries, pool, groups.pointers)[:, number].sum(-1).exp().mean().item()


def _grpo(groups: Groups, settings: GrpoSettings = OFFLINE, start: PointerSelector | None = None) -> Trained:
    validate = GreedyReward(small_groups())
    return learn_grpo(start or small_start(), groups, settings, TrainingRun(validate), judge=FeatureJudge(groups))


# what they must learn


def test_sft_learns_labels_that_are_positions_in_the_pool_of_the_query():
    groups = small_groups(queries=40)
    settings = SftSettings(epochs=60, batch_size=10, lr=2e-2)
    trained = learn_sft(CONFIG, groups, settings, TrainingRun(lambda selector: _likelihood(selector, groups, 0)))
    chosen = trained.selector.greedy(groups.queries, groups.bank[groups.pools], shots=SHOTS)
    assert (chosen == groups.pointers[:, 0]).float().mean() > 0.9


def test_rce_prefers_the_rewarded_pointer_of_a_group():
    groups = small_groups()
    rewards = torch.zeros_like(groups.rewards)
    rewards[:, 2] = 2.0
    settings = RceSettings(epochs=40, batch_size=10, lr=1e-2)
    start = small_start()
    trained = learn_rce(
        start,
        groups._replace(rewards=rewards),
        settings,
        TrainingRun(lambda selector: _likelihood(selector, groups, 2)),
    )
    assert _likelihood(trained.selector, groups, 2) > 2 * max(
        _likelihood(start, groups, 2), *(_likelihood(trained.selector, groups, number) for number in (0, 1, 3))
    )


def test_grpo_learns_a_reward_that_no_stored_pointer_tells_of():
    groups = small_groups(queries=60)
    settings = GrpoSettings(offline_epochs=0, rounds=8, draws=8, batch_size=20, lr=1e-2, adapt_beta=False)
    trained = learn_grpo(small_start(), groups, settings, TrainingRun(GreedyReward(groups)), judge=FeatureJudge(groups))
    assert trained.validation[0] < 0.6
    assert trained.validation[trained.chosen_epoch] > 0.9


# what must not matter


def test_what_the_judge_could_not_judge_has_no_influence():
    groups = small_groups()
    judged = groups.judged.clone()
    judged[::2, 3] = False
    unjudged = groups._replace(judged=judged)
    spoilt = unjudged._replace(
        rewards=groups.rewards.masked_fill(~judged, math.nan),
        pointers=torch.where(judged[..., None], groups.pointers, groups.pointers.flip(-1)),
        behaviour=groups.behaviour.masked_fill(~judged, 40.0),
    )
    assert same(_grpo(unjudged), _grpo(spoilt))
    rce = [
        learn_rce(small_start(), one, RceSettings(epochs=1), TrainingRun(lambda _: 0.0)) for one in (unjudged, spoilt)
    ]
    assert same(*rce)


def test_equal_rewards_everywhere_teach_nothing_and_are_counted_and_said(caplog: pytest.LogCaptureFixture):
    groups = small_groups()
    with caplog.at_level(logging.WARNING):
        trained = _grpo(groups._replace(rewards=torch.full_like(groups.rewards, 0.7)))
    start = small_start().state_dict()
    assert all(torch.equal(one, start[name]) for name, one in trained.selector.state_dict().items())
    assert {point.figures["frac_zero_std"] for point in trained.curve} == {1.0}
    assert "updates=6 passed_over=6: the rewards of each query were all equal" in caplog.text


# ratios, divergences and what is reported


@pytest.mark.parametrize("up_to", [100_000, 0], ids=["exact divergence", "k3"])
def test_at_the_first_update_ratios_are_one_and_the_loss_is_minus_the_mean_advantage(
    up_to: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(trainings, "EXACT_KL_UP_TO", up_to)
    first = _grpo(small_groups(), OFFLINE, small_start(config=DROPPING)).curve[0].figures
    assert first["ratio_mean"] == pytest.approx(1, abs=1e-12)
    assert first["ess"] == pytest.approx(1, abs=1e-12)
    assert first["loss"] == pytest.approx(0, abs=1e-12)  # advantages of a group sum to 0
    assert first["kl"] == pytest.approx(0, abs=1e-12)


def test_beta_follows_the_divergence_of_the_epoch_before():
    curve = small_grpo(settings=GRPO.model_copy(update={"rounds": 4})).curve
    expected = 0.02
    for epoch in range(1, 7):
        betas, kls = (
            [point.figures[name] for point in curve if point.epoch == epoch and "loss" in point.figures]
            for name in ("beta", "kl")
        )
        assert betas == [expected] * len(kls)
        expected = adapt_beta(fmean(kls), expected)
    assert expected != 0.02
    fixed = small_grpo(settings=GRPO.model_copy(update={"rounds": 4, "adapt_beta": False})).curve
    assert {point.figures["beta"] for point in fixed if "beta" in point.figures} == {0.02}


# other machines


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_learns_what_a_cpu_learns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Loop, "autocast", lambda _: nullcontext())
    there, here = (small_grpo(settings=OFFLINE, device=device).curve[-1].figures for device in ("cuda:0", "cpu"))
    assert there["loss"] == pytest.approx(here["loss"], abs=1e-6)


# going on after an interruption


class StoppingJudge(FeatureJudge):
    """Breaks off at a call."""

    def __init__(self, groups: Groups, at: int) -> None:
        super().__init__(groups)
        self.at = at

    def __call__(self, asked: Sequence[tuple[int, tuple[int, ...]]]) -> list[float]:
        rewards = super().__call__(asked)
        if len(self.asked) == self.at:
            raise Interrupted
        return rewards


@pytest.mark.parametrize("at", [1, 2])
def test_grpo_that_broke_off_while_judging_asks_for_the_same_and_ends_the_same(tmp_path: Path, at: int):
    groups = small_groups()
    stopping, whole, rest = StoppingJudge(groups, at), FeatureJudge(groups), FeatureJudge(groups)
    with pytest.raises(Interrupted):
        small_grpo(tmp_path, judge=stopping)
    assert same(small_grpo(tmp_path, judge=rest), small_grpo(judge=whole))
    assert (stopping.asked, rest.asked) == (whole.asked[:at], whole.asked[at - 1 :])
