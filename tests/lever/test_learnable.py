"""What cannot be learnt from is refused, and the query is named."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from models.pointer import PointerConfig
from tasks.lever.learning.training_inputs import Groups, Labelled, possible_pointers, refuse_unlearnable
from tasks.lever.lever_errors import FileUnusable, LeverError, PointerUnusable, PoolTooSmall, RewardUnusable
from tests.lever.small_trainings import CANDIDATES, CONFIG, WIDTH, small_groups, small_labelled

Change = Callable[[Groups], Groups]


def _with(tensor: Tensor, place: tuple[int, ...], value: float) -> Tensor:
    changed = tensor.clone()
    changed[place] = value
    return changed


def _empty(groups: Groups) -> Groups:
    return Groups((), groups.queries[:0], groups.bank, *(one[:0] for one in groups[3:]))


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        pytest.param(_empty, RewardUnusable, "no query to learn from", id="an empty set"),
        pytest.param(
            lambda g: g._replace(judged=_with(g.judged, (3,), False)),
            RewardUnusable,
            "query q3 has no judged pointer",
            id="a group without a judged pointer",
        ),
        pytest.param(
            lambda g: g._replace(pointers=g.pointers[:, :0], rewards=g.rewards[:, :0], judged=g.judged[:, :0]),
            RewardUnusable,
            "query q0 has no judged pointer",
            id="an empty group",
        ),
        pytest.param(
            lambda g: g._replace(rewards=_with(g.rewards, (2, 1), math.nan)),
            RewardUnusable,
            r"query q2, pointer \[\d, \d\]: reward nan is no number",
            id="a reward of NaN",
        ),
        pytest.param(
            lambda g: g._replace(rewards=_with(g.rewards, (2, 1), -math.inf)),
            RewardUnusable,
            "reward -inf is no number",
            id="an infinite reward",
        ),
        pytest.param(
            lambda g: g._replace(pointers=_with(g.pointers, (4, 0, 1), CANDIDATES)),
            PointerUnusable,
            r"query q4: pointer \[\d, 6\] leaves its pool \(0 to 5\)",
            id="a pointer beyond its pool",
        ),
        pytest.param(
            lambda g: g._replace(pointers=_with(g.pointers, (4, 0, 1), -1)),
            PointerUnusable,
            "leaves its pool",
            id="a negative pointer",
        ),
        pytest.param(
            lambda g: g._replace(pointers=_with(g.pointers, (5, 2), 1)),
            PointerUnusable,
            r"query q5: pointer \[1, 1\] shows a candidate twice",
            id="a pointer that repeats itself",
        ),
        pytest.param(
            lambda g: g._replace(pools=g.pools[:, :1]),
            PoolTooSmall,
            "pools of 1 candidates, 2 shots",
            id="a pool smaller than the shots",
        ),
        pytest.param(
            lambda g: g._replace(pools=_with(g.pools, (0, 0), 99)),
            FileUnusable,
            "row 99 of 12 embedded candidates",
            id="a candidate without an embedding",
        ),
        pytest.param(
            lambda g: g._replace(bank=g.bank[:, 1:]),
            FileUnusable,
            "candidates have 7 numbers, the selector reads 8",
            id="candidates of another encoder",
        ),
        pytest.param(
            lambda g: g._replace(queries=g.queries.repeat(1, 2)),
            FileUnusable,
            "queries have 16 numbers, the selector reads 8",
            id="queries of another encoder",
        ),
        pytest.param(
            lambda g: g._replace(pools=g.pools[1:]), FileUnusable, "20 queries, but rows pools=19", id="a pool missing"
        ),
        pytest.param(
            lambda g: g._replace(queries=_with(g.queries, (1, 1), math.nan)),
            FileUnusable,
            "an embedding holds a value that is no number",
            id="an embedding of NaN",
        ),
    ],
)
def test_groups_are_refused_with(change: Change, error: type[LeverError], said: str):
    with pytest.raises(error, match=said):
        refuse_unlearnable(change(small_groups()), CONFIG)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        pytest.param(
            lambda d: d._replace(labels=_with(d.labels, (3, 0), 17)),
            PointerUnusable,
            "query q3: pointer .* leaves its pool",
            id="train index instead of pool position",
        ),
        pytest.param(
            lambda d: d._replace(labels=_with(d.labels, (3,), 2)), PointerUnusable, "twice", id="a candidate twice"
        ),
        pytest.param(lambda d: d._replace(labels=d.labels[:, :0]), PoolTooSmall, "0 shots", id="no shots"),
    ],
)
def test_labels_are_refused_with(change: Callable[[Labelled], Labelled], error: type[LeverError], said: str):
    with pytest.raises(error, match=said):
        refuse_unlearnable(change(small_labelled(small_groups())), CONFIG)


def test_what_nobody_judged_may_be_anything():
    groups = small_groups()
    padded = groups._replace(
        judged=_with(groups.judged, (2, 1), False),
        pointers=_with(groups.pointers, (2, 1), -7),
        rewards=_with(groups.rewards, (2, 1), math.nan),
    )
    refuse_unlearnable(padded, CONFIG)
    assert possible_pointers(padded)[2, 1].tolist() == [0, 1]


def test_what_was_judged_is_kept():
    groups = small_groups()
    assert torch.equal(possible_pointers(groups), groups.pointers)


def test_good_data_are_taken():
    refuse_unlearnable(small_groups(), PointerConfig(embedding_dim=WIDTH))
