"""Figures of graded samples: accuracies over repeats, pass@k and maj@k; an unscored sample is in no mean."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from math import fsum, prod, sqrt
from typing import NamedTuple

import numpy as np
from pydantic import JsonValue

from tasks.grading.grading_records import Counts, Sample, Summary
from tasks.measure.estimates import ByItem, Estimate, estimate, estimates, is_binary, mean, standard_error

VOTE_CHARS = 200


class Tally(NamedTuple):
    """The scores of a benchmark's samples; a few numbers per sample, no texts."""

    counts: Counts
    scores: dict[str, list[float]]
    """Item → score per scored repeat; an item without any is absent, here and below."""
    by_repeat: dict[int, list[float]]
    """Repeat → scores of its scored samples; a repeat without any has an empty list."""
    groups: dict[str, dict[str, list[float]]]
    values: dict[str, dict[str, list[float]]]
    """Name of a further figure → item → its value per scored repeat."""
    votes: dict[str, list[str | None]]
    """Item → extracted answer per scored repeat, normalised, beside `scores`; None where there was no answer."""


def tally(samples: Iterable[Sample]) -> Tally:
    """Add up samples, read once; repeats of an item keep their order."""
    count = dict.fromkeys(Counts.model_fields, 0)
    items, found = dict[str, None](), Tally(Counts(), {}, {}, {}, {}, {})
    for sample in samples:
        items[sample.item] = None
        count["samples"] += 1
        count["truncated"] += sample.truncated
        scores = found.by_repeat.setdefault(sample.repeat, [])
        if sample.status == "unscored" or sample.score is None:
            count["unscored"] += 1
            continue
        count["missing"] += sample.missing
        scores.append(sample.score)
        of_item = found.scores.setdefault(sample.item, [])
        of_item.append(sample.score)
        found.votes.setdefault(sample.item, []).append(vote(sample.extracted))
        if sample.group is not None:
            found.groups.setdefault(sample.group, {})[sample.item] = of_item
        for name, value in sample.values.items():
            found.values.setdefault(name, {}).setdefault(sample.item, []).append(value)
    counts = Counts(**count | {"items": len(items), "scored": count["samples"] - count["unscored"]})
    return found._replace(counts=counts, by_repeat=dict(sorted(found.by_repeat.items())))


def summarise_repeats(samples: Iterable[Sample]) -> Summary:
    """evalchemy's figures of a benchmark that is asked several times, with pass@k and maj@k where scores are 0 or 1.

    accuracy_std_err is that of the seed, np.std over the repeats' accuracies / √repeats; accuracy_std_err_sample
    divides by n - 1 and is null for one repeat. The error from the choice of items is `Estimate.std_err`. accuracy_avg
    is the mean of the repeats' accuracies, unless samples are unscored: then items weigh the same.
    """
    found = tally(samples)
    repeats = [(repeat, scores) for repeat, scores in found.by_repeat.items() if scores]
    accuracies = [mean(scores) for _, scores in repeats]
    headline = estimates("accuracy_avg", found.scores, groups=found.groups, headline=True)
    more = (*pass_at_k(found), *majority_at_k(found))
    metrics: dict[str, JsonValue] = {
        "num_total": found.counts.items,
        "solved_avg": mean([fsum(scores) for _, scores in repeats]) if repeats else None,
        "run_stats": [
            {
                "repetition": repeat + 1,
                "num_total": len(scores),
                "num_solved": _whole(fsum(scores)),
                "accuracy": mean(scores),
            }
            for repeat, scores in repeats
        ],
        "accuracy_avg": headline[0].value if headline else None,
        "accuracy_std_err": float(np.std(accuracies) / sqrt(len(accuracies))) if accuracies else None,
        "accuracy_std_err_sample": standard_error(accuracies),
        "num_repeat": len(found.by_repeat),
    }
    metrics |= {one.metric: one.value for one in more} | unscored_metric(found.counts)
    return Summary(metrics, (*headline, *more), found.counts)


def summarise_single(samples: Iterable[Sample]) -> Summary:
    """evalchemy's figures of a benchmark that is asked once: num_total, num_solved, accuracy."""
    found = tally(samples)
    headline = estimates("accuracy", found.scores, groups=found.groups, headline=True)
    metrics: dict[str, JsonValue] = {
        "num_total": found.counts.items,
        "num_solved": _whole(fsum(map(mean, found.scores.values()))),
        "accuracy": headline[0].value if headline else None,
    }
    return Summary(metrics | unscored_metric(found.counts), headline, found.counts)


def pass_at_k(found: Tally) -> tuple[Estimate, ...]:
    """pass@k for k = 1, 2, 4 … and all repeats; none where items were asked once or scores are not 0 or 1.

    An item with fewer than k scored repeats does not count in pass@k: its `n` is smaller then.
    """
    by_k = {k: pass_by_item(found.scores, k) for k in _sizes(found)}
    return tuple(estimate(f"pass@{k}", by_item) for k, by_item in by_k.items() if by_item)


def pass_by_item(scores: ByItem, k: int) -> dict[str, list[float]]:
    """pass@k of each item with k scores or more, which are 0 or 1."""
    return {item: [unbiased_pass(len(own), int(sum(own)), k)] for item, own in scores.items() if len(own) >= k}


def unbiased_pass(n: int, correct: int, k: int) -> float:
    """Chance that at least one of k answers, drawn without replacement from n with `correct` right ones, is right.

    Source: Chen et al. 2021, arXiv:2107.03374: 1 - C(n - correct, k) / C(n, k), as a product that cannot overflow.
    """
    if n - correct < k:
        return 1.0
    return 1.0 - prod(1.0 - k / left for left in range(n - correct + 1, n + 1))


def majority_at_k(found: Tally) -> tuple[Estimate, ...]:
    """maj@k for k = all repeats: the score of the answer that most repeats gave; items with fewer do not count.

    Answers are compared as text, after `vote`, not by the grader: a lower bound where 1/2 and 0.5 are the same.
    """
    k = max(_sizes(found), default=0)
    full = {item: [_majority(found.votes[item], scores)] for item, scores in found.scores.items() if len(scores) == k}
    return (estimate(f"maj@{k}", full),) if k and full else ()


def vote(answer: str | None) -> str | None:
    """`answer` as it is compared in a vote: without case, spaces and dollar signs; a long one as its digest."""
    if answer is None:
        return None
    if len(answer) > VOTE_CHARS:
        return hashlib.sha256(answer.encode("utf-8", "surrogatepass")).hexdigest()
    plain = "".join(unicodedata.normalize("NFKC", answer).casefold().split())
    return plain.strip("$").rstrip(".") or None


def _majority(votes: Sequence[str | None], scores: Sequence[float]) -> float:
    """The score of the first answer among those with most votes; no answer is no vote."""
    ranked = Counter(one for one in votes if one is not None).most_common(1)  # of several the first
    return scores[votes.index(ranked[0][0])] if ranked else 0.0


def _sizes(found: Tally) -> list[int]:
    """The k of pass@k; none where it has no meaning."""
    repeats = len(found.by_repeat)
    if repeats < 2 or not all(is_binary(scores) for scores in found.scores.values()):
        return []
    powers = [2**power for power in range(repeats.bit_length()) if 2**power < repeats]
    return [*powers, repeats]


def _whole(value: float) -> int | float:
    return int(value) if value.is_integer() else value


def unscored_metric(counts: Counts) -> dict[str, JsonValue]:
    """`num_unscored`, only where there are any."""
    return {"num_unscored": counts.unscored} if counts.unscored else {}
