"""The gate: a trained selector is used where it measurably beats the best rule that costs nothing, else that rule is.

Both are compared on the validation queries, by which rule and epoch were chosen as well. The choice flatters the
selector, so that the level is .01: of trainings without any gain, the best of 20 epochs passes that in one of ten cases
(`docs/measurements.md`). Queries set apart for the test alone would be more honest, and see half of the real gains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean

from models.pointer import PointerSelector
from tasks.lever.data.candidate_pools import Banks
from tasks.lever.learning.choosing import (
    CLASSES,
    WEIGHTS,
    Choose,
    available_selectors,
    choose_by_rule,
    choose_by_selector,
    classes_of,
    judge_selectors,
    show_nearest_last,
)
from tasks.lever.learning.training_inputs import Setting, judge_all
from tasks.lever.lever_records import RIVALS, SIMILARITY_VOTE, Pools, SelectionRule, Verdict
from tasks.measure.paired_tests import paired_test

LEVEL = 0.01
"""One-sided p below which a gain counts."""
FEWEST = 50
"""Validation queries below which nothing is tested: of 50, a gain of .10 is seen in half of all cases."""
WANTED = "100 show a gain of .10, 200 one of .06, 400 to 800 one of .03"
"""Validation queries with which most gains are seen where one rule is clearly the best, from the simulation."""

Accuracies = Mapping[str, float | None]
"""Accuracy by query; None where the judge failed."""


def judge_gate(
    setting: Setting, pools: Pools, selector: PointerSelector, *, banks: Banks, stage: str, shots: int
) -> Verdict:
    """Compare a selector, `stage`, with the best rule on validation queries. Raises as rules do, JudgeUnusable."""
    queries = [item.id for item in setting.dataset.validation]
    rules = list_rules(banks, classes_of(setting))
    choosers: dict[str, Choose] = {
        rule.title: partial(choose_by_rule, rule, queries, setting.dataset.candidates, banks) for rule in rules
    }
    choosers = show_nearest_last(choosers, setting) | {stage: choose_by_selector(selector, setting, pools, queries)}
    results = judge_selectors(choosers, queries, pools, partial(judge_all, setting), shots=[shots])
    accuracies = {result.selector: {item.query: item.accuracy for item in result.outcomes} for result in results}
    learned = accuracies.pop(stage)
    return compare(accuracies, rules, learned, stage=stage)


def list_rules(banks: Banks, classes: Mapping[str, str]) -> list[SelectionRule]:
    """Return the rules that these embeddings and classes allow, with each weight that is tried."""
    names = available_selectors({*banks, *([CLASSES] if classes else [])})
    return [
        SelectionRule.model_validate(
            {"name": name, "weight": weight, "classes": classes if name == SIMILARITY_VOTE else {}}
        )
        for name in RIVALS
        if name in names
        for weight in WEIGHTS.get(name, (0.0,))
    ]


def compare(
    of_rules: Mapping[str, Accuracies], rules: Sequence[SelectionRule], learned: Accuracies, *, stage: str
) -> Verdict:
    """Return the verdict on a selector from accuracies by validation query, None left out, of it and rules by title."""
    means = {
        title: fmean([value for value in accuracies.values() if value is not None] or [0.0])
        for title, accuracies in of_rules.items()
    }
    ranked = sorted(rules, key=lambda rule: -means[rule.title])  # of equals the first, which is the simplest
    best, tuned = ranked[0], dict[str, float]()
    for rule in ranked:
        if rule.weight:
            tuned.setdefault(rule.name, rule.weight)
    differences, values = list[float](), list[float]()
    for query, accuracy in of_rules[best.title].items():
        learned_accuracy = learned[query]
        if accuracy is not None and learned_accuracy is not None:
            differences.append(learned_accuracy - accuracy)
            values += [accuracy, learned_accuracy]
    n, gain = len(differences), fmean(differences or [0.0])
    p = None
    if n >= FEWEST:
        two_sided = paired_test(differences, binary={*values} <= {0.0, 1.0}, seed=0).p
        p = two_sided / 2 if gain > 0 else 1 - two_sided / 2
    return Verdict(
        rule=best,
        tuned=tuned,
        accuracies=means,
        stage=stage,
        gain=gain,
        p=p,
        n=n,
        is_learned=p is not None and p < LEVEL,
        description=_describe(best.title, stage, gain, p, n),
    )


def _describe(rule: str, stage: str, gain: float, p: float | None, n: int) -> str:
    """Return the sentence that says whether stage or rule is used and why; p: None for too few queries."""
    queries = f"{n} validation queries"
    if p is None:
        return f"{rule} is used: {queries} are too few to tell whether {stage} gains anything over it; {WANTED}"
    if p < LEVEL:
        return f"{stage} is used: {gain:+.3f} over {rule}, p = {_round_p(p)} on {queries}"
    return f"{rule} is used: nothing measurable was gained over {rule}: p = {_round_p(p)} on {queries}"


def _round_p(p: float) -> str:
    digits = f"{p:.2f}" if p >= LEVEL else f"{p:.1g}" if p >= 0.0001 else "0.0001 or less"
    return digits.replace("0.", ".", 1)
