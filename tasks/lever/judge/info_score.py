"""InfoScore: how much more likely demonstrations make the right answer, and the beam search that maximises it.

Source: Yang et al. 2023, "Lever LM: Configuring In-Context Sequence to Lever Large Vision Language Models",
arXiv:2312.10104. The score of a sequence is P(answer | sequence) - P(answer | nothing shown): the gains of its picks
add up to that. RL data hold no InfoScore.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import torch

from tasks.lever.judge.judging import Asked, Judging
from tasks.lever.lever_errors import PoolTooSmall
from tasks.lever.lever_options import BeamSettings
from tasks.lever.lever_records import PointerRecord, Pools, VqaItem


def search(
    queries: Sequence[VqaItem], pools: Pools, judging: Judging, *, shots: int, settings: BeamSettings, seed: int
) -> dict[str, tuple[PointerRecord, ...]]:
    """The best sequences of each query, best first; `beam_score` is their InfoScore.

    After each pick the judge is asked about all sequences of all queries at once. Raises PoolTooSmall, JudgeUnusable.
    """
    tried = {query.id: _tried(query.id, pools, shots=shots, settings=settings, seed=seed) for query in queries}
    alone = dict(zip(tried, judging.log_probs([(Asked(q.id, ()), q.shown_answer) for q in queries]), strict=True))
    kept: dict[str, list[tuple[tuple[int, ...], float]]] = {query.id: [((), 0.0)] for query in queries}
    for _ in range(shots):
        grown = {
            query.id: [(*one, next_) for one, _ in kept[query.id] for next_ in tried[query.id] if next_ not in one]
            for query in queries
        }
        asked = [
            (Asked(query.id, tuple(pools.pools[query.id][at] for at in one)), query.shown_answer)
            for query in queries
            for one in grown[query.id]
        ]
        likely = iter(judging.log_probs(asked))
        for query, sequences in grown.items():
            # NaN: a picture of it cannot be shown
            scored = [(one, score) for one in sequences if not math.isnan(score := next(likely))]
            # equals stay in the order of the pool, so that a search always ends alike
            kept[query] = sorted(scored, key=lambda pair: -pair[1])[: settings.width]
    return {
        query: tuple(
            PointerRecord(
                pointer=one, gen_method="beam", beam_rank=rank, beam_score=math.exp(score) - math.exp(alone[query])
            )
            for rank, (one, score) in enumerate(best)
        )
        for query, best in kept.items()
    }


def _tried(query: str, pools: Pools, *, shots: int, settings: BeamSettings, seed: int) -> list[int]:
    """Positions in the pool that the search may pick."""
    size = len(pools.pools[query])
    count = min(settings.candidates or size, size)
    if count < shots:
        raise PoolTooSmall(f"query {query}: {count} candidates are tried for {shots} shots; try more, or show fewer")
    digest = hashlib.sha256(f"{seed}:{query}".encode()).digest()  # draws do not depend on the other queries
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:7]))
    return sorted(torch.randperm(size, generator=generator)[:count].tolist())
