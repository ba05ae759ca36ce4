"""The loop under all trainings: batches, epochs, the choice among them, and going on after an interruption."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from models.pointer import PointerSelector
from tasks.lever.learning import losses as reference_policy
from tasks.lever.learning.losses import Reference, sft_loss
from tasks.lever.learning.training_inputs import Material
from tasks.lever.learning.training_loop import (
    Loop,
    Objective,
    Plan,
    Trained,
    TrainingRun,
    UpdateLoss,
    derive_seed,
    learning_rate,
)
from tasks.lever.lever_errors import TrainingDiverged
from tasks.lever.lever_options import Optimization
from tests.lever.small_trainings import DROPPING, GreedyReward, Interrupted, same, small_groups, small_start

pytestmark = pytest.mark.usefixtures("one_thread")
GROUPS = small_groups()
PLAN = Plan(queries=20, batch_size=7, turns=(1, 2))
UPDATES = 9


def _imitate(selector: PointerSelector, rows: Tensor) -> UpdateLoss:
    pool = GROUPS.bank[GROUPS.pools[rows]]
    log_probs = selector.log_probs(GROUPS.queries[rows], pool, GROUPS.pointers[rows])  # (b, G, S)
    return UpdateLoss(sft_loss(log_probs.flatten(0, 1)), {"first": log_probs[:, 0].mean()})


def _train(
    folder: Path | None = None,
    *,
    objective: Objective = _imitate,
    validate: Callable[[PointerSelector], float] | None = None,
    save_every: int = 2,
    lr: float = 1e-2,
) -> Trained:
    loop = Loop(
        small_start(config=DROPPING),
        PLAN,
        Optimization(lr=lr),
        TrainingRun(validate or GreedyReward(GROUPS), 3, folder, save_every=save_every),
    )
    for epoch in loop.epochs():
        for batch in loop.batches(epoch):
            loop.learn(batch, objective)
    return loop.trained()


@pytest.fixture(scope="module")
def undisturbed() -> Trained:
    """What the training of this module gives when nothing happens to it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _train()
    finally:
        torch.set_num_threads(threads)


def _stopping(after: int) -> Objective:
    """Imitates, and breaks off in the middle of an update."""
    left = after

    def objective(selector: PointerSelector, rows: Tensor) -> UpdateLoss:
        nonlocal left
        if not left:
            raise Interrupted
        left -= 1
        return _imitate(selector, rows)

    return objective


@pytest.mark.parametrize("batch_size", [1, 6, 7, 19, 20, 50])
def test_every_turn_sees_every_query_once_in_batches_of_nearly_one_size(batch_size: int):
    plan = Plan(queries=20, batch_size=batch_size, turns=(1, 2))
    batches = [plan.rows(update, seed=0) for update in range(plan.updates)]
    sizes = [len(rows) for rows in batches]
    assert torch.equal(torch.cat(batches).bincount(), torch.tensor([3] * 20))
    assert max(sizes) <= batch_size
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("after", range(UPDATES))
@pytest.mark.parametrize("save_every", [2, 100])
def test_a_training_that_broke_off_at_any_update_ends_as_an_undisturbed_one(
    tmp_path: Path, after: int, save_every: int, undisturbed: Trained
):
    with pytest.raises(Interrupted):
        _train(tmp_path, objective=_stopping(after), save_every=save_every)
    assert same(_train(tmp_path, save_every=save_every), undisturbed)


def test_a_damaged_state_costs_time_but_nothing_else(tmp_path: Path, undisturbed: Trained):
    with pytest.raises(Interrupted):
        _train(tmp_path, objective=_stopping(4))
    (state,) = tmp_path.iterdir()
    state.write_bytes(state.read_bytes()[:-5])
    assert same(_train(tmp_path), undisturbed)


def _accuracies(*values: float) -> Callable[[PointerSelector], float]:
    left = iter(values)
    return lambda _: next(left)


@pytest.mark.parametrize(
    ("accuracies", "chosen"),
    [
        pytest.param((0.1, 0.2, 0.3), 2, id="the last one is the best"),
        pytest.param((0.1, 0.3, 0.3), 1, id="of equals the first"),
        pytest.param((0.3, 0.2, 0.1), 0, id="training only spoilt it"),
    ],
)
def test_the_epoch_with_the_best_accuracy_is_chosen(accuracies: tuple[float, ...], chosen: int):
    trained = _train(validate=_accuracies(*accuracies))
    assert (trained.chosen_epoch, trained.validation) == (chosen, dict(enumerate(accuracies)))


def test_a_selector_is_validated_without_dropout_and_given_ready_for_use():
    training: list[bool] = []

    def validate(selector: PointerSelector) -> float:
        training.append(selector.training)
        return 0.0

    assert (_train(validate=validate).selector.training, training) == (False, [False] * 3)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_the_training_and_names_the_update(wrong: float):
    calls = 0

    def objective(selector: PointerSelector, rows: Tensor) -> UpdateLoss:
        nonlocal calls
        calls += 1
        learnt = _imitate(selector, rows)
        return learnt._replace(loss=learnt.loss * wrong) if calls == 5 else learnt

    with pytest.raises(TrainingDiverged, match=r"update 5 of 9 \(epoch 2\).*loss"):
        _train(objective=objective)


WHOLE = Plan(queries=50, batch_size=50, turns=(3,))


@pytest.mark.parametrize(
    ("update", "rate"),
    [
        pytest.param(0, 0.5, id="first of two warm-up updates"),
        pytest.param(1, 1.0, id="the warm-up ends at the peak"),
        pytest.param(2, 1.0, id="the cosine begins there"),
        pytest.param(11, 0.5, id="half way down"),
        pytest.param(19, 0.5 * (1 - 0.984807753012208), id="the last one: 17 of 18 of the way"),
    ],
)
def test_the_rate_rises_in_a_line_and_falls_as_a_cosine(update: int, rate: float):
    assert learning_rate(update, 20, peak=1.0) == pytest.approx(rate)


def test_draws_for_different_purposes_have_different_seeds():
    seeds = {
        derive_seed(0, "draw", 1),
        derive_seed(0, "draw", 2),
        derive_seed(0, "order", 1),
        derive_seed(1, "draw", 1),
        derive_seed(0, "draw"),
    }
    assert len(seeds) == 5


@pytest.mark.parametrize(
    ("exact", "most_bytes"),
    [(True, 1 << 28), (True, 0), (False, 0)],
    ids=["tables kept", "tables too large to keep", "no tables"],
)
def test_a_reference_gives_the_log_probabilities_of_its_selector(
    exact: bool, most_bytes: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reference_policy, "MOST_KEPT_BYTES", most_bytes)
    monkeypatch.setattr(reference_policy, "CHUNK", 7)
    groups, selector = small_groups(), small_start()
    material = Material.of(groups, selector, device=torch.device("cpu"))
    frozen = Reference(selector, material, shots=2, exact=exact)
    with torch.no_grad():
        expected = selector.log_probs(groups.queries, groups.bank[groups.pools], groups.pointers).sum(-1)
    torch.testing.assert_close(frozen.log_probs(groups.pointers), expected)
