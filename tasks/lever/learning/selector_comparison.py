"""Selectors over seeds: means with intervals, and gains paired by query and seed.

The bootstrap resamples seeds and queries, each a cluster of everything measured on it: a query is hard for every
selector and in every seed. On simulated runs of 5 seeds and 400 queries the 95 % intervals covered the true value in
96 % of cases where queries differ most, and in 92 % where seeds do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import fsum, sqrt
from statistics import fmean
from typing import Any

import numpy as np

from storage.records import Record
from tasks.lever import lever_records as records
from tasks.measure.estimates import Values, percentiles, resample_crossed

Key = tuple[str, int]
"""A selector's name and a number of shots."""


class SeedEstimate(Record):
    """A mean over queries and seeds, with the keys of `figures.json`; `tasks.measure.estimates.Estimate` has others."""

    value: float
    se: float | None
    """Standard error of the mean over seeds, or over queries for a single seed; None for a single value."""
    low: float | None
    """Lower end of the 95 % bootstrap interval; None if fewer than two queries were scored."""
    high: float | None
    by_seed: dict[int, float]
    n: int
    """Queries that were scored, each counted once whatever the number of seeds."""


class SelectorScore(Record):
    """The accuracy of one selector with one number of shots, over all seeds."""

    selector: str
    shots: int
    accuracy: SeedEstimate
    unscored: int
    """Answers that the judge could not give, over all seeds; in no mean."""
    is_lower_bound: bool = False
    """True where an oracle did not try everything, so that a better choice may exist."""


class Gain(Record):
    """`better` less `worse`, over the queries that both could be scored on."""

    better: str
    worse: str
    shots: int
    """The number of shots of `better`."""
    accuracy: SeedEstimate


class Summary(Record):
    """The scores and gains of a run, under equal conditions."""

    conditions: records.Conditions
    seeds: tuple[int, ...]
    figures: tuple[SelectorScore, ...]
    """The scores, ordered by shots, then by selector."""
    headline: Gain | None = None
    """The last trained stage over the strongest rule on these very queries, at the shots that it was trained for."""
    gains: tuple[Gain, ...]
    verdicts: tuple[records.Verdict, ...] = ()
    """Whether a trained selector or a rule is `selected`, in the order of the seeds."""

    def score_of(self, selector: str, *, shots: int | None = None) -> SelectorScore | None:
        """Return the score of a selector, or None. shots: None for those that the selectors were trained for."""
        scores = self.compared() if shots is None else [score for score in self.figures if score.shots == shots]
        return next((score for score in scores if score.selector == selector), None)

    def compared(self) -> tuple[SelectorScore, ...]:
        """Return the scores at the shots that the selectors were trained for, and zero-shot."""
        shots = self.conditions.trained_shots
        return tuple(score for score in self.figures if score.shots == shots or score.selector == records.ZERO_SHOT)


def summarise(evaluated: Sequence[records.Evaluated]) -> Summary:
    """Summarise the evaluations of several seeds under the same conditions."""
    seeds = [seed_results.seed for seed_results in evaluated]
    accuracy = _tabulate(evaluated)
    accuracy_means = _resample_means(accuracy)
    scores: dict[Key, SelectorScore] = {}
    for key, table in accuracy.items():
        results = [
            result
            for seed_results in evaluated
            for result in seed_results.results
            if (result.selector, result.shots) == key
        ]
        scores[key] = SelectorScore(
            selector=key[0],
            shots=key[1],
            accuracy=_estimate(table, accuracy_means[key], seeds),
            unscored=sum(result.unscored for result in results),
            is_lower_bound=any(result.search.is_lower_bound for result in results if result.search),
        )
    pairs = {(better, worse): accuracy[better] - accuracy[worse] for better, worse in _pair_selectors(scores)}
    pairs = {pair: table for pair, table in pairs.items() if not np.isnan(table).all()}
    gains = tuple(
        Gain(better=better[0], worse=worse[0], shots=better[1], accuracy=_estimate(table, drawn_gain, seeds))
        for ((better, worse), table), drawn_gain in zip(pairs.items(), _resample_means(pairs).values(), strict=True)
    )
    about = evaluated[0].conditions
    # a stage is paired with the strongest rule first
    gain_of = {
        gain.better: gain
        for gain in reversed(gains)
        if gain.worse in records.RULES and gain.shots == about.trained_shots
    }
    return Summary(
        conditions=about,
        seeds=tuple(seeds),
        figures=tuple(scores.values()),
        headline=next((gain_of[stage] for stage in reversed(records.TRAINED) if stage in gain_of), None),
        gains=gains,
        verdicts=tuple(seed_results.verdict for seed_results in evaluated if seed_results.verdict),
    )


def _tabulate(evaluated: Sequence[records.Evaluated]) -> dict[Key, Values]:
    """Return accuracies (R seeds, Q queries) by selector and shots, NaN where not scored, without tables of NaN."""
    results = [result for seed_results in evaluated for result in seed_results.results]
    queries = dict.fromkeys(outcome.query for result in results for outcome in result.outcomes)
    column = {query: number for number, query in enumerate(queries)}
    tables: dict[Key, Values] = {}
    for row, seed_results in enumerate(evaluated):
        for result in seed_results.results:
            key = result.selector, result.shots
            table = tables.setdefault(key, np.full((len(evaluated), len(column)), np.nan))
            for outcome in result.outcomes:
                if outcome.accuracy is not None:
                    table[row, column[outcome.query]] = outcome.accuracy
    rank_of = {
        selector: float(number) for number, selector in enumerate(records.SELECTORS)
    }  # others stand before the oracle
    ordered = sorted(tables, key=lambda key: (key[1], rank_of.get(key[0], rank_of[records.ORACLE] - 0.5), key[0]))
    return {key: tables[key] for key in ordered if not np.isnan(tables[key]).all()}


def _resample_means(tables: Mapping[Any, Values]) -> dict[Any, Values]:
    """Return the means (RESAMPLES,) of resamples of each table, drawn alike for all."""
    if not tables:
        return {}
    # all tables in one call: the same queries and seeds are drawn for every selector
    return dict(zip(tables, resample_crossed(np.stack(list(tables.values())), seed=0).T, strict=True))


def _estimate(table: Values, drawn: Values, seeds: Sequence[int]) -> SeedEstimate:
    """Return the estimate of a table (R, Q): a row for each of `seeds`, NaN where nothing was scored, but not all NaN.

    drawn: means (RESAMPLES,) of its resamples, which give the interval.
    """
    scored = {seed: row[~np.isnan(row)].tolist() for seed, row in zip(seeds, table, strict=True)}
    by_seed = {seed: fmean(values) for seed, values in scored.items() if values}
    first_seed = next(iter(by_seed))
    n = int((~np.isnan(table)).any(axis=0).sum())
    finite = drawn[~np.isnan(drawn)]
    low, high = percentiles(finite) if n > 1 and finite.size else (None, None)
    values = list(by_seed.values()) if len(by_seed) > 1 else scored[first_seed]
    mean = fmean(values)
    squares = fsum((value - mean) ** 2 for value in values)
    return SeedEstimate(
        value=fmean(by_seed.values()),
        se=sqrt(squares / (len(values) - 1) / len(values)) if len(values) > 1 else None,
        low=low,
        high=high,
        by_seed=by_seed,
        n=n,
    )


def _pair_selectors(scores: Mapping[Key, SelectorScore]) -> list[tuple[Key, Key]]:
    """Pair (better, worse): trained over the strongest rule and similarity, each stage over the one before.

    The strongest rule is that of these very queries, which is in its favour.
    """
    pairs: list[tuple[Key, Key]] = []
    for shots in dict.fromkeys(key[1] for key in scores):
        names = [name for name, count in scores if count == shots]
        trained = [name for name in reversed(names) if name not in (*records.UNTRAINED, records.ORACLE)]
        stages = [name for name in reversed(records.TRAINED) if name in names]
        rules = [name for name in records.RULES if name in names]
        strongest = max(rules, key=lambda name: scores[name, shots].accuracy.value, default=records.SIMILARITY)
        comparisons = [(name, rule) for rule in dict.fromkeys((strongest, records.SIMILARITY)) for name in trained]
        comparisons += [(name, records.SIMILARITY_POOL) for name in stages[:1] if strongest != records.SIMILARITY_POOL]
        comparisons += [
            *pairwise(stages),
            (records.SIMILARITY, records.RANDOM),
            (records.SIMILARITY, records.ZERO_SHOT),
        ]
        keys = [((better, shots), (worse, 0 if worse == records.ZERO_SHOT else shots)) for better, worse in comparisons]
        pairs += [(better, worse) for better, worse in keys if better in scores and worse in scores]
    return pairs
