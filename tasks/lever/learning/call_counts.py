"""How often stages ask the judge, counted before they do: prompts that are judged, or whose answer is weighed.

Counted is what a stage asks for. What the judge has answered before, in this run or in another, it is not asked again:
of beams and RL data, whose pointers are all distinct, that is nothing in a first run of answers in the judge's own
words; checkpoints are validated, and pointers drawn, that may recur.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tasks.lever.data.beam_search import growth
from tasks.lever.learning.choosing import ALL_UP_TO_SHOTS, BEST_OF
from tasks.lever.lever_options import BeamSettings, GrpoSettings, OracleSettings, RlDataSettings


def of_beams(settings: BeamSettings, *, queries: int, pool: int, shots: int, screened: bool) -> dict[int, int]:
    """Number of demonstrations → sequences that the search weighs: each candidate alone, then what grows."""
    candidates = min(settings.candidates or pool, pool)
    grown = {
        picked + 1: sum(growth(settings.width, candidates=candidates, picked=picked, screened=screened))
        for picked in range(1, shots)
    }
    searched = min(queries, settings.queries or queries)
    return {shown: searched * count for shown, count in {0: 1, 1: candidates, **grown}.items()}


def of_validation(epochs: int, *, validation: int) -> int:
    """Before the first epoch and after each."""
    return (epochs + 1) * validation


def of_rl_data(settings: RlDataSettings, *, queries: int, pool: int, shots: int) -> int:
    """Distinct pointers of each query."""
    return queries * min(settings.total, math.perm(pool, shots))


def grpo_epochs(settings: GrpoSettings) -> int:
    """Epochs and rounds after which the selector is validated."""
    return settings.offline_epochs + grpo_rounds(settings)


def grpo_rounds(settings: GrpoSettings) -> int:
    """Rounds in which pointers are drawn and judged."""
    return 0 if settings.offline_only else settings.rounds


def of_draws(settings: GrpoSettings, *, queries: int) -> int:
    """Pointers that GRPO draws."""
    return grpo_rounds(settings) * queries * settings.draws


def of_evaluation(*, test: int, shots: Iterable[int], selectors: int) -> dict[int, int]:
    """Number of demonstrations → prompts: zero-shot once, every other selector with each number of shots."""
    return {0: test} | {shown: test * selectors for shown in shots if shown}


def most_of_oracle(settings: OracleSettings, *, test: int, pool: int, shots: int) -> int:
    """All ordered pointers, or as many as it may try; it ends sooner where a query is entirely right."""
    pointers = math.perm(pool, shots)
    each = pointers if shots <= ALL_UP_TO_SHOTS else min(pointers, BEST_OF)
    return min(test * each, test * each if settings.most_judgments is None else settings.most_judgments)
