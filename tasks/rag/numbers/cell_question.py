"""A question for one figure as cells are scored against it, and the words of cells and questions."""

from __future__ import annotations

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from importlib.resources import files
from typing import Literal, NamedTuple

from tasks.rag.numbers.line_lookup import Number, quarter_ends
from tasks.rag.numbers.year_parts import DAYS_APART, WHOLE_YEAR, Part, Wanted

CELL_WORDS = tomllib.loads((files("tasks.rag.numbers") / "cell_words.toml").read_text("utf-8"))
FREE = frozenset[str](CELL_WORDS["free"].split())
"""Words of a label that may stand beside the name of the line."""
SAME: Mapping[str, frozenset[int]] = {
    word: frozenset(at for at, line in enumerate(CELL_WORDS["same"]) if word in line.split())
    for line in CELL_WORDS["same"]
    for word in line.split()
}
"""Word → the things that it may name."""
CHANGE = re.compile(CELL_WORDS["columns"]["change"], re.IGNORECASE)
"""A column that shows how a figure changed, and not the figure."""
UNITED_STATES = re.compile(r"\bU\.\s?S\.(?:\s?A\.)?|\bUnited States\b")
Unit = Literal["amount", "%", "count", ""]


class Word(NamedTuple):
    """A word of a question, as the index splits them."""

    text: str
    weight: float
    name: bool = False
    """Nothing else stands for it: it is a name."""
    focus: bool = False
    """It names what is asked for."""


class Alternative(NamedTuple):
    """Words of the question that name a line, and what that line may be called instead."""

    words: frozenset[str]
    phrases: tuple[frozenset[str], ...]


class CellQuestion(NamedTuple):
    """A question for one figure."""

    asked: str
    """The question as it is."""
    core: str
    """What is asked for, without documents, periods, units and words that ask."""
    words: tuple[Word, ...]
    alternatives: tuple[Alternative, ...] = ()
    year: int | None = None
    part: Part = WHOLE_YEAR
    term: str = ""
    """A business term of a Korean company, as periods are labelled: `제23기`."""
    unit: Unit = ""
    change: bool = False
    """It asks for a change."""


def spelled(text: str) -> str:
    """With names that are written in several ways in one."""
    return UNITED_STATES.sub("USA", text)


UNDATED, OTHER_YEAR = 0.9, 0.6
"""Share that is left in a table without periods, if the document is of the year that is asked for, and if not."""
OTHER_END = 0.85
"""Share that is left on a day that is no end of the year."""
EARLIER = 0.93
"""Share that is left for a period before the last of its line, where the question names none."""


def of_period(question: CellQuestion, numbers: Sequence[Number]) -> list[tuple[Number, float]]:
    """The cells of the period that is asked for, and how sure it is theirs; without one, the last of each line."""
    dated = [one for one in numbers if one.period.label]
    if question.term:
        return [(one, 1.0) for one in dated if one.period.label == question.term]
    if question.year is None:
        last: dict[tuple[str, int, int], int] = {}
        for one in dated:
            key = (one.document, one.table, one.row)
            last[key] = max(last.get(key, 0), one.period.year)
        latest = (last.get((one.document, one.table, one.row), 0) for one in numbers)
        return [
            (one, 1.0 if not one.period.label or one.period.year == year else EARLIER)
            for one, year in zip(numbers, latest, strict=True)
        ]
    wanted = Wanted(question.year, question.part, quarter_ends(dated, question.part))
    tables = {(one.document, one.table) for one in dated}
    of_year = _years(dated)
    ends = _ends(dated, question.year)
    found: list[tuple[Number, float]] = []
    for one in numbers:
        if one.period.label:
            if wanted.holds(one.document, one.period, balance=None):
                found.append((one, _at_end(one, question.part, ends)))
        elif (one.document, one.table) not in tables:
            own = of_year.get(one.document, question.year)
            found.append((one, UNDATED if own == question.year else OTHER_YEAR))
    return found


def _years(dated: Iterable[Number]) -> Mapping[str, int]:
    """Document → the year that most of its figures are of."""
    counted: dict[str, Counter[int]] = defaultdict(Counter)
    for one in dated:
        counted[one.document][one.period.year] += 1
    return {document: max(years, key=lambda year: (years[year], year)) for document, years in counted.items()}


def _ends(dated: Iterable[Number], year: int) -> Mapping[str, date]:
    """Document → the day with which most of its periods of a year end."""
    counted: dict[str, Counter[date]] = defaultdict(Counter)
    for one in dated:
        if one.period.end and one.period.year == year:
            counted[one.document][one.period.end] += 1
    return {document: max(days, key=lambda day: (days[day], day)) for document, days in counted.items()}


def _at_end(number: Number, part: Part, ends: Mapping[str, date]) -> float:
    end, usual = number.period.end, ends.get(number.document)
    if part != WHOLE_YEAR or end is None or usual is None:
        return 1.0
    return 1.0 if abs((end - usual).days) <= DAYS_APART else OTHER_END
