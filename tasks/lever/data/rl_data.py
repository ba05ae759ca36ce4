"""Pointers to learn from: those that a selector draws, judged, and sequences to imitate, which the judge likes best.

RL data: beam, sample, random (in this order, each ordered pointer once, refilled at random) ─► judged

Beams: a search over P(answer | sequence) that asks the judge only about what looks promising. Every candidate is
weighed alone. Then, for each further pick, the best sequence grows by the better half of the candidates, and what helps
it there is tried in another order and behind the other sequences that are kept. With 5 beams over 16 candidates and 2
shots that is 33 prompts a query; growing every kept sequence by every candidate would take 92.

Source of InfoScore: Yang et al. 2023, "Lever LM: Configuring In-Context Sequence to Lever Large Vision Language
Models", arXiv:2312.10104. That of a sequence is P(answer | sequence) - P(answer | nothing shown): the gains of its
picks add up to it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from models.pointer import PointerSelector
from tasks.lever.judge.judging import Judging, PromptedQuery
from tasks.lever.learning.training_inputs import Setting, pool_rows
from tasks.lever.lever_errors import PoolTooSmall
from tasks.lever.lever_options import BeamSettings, RlDataSettings
from tasks.lever.lever_records import Item, Method, Pointer, PointerRecord, Pools, RlData, RlQuery


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
    """Return RL data of these train queries, and why some must be judged again. Raises what Judging raises."""
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
    """Draw `settings.total` distinct pointers for each query, or all, with log-probabilities, not judged yet.

    queries: (B, d); pools: (B, K, d), of at least as many candidates as shots; else PointerSelector raises ValueError.
    """
    size = pools.shape[1]
    drawn: list[dict[Pointer, PointerRecord]] = [{} for _ in ids]  # of each query: each ordered pointer once

    def at_random() -> list[int]:
        return torch.randperm(size, generator=generator)[:shots].tolist()

    def propose(pointers: Sequence[Sequence[Sequence[int]]], method: Method, temperature: float | None = None) -> None:
        """Add a record for each pointer that none has; the rank in its group is kept for beams alone."""
        for of_query, group in zip(drawn, pointers, strict=True):
            for number, pointer in enumerate(map(tuple, group)):
                rank = number if method == "beam" else None
                record = PointerRecord(pointer=pointer, gen_method=method, beam_rank=rank, temperature=temperature)
                of_query.setdefault(pointer, record)

    if settings.beams:
        width = min(settings.beams, math.perm(size, shots))  # a small pool has fewer pointers than beams
        propose(selector.beam(queries, pools, shots=shots, width=width).pointers.tolist(), "beam")
    if settings.retrieval:
        # flipped: the most similar is picked last, as demonstrations are shown in the order of the picks
        propose(torch.einsum("bd,bkd->bk", queries, pools).topk(shots).indices.flip(-1)[:, None].tolist(), "retrieval")
    for temperature in settings.temperatures if settings.samples else ():
        sampling: Any = {"draws": settings.samples, "temperature": temperature, "generator": generator}
        propose(selector.sample(queries, pools, shots=shots, **sampling).pointers.tolist(), "sample", temperature)
    propose([[at_random() for _ in range(settings.random)] for _ in ids], "random")
    count = min(settings.total, math.perm(size, shots))
    for of_query in drawn:
        while len(of_query) < count:  # ends: a pool has at least so many ordered pointers
            pointer = tuple(at_random())
            of_query.setdefault(pointer, PointerRecord(pointer=pointer, gen_method="random"))
    with torch.no_grad():
        pointers = torch.tensor([list(of_query) for of_query in drawn], device=queries.device)
        steps = selector.log_probs(queries, pools, pointers).double().cpu()  # (B, G, S)
    records_of: dict[str, list[PointerRecord]] = {name: [] for name in ids}
    for name, of_query, log_probs in zip(ids, drawn, steps, strict=True):
        for record, picks in zip(of_query.values(), log_probs, strict=True):
            total = picks.sum().item()
            update: dict[str, float] = {"behaviour_logp": total}
            if record.gen_method in ("beam", "sample"):
                update["logprob_score"] = total
            if record.gen_method == "beam":
                update["beam_score"] = picks.exp().sum().item()
            records_of[name].append(record.model_copy(update=update))
    return records_of


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


TRIED_AGAIN = 8
"""For each kept sequence beside the best, one in so many candidates is tried again, at least one."""


class Growth(NamedTuple):
    """Sequences that a pick weighs beyond the first one."""

    of_best: int
    """Number of sequences that are the best one so far with one candidate more."""
    of_others: int
    """Number of other orders of these, and of other kept sequences with one of these candidates."""


def count_growth(width: int, *, candidates: int, picked: int) -> Growth:
    """Return how many sequences the next pick weighs when `picked` of `candidates` are in the best one.

    A single beam weighs every candidate that remains, a wider one half of them, and some again in other sequences.
    """
    remaining = candidates - picked
    if width == 1:
        return Growth(remaining, 0)
    return Growth(max(1, remaining // 2), min(remaining, (width - 1) * max(1, candidates // TRIED_AGAIN)))


def count_prompts(settings: BeamSettings, *, queries: int, pool: int, shots: int) -> dict[int, int]:
    """Return, by number of demonstrations, how many sequences a search of all queries asks the judge about at most."""
    candidates = min(settings.candidates or pool, pool)
    later_picks = {
        picked + 1: sum(count_growth(settings.width, candidates=candidates, picked=picked))
        for picked in range(1, shots)
    }
    query_count = min(queries, settings.queries or queries)
    return {length: query_count * count for length, count in {0: 1, 1: candidates, **later_picks}.items()}


def find_beams(
    queries: Sequence[Item], pools: Pools, judging: Judging, *, shots: int, settings: BeamSettings, seed: int
) -> dict[str, tuple[PointerRecord, ...]]:
    """Return up to `settings.width` sequences of high InfoScore (their `beam_score`) for each query, best first.

    The judge is asked about all queries at once. Raises PoolTooSmall, JudgeUnusable.
    """
    beams = {
        item.id: _Beam(_draw_positions(item.id, pools, shots=shots, settings=settings, seed=seed), settings.width)
        for item in queries
    }

    def weigh(sequences_of: Mapping[str, list[Pointer]]) -> None:
        pairs = [(query, sequence) for query, sequences in sequences_of.items() for sequence in sequences]
        prompts = [PromptedQuery(query, tuple(pools.pools[query][at] for at in sequence)) for query, sequence in pairs]
        for (query, sequence), log_prob in zip(pairs, judging.answer_log_probs(prompts), strict=True):
            beams[query].record_score(sequence, log_prob)

    weigh({query: [()] for query in beams})
    weigh({query: [(position,) for position in beam.positions] for query, beam in beams.items()})
    for _ in range(1, shots):
        weigh({query: beam.extend_best() for query, beam in beams.items()})
        weigh({query: beam.extend_others() for query, beam in beams.items()})
    return {query: beam.best_records() for query, beam in beams.items()}


class _Beam:
    """The beam search of one query: it proposes sequences, and records how likely the answer is behind them."""

    def __init__(self, tried: Sequence[int], width: int) -> None:
        self.positions, self._width = tried, width
        self._growth, self._log_prob_without = Growth(0, 0), 0.0
        self._worth: dict[int, float] = {}  # of a candidate: the best score of a sequence that it is in
        self._best_sequences: list[Pointer] = []
        self._scores: dict[Pointer, float] = {}  # of the sequences of this pick

    def record_score(self, sequence: Pointer, log_prob: float) -> None:
        """Record log P(answer | sequence); with NaN the sequence is dropped, as one of its items cannot be shown."""
        if not sequence:
            self._log_prob_without = log_prob
        elif not math.isnan(log_prob):
            self._scores[sequence] = log_prob
            for position in sequence:
                self._worth[position] = max(log_prob, self._worth.get(position, -math.inf))

    def extend_best(self) -> list[Pointer]:
        """Keep the best sequences of the last pick; return the best one's extensions by the better half, if any."""
        self._best_sequences, self._scores = self._rank()[: self._width], {}
        if not self._best_sequences:
            return []
        best, candidates = self._best_sequences[0], len(self.positions)
        self._growth = count_growth(self._width, candidates=candidates, picked=len(best))
        return [(*best, position) for position in self._rank_additions()[: self._growth.of_best]]

    def extend_others(self) -> list[Pointer]:
        """Return further sequences, if any: what helped the best most, before it and behind the other kept ones."""
        if not self._best_sequences:
            return []
        best_sequence = self._best_sequences[0]
        gained = [sequence[-1] for sequence in self._rank()]
        ordered = [*gained, *(position for position in self._rank_additions() if position not in gained)]
        extended = (
            (*rest, position) if rest != best_sequence else (position, *best_sequence)
            for position in ordered
            for rest in self._best_sequences
            if position not in rest
        )
        return list(islice(extended, self._growth.of_others))

    def best_records(self) -> tuple[PointerRecord, ...]:
        """Return the kept sequences, best first, each with its rank and InfoScore."""
        return tuple(
            PointerRecord(
                pointer=sequence,
                gen_method="beam",
                beam_rank=rank,
                beam_score=math.exp(self._scores[sequence]) - math.exp(self._log_prob_without),
            )
            for rank, sequence in enumerate(self._rank()[: self._width])
        )

    def _rank_additions(self) -> list[int]:
        """Return the candidates that the best sequence lacks, the most promising first, unscored ones last."""
        lacking = (position for position in self.positions if position not in self._best_sequences[0])
        return sorted(lacking, key=lambda position: -self._worth.get(position, -math.inf))

    def _rank(self) -> list[Pointer]:
        """Return the sequences of this pick, best first; of equal scores the one that was asked about first."""
        return sorted(self._scores, key=lambda sequence: -self._scores[sequence])


def _draw_positions(query: str, pools: Pools, *, shots: int, settings: BeamSettings, seed: int) -> list[int]:
    """Draw the positions in the pool that the search may pick, sorted. Raises PoolTooSmall for fewer than the shots."""
    size = len(pools.pools[query])
    count = min(settings.candidates or size, size)
    if count < shots:
        raise PoolTooSmall(f"query {query}: {count} candidates are tried for {shots} shots; try more, or show fewer")
    digest = hashlib.sha256(f"{seed}:{query}".encode()).digest()  # draws do not depend on the other queries
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:7]))
    return sorted(torch.randperm(size, generator=generator)[:count].tolist())
