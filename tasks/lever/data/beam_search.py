"""Sequences to imitate: a beam search over P(answer | sequence) that asks the judge only about what looks promising.

Every candidate is weighed alone. Then, for each further pick, the best sequence grows by the better half of the
candidates, and what helps it there is tried in another order and behind the other sequences that are kept. With 5
beams over 16 candidates and 2 shots that is 33 prompts a query. Without screening every kept sequence grows by every
candidate: 92 prompts.

Source of InfoScore: Yang et al. 2023, "Lever LM: Configuring In-Context Sequence to Lever Large Vision Language
Models", arXiv:2312.10104. That of a sequence is P(answer | sequence) - P(answer | nothing shown): the gains of its
picks add up to it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import torch

from tasks.lever.judge.judging import Judging, PromptedQuery
from tasks.lever.lever_errors import PoolTooSmall
from tasks.lever.lever_options import BeamSettings
from tasks.lever.lever_records import Item, Pointer, PointerRecord, Pools

TRIED_AGAIN = 8
"""For each kept sequence beside the best, one in so many candidates is tried again, at least one."""


class Growth(NamedTuple):
    """Sequences that a pick weighs beyond the first one."""

    of_best: int
    """Number of sequences that are the best one so far with one candidate more."""
    of_others: int
    """Number of other orders of these, and of other kept sequences with one of these candidates."""


def count_growth(width: int, *, candidates: int, picked: int, screened: bool) -> Growth:
    """Return how many sequences the next pick weighs when `picked` of `candidates` are in the best one.

    A single beam, and a search without screening, weigh every candidate that remains.
    """
    remaining = candidates - picked
    if width == 1 or not screened:
        return Growth(remaining, (min(width, math.perm(candidates, picked)) - 1) * remaining)  # beams that exist
    return Growth(max(1, remaining // 2), min(remaining, (width - 1) * max(1, candidates // TRIED_AGAIN)))


def count_prompts(settings: BeamSettings, *, queries: int, pool: int, shots: int, screened: bool) -> dict[int, int]:
    """Return, by number of demonstrations, how many sequences a search asks the judge about."""
    candidates = min(settings.candidates or pool, pool)
    later_picks = {
        picked + 1: sum(count_growth(settings.width, candidates=candidates, picked=picked, screened=screened))
        for picked in range(1, shots)
    }
    query_count = min(queries, settings.queries or queries)
    return {length: query_count * count for length, count in {0: 1, 1: candidates, **later_picks}.items()}


def find_beams(
    queries: Sequence[Item],
    pools: Pools,
    judging: Judging,
    *,
    shots: int,
    settings: BeamSettings,
    screened: bool,
    seed: int,
) -> dict[str, tuple[PointerRecord, ...]]:
    """Return the sequences with the highest InfoScore for each query, best first, with the score as `beam_score`.

    The judge is asked about all queries at once. screened: it is asked only about sequences that look promising.
    Raises PoolTooSmall, JudgeUnusable.
    """
    beams = {
        item.id: _Beam(
            _draw_positions(item.id, pools, shots=shots, settings=settings, seed=seed), settings.width, screened
        )
        for item in queries
    }

    def weigh(sequences_of: Mapping[str, list[Pointer]]) -> None:
        pairs = [(query, sequence) for query, sequences in sequences_of.items() for sequence in sequences]
        prompts = [PromptedQuery(query, tuple(pools.pools[query][at] for at in sequence)) for query, sequence in pairs]
        for (query, sequence), log_prob in zip(pairs, judging.answer_log_probs(prompts), strict=True):
            beams[query].record_score(sequence, log_prob)

    weigh({query: [()] for query in beams})
    weigh({query: beam.single_sequences() for query, beam in beams.items()})
    for _ in range(1, shots):
        for beam in beams.values():
            beam.keep_best()
        weigh({query: beam.extend_best() for query, beam in beams.items()})
        weigh({query: beam.extend_others() for query, beam in beams.items()})
    return {query: beam.best_records() for query, beam in beams.items()}


class _Beam:
    """The beam search of one query: it proposes sequences, and records how likely the answer is behind them."""

    def __init__(self, tried: Sequence[int], width: int, screened: bool) -> None:
        self._positions, self._width, self._screened = tried, width, screened
        self._log_prob_without = 0.0
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

    def single_sequences(self) -> list[Pointer]:
        """Return each candidate that the search tries as a sequence of one."""
        return [(position,) for position in self._positions]

    def keep_best(self) -> None:
        """Keep the best sequences of this pick, which the next pick extends, and forget all scores."""
        self._best_sequences, self._scores = self._rank(), {}

    def extend_best(self) -> list[Pointer]:
        """Return the best sequence extended by each candidate of the better half; nothing if none is kept."""
        if not self._best_sequences:
            return []
        best, count = self._best_sequences[0], self._growth_counts.of_best
        return [(*best, position) for position in self._rank_additions()[:count]]

    def extend_others(self) -> list[Pointer]:
        """Return further sequences: what helped the best one most, in front of it and behind the other kept ones.

        Without screening, every candidate is put behind every other kept sequence.
        """
        if not self._best_sequences:
            return []
        if not self._screened:
            return [
                (*rest, position)
                for rest in self._best_sequences[1:]
                for position in self._positions
                if position not in rest
            ]
        best_sequence = self._best_sequences[0]
        gained = [sequence[-1] for sequence in self._rank(len(self._scores))]
        ordered = [*gained, *(position for position in self._rank_additions() if position not in gained)]
        extended = (
            (*rest, position) if rest != best_sequence else (position, *best_sequence)
            for position in ordered
            for rest in self._best_sequences
            if position not in rest
        )
        return list(islice(extended, self._growth_counts.of_others))

    def best_records(self) -> tuple[PointerRecord, ...]:
        """Return the kept sequences, best first, each with its rank and InfoScore."""
        return tuple(
            PointerRecord(
                pointer=sequence,
                gen_method="beam",
                beam_rank=rank,
                beam_score=math.exp(self._scores[sequence]) - math.exp(self._log_prob_without),
            )
            for rank, sequence in enumerate(self._rank())
        )

    @property
    def _growth_counts(self) -> Growth:
        picked = len(self._best_sequences[0])
        return count_growth(self._width, candidates=len(self._positions), picked=picked, screened=self._screened)

    def _rank_additions(self) -> list[int]:
        """Return the candidates that the best sequence lacks, the most promising first, unscored ones last."""
        lacking = (position for position in self._positions if position not in self._best_sequences[0])
        return sorted(lacking, key=lambda position: -self._worth.get(position, -math.inf))

    def _rank(self, limit: int | None = None) -> list[Pointer]:
        """Return the best sequences of this pick; of equal scores the one that was asked about first comes first."""
        ranked = sorted(self._scores, key=lambda sequence: -self._scores[sequence])
        return ranked[: self._width if limit is None else limit]


def _draw_positions(query: str, pools: Pools, *, shots: int, settings: BeamSettings, seed: int) -> list[int]:
    """Draw the positions in the pool that the search may pick. Raises PoolTooSmall."""
    size = len(pools.pools[query])
    count = min(settings.candidates or size, size)
    if count < shots:
        raise PoolTooSmall(f"query {query}: {count} candidates are tried for {shots} shots; try more, or show fewer")
    digest = hashlib.sha256(f"{seed}:{query}".encode()).digest()  # draws do not depend on the other queries
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:7]))
    return sorted(torch.randperm(size, generator=generator)[:count].tolist())
