"""Samples of mathematics: the answer that a response gives against the gold of its item."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import tee

from tasks.grading.grading_records import Item, Response, Sample
from tasks.grading.math.expressions import Undecided, evaluate, rational
from tasks.grading.math.math_answers import Formula, Percentage
from tasks.grading.math.math_extraction import extract_answer
from tasks.grading.math.math_grader import MathGrader, Verdict
from tasks.grading.math.math_reading import read_answer
from tasks.grading.math.math_tokens import NotUnderstood
from tasks.grading.math.normalization import MAX_CHARS, normalize
from tasks.grading.reasoning import visible_answer

SHOWN_CHARS = 500
MISSED = {
    "": "no answer was found: no \\boxed{} and no phrase that announces one",
    "length": "no answer was found: the response was cut off at max_tokens",
    "thinking": "no answer was found: the reasoning was never closed",
}


def grade_math(answered: Iterable[tuple[Item, Response]], grader: MathGrader) -> Iterator[Sample]:
    """A sample for each response, in order; the reason names the stage that decided and what was compared.

    An item's gold is a text, or a list of texts that are all needed, in any order. `detail["tolerance"]` is how far a
    number may be off, `detail["unit"]` what it is measured in: an answer in another unit is wrong, one without is not.
    """
    kept, asked = tee(answered)
    extracted = (_Extracted(item, response) for item, response in asked)
    for_samples, for_grader = tee(extracted)
    verdicts = grader.equal_all(((one.gold, one.answer or "") for one in for_grader), extracted=True)
    for (item, response), one, verdict in zip(kept, for_samples, verdicts, strict=True):
        yield _sample(item, response, one, verdict)


class _Extracted:
    """What is compared for one response."""

    def __init__(self, item: Item, response: Response) -> None:
        self.gold = gold_of(item)
        self.answer = None if response.missed else extract_answer(response.text)


def gold_of(item: Item) -> str:
    """The gold of an item as one text. Raises ValueError where there is none."""
    golds = item.gold if isinstance(item.gold, list) else [item.gold]
    texts = [str(gold).strip() for gold in golds if isinstance(gold, str | int | float) and str(gold).strip()]
    if not texts:
        raise ValueError(f"item {item.id} has no gold answer")
    gold = texts[0] if len(texts) == 1 else ", ".join(text.strip("$") for text in texts)
    unit = item.detail.get("unit")
    if isinstance(unit, str) and unit.isalpha() and len(texts) == 1:
        return f"{gold.strip('$')} \\text{{ {unit}}}"
    return gold


def _sample(item: Item, response: Response, one: _Extracted, verdict: Verdict) -> Sample:
    missing = one.answer is None
    reason = verdict.stage
    if missing:
        thinking = visible_answer(response.text) is None
        reason = response.missed or MISSED["length" if response.truncated else "thinking" if thinking else ""]
    elif not verdict.equal and not verdict.failed and _within(item, one):
        verdict, reason = verdict._replace(equal=True), "tolerance"
    unscored = verdict.failed if not missing else None
    compared = "" if missing else f": {_shown(one.answer)} {'=' if verdict.equal else '≠'} {_shown(one.gold)}"
    return Sample(
        item=item.id,
        repeat=response.repeat,
        status="unscored" if unscored else "scored",
        score=None if unscored else float(verdict.equal and not missing),
        extracted=_shown(one.answer) if one.answer is not None else None,
        gold=_shown(one.gold),
        reason=unscored or f"{reason}{compared}",
        group=item.group,
        truncated=response.truncated,
        missing=missing,
        keys=tuple(reply.key for reply in response.turns if reply.key),
    )


def _within(item: Item, one: _Extracted) -> bool:
    """True if the answer is a number at most `tolerance` off the gold."""
    allowed = item.detail.get("tolerance")
    if not isinstance(allowed, int | float | str) or not allowed or one.answer is None:
        return False
    gold, answer = number_in(one.gold), number_in(one.answer)
    try:
        return gold is not None and answer is not None and abs(gold - answer) <= float(allowed) * (1 + 1e-9)
    except ValueError:
        return False


def number_in(text: str) -> float | None:
    """The number that a bare answer is; None for all else."""
    if len(text) > MAX_CHARS:
        return None
    try:
        answer = read_answer(normalize(text))
        if not isinstance(answer, Formula | Percentage):
            return None
        exact = rational(answer.node)
        value = complex(float(exact)) if exact is not None else evaluate(answer.node, {})
    except (NotUnderstood, Undecided, KeyError, OverflowError, RecursionError):
        return None
    return value.real if abs(value.imag) < 1e-12 else None


def _shown(text: str | None) -> str:
    """The beginning of a long answer, without characters that JSON or the database refuse."""
    clean = (text or "").replace("\0", "").encode("utf-8", "replace").decode()
    return clean if len(clean) <= SHOWN_CHARS else clean[:SHOWN_CHARS] + " …"
