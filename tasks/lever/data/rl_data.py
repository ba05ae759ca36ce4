"""The RL data of a trained selector: its pointers, and what the judge makes of them.

beam, sample, random (in this order, each ordered pointer once, refilled at random) ─► judged
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from models.pointer import PointerSelector
from tasks.lever.judge.judging import Asked, Judging, Judgment
from tasks.lever.learning.training_inputs import Setting, rows_of
from tasks.lever.lever_errors import PoolTooSmall
from tasks.lever.lever_options import RlDataSettings
from tasks.lever.lever_records import Item, Method, PointerRecord, Pools, RlData, RlQuery


def generate(
    setting: Setting,
    pools: Pools,
    ids: Sequence[str],
    *,
    selector: PointerSelector,
    shots: int,
    settings: RlDataSettings,
    seed: int,
    judge: str,
) -> tuple[RlData, dict[str, str]]:
    """The RL data of these train queries, and the pointers to judge another time → why.

    Raises PoolTooSmall, and what Judging raises.
    """
    selector.eval()
    drawn = draw(
        selector,
        ids,
        queries=setting.queries.rows(ids),
        pools=setting.candidates.vectors[rows_of((pools.pools[query] for query in ids), setting.candidates)],
        shots=shots,
        settings=settings,
        generator=torch.Generator().manual_seed(seed),
    )
    judged, away = judge_all(drawn, pools, setting.judging, gt_prob=settings.gt_prob)
    items = {item.id: item for item in setting.dataset.train}
    data = {
        query: _described(items[query], [items[one] for one in pools.pools[query]], pointers, setting.judging, judge)
        for query, pointers in judged.items()
    }
    return data, away


def draw(
    selector: PointerSelector,
    ids: Sequence[str],
    *,
    queries: Tensor,
    pools: Tensor,
    shots: int,
    settings: RlDataSettings,
    generator: torch.Generator,
) -> dict[str, list[PointerRecord]]:
    """Distinct pointers for each query, each with its log-probability under the selector, not judged yet.

    queries: (B, d); pools: (B, K, d). Raises PoolTooSmall.
    """
    size = pools.shape[1]
    if size < shots:
        raise PoolTooSmall(f"pools of {size} candidates, {shots} shots: lower the shots or widen the pools")
    drawn = list(_proposed(selector, queries, pools, shots=shots, settings=settings, generator=generator))
    wanted = min(settings.total, math.perm(size, shots))
    chosen = [_distinct([group[row] for group in drawn], wanted, size, shots, generator) for row in range(len(ids))]
    with torch.no_grad():
        pointers = torch.tensor([[one.pointer for one in query] for query in chosen], device=queries.device)
        steps = selector.log_probs(queries, pools, pointers).double().cpu()  # (B, G, S)
    return {name: list(map(_with_log_prob, chosen[row], steps[row])) for row, name in enumerate(ids)}


def _proposed(
    selector: PointerSelector,
    queries: Tensor,
    pools: Tensor,
    *,
    shots: int,
    settings: RlDataSettings,
    generator: torch.Generator,
) -> Iterable[list[list[PointerRecord]]]:
    """Groups of pointers by query, in the order of their priority."""
    size = pools.shape[1]
    if settings.beams:
        width = min(settings.beams, math.perm(size, shots))
        beams = selector.beam(queries, pools, shots=shots, width=width).pointers.tolist()
        yield [[_record(one, "beam", rank=rank) for rank, one in enumerate(query)] for query in beams]
    if settings.retrieval:
        closest = torch.einsum("bd,bkd->bk", queries, pools).topk(shots).indices.flip(-1).tolist()
        yield [[_record(one, "retrieval")] for one in closest]
    for temperature in settings.temperatures if settings.samples else ():
        sampled = selector.sample(
            queries, pools, shots=shots, draws=settings.samples, temperature=temperature, generator=generator
        )
        yield [[_record(one, "sample", temperature=temperature) for one in q] for q in sampled.pointers.tolist()]
    if settings.random:
        yield [[_at_random(size, shots, generator) for _ in range(settings.random)] for _ in range(len(queries))]


def _record(
    pointer: Sequence[int], method: Method, *, rank: int | None = None, temperature: float | None = None
) -> PointerRecord:
    return PointerRecord(pointer=tuple(pointer), gen_method=method, beam_rank=rank, temperature=temperature)


def _at_random(size: int, shots: int, generator: torch.Generator) -> PointerRecord:
    return _record(torch.randperm(size, generator=generator)[:shots].tolist(), "random")


def _distinct(
    groups: Sequence[Sequence[PointerRecord]], wanted: int, size: int, shots: int, generator: torch.Generator
) -> list[PointerRecord]:
    """Each ordered pointer once: another order is another prompt. Filled up at random."""
    kept: dict[tuple[int, ...], PointerRecord] = {}
    for record in (one for group in groups for one in group):
        kept.setdefault(record.pointer, record)
    while len(kept) < wanted:
        record = _at_random(size, shots, generator)
        kept.setdefault(record.pointer, record)
    return list(kept.values())


def _with_log_prob(record: PointerRecord, steps: Tensor) -> PointerRecord:
    """steps: (S,) log-probabilities of the picks, under the selector, at temperature 1."""
    total = steps.sum().item()
    update: dict[str, float] = {"behaviour_logp": total}
    if record.gen_method in ("beam", "sample"):
        update["logprob_score"] = total
    if record.gen_method == "beam":
        update["beam_score"] = steps.exp().sum().item()
    return record.model_copy(update=update)


def judge_all(
    drawn: Mapping[str, Sequence[PointerRecord]], pools: Pools, judging: Judging, *, gt_prob: bool = False
) -> tuple[dict[str, list[PointerRecord]], dict[str, str]]:
    """The pointers as judged, `eval_failed` where the judge failed, and those to judge another time → why."""
    every = [(query, record) for query, records in drawn.items() for record in records]
    asked = [Asked(query, tuple(pools.pools[query][at] for at in record.pointer)) for query, record in every]
    likely = judging.gt_prob(asked) if gt_prob else [None] * len(asked)
    pointers: dict[str, list[PointerRecord]] = {query: [] for query in drawn}
    away: dict[str, str] = {}
    for (query, record), judgment, p in zip(every, judging.judge(asked), likely, strict=True):
        pointers[query].append(_judged(record, judgment, p))
        if judgment.retryable:
            away[f"query {query}, pointer {list(record.pointer)}"] = judgment.failed or ""
    return pointers, away


def _judged(record: PointerRecord, judgment: Judgment, likely: float | None) -> PointerRecord:
    if judgment.failed is not None:
        return record.model_copy(update={"status": "eval_failed", "reason": judgment.failed})
    found = {"vqa_pred_answer": judgment.answer, "vqa_correct": judgment.correct, "vqa_acc_score": judgment.accuracy}
    return record.model_copy(update=found | {"vqa_gt_prob": likely})


def _described(
    query: Item, pool: Sequence[Item], pointers: Sequence[PointerRecord], judging: Judging, judge: str
) -> RlQuery:
    """A query of `rl_data_*.json`."""
    return RlQuery(
        meta={**query.described, "split": "train", "threshold": judging.threshold, "judge": judge},
        candidate_pool=tuple({"id": one.id, **one.described, "answer": one.shown_answer} for one in pool),
        candidate_pool_ids=tuple(one.id for one in pool),
        pointer_candidates=tuple(pointers),
    )
