"""Short answers that must equal the gold, but for case, spacing and surrounding punctuation."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation

from tasks.grading.choice import unmarked
from tasks.grading.grading_records import Item, Response, Sample
from tasks.grading.reasoning import visible_answer, why_missing

ANNOUNCED = re.compile(
    r"(?i:\banswer(?:[ ]{0,3}[:：]|\sis(?![A-Za-z]):?)|(?<![가-힣])(?:정답|답)(?:은|는)?\s?[:：]?(?=\s))[ \t*]*"
)
LONGEST_LINE = 1_000
ARTICLE = re.compile(r"^(?:the|an?)\s+(?=\S)")


def grade_exact(answered: Iterable[tuple[Item, Response]]) -> Iterator[Sample]:
    """A sample for each response, in order; `item.gold`: the answer, or a list of accepted answers."""
    for item, response in answered:
        said = find_answer(response.text)
        golds = [str(gold) for gold in (item.gold if isinstance(item.gold, list) else [item.gold])]
        match = next((gold for gold in golds if said is not None and same_words(gold, said)), None)
        yield Sample.graded(
            item,
            response,
            score=float(match is not None),
            extracted=said,
            gold=" | ".join(golds),
            reason=why_missing(response) if said is None else "other words" if match is None else "same words",
            missing=said is None,
        )


def find_answer(response: str) -> str | None:
    """The last box, else what follows the last `answer:`, else the last line; None where there is no answer."""
    from tasks.grading.math.math_extraction import last_boxed

    text = visible_answer(response)
    if text is None:
        return None
    if box := last_boxed(text):
        return box[:LONGEST_LINE].strip()
    ends = [match.end() for match in ANNOUNCED.finditer(text)]
    lines = (_first_line(text[end : end + LONGEST_LINE]) for end in reversed(ends))
    last_line = text[-LONGEST_LINE:].rstrip().rpartition("\n")[2].strip("* ")
    return next((line for line in lines if line), None) or last_line or None


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
