"""Metrics of graded samples: accuracies over repeats, pass@k and maj@k; an unscored sample is in no mean."""

from __future__ import annotations

import hashlib
import operator
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import fsum, prod, sqrt
from typing import NamedTuple

import numpy as np
from pydantic import JsonValue

from tasks.grading.grading_records import Counts, Sample, Summary
from tasks.grading.reading import Policy, score_under
from tasks.measure.estimates import ByItem, Estimate, estimate, estimate_groups, is_binary, mean, standard_error

VOTE_CHARS = 200  # a longer answer is held as its digest
AT_K = ("pass", "cons", "avg")
UNSCORED = ("unscored", "refused", "too_long")
"""Names of the counts of samples that have no score."""
MOST_NAMES = 5
"""Number of items that a note names."""
SameAnswer = Callable[[str, str], bool]
"""Tells whether two answers are equal."""


class Tally(NamedTuple):
    """The scores of the samples of a benchmark; it holds a few numbers per sample and no texts."""

    counts: Counts
    scores: dict[str, list[float]]
    """Item → score per scored repeat; an item without any is absent, here and below."""
    by_repeat: dict[int, list[float]]
    """Repeat → scores of its scored samples; a repeat without any has an empty list."""
    groups: dict[str, dict[str, list[float]]]
    """Group → item → score per scored repeat; empty for a group of which nothing was scored."""
    values: dict[str, dict[str, list[float]]]
    """Name of a further metric → item → its value per scored repeat."""
    votes: dict[str, list[str | None]]
    """Item → extracted answer per scored repeat, beside `scores`; None where there was no answer."""
    read: dict[Policy, dict[str, list[float]]]
    """Other reading policy → item → score per scored repeat."""
    otherwise: dict[Policy, dict[str, bool]]
    """Other reading policy → items that it scores otherwise than the headline's; True: higher."""


def tally_samples(samples: Iterable[Sample], *, policies: Sequence[Policy] = ()) -> Tally:
    """Add up samples in one pass; repeats of an item keep their order. policies: further ones whose scores to add."""
    count = dict.fromkeys(Counts.model_fields, 0)
    read: dict[Policy, dict[str, list[float]]] = {policy: {} for policy in policies}
    otherwise: dict[Policy, dict[str, bool]] = {policy: {} for policy in policies}
    items, totals = dict[str, None](), Tally(Counts(), {}, {}, {}, {}, {}, read, otherwise)
    for sample in samples:
        items[sample.item] = None
        count["samples"] += 1
        count["truncated"] += sample.truncated
        scores = totals.by_repeat.setdefault(sample.repeat, [])
        group = {} if sample.group is None else totals.groups.setdefault(sample.group, {})
        if sample.score is None:
            count[sample.outcome] += 1
            continue
        count["missing"] += sample.missing
        scores.append(sample.score)
        item_scores = totals.scores.setdefault(sample.item, [])
        item_scores.append(sample.score)
        totals.votes.setdefault(sample.item, []).append(shorten_vote(sample.extracted))
        group[sample.item] = item_scores  # the same list, so that later repeats count in the group too
        for policy in policies:
            score = score_under(policy, sample)
            if score is not None:
                read[policy].setdefault(sample.item, []).append(score)
                if score != sample.score:
                    otherwise[policy].setdefault(sample.item, score > sample.score)
        for name, value in sample.values.items():
            totals.values.setdefault(name, {}).setdefault(sample.item, []).append(value)
    count |= {"items": len(items), "scored": count["samples"] - sum(count[name] for name in UNSCORED)}
    counts = Counts(**count | {"differing": len(set().union(*otherwise.values()))})
    return totals._replace(counts=counts, by_repeat=dict(sorted(totals.by_repeat.items())))


def summarise_repeats(
    samples: Iterable[Sample],
    *,
    policies: Sequence[Policy] = (),
    ks: Sequence[int] = (),
    are_equal: SameAnswer = operator.eq,
) -> Summary:
    """Return evalchemy's metrics of a benchmark that is asked several times; pass@k and maj@k for scores of 0 or 1.

    accuracy_std_err is that of the seed, np.std over the repeats' accuracies / √repeats; accuracy_std_err_sample
    divides by n - 1 and is null for one repeat. The error from the choice of items is `Estimate.std_err`. accuracy_avg
    is the mean of the repeats' accuracies, unless samples are unscored: then items weigh the same.

    policies: other reading policies whose accuracy is reported. ks: of which pass@k, cons@k and avg@k are wanted.
    are_equal: whether two answers are equal, for votes.
    """
    totals = tally_samples(samples, policies=policies)
    repeats = [(repeat, scores) for repeat, scores in totals.by_repeat.items() if scores]
    accuracies = [mean(scores) for _, scores in repeats]
    headline = estimate_groups("accuracy_avg", totals.scores, groups=totals.groups, headline=True)
    # pass@k of all repeats, and cons@k and avg@k of the first k; items with fewer than k do not count
    usual_ks, requested, left_out = _list_ks(totals), list[Estimate](), dict[str, JsonValue]()
    for k in ks:
        enough = {item: scores for item, scores in totals.scores.items() if len(scores) >= k}
        if not enough:
            most = max(map(len, totals.scores.values()), default=0)
            left_out |= {f"{name}@{k}": f"no item has more than {most} scored repeats" for name in AT_K}
            continue
        if usual_ks:
            requested.append(estimate(f"pass@{k}", pass_by_item(enough, k)))
            requested.append(estimate(f"cons@{k}", _vote_scores(k, enough, totals, are_equal)))  # by majority
        requested.append(estimate(f"avg@{k}", {item: scores[:k] for item, scores in enough.items()}))
    # of the usual k an item with fewer scored repeats does not count: `n` is smaller then
    usual = [estimate(f"pass@{k}", by_item) for k in usual_ks if (by_item := pass_by_item(totals.scores, k))]
    for k in usual_ks[-1:]:  # all repeats, of which the most frequent answer is taken
        if full := {item: scores for item, scores in totals.scores.items() if len(scores) == k}:
            usual.append(estimate(f"maj@{k}", _vote_scores(k, full, totals, are_equal)))
    more = tuple({extra.metric: extra for extra in (*usual, *requested, *_estimate_policies(totals))}.values())
    metrics: dict[str, JsonValue] = {
        "num_total": totals.counts.items,
        "solved_avg": mean([fsum(scores) for _, scores in repeats]) if repeats else None,
        "run_stats": [
            {
                "repetition": repeat + 1,
                "num_total": len(scores),
                "num_solved": _as_integer(fsum(scores)),
                "accuracy": mean(scores),
            }
            for repeat, scores in repeats
        ],
        "accuracy_avg": headline[0].value if headline else None,
        "accuracy_std_err": float(np.std(accuracies) / sqrt(len(accuracies))) if accuracies else None,
        "accuracy_std_err_sample": standard_error(accuracies),
        "num_repeat": len(totals.by_repeat),
    }
    metrics |= {extra.metric: extra.value for extra in more} | unscored_metric(totals.counts)
    metrics |= {"k_left_out": left_out} if left_out else {}
    return Summary(metrics, (*headline, *more), totals.counts, tuple(_describe_differences(totals)))


def summarise_single(samples: Iterable[Sample], *, policies: Sequence[Policy] = ()) -> Summary:
    """Return evalchemy's num_total, num_solved and accuracy, also by other reading `policies`, of items asked once."""
    totals = tally_samples(samples, policies=policies)
    headline = estimate_groups("accuracy", totals.scores, groups=totals.groups, headline=True)
    metrics: dict[str, JsonValue] = {
        "num_total": totals.counts.items,
        "num_solved": _as_integer(fsum(map(mean, totals.scores.values()))),
        "accuracy": headline[0].value if headline else None,
    }
    read = _estimate_policies(totals)
    metrics |= {accuracy.metric: accuracy.value for accuracy in read} | unscored_metric(totals.counts)
    return Summary(metrics, (*headline, *read), totals.counts, tuple(_describe_differences(totals)))


def _estimate_policies(totals: Tally) -> tuple[Estimate, ...]:
    """Return the accuracy under each other policy: `accuracy_strict`, `accuracy_flexible`."""
    return tuple(estimate(f"accuracy_{policy}", scores) for policy, scores in totals.read.items() if scores)


def _describe_differences(totals: Tally) -> Iterator[str]:
    """Yield a sentence for each policy under which items score otherwise, with the first of them."""
    for policy, items in totals.otherwise.items():
        if items:
            higher, counted = sum(items.values()), f"{len(items)} of {totals.counts.items}"
            changed = f"{higher} higher, {len(items) - higher} lower"
            yield f"read {policy}, {counted} items score otherwise ({changed}): {name_first(items)}"


def name_first(items: Iterable[str]) -> str:
    """Return the names of the first MOST_NAMES items, with `…` where there are more."""
    names = list(items)
    return ", ".join(names[:MOST_NAMES]) + (" …" if len(names) > MOST_NAMES else "")


def pass_by_item(scores: ByItem, k: int) -> dict[str, list[float]]:
    """Return pass@k of each item with k scores or more, which are 0 or 1."""
    return {item: [unbiased_pass(len(own), int(sum(own)), k)] for item, own in scores.items() if len(own) >= k}


def unbiased_pass(n: int, correct: int, k: int) -> float:
    """Return the chance that one of k answers drawn from n, of which `correct` are right, is right.

    The draw is without replacement, k at most n. Source: Chen et al. 2021, arXiv:2107.03374: 1 - C(n - correct, k) /
    C(n, k), as a product that cannot overflow.
    """
    if n - correct < k:
        return 1.0
    return 1.0 - prod(1.0 - k / remaining for remaining in range(n - correct + 1, n + 1))


def _vote_scores(k: int, scores: ByItem, totals: Tally, are_equal: SameAnswer) -> dict[str, list[float]]:
    return {item: [_majority(totals.votes[item][:k], own[:k], are_equal)] for item, own in scores.items()}


def shorten_vote(answer: str | None) -> str | None:
    """Return `answer` as votes keep it: a long one as its digest, a short one and None as they are."""
    if answer is None or len(answer) <= VOTE_CHARS:
        return answer
    return hashlib.sha256(answer.encode("utf-8", "surrogatepass")).hexdigest()


def _majority(votes: Sequence[str | None], scores: Sequence[float], are_equal: SameAnswer) -> float:
    """Return the score of the commonest answer, in a tie the first; right ones are equal, None and "" do not vote."""
    groups = list[_Group]()
    for answer, score in zip(votes, scores, strict=True):
        plain = "".join(unicodedata.normalize("NFKC", answer or "").casefold().split())
        spelling = plain.strip("$").rstrip(".")
        if answer is None or not spelling:
            continue
        group = next((group for group in groups if spelling in group.spellings or (score == group.score == 1)), None)
        if group is None and score < 1:
            candidates = (group for group in groups if group.score == score)
            group = next((group for group in candidates if are_equal(group.answer, answer)), None)
        if group is None:
            group = _Group(answer, score, [], set())
            groups.append(group)
        group.votes.append(spelling)
        group.spellings.add(spelling)
    return max(groups, key=lambda equals: len(equals.votes)).score if groups else 0.0  # of equal ones the first


class _Group(NamedTuple):
    """Answers to an item that are equal to each other."""

    answer: str
    """The first answer of the group."""
    score: float
    votes: list[str]
    spellings: set[str]


def _list_ks(totals: Tally) -> list[int]:
    """Return 1, 2, 4 … and the number of repeats; none for items asked once, or scores not 0 or 1."""
    repeats = len(totals.by_repeat)
    if repeats < 2 or not all(is_binary(scores) for scores in totals.scores.values()):  # pass@k counts right ones
        return []
    powers = [2**power for power in range(repeats.bit_length()) if 2**power < repeats]
    return [*powers, repeats]


def _as_integer(value: float) -> int | float:
    return int(value) if value.is_integer() else value


def unscored_metric(counts: Counts) -> dict[str, JsonValue]:
    """Return `num_unscored`, `num_refused` and `num_too_long`, those above 0, as metrics."""
    return {f"num_{name}": count for name in UNSCORED if (count := getattr(counts, name))}
