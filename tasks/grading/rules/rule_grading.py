"""IFEval's grader and metrics: shares of instructions followed, and of prompts whose instructions are all followed.

Loose verdicts forgive an opening line, a closing line and asterisks; strict ones do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from math import fsum, sqrt
from typing import Any, cast

from pydantic import JsonValue, ValidationError

from tasks.grading.grading_records import Item, Response, RulesUnusable, Sample, Summary, make_sample
from tasks.grading.reading import visible_answer
from tasks.grading.rules.rule_checks import KINDS, arguments_of
from tasks.grading.sample_statistics import tally_samples, unscored_metric
from tasks.measure.estimates import Estimate, estimate, estimate_groups, wilson

VARIANTS = ("strict", "loose")
ByItem = dict[str, list[float]]
"""Item → 1 for each instruction followed and 0 for each that was not, over all repeats."""
ALL_KINDS = ""
Rule = Callable[[str], bool]
"""Whether a response follows one instruction."""


def grade_rules(answered: Iterable[tuple[Item, Response]]) -> Iterator[Sample]:
    """Yield a sample for each response, in order; it is unscored where the item's instructions are not usable."""
    for item, response in answered:
        try:
            kinds, rules = zip(*rules_of(item.detail), strict=True)
        except RulesUnusable as error:
            fields = {"status": "unscored", "reason": str(error)}
        else:
            # without reasoning the text stays as it is, since blank lines at its ends count
            visible = visible_answer(response.text)
            answer = response.text if visible == response.text.strip() else visible or ""
            strict, loose = check_followed(rules, answer)
            broken = [kind for kind, is_followed in zip(kinds, strict, strict=True) if not is_followed]
            fields: dict[str, Any] = {
                "score": float(all(strict)),
                "reason": f"not followed: {', '.join(broken)}" if broken else "all followed",
                "values": {
                    "prompt_level_strict": float(all(strict)),
                    "prompt_level_loose": float(all(loose)),
                    "instruction_level_strict": fsum(strict) / len(kinds),
                    "instruction_level_loose": fsum(loose) / len(kinds),
                },
                "detail": {"instructions": list(kinds), "followed_strict": strict, "followed_loose": loose},
            }
            if not answer or answer.isspace():
                cause = "the reasoning was never closed" if response.text.strip() else "the response is empty"
                fields |= {"missing": True, "reason": f"no answer: {cause}"}
        yield make_sample(item, response, **fields)


def summarise_rules(samples: Iterable[Sample]) -> Summary:
    """Return shares of prompts and instructions followed, strict and loose; the latter per kind (`instruction=KIND`).

    The headline is `prompt_level_strict`. Every instruction counts the same; its error bar is clustered by prompt.
    """
    kinds: dict[str, dict[str, ByItem]] = {name: {} for name in VARIANTS}
    totals = tally_samples(_collect_verdicts(samples, kinds))
    prompt_scores = {name: totals.values.get(f"prompt_level_{name}", {}) for name in VARIANTS}
    prompts = [
        estimate_groups(f"prompt_level_{name}", by_item, headline=name == "strict")
        for name, by_item in prompt_scores.items()
    ]
    instructions = [
        instruction_share(f"instruction_level_{name}", by_kind.pop(ALL_KINDS))
        for name, by_kind in kinds.items()
        if by_kind
    ]
    per_kind = [
        instruction_share(f"instruction_level_{name}", by_item, part=f"instruction={kind}")
        for name, by_kind in kinds.items()
        for kind, by_item in sorted(by_kind.items())
    ]
    overall = (*chain.from_iterable(prompts), *instructions)
    values = {share.metric: share.value for share in overall}
    metrics: dict[str, JsonValue] = {
        f"{level}_level_{name}": values.get(f"{level}_level_{name}")
        for level in ("prompt", "instruction")
        for name in VARIANTS
    }
    metrics |= {"num_total": totals.counts.items} | unscored_metric(totals.counts)
    return Summary(metrics, (*overall, *per_kind), totals.counts)


def instruction_share(metric: str, by_item: Mapping[str, Sequence[float]], *, part: str = "") -> Estimate:
    """Return the share of instructions that were followed, with an error bar clustered by item.

    The interval is Wilson's for as many independent instructions as would have this standard error.
    """
    if all(len(verdicts) == 1 for verdicts in by_item.values()):  # one instruction an item: nothing is clustered
        return estimate(metric, by_item, part=part)
    total, n = sum(map(len, by_item.values())), len(by_item)
    value = fsum(chain.from_iterable(by_item.values())) / total
    residuals = [fsum(verdicts) - value * len(verdicts) for verdicts in by_item.values()]
    std_err = sqrt(n / (n - 1) * fsum(residual * residual for residual in residuals)) / total if n > 1 else None
    independent = min(total, max(1, round(value * (1 - value) / std_err**2))) if std_err else n
    interval = wilson(value * independent, independent)
    return Estimate(metric=metric, part=part, value=value, std_err=std_err, low=interval.low, high=interval.high, n=n)


def _collect_verdicts(samples: Iterable[Sample], kinds: Mapping[str, dict[str, ByItem]]) -> Iterator[Sample]:
    """Yield the samples unchanged; each scored one, once taken, adds its verdicts to `kinds`, by kind and ALL_KINDS."""
    for sample in samples:
        if sample.status == "scored":
            for name in VARIANTS:
                verdicts = cast(list[bool], sample.detail[f"followed_{name}"])
                for kind, is_followed in zip(cast(list[str], sample.detail["instructions"]), verdicts, strict=True):
                    for key in (kind, ALL_KINDS):
                        kinds[name].setdefault(key, {}).setdefault(sample.item, []).append(float(is_followed))
        yield sample


def check_rules(items: Iterable[Item]) -> Iterator[str]:
    """Yield a sentence on each item with unknown kinds, or with missing or unusable arguments."""
    for item in items:
        try:
            rules_of(item.detail)
        except RulesUnusable as error:
            yield f"item {item.id}: {error}"


def rule_of(kind: str, arguments: Mapping[str, JsonValue]) -> Rule:
    """Return the check of one instruction; null arguments, as the hub's data has them, count as absent.

    Raises RulesUnusable, also for a missing argument, which the published grader would draw at random.
    """
    if kind not in KINDS:
        raise RulesUnusable(f"no instruction kind {kind!r}; there are {', '.join(sorted(KINDS))}")
    settings: dict[str, Any] = {name: value for name, value in arguments.items() if value is not None}
    try:
        arguments_of(KINDS[kind]).model_validate(settings)
    except ValidationError as error:
        problem = error.errors()[0]
        why = f"argument `{problem['loc'][0]}`: {problem['msg']}, not {problem['input']!r:.80}"
        raise RulesUnusable(f"{kind}, {why}") from error
    if "nth_paragraph" in settings and settings["nth_paragraph"] > settings["num_paragraphs"]:
        raise RulesUnusable(
            f"{kind} asks for paragraph {settings['nth_paragraph']} of {settings['num_paragraphs']}; "
            "`nth_paragraph` is at most `num_paragraphs`"
        )
    return partial(KINDS[kind], **settings)


def rules_of(detail: Mapping[str, JsonValue]) -> list[tuple[str, Rule]]:
    """Return kind and check of each instruction in an item's `instruction_id_list`, `kwargs`. Raises RulesUnusable."""
    kinds, arguments = detail.get("instruction_id_list"), detail.get("kwargs")
    if not isinstance(kinds, list) or not kinds or not isinstance(arguments, list):
        raise RulesUnusable("an item needs `instruction_id_list` and `kwargs`, two lists")
    if len(kinds) != len(arguments):
        raise RulesUnusable(f"{len(kinds)} instructions but {len(arguments)} sets of arguments; each needs its own")
    rules = list[tuple[str, Rule]]()
    for kind, settings in zip(kinds, arguments, strict=True):
        if not isinstance(kind, str) or not isinstance(settings, dict | None):
            raise RulesUnusable("`instruction_id_list` holds names, and `kwargs` an object for each")
        rules.append((kind, rule_of(kind, settings or {})))
    return rules


def check_followed(rules: Sequence[Rule], response: str) -> tuple[list[bool], list[bool]]:
    """Return each rule's strict and loose verdicts (for any of `loose_variants`); an empty response follows none."""
    strict = [_follows(rule, [response]) for rule in rules]
    if all(strict):
        return strict, strict
    variants = list(dict.fromkeys(loose_variants(response)))
    return strict, [is_followed or _follows(rule, variants) for rule, is_followed in zip(rules, strict, strict=True)]


def loose_variants(response: str) -> Iterator[str]:
    """Yield the response, it without its first line, its last line, both; then each of the four without asterisks."""
    after_first = response.partition("\n")[2]
    variants = (
        response,
        after_first.strip(),
        response.rpartition("\n")[0].strip(),
        after_first.rpartition("\n")[0].strip(),
    )
    yield from variants
    yield from (variant.replace("*", "") for variant in variants)


def _follows(rule: Rule, texts: Iterable[str]) -> bool:
    return any(text and not text.isspace() and rule(text) for text in texts)
