"""The periods that a question names: years and parts of them, by their numbers or by their place."""

from __future__ import annotations

import re

from tasks.rag.numbers.computations import Latest, operation
from tasks.rag.numbers.expressions import (
    years_in,
)
from tasks.rag.numbers.question_shape import (
    WORDS,
)
from tasks.rag.numbers.year_parts import When, parts_in

PREVIOUS_YEAR, PREVIOUS_QUARTER, CURRENT, LAST_YEARS = (
    re.compile(WORDS[name], re.IGNORECASE) for name in ("previous_year", "previous_quarter", "current", "last_years")
)
COUNTS = {
    "zero": 0,
    "no": 0,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "한": 1,
    "두": 2,
    "둘": 2,
    "세": 3,
    "셋": 3,
    "첫": 1,
}
YEARS_BACK = re.compile(r"\b(?P<count>\d|two|three|four|five)[\s-]years?\b|(?P<count_ko>\d)\s?개년", re.IGNORECASE)


def whens_of(asked: str, latest: Latest) -> tuple[tuple[When, ...], bool]:
    """The periods that a question names, in order of time; and whether it leaves them to the documents."""
    parts = parts_in(asked)
    years = years_in(asked)
    if parts and not years:  # "in the second quarter"
        now = latest()
        whens = tuple(one._replace(year=now.year) for one in parts) if now else ()
        assumed = True
    elif parts:
        whens, assumed = parts, False
    elif years:
        if back := YEARS_BACK.search(asked):
            first = years[-1] - count_of(back["count"] or back["count_ko"]) + 1
            years = tuple(range(min(years[0], first), years[-1] + 1))
        whens, assumed = tuple(When(year) for year in years), False
    else:
        now = latest()
        whens, assumed = ((now,) if now else ()), True
    whens = _with_earlier(asked, whens, assumed=assumed)
    return tuple(sorted(whens, key=_time)), assumed


def _with_earlier(asked: str, whens: tuple[When, ...], *, assumed: bool) -> tuple[When, ...]:
    """With the periods that are named by their place: the year before, the quarter before, the last three years."""
    if len(whens) != 1:
        return whens
    if several := LAST_YEARS.search(asked):
        count = count_of(several["count"] or several["count_ko"])
        return tuple(whens[0]._replace(year=whens[0].year - back) for back in reversed(range(count)))
    for pattern, quarters in ((PREVIOUS_QUARTER, True), (PREVIOUS_YEAR, False)):
        if pattern.search(asked):
            earlier = whens[0].before(quarters=quarters)
            # "revenue of last year" alone is of that year, and a comparison is of both
            return (earlier, *whens) if operation(asked) or not assumed or CURRENT.search(asked) else (earlier,)
    return whens


def named_in(text: str) -> tuple[When, ...]:
    """The periods that a text names by years."""
    if years := years_in(text):
        parts = parts_in(text)
        return parts if len(parts) == 1 else tuple(When(year) for year in years)
    return ()


def _time(when: When) -> tuple[int, int, tuple[int, int]]:
    return when.year, when.part.quarter or 0, when.part.month_and_day or (0, 0)


def count_of(text: str) -> int:
    return int(text) if text.isdigit() else COUNTS.get(text.lower(), 2)
