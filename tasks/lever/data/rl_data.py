"""The RL data of a trained selector: the pointers that it draws, and how the judge answers with them.

beam, sample, random (in this order, each ordered pointer once, refilled at random) ─► judged
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from models.pointer import PointerSelector
from tasks.lever.judge.judging import Judging, PromptedQuery
from tasks.lever.learning.training_inputs import Setting, pool_rows
from tasks.lever.lever_errors import PoolTooSmall
from tasks.lever.lever_options import RlDataSettings
from tasks.lever.lever_records import Method, Pointer, PointerRecord, Pools, RlData, RlQuery


def make_rl_data(
    setting: Setting,
    pools: Pools,
    ids: Sequence[str],
    *,
    selector: PointerSelector,
    shots: int,
    settings: RlDataSettings,
    gt_prob: bool,
    seed: int,
    judge: str,
) -> tuple[RlData, dict[str, str]]:
    """Draw and judge the pointers of these train queries; return RL data, and why some must be judged again.

    Raises PoolTooSmall, and what Judging raises.
    """
    selector.eval()
    drawn = draw_pointers(
        selector,
        ids,
        queries=setting.queries.rows(ids),
        pools=setting.candidates.vectors[pool_rows((pools.pools[query] for query in ids), setting.candidates)],
        shots=shots,
        settings=settings,
        generator=torch.Generator().manual_seed(seed),
    )
    judged, postponed = judge_pointers(drawn, pools, setting.judging, gt_prob=gt_prob)
    items, data = {item.id: item for item in setting.dataset.train}, RlData()
    for query, pointers in judged.items():
        pool, about = [items[id] for id in pools.pools[query]], items[query].public_fields
        data[query] = RlQuery(
            meta={**about, "split": "train", "threshold": setting.judging.threshold, "judge": judge},
            candidate_pool=tuple({"id": item.id, **item.public_fields, "answer": item.shown_answer} for item in pool),
            candidate_pool_ids=pools.pools[query],
            pointer_candidates=tuple(pointers),
        )
    return data, postponed


def draw_pointers(
    selector: PointerSelector,
    ids: Sequence[str],
    *,
    queries: Tensor,
    pools: Tensor,
    shots: int,
    settings: RlDataSettings,
    generator: torch.Generator,
) -> dict[str, list[PointerRecord]]:
    """Draw distinct pointers for each query, each with its log-probability under the selector, not judged yet.

    queries: (B, d); pools: (B, K, d). Raises PoolTooSmall.
    """
    size = pools.shape[1]
    if size < shots:
        raise PoolTooSmall(f"pools of {size} candidates, {shots} shots: lower the shots or widen the pools")

    def at_random() -> PointerRecord:
        return _make_record(torch.randperm(size, generator=generator)[:shots].tolist(), "random")

    proposed = list[list[list[PointerRecord]]]()  # by priority, then by query
    if settings.beams:
        width = min(settings.beams, math.perm(size, shots))  # a small pool has fewer pointers than beams
        beams = selector.beam(queries, pools, shots=shots, width=width).pointers.tolist()
        proposed.append(
            [[_make_record(pointer, "beam", rank=rank) for rank, pointer in enumerate(query)] for query in beams]
        )
    if settings.retrieval:
        # flipped: the most similar is picked last, as demonstrations are shown in the order of the picks
        closest = torch.einsum("bd,bkd->bk", queries, pools).topk(shots).indices.flip(-1).tolist()
        proposed.append([[_make_record(pointer, "retrieval")] for pointer in closest])
    for temperature in settings.temperatures if settings.samples else ():
        sampling: Any = {"draws": settings.samples, "temperature": temperature, "generator": generator}
        sampled = selector.sample(queries, pools, shots=shots, **sampling).pointers.tolist()
        proposed.append(
            [[_make_record(pointer, "sample", temperature=temperature) for pointer in query] for query in sampled]
        )
    if settings.random:
        proposed.append([[at_random() for _ in range(settings.random)] for _ in ids])

    count, groups = min(settings.total, math.perm(size, shots)), list[list[PointerRecord]]()
    for row in range(len(ids)):
        # each ordered pointer once: another order is another prompt; filled up at random
        distinct: dict[Pointer, PointerRecord] = {}
        for record in (proposal for group in proposed for proposal in group[row]):
            distinct.setdefault(record.pointer, record)
        while len(distinct) < count:  # ends: a pool has at least so many ordered pointers
            record = at_random()
            distinct.setdefault(record.pointer, record)
        groups.append(list(distinct.values()))
    with torch.no_grad():
        pointers = torch.tensor([[record.pointer for record in query] for query in groups], device=queries.device)
        steps = selector.log_probs(queries, pools, pointers).double().cpu()  # (B, G, S)
    records_of: dict[str, list[PointerRecord]] = {name: [] for name in ids}
    for name, records, log_probs in zip(ids, groups, steps, strict=True):
        for record, picks in zip(records, log_probs, strict=True):
            total = picks.sum().item()
            update: dict[str, float] = {"behaviour_logp": total}
            if record.gen_method in ("beam", "sample"):
                update["logprob_score"] = total
            if record.gen_method == "beam":
                update["beam_score"] = picks.exp().sum().item()
            records_of[name].append(record.model_copy(update=update))
    return records_of


def _make_record(
    pointer: Sequence[int], method: Method, *, rank: int | None = None, temperature: float | None = None
) -> PointerRecord:
    return PointerRecord(pointer=tuple(pointer), gen_method=method, beam_rank=rank, temperature=temperature)


def judge_pointers(
    drawn: Mapping[str, Sequence[PointerRecord]], pools: Pools, judging: Judging, *, gt_prob: bool = False
) -> tuple[dict[str, list[PointerRecord]], dict[str, str]]:
    """Return the pointers as judged, `eval_failed` where the judge failed, and why some must be judged again."""
    pairs = [(query, record) for query, records in drawn.items() for record in records]
    prompts = [PromptedQuery(query, tuple(pools.pools[query][at] for at in record.pointer)) for query, record in pairs]
    gt_probs = judging.gt_prob(prompts) if gt_prob else [None] * len(prompts)
    pointers: dict[str, list[PointerRecord]] = {query: [] for query in drawn}
    postponed: dict[str, str] = {}
    for (query, record), judgment, probability in zip(pairs, judging.judge(prompts), gt_probs, strict=True):
        if judgment.failed is not None:
            outcome: dict[str, Any] = {"status": "eval_failed", "reason": judgment.failed}
        else:
            outcome = {"vqa_pred_answer": judgment.answer, "vqa_correct": judgment.correct, "vqa_gt_prob": probability}
            outcome["vqa_acc_score"] = judgment.accuracy
        pointers[query].append(record.model_copy(update=outcome))
        if judgment.retryable:
            postponed[f"query {query}, pointer {list(record.pointer)}"] = judgment.failed or ""
    return pointers, postponed
