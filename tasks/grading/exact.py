"""Short answers that must equal the gold, but for case, spacing and surrounding punctuation."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

from tasks.grading.answer_phrases import announcements, json_field
from tasks.grading.choice import unmarked
from tasks.grading.grading_records import Item, Response, Sample
from tasks.grading.reading import FLEXIBLE, UNREAD, Readings, Rule, graded_by
from tasks.grading.reasoning import visible_answer, why_missing

ANNOUNCED = announcements(r"(?:(?i:\banswer(?:[ ]{0,3}[:：]|\sis(?![A-Za-z]):?))|\#{4})[ \t*]*", ("answer", "####"))
_BOLD = re.compile(r"\*\*([^*\n]{1,200})\*\*")
LONGEST_LINE = 1_000
ARTICLE = re.compile(r"^(?:the|an?)\s+(?=\S)")


def grade_exact(answered: Iterable[tuple[Item, Response]], rule: Rule = FLEXIBLE) -> Iterator[Sample]:
    """A sample for each response, in order; `item.gold`: the answer, or a list of accepted answers."""
    for item, response in answered:
        golds = [str(gold) for gold in (item.gold if isinstance(item.gold, list) else [item.gold])]
        yield graded_by(rule, read(response.text, rule), item, response, partial(_graded, response, golds))


def _graded(response: Response, golds: list[str], said: str | None) -> dict[str, Any]:
    match = next((gold for gold in golds if said is not None and same_words(gold, said)), None)
    return {
        "score": float(match is not None),
        "extracted": said,
        "gold": " | ".join(golds),
        "reason": why_missing(response) if said is None else "other words" if match is None else "same words",
        "missing": said is None,
    }


def read(response: str, rule: Rule) -> Readings:
    """What each policy reads: strict the last box, a JSON field or what follows the last `answer:`.

    Flexible also what is bold in the last line, else the last line.
    """
    text = visible_answer(response)
    if text is None:
        return UNREAD
    strict = _announced(text)
    return rule.read(text, strict, strict or _last_line(text))


def _announced(text: str) -> str | None:
    from tasks.grading.math.boxes import last_boxed

    if box := last_boxed(text):
        return box[:LONGEST_LINE].strip()
    if '"' in text and (field := json_field(text)):
        return field[:LONGEST_LINE].strip()
    ends = (match.end() for match in ANNOUNCED.backwards(text))
    lines = (_first_line(text[end : end + LONGEST_LINE]) for end in ends)
    return next((line for line in lines if line), None)


def _last_line(text: str) -> str | None:
    line = text[-LONGEST_LINE:].rstrip().rpartition("\n")[2]
    bold = _BOLD.findall(line)
    return (bold[-1] if bold else line).strip("* ") or None


def same_words(gold: str, said: str) -> bool:
    """Whether both are the same words or the same decimal number."""
    one, other = plain(gold), plain(said)
    if one == other:
        return True
    numbers = _number(one), _number(other)
    return None not in numbers and numbers[0] == numbers[1]


def plain(text: str) -> str:
    """`text` as it is compared: NFKC, lower case, single spaces, without marks, article and final punctuation."""
    words = " ".join(unicodedata.normalize("NFKC", unmarked(text)).casefold().split())
    return ARTICLE.sub("", words.strip(" .,;:!?")).strip()


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.split("\n") if line.strip()), "").strip("* ")


def _number(text: str) -> Decimal | None:
    try:
        number = Decimal(re.sub(r"(?<=\d),(?=\d{3})", "", text))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
