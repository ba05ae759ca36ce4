"""What a training step needs, opened from its references: tensors to learn from, and the judge behind a reward."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch

from models.pointer import PointerSelector
from tasks.lever.data.banks import EmbeddingBank
from tasks.lever.data.rl_files import groups_of, iter_rl_data
from tasks.lever.judge.judging import Asked, Judging, Judgment
from tasks.lever.judge.rewards import reward_of
from tasks.lever.learning.groups import Groups, Labelled
from tasks.lever.lever_errors import FileUnusable, JudgeUnusable, OptionUnusable
from tasks.lever.lever_options import RewardMode
from tasks.lever.lever_records import Dataset, PointerRecord, Pools

MOST_FAILED = 0.5
"""Share of judgments that may fail for good before a training stops: what is left is no sample."""


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


def rows_of(pools: Pools, ids: Sequence[str], candidates: EmbeddingBank) -> torch.Tensor:
    """(Q, K) rows of `candidates`. Raises FileUnusable for a candidate without a vector."""
    row = {name: number for number, name in enumerate(candidates.ids)}
    try:
        return torch.tensor([[row[name] for name in pools.pools[query]] for query in ids])
    except KeyError as missing:
        raise FileUnusable(f"candidate {missing} of a pool has no embedding; export the embeddings again") from None


def labelled_of(setting: Setting, pools: Pools, beams: Mapping[str, Sequence[PointerRecord]]) -> Labelled:
    """The best pointer of each query, to be imitated."""
    ids = tuple(query for query, found in beams.items() if found)
    if not ids:
        raise FileUnusable("the beam data hold no pointer of any train query; search for beams again")
    return Labelled(
        ids=ids,
        queries=setting.queries.rows(ids),
        bank=setting.candidates.vectors,
        pools=rows_of(pools, ids, setting.candidates),
        labels=torch.tensor([beams[query][0].pointer for query in ids]),
    )


def groups_in(setting: Setting, data: bytes, *, mode: RewardMode, shots: int) -> Groups:
    """The judged pointers of RL data; their pools are the file's own."""
    found = iter_rl_data(data, shots=shots)
    return groups_of(found, queries=setting.queries, candidates=setting.candidates, mode=mode)


def pools_in(data: bytes, like: Pools) -> Pools:
    """The pools of the queries of RL data."""
    own = {query: one.candidate_pool_ids for query, one in iter_rl_data(data)}
    return like.model_copy(update={"pools": like.pools | own})


def choose(
    selector: PointerSelector, setting: Setting, pools: Pools, ids: Sequence[str], *, shots: int, batch: int = 512
) -> dict[str, tuple[int, ...]]:
    """What a selector shows for each query: positions in its pool, in the order of the picks."""
    selector.eval()
    device = next(selector.parameters()).device
    bank, rows = setting.candidates.vectors.to(device), rows_of(pools, ids, setting.candidates).to(device)
    queries = setting.queries.rows(ids).to(device)
    chosen: dict[str, tuple[int, ...]] = {}
    with torch.no_grad():
        for start in range(0, len(ids), batch):
            part = slice(start, start + batch)
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
