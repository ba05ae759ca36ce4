"""Weighs the answers that different ways give to one question: how likely each is right, by what the others say."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple, get_args

from tasks.grading.cited_answers import has_close_number, has_words
from tasks.language.numbers import read_numbers
from tasks.language.sentences import strip_marks
from tasks.rag.answers import Draft
from tasks.rag.reading.scorers import WORKED, Expected

Way = Literal["read", "computed", "cells", "cell", "facts", "sentence"]
"""The fitted reader, a formula, arithmetic over any table, one cell by rules, facts of notices, sentences."""
WAYS: tuple[Way, ...] = get_args(Way)
SIGNS = (
    *WAYS, *(f"{way} confidence" for way in WAYS), "one agrees", "agreeing", "disagreeing", "cited", "is named",
    "is not worked out", "is not of several", "is worked out",
)  # fmt: skip
"""Names of the signs by which drafts are weighed against each other, in their order."""
LEAST_CHANCE = 0.02
_DIGITS = re.compile(r"\d[\d.,]*\d|\d")


class _Weights(NamedTuple):
    bias: float
    weights: Mapping[str, float]


@cache
def _load_weights() -> _Weights:
    """Return the weights of the signs, fitted by `make reader` (tests/reader/weigh.py)."""
    return _Weights(**json.loads((files("tasks.rag.answering") / "draft_weights.json").read_bytes()))


def describe_drafts(
    drafts: Mapping[Way, Draft], *, is_named: bool, expected: Expected
) -> Mapping[Way, Sequence[float]]:
    """Return the signs of each draft that answers, as many as SIGNS. is_named: whether the question names documents."""
    answering: dict[Way, Draft] = {way: draft for way, draft in drafts.items() if not draft.abstained}
    agreement = {
        (first, second): _agree(answering[first], answering[second])
        for place, first in enumerate(answering)
        for second in list(answering)[place + 1 :]
    }
    agreement |= {(second, first): verdict for (first, second), verdict in agreement.items()}
    signs: dict[Way, Sequence[float]] = {}
    for way, draft in answering.items():
        others = [(agreement[way, other], answering[other].confidence or 0.0) for other in answering if other != way]
        agreeing = [confidence for verdict, confidence in others if verdict is True]
        chance = min(max(draft.confidence or 0.0, LEAST_CHANCE), 1 - LEAST_CHANCE)
        logit, kind = math.log(chance / (1 - chance)), _kind_of(way, draft)
        signs[way] = (
            *(float(way == each) for each in WAYS),
            *(logit * (way == each) for each in WAYS),
            float(bool(agreeing)),
            math.fsum(agreeing),
            math.fsum(confidence for verdict, confidence in others if verdict is False),
            min(len(draft.citations), 4) / 3,
            float(is_named),
            expected.worked * (kind != "worked"),
            expected.several * (kind != "several"),
            expected.value * (kind == "worked"),
        )
    return signs


def weigh_drafts(drafts: Mapping[Way, Draft], *, is_named: bool, expected: Expected) -> dict[Way, Draft]:
    """Return the drafts with the confidence that they have beside each other; those that abstain are unchanged."""
    signs = describe_drafts(drafts, is_named=is_named, expected=expected)
    fitted = _load_weights()
    weighed = dict(drafts)
    for way, own in signs.items():
        logit = fitted.bias + math.fsum(fitted.weights[name] * sign for name, sign in zip(SIGNS, own, strict=True))
        weighed[way] = drafts[way]._replace(confidence=round(1 / (1 + math.exp(-logit)), 4))
    return weighed


def choose_draft(drafts: Mapping[Way, Draft]) -> Draft | None:
    """Return the likeliest draft that answers; None without any."""
    answering = [draft for draft in drafts.values() if not draft.abstained]
    return max(answering, key=lambda draft: draft.confidence or 0.0, default=None)


def _kind_of(way: Way, draft: Draft) -> str:
    """Return what a draft says: `value`, `worked` out of several cells, `several` values or a choice, a `sentence`."""
    if way == "sentence":
        return way
    if draft.operation not in ("", "value"):
        return "worked" if draft.operation in WORKED else "several"
    return "worked" if len(draft.citations) > 1 and way in ("computed", "cells", "cell") else "value"


def _agree(first: Draft, second: Draft) -> bool | None:
    """Return whether one answer says the values of the other; None where neither is of values."""
    (values, scale), text = _values_of(first), second.text
    if not values:
        (values, scale), text = _values_of(second), first.text
    if not values:
        return None
    plain = strip_marks(text)
    # of several values a row that is quoted has the digits, and not the scale of each
    digits = [match[0] for value in values if (match := _DIGITS.search(value))]
    if len(digits) > 1 and set(digits) <= set(_DIGITS.findall(plain)):
        return True
    whole = f"{'; '.join(values)} {scale}".replace(" percent", "%")
    return has_close_number(plain, whole) if read_numbers(whole) else has_words(plain, whole)


def _values_of(draft: Draft) -> tuple[Sequence[str], str]:
    """Return the values of an answer as they are written, with their scale; none where only its sentence says them."""
    if draft.value:
        return (draft.value.display,), "percent" if draft.value.unit == "%" else draft.value.scale
    return (draft.short.values, draft.short.scale) if draft.short else ((), "")
