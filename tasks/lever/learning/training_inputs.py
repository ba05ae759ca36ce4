"""Tensors that trainings learn from, and the judge behind a reward."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor

from models.pointer import PointerSelector
from tasks.lever.data.embeddings import EmbeddingBank
from tasks.lever.data.pointer_files import iter_rl_data
from tasks.lever.judge.judging import Judging, Judgment, PromptedQuery
from tasks.lever.lever_errors import FileUnusable, JudgeUnusable, PoolTooSmall, RewardUnusable
from tasks.lever.lever_options import OF_LIKELIHOODS, RewardMode
from tasks.lever.lever_records import Dataset, Pointer, PointerRecord, Pools

MOST_FAILED = 0.5
"""Share of judgments that may fail for good before a training stops: the rest is no fair sample."""
CHOSEN_AT_ONCE = 512
"""Queries in a batch of `predict_greedily`."""

RewardDrawn = Callable[[Sequence[tuple[int, Pointer]]], Sequence[float]]
"""Returns the rewards of pairs (row of the groups, pointer), in order; NaN where one could not be judged."""


class Setting(NamedTuple):
    """A dataset with its vectors, and the judge."""

    dataset: Dataset
    queries: EmbeddingBank
    candidates: EmbeddingBank
    judging: Judging


@contextmanager
def single_threaded(device: str) -> Generator[None]:
    """Use a single thread on a CPU, so that sums are always made in the same order."""
    threads = torch.get_num_threads()
    if device == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Groups(NamedTuple):
    """Several judged pointers for each query."""

    ids: tuple[str, ...]
    queries: Tensor  # (Q, d)
    bank: Tensor  # (N, d)
    pools: Tensor  # (Q, K) int64 rows of `bank`
    pointers: Tensor  # (Q, G, S) int64 positions in the pool; a possible one too where nothing was judged
    rewards: Tensor  # (Q, G); 0 where `judged` is False
    judged: Tensor  # (Q, G) bool; False where the judge failed, and where a query has fewer pointers than others
    behaviour: Tensor  # (Q, G) sequence log-probability under the policy that drew them; NaN where unknown


class Material(NamedTuple):
    """Queries and candidates on the device of a selector, in its precision."""

    queries: Tensor  # (Q, d)
    bank: Tensor  # (N, d)
    pools: Tensor  # (Q, K) rows of `bank`

    @classmethod
    def of(cls, data: Groups, selector: PointerSelector, *, device: torch.device) -> Material:
        """Move the queries and candidates of `data` to `device`, in the precision of `selector`."""
        dtype = next(selector.parameters()).dtype
        return cls(data.queries.to(device, dtype), data.bank.to(device, dtype), data.pools.to(device))

    def __call__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the queries (b, d) of these rows and their pools (b, K, d)."""
        return self.queries[rows], self.bank[self.pools[rows]]


def pool_rows(pools: Iterable[Sequence[str]], candidates: EmbeddingBank) -> Tensor:
    """Return the rows (Q, K) of pools in `candidates`. Raises FileUnusable for an unknown id and unequal sizes."""
    pool_ids = list(pools)
    sizes = {len(pool) for pool in pool_ids}
    if len(sizes) > 1:
        raise FileUnusable(f"pools of different sizes, {sorted(sizes)[:5]}; make the data of this stage anew")
    return torch.tensor(candidates.positions(list(chain.from_iterable(pool_ids)))).view(len(pool_ids), -1)


def make_labelled(setting: Setting, pools: Pools, beams: Mapping[str, Sequence[PointerRecord]]) -> Groups:
    """Return groups of one, the best pointer of each query that has any. Raises FileUnusable if there is none."""
    best = {query: records[0].pointer for query, records in beams.items() if records}
    if not best:
        raise FileUnusable("the beam data hold no pointer of any train query; search for beams again")
    pointers = [[pointer] for pointer in best.values()]
    return _gather_groups(setting.queries, setting.candidates, {query: pools.pools[query] for query in best}, pointers)


def make_groups(
    data: bytes | Path, *, queries: EmbeddingBank, candidates: EmbeddingBank, mode: RewardMode, shots: int | None = None
) -> Groups:
    """Read judged pointers of RL data, padded to equal numbers; queries without a judged pointer are left out.

    Raises RewardUnusable if none is left or a record lacks what `mode` needs, FileUnusable for an id without an
    embedding and for pools of different sizes.
    """
    names = {name: name for name in candidates.ids}  # so that a pool holds no copies of them
    pools, pointers, behaviour = dict[str, tuple[str, ...]](), list[list[Pointer]](), list[list[float | None]]()
    rewards: list[list[float | None]] = []
    for query, rl_query in iter_rl_data(data, shots=shots):
        try:
            query_rewards = [
                reward_of(record, mode) if record.status == "judged" else None for record in rl_query.pointer_candidates
            ]
        except RewardUnusable as error:
            raise RewardUnusable(f"query {query}: {error}") from error
        if any(reward is not None for reward in query_rewards):
            pools[query] = tuple(names.get(name, name) for name in rl_query.candidate_pool_ids)
            pointers.append([record.pointer for record in rl_query.pointer_candidates])
            behaviour.append([record.behaviour_logp for record in rl_query.pointer_candidates])
            rewards.append(query_rewards)
    if not pools:
        raise RewardUnusable("no pointer of the RL data could be judged; see that the judge is there, and judge again")
    return _gather_groups(queries, candidates, pools, pointers, rewards, behaviour)


def _gather_groups(
    queries: EmbeddingBank,
    candidates: EmbeddingBank,
    pool_of: Mapping[str, Sequence[str]],
    pointers: Sequence[Sequence[Pointer]],
    rewards: Sequence[Sequence[float | None]] | None = None,
    behaviour: Sequence[Sequence[float | None]] | None = None,
) -> Groups:
    """Return the groups of these queries; None stands for a reward or log-probability that is not known."""
    rewards = [[0.0] * len(group) for group in pointers] if rewards is None else rewards
    size = max(map(len, rewards))
    filler = tuple(range(len(pointers[0][0])))  # padding that can be scored as any other pointer can

    def filled(rows: Iterable[Sequence[Any]], filler: Any) -> Tensor:
        return torch.tensor([[*row, *[filler] * (size - len(row))] for row in rows])

    def replaced(rows: Iterable[Sequence[float | None]], missing: float) -> Tensor:
        return filled([[missing if value is None else value for value in row] for row in rows], missing)

    return Groups(
        ids=tuple(pool_of),
        queries=queries.rows(list(pool_of)),
        bank=candidates.vectors,
        pools=pool_rows(pool_of.values(), candidates),
        pointers=filled(pointers, filler),
        rewards=replaced(rewards, 0.0),
        judged=filled([[reward is not None for reward in row] for row in rewards], False),
        behaviour=replaced(behaviour or [[None] * len(group) for group in pointers], math.nan),
    )


class Prediction(NamedTuple):
    """The demonstrations that a selector chose for a query."""

    pointer: Pointer
    demonstrations: tuple[str, ...]  # their ids
    log_prob: float  # log-probability of the whole choice


def predict_greedily(
    selector: PointerSelector,
    queries: EmbeddingBank,
    candidates: EmbeddingBank,
    pools: Mapping[str, Sequence[str]],
    *,
    shots: int,
) -> dict[str, Prediction]:
    """Return greedy picks for each query of `pools`, as shown. Raises PoolTooSmall, FileUnusable for unknown ids."""
    selector.eval()
    device = next(selector.parameters()).device
    bank, predictions = candidates.vectors.to(device), dict[str, Prediction]()
    for start in range(0, len(pools), CHOSEN_AT_ONCE):
        ids = list(pools)[start : start + CHOSEN_AT_ONCE]
        if small := [query for query in ids if len(pools[query]) < shots]:
            raise PoolTooSmall(
                f"query {small[0]}: {len(pools[small[0]])} candidates for {shots} shots; "
                "lower `shots` or widen the pool"
            )
        sizes = torch.tensor([len(pools[query]) for query in ids])
        usable = torch.arange(int(sizes.max())) < sizes[:, None]  # (b, K)
        rows = torch.zeros(usable.shape, dtype=torch.long)
        rows[usable] = torch.tensor(candidates.positions([name for query in ids for name in pools[query]]))
        vectors, pooled = queries.rows(ids).to(device), bank[rows.to(device)]
        drawn = selector.beam(vectors, pooled, shots=shots, width=1, usable=usable.to(device))
        pointers: list[list[int]] = drawn.pointers[:, 0].tolist()
        totals: list[float] = drawn.log_probs[:, 0].sum(-1).tolist()
        for query, pointer, total in zip(ids, pointers, totals, strict=True):
            predictions[query] = Prediction(tuple(pointer), tuple(pools[query][at] for at in pointer), total)
    return predictions


def make_validation(setting: Setting, pools: Pools, *, shots: int) -> Callable[[PointerSelector], float]:
    """Return a function that gives a selector's mean accuracy on the validation queries, or raises JudgeUnusable."""
    pooled = {item.id: pools.pools[item.id] for item in setting.dataset.validation}

    def accuracy(selector: PointerSelector) -> float:
        """Return the mean accuracy of the selector's greedy picks over the queries that the judge could answer."""
        predictions = predict_greedily(selector, setting.queries, setting.candidates, pooled, shots=shots)
        judged = judge_all(
            setting, [PromptedQuery(query, prediction.demonstrations) for query, prediction in predictions.items()]
        )
        accuracies = [judgment.accuracy for judgment in judged if judgment.accuracy is not None]
        return sum(accuracies) / len(accuracies)

    return accuracy


def make_online_rewards(setting: Setting, groups: Groups, *, mode: RewardMode) -> RewardDrawn:
    """Return a function that has pointers judged which a policy has just drawn, and returns their rewards."""
    names, pools = setting.candidates.ids, groups.pools.tolist()

    def rewards(drawn: Sequence[tuple[int, Pointer]]) -> list[float]:
        """Return the reward of each (row, pointer) in order; NaN where the judge failed."""
        prompts = [
            PromptedQuery(groups.ids[row], tuple(names[pools[row][at]] for at in pointer)) for row, pointer in drawn
        ]
        judged = judge_all(setting, prompts)
        gt_probs = setting.judging.gt_prob(prompts) if mode in OF_LIKELIHOODS else [None] * len(prompts)
        values = list[float]()
        for judgment, gt_prob in zip(judged, gt_probs, strict=True):
            scores: Any = {"vqa_correct": judgment.correct, "vqa_acc_score": judgment.accuracy, "vqa_gt_prob": gt_prob}
            record = PointerRecord.model_construct(**scores, status="judged")  # a reward reads nothing else
            values.append(math.nan if judgment.failed is not None else reward_of(record, mode))
        return values

    return rewards


def judge_all(setting: Setting, prompts: Sequence[PromptedQuery]) -> list[Judgment]:
    """Return all judgments. Raises JudgeUnusable where the judge may answer later, or failed too often to learn by."""
    judged = setting.judging.judge(prompts)
    pairs = zip(prompts, judged, strict=True)
    if postponed := [(prompt.query, judgment.failed) for prompt, judgment in pairs if judgment.retryable]:
        query, reason = postponed[0]
        raise JudgeUnusable(
            f"the judge did not answer {len(postponed)} of {len(judged)} questions, query {query} first ({reason}); "
            "what it answered is kept, run again once it is back"
        )
    failed = [judgment.failed for judgment in judged if judgment.failed is not None]
    if len(failed) > MOST_FAILED * len(judged):
        raise JudgeUnusable(f"{len(failed)} of {len(judged)} questions cannot be asked ({failed[0]}); see the dataset")
    return judged


REWARD_CLIP = (-5.0, 5.0)
"""Bounds that every reward is clipped to."""
BONUS = {"hard_plus_soft": 1, "soft_only": 0, "separated": 2, "hard_plus_gtprob": 1}
"""Weight of the hard score beside a soft one."""


def reward_of(record: PointerRecord, mode: RewardMode) -> float:
    """Return the reward of a judged pointer, from the hard score h (`vqa_correct`) and the soft score s.

        hard_plus_soft    h + s, the default      hard_only    h      soft_only    s
        separated         2 + s if right, else s: the worst right answer stands above the best wrong one
        hard_plus_gtprob  h + p, p how likely the judge finds the right answers
        gt_logprob        log p, at least -5
        legacy            .2 · quality + 1 · correctness, as Lever-Plus had it before: `compute_reward_for_candidate`
                          with use_hard = use_soft = False, alpha .2, beta 1, correctness_mode `pm1`

    Beam scores and log-probabilities of the selector enter `legacy` only; InfoScore enters none.
    Raises RewardUnusable if the record lacks what its mode needs, ValueError for a mode that there is not.
    """
    modes = get_args(RewardMode)
    if mode not in modes:  # ValueError, as in Lever-Plus
        raise ValueError(f"Unknown reward_mode: {mode}; choose {', '.join(modes)}")
    hard = needed_score(record.vqa_correct, "vqa_correct", mode)
    if mode == "legacy":
        return clip_reward((2 * hard - 1) + 0.2 * (record.beam_score or 0.0), REWARD_CLIP)
    if mode == "hard_only":
        return clip_reward(hard, REWARD_CLIP)
    if mode in OF_LIKELIHOODS:
        probability = needed_score(record.vqa_gt_prob, "vqa_gt_prob", mode)
        if mode == "gt_logprob":
            return clip_reward(math.log(probability) if probability else -math.inf, REWARD_CLIP)
        return clip_reward(BONUS[mode] * hard + probability, REWARD_CLIP)
    return clip_reward(BONUS[mode] * hard + needed_score(record.vqa_acc_score, "vqa_acc_score", mode), REWARD_CLIP)


def needed_score(value: float | None, field: str, by: str) -> float:
    """Return the value. Raises RewardUnusable where there is none."""
    if value is None:
        raise RewardUnusable(f"a pointer without `{field}`, which {by} needs: judge it again, or choose another reward")
    return float(value)


def clip_reward(reward: float, bounds: tuple[float, float]) -> float:
    if math.isnan(reward):
        raise RewardUnusable("a reward is NaN: one of the scores that it is made of is no number, judge it again")
    return max(bounds[0], min(bounds[1], reward))
