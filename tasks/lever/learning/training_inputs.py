"""What trainings learn from, opened from its references: tensors, and the judge behind a reward.

Data that cannot be learnt from are refused by name before a training starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.data.embeddings import EmbeddingBank
from tasks.lever.data.rl_files import iter_rl_data
from tasks.lever.judge.judging import Asked, Judging, Judgment
from tasks.lever.judge.rewards import reward_of
from tasks.lever.lever_errors import (
    FileUnusable,
    JudgeUnusable,
    OptionUnusable,
    PointerUnusable,
    PoolTooSmall,
    RewardUnusable,
)
from tasks.lever.lever_options import RewardMode
from tasks.lever.lever_records import Dataset, PointerRecord, Pools, RlQuery

MOST_FAILED = 0.5
"""Share of judgments that may fail for good before a training stops: what is left is no sample."""
CHOSEN_AT_ONCE = 512
"""Queries in a batch of `choose`."""


class Setting(NamedTuple):
    """A dataset with its vectors, and the judge."""

    dataset: Dataset
    queries: EmbeddingBank
    candidates: EmbeddingBank
    judging: Judging


@contextmanager
def steady(device: str) -> Generator[None]:
    """On a CPU one thread, so that sums are always made in the same order."""
    threads = torch.get_num_threads()
    if device == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def device_of(wanted: str | None) -> str:
    """The device that a user named, else a GPU if there is one. Raises OptionUnusable for one that is not here."""
    if wanted is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=wanted)
    except (RuntimeError, AssertionError) as error:
        why = str(error).splitlines()[0]
        raise OptionUnusable(f"there is no device {wanted!r} here ({why}); name cpu, cuda or cuda:NUMBER") from error
    return wanted


class Labelled(NamedTuple):
    """One pointer to imitate for each query."""

    ids: tuple[str, ...]
    queries: Tensor
    """(Q, d)"""
    bank: Tensor
    """(N, d) embeddings of all candidates; a batch gathers its pools, so that (Q, K, d) is nowhere in memory."""
    pools: Tensor
    """(Q, K) int64 rows of `bank`."""
    labels: Tensor
    """(Q, S) int64 positions in the pool."""


class Groups(NamedTuple):
    """Several judged pointers for each query."""

    ids: tuple[str, ...]
    queries: Tensor
    """(Q, d)"""
    bank: Tensor
    """(N, d)"""
    pools: Tensor
    """(Q, K) int64 rows of `bank`."""
    pointers: Tensor
    """(Q, G, S) int64 positions in the pool."""
    rewards: Tensor
    """(Q, G); 0 where `judged` is False."""
    judged: Tensor
    """(Q, G) bool; False where the judge failed, and where a query has fewer pointers than others."""
    behaviour: Tensor
    """(Q, G) sequence log-probability under the policy that drew them; NaN where it is not known."""


class Material(NamedTuple):
    """Queries and candidates on the device of a selector, in its precision."""

    queries: Tensor
    """(Q, d)"""
    bank: Tensor
    """(N, d)"""
    pools: Tensor
    """(Q, K) rows of `bank`."""

    @classmethod
    def of(cls, data: Labelled | Groups, selector: PointerSelector, *, device: torch.device) -> Material:
        """The queries and candidates of `data`, for `selector` once it is on `device`."""
        dtype = next(selector.parameters()).dtype
        return cls(data.queries.to(device, dtype), data.bank.to(device, dtype), data.pools.to(device))

    def __call__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Queries (b, d) and their pools (b, K, d)."""
        return self.queries[rows], self.bank[self.pools[rows]]


def rows_of(pools: Iterable[Sequence[str]], candidates: EmbeddingBank) -> Tensor:
    """(Q, K) rows of `candidates`. Raises FileUnusable for a candidate without a vector, and pools of many sizes."""
    row = {name: number for number, name in enumerate(candidates.ids)}
    try:
        rows = [[row[name] for name in pool] for pool in pools]
    except KeyError as missing:
        raise FileUnusable(f"candidate {missing.args[0]} has no embedding; export the embeddings again") from None
    if len(sizes := {len(one) for one in rows}) > 1:
        raise FileUnusable(f"pools of different sizes, {sorted(sizes)[:5]}; make the data of this stage anew")
    return torch.tensor(rows)


def labelled_of(setting: Setting, pools: Pools, beams: Mapping[str, Sequence[PointerRecord]]) -> Labelled:
    """The best pointer of each query, to be imitated."""
    ids = tuple(query for query, found in beams.items() if found)
    if not ids:
        raise FileUnusable("the beam data hold no pointer of any train query; search for beams again")
    return Labelled(
        ids=ids,
        queries=setting.queries.rows(ids),
        bank=setting.candidates.vectors,
        pools=rows_of((pools.pools[query] for query in ids), setting.candidates),
        labels=torch.tensor([beams[query][0].pointer for query in ids]),
    )


def groups_of(
    data: Iterable[tuple[str, RlQuery]], *, queries: EmbeddingBank, candidates: EmbeddingBank, mode: RewardMode
) -> Groups:
    """Judged pointers of RL data; rows with fewer pointers than others are filled up, `judged` is False there.

    A query none of whose pointers could be judged teaches nothing and is left out.
    Raises RewardUnusable if none is left or a record lacks what `mode` needs, FileUnusable for an id without an
    embedding and for pools of different sizes.
    """
    kept: dict[str, RlQuery] = {}
    rewards: list[list[float]] = []
    for query, rl in data:
        try:
            found = [reward_of(one, mode) if one.status == "judged" else None for one in rl.pointer_candidates]
        except RewardUnusable as error:
            raise RewardUnusable(f"query {query}: {error}") from error
        if any(reward is not None for reward in found):
            kept[query] = rl
            rewards.append([reward or 0.0 for reward in found])
    if not kept:
        raise RewardUnusable("no pointer of the RL data could be judged; see that the judge is there, and judge again")
    most = max(map(len, rewards))
    groups = [one.pointer_candidates for one in kept.values()]
    some = tuple(range(len(groups[0][0].pointer)))

    def filled(rows: Iterable[Sequence[Any]], filler: Any) -> Tensor:
        return torch.tensor([[*row, *[filler] * (most - len(row))] for row in rows])

    return Groups(
        ids=tuple(kept),
        queries=queries.rows(list(kept)),
        bank=candidates.vectors,
        pools=rows_of((one.candidate_pool_ids for one in kept.values()), candidates),
        pointers=filled([[record.pointer for record in group] for group in groups], some),
        rewards=filled(rewards, 0.0),
        judged=filled([[record.status == "judged" for record in group] for group in groups], False),
        behaviour=filled([[_behaviour(record) for record in group] for group in groups], math.nan),
    )


def _behaviour(record: PointerRecord) -> float:
    return math.nan if record.behaviour_logp is None else record.behaviour_logp


def groups_in(setting: Setting, data: bytes, *, mode: RewardMode, shots: int) -> Groups:
    """The judged pointers of RL data; their pools are the file's own."""
    found = iter_rl_data(data, shots=shots)
    return groups_of(found, queries=setting.queries, candidates=setting.candidates, mode=mode)


def pools_in(data: bytes, like: Pools) -> Pools:
    """The pools of the queries of RL data."""
    own = {query: one.candidate_pool_ids for query, one in iter_rl_data(data)}
    return like.model_copy(update={"pools": like.pools | own})


def choose(
    selector: PointerSelector, setting: Setting, pools: Pools, ids: Sequence[str], *, shots: int
) -> dict[str, tuple[int, ...]]:
    """What a selector shows for each query: positions in its pool, in the order of the picks."""
    selector.eval()
    device = next(selector.parameters()).device
    bank, queries = setting.candidates.vectors.to(device), setting.queries.rows(ids).to(device)
    rows = rows_of((pools.pools[query] for query in ids), setting.candidates).to(device)
    chosen: dict[str, tuple[int, ...]] = {}
    with torch.no_grad():
        for start in range(0, len(ids), CHOSEN_AT_ONCE):
            part = slice(start, start + CHOSEN_AT_ONCE)
            picked = selector.greedy(queries[part], bank[rows[part]], shots=shots).tolist()
            chosen |= {name: tuple(one) for name, one in zip(ids[part], picked, strict=True)}
    return chosen


def validation_of(setting: Setting, pools: Pools, *, shots: int) -> Callable[[PointerSelector], float]:
    """Mean VQA accuracy on the validation queries of what a selector shows. It raises JudgeUnusable."""
    ids = [item.id for item in setting.dataset.validation]

    def accuracy(selector: PointerSelector) -> float:
        chosen = choose(selector, setting, pools, ids, shots=shots)
        judged = setting.judging.judge([_asked(pools, query, chosen[query]) for query in ids])
        _refuse_failures(judged)
        right = [one.accuracy for one in judged if one.accuracy is not None]
        return sum(right) / len(right)

    return accuracy


def online_rewards(
    setting: Setting, pools: Pools, ids: Sequence[str], *, mode: RewardMode
) -> Callable[[Sequence[tuple[int, tuple[int, ...]]]], list[float]]:
    """Rewards of pointers that a policy has just drawn: (row, pointer) → reward, NaN where the judge failed."""

    def rewards(drawn: Sequence[tuple[int, tuple[int, ...]]]) -> list[float]:
        asked = [_asked(pools, ids[row], pointer) for row, pointer in drawn]
        judged = setting.judging.judge(asked)
        _refuse_failures(judged)
        likely = setting.judging.gt_prob(asked) if mode == "hard_plus_gtprob" else [None] * len(asked)
        return [_reward(one, p, mode) for one, p in zip(judged, likely, strict=True)]

    return rewards


def _asked(pools: Pools, query: str, pointer: Sequence[int]) -> Asked:
    return Asked(query, tuple(pools.pools[query][position] for position in pointer))


def _reward(judgment: Judgment, likely: float | None, mode: RewardMode) -> float:
    if judgment.failed is not None:
        return math.nan
    record = PointerRecord.model_construct(
        vqa_correct=judgment.correct, vqa_acc_score=judgment.accuracy, vqa_gt_prob=likely, status="judged"
    )
    return reward_of(record, mode)


def _refuse_failures(judged: Sequence[Judgment]) -> None:
    """A judge that is away for now ends the step, so that its absence is nowhere learnt from and never kept."""
    if away := [one.failed for one in judged if one.retryable]:
        raise JudgeUnusable(
            f"the judge did not answer {len(away)} of {len(judged)} questions ({away[0]}); "
            "what it answered is kept, run again once it is back"
        )
    failed = [one.failed for one in judged if one.failed is not None]
    if len(failed) > MOST_FAILED * len(judged):
        raise JudgeUnusable(f"{len(failed)} of {len(judged)} questions cannot be asked ({failed[0]}); see the dataset")


def refuse_unlearnable(data: Labelled | Groups, config: PointerConfig) -> None:
    """Raises RewardUnusable, PointerUnusable, PoolTooSmall or FileUnusable, and names the query."""
    if not data.ids:
        raise RewardUnusable("there is no query to learn from; see that the data of the stage before is not empty")
    _refuse_widths(data, config)
    _refuse_pools(data)
    if isinstance(data, Labelled):
        _refuse_pointers(data.ids, data.labels[:, None], torch.ones(len(data.ids), 1, dtype=torch.bool), data.pools)
    else:
        _refuse_groups(data)
        _refuse_pointers(data.ids, data.pointers, data.judged, data.pools)


def tensors_of(data: Labelled | Groups) -> dict[str, Tensor]:
    """All that is learnt from, by name."""
    return {name: one for name, one in data._asdict().items() if isinstance(one, Tensor)}


def possible_pointers(groups: Groups) -> Tensor:
    """(Q, G, S) with some possible pointer where nothing was judged: padding need not be one."""
    some = torch.arange(groups.pointers.shape[-1]).expand_as(groups.pointers)
    return torch.where(groups.judged[..., None], groups.pointers, some)


def _refuse_widths(data: Labelled | Groups, config: PointerConfig) -> None:
    for name, width in (("queries", data.queries.shape[-1]), ("candidates", data.bank.shape[-1])):
        if width != config.embedding_dim:
            raise FileUnusable(
                f"the embeddings of the {name} have {width} numbers, the selector reads {config.embedding_dim}; "
                "export them with the encoder that the selector was made for"
            )
    rows = {name: len(tensor) for name, tensor in tensors_of(data).items() if name != "bank"}
    if wrong := {name: count for name, count in rows.items() if count != len(data.ids)}:
        listed = ", ".join(f"{name}={count}" for name, count in wrong.items())
        raise FileUnusable(f"{len(data.ids)} queries, but rows {listed}; make the data of this stage anew")
    if not (data.queries.isfinite().all() and data.bank.isfinite().all()):
        raise FileUnusable("an embedding holds a value that is no number; export the embeddings again")


def _refuse_pools(data: Labelled | Groups) -> None:
    shots = (data.labels if isinstance(data, Labelled) else data.pointers).shape[-1]
    size = data.pools.shape[1]
    if size < shots or not shots:
        raise PoolTooSmall(f"pools of {size} candidates, {shots} shots; lower the shots or widen the pools")
    if data.pools.min() < 0 or data.pools.max() >= len(data.bank):
        raise FileUnusable(f"a pool names row {int(data.pools.max())} of {len(data.bank)} embedded candidates")


def _refuse_groups(groups: Groups) -> None:
    judged = groups.judged
    if not judged.any(-1).all():
        name = groups.ids[int((~judged.any(-1)).nonzero()[0])]
        raise RewardUnusable(f"query {name} has no judged pointer; judge it again, or leave it out")
    if not groups.rewards[judged].isfinite().all():
        row, column = (judged & ~groups.rewards.isfinite()).nonzero()[0].tolist()
        raise RewardUnusable(
            f"query {groups.ids[row]}, pointer {groups.pointers[row, column].tolist()}: reward "
            f"{groups.rewards[row, column].item()} is no number; judge it again"
        )


def _refuse_pointers(ids: tuple[str, ...], pointers: Tensor, judged: Tensor, pools: Tensor) -> None:
    """pointers: (Q, G, S)."""
    last = pools.shape[1] - 1
    outside = ((pointers < 0) | (pointers > last)).any(-1) & judged
    in_order = pointers.sort(-1).values
    repeated = (in_order[..., 1:] == in_order[..., :-1]).any(-1) & judged
    for wrong, what in ((outside, f"leaves its pool (0 to {last})"), (repeated, "shows a candidate twice")):
        if wrong.any():
            row, column = wrong.nonzero()[0].tolist()
            pointer = pointers[row, column].tolist()
            raise PointerUnusable(f"query {ids[row]}: pointer {pointer} {what}; make the data of this stage anew")
