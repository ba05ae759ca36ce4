"""The answer to a question for arithmetic over cells of any table and numbers of sentences, in whatever words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from storage.index import Index
from tasks.language.sentences import Language
from tasks.rag.answering.cell_lookup import Cells, said_in
from tasks.rag.answering.question_reading import BESIDE_WEIGHT, NAME_WEIGHT
from tasks.rag.answers import Draft, RetrievalPlan
from tasks.rag.numbers.cell_search import PERCENTS, Match, digits_of
from tasks.rag.numbers.computation_reading import shown_as
from tasks.rag.numbers.computations import Task, find_periods
from tasks.rag.numbers.concepts import words_of
from tasks.rag.numbers.evaluation import place_of
from tasks.rag.numbers.expressions import Expression, Line, Operation, lines_of
from tasks.rag.numbers.line_lookup import TOTALS, Lines, Number
from tasks.rag.numbers.operands import WHOLE, Reading, readings, strip_question
from tasks.rag.numbers.periods import WHOLE_YEAR, When, spelled_out
from tasks.rag.numbers.working_out import POINTS, work_out
from tasks.rag.retrieval.search import Hit

LEAST = 0.5
"""Confidence of an answer that is given."""
UNMEASURED = 0.5
"""What is left of it where no cell holds a word that all figures are called by."""
MOST_MARGIN = 0.3
"""A choice that is further ahead of the next is no surer."""
LARGEST_SHARE = Decimal("1.5")
"""A larger one is none."""
ANY_TWO = (When(2000), When(2001))
"""Periods, to see whether a question asks for arithmetic at all."""
TIMES: Mapping[Language, str] = {"en": " times", "ko": "배"}


class Figures(NamedTuple):
    """A reading with the cells of its lines."""

    reading: Reading
    lines: tuple[Line, ...]
    numbers: tuple[Number, ...]
    together: Together


def worked_from_cells(question: str, plan: RetrievalPlan, hits: Sequence[Hit], index: Index) -> Draft | None:
    """The figure that the question asks to be worked out from cells; None where it asks for none or none are sure.

    Raises WrongTokenizer.
    """
    asked = spelled_out(" ".join(question.split()))
    said = said_in(plan)
    if not readings(asked, ANY_TWO, spoken_names=said):
        return None
    cells = Cells(asked, plan, hits, index)
    # without a year the one that most of the figures are of is meant
    years = Counter(one.period.year for one in cells.numbers if one.period.label)
    latest = When(max(years, key=lambda year: (years[year], year))) if years else None
    whens, _ = find_periods(asked, lambda: latest)
    beside = strip_question(asked, said)
    ways = readings(asked, whens, spoken_names=said)
    found = [one for reading in ways if (one := _figures(reading, asked, beside, cells)) and _units_agree(one)]
    if not found:
        return None
    best = max(found, key=lambda one: one.together.score)
    sure = confidence_of(best.together)
    # a word that all figures are called by stands at no cell: of schools nothing is known from fishing boats
    lacking = [
        {word.text for word in one.unheld if word.weight > BESIDE_WEIGHT * NAME_WEIGHT} for one in best.together.matches
    ]
    if len({line.name for line in best.lines}) > 1 and set[str].intersection(*lacking):
        sure *= UNMEASURED
    return _draft(best, asked, round(sure, 4)) if sure >= LEAST else None


def _figures(reading: Reading, asked: str, plain: str, cells: Cells) -> Figures | None:
    lines = tuple(dict.fromkeys(lines_of(reading.expression)))
    named = tuple(line for line in lines if line.name != WHOLE)
    said = " ".join(line.name for line in named).split()
    beside = " ".join(word for word in plain.split() if word not in said)
    matches = [
        cells.matches(line.name, beside, asked, When(line.year, line.part or WHOLE_YEAR) if line.year else None)
        for line in named
    ]
    together = search_together(matches, one_unit=_of_one_unit(reading))
    if together is None:
        return None
    numbers = [one.number for one in together.matches]
    if len(named) < len(lines):
        whole = whole_of(numbers[0], cells.numbers)
        if whole is None:
            return None
        numbers.append(whole)
    return Figures(reading, (*named, *(line for line in lines if line.name == WHOLE)), tuple(numbers), together)


def _of_one_unit(reading: Reading) -> bool:
    """Whether its figures must count the same: they are added, or one is a share of the other."""
    return reading.display_unit in ("%", "times") or _adds(reading.expression)


def _adds(expression: Expression) -> bool:
    match expression:
        case Operation(sign, left, right):
            return sign in "+-" or _adds(left) or _adds(right)
        case _:
            return False


def _units_agree(figures: Figures) -> bool:
    """Whether the units of the cells allow what is done with them: a percentage is no part of a share."""
    units = set(map(unit_of, figures.numbers))
    shown, expression = figures.reading.display_unit, figures.reading.expression
    if shown in ("%", "times") and len(figures.numbers) < 2:
        return False  # a figure is no share of itself
    is_share = shown == "%" and not _adds(expression)
    if is_share and units & PERCENTS:
        return False
    is_sum = isinstance(expression, Operation) and expression.sign == "+"
    if len({one.value for one in figures.numbers}) < len(figures.numbers) and not is_sum:
        return False  # one number that is told twice
    if not _of_one_unit(figures.reading):
        return True
    if is_share:
        part, whole = (abs(one.value) for one in figures.numbers[:2])
        if not whole or part / whole > LARGEST_SHARE:
            return False
    tables = {(one.document, one.table) for one in figures.numbers if one.table >= 0}
    in_one = len(tables) == 1 and all(one.table >= 0 for one in figures.numbers)
    return len(units) == 1 or (len(units - {""}) == 1 and in_one)


def confidence_of(together: Together) -> float:
    """How likely the cells are those that are meant, 0 … 1: by the one that fits least, and how far others are behind.

    Logistic regression on 88 questions over reports, notices, statistics and filings.
    """
    sign = 3.6 * min(one.score for one in together.matches) + 9.0 * min(together.margin, MOST_MARGIN) - 2.75
    return 1 / (1 + math.exp(-sign))


def _draft(figures: Figures, asked: str, sure: float) -> Draft | None:
    figures = figures._replace(numbers=tuple(one._replace(unit=unit_of(one)) for one in figures.numbers))
    if figures.reading.display_unit in ("%", "times"):
        # what was paid, as a part of something: "(746)" of a statement of cash flows is 746
        paid = [
            one._replace(value=-one.value, shown=one.shown.strip("()-− $€£¥₩"))
            if one.statement == "cash_flow" and one.value < 0
            else one
            for one in figures.numbers
        ]
        figures = figures._replace(numbers=tuple(paid))
    numbers = {(line.name, line.year): number for line, number in zip(figures.lines, figures.numbers, strict=True)}
    how = shown_as(asked)
    spanned = any(line.year for line in figures.lines)  # the title names the periods then
    label = "" if spanned else next((one.period.label for one in figures.numbers if one.period.label), "")
    task = Task(figures.reading.title, figures.reading.expression, 1, label, figures.reading.display_unit)
    first = iter([sure])
    draft = work_out(
        how._replace(tasks=(task,)),
        Lines((), lambda _: ()),
        documents=tuple(dict.fromkeys(one.name for one in figures.numbers)),
        describe=lambda said, when: (numbers.get((said, when.year)) or numbers[said, None], next(first, 1.0)),
    )
    if draft.abstained:
        return None
    result, *doubts = draft.text.split("\n")
    if figures.reading.display_unit == "times":
        result = f"{result}{TIMES[how.language]}"
    elif isinstance(difference := figures.reading.expression, Operation) and (
        difference.sign == "-" and isinstance(difference.right, Line) and result.endswith("%")
    ):
        result = f"{result[:-1]}{POINTS[how.language]}"
    return draft._replace(text="\n".join((result, *doubts)))


IN_BRACKETS = re.compile(r"\(\s*([가-힣]{1,3}|[㎀-㏟㎞㎡])\s*\)\s*$")
"""A unit behind a label: 쌀 생산(톤)."""
MOST_FIRST, MOST_OTHER = 40, 80
"""Cells of the first figure and of each other one that are put together."""
SAME_TABLE, IN_LINE, OTHER_DOCUMENT, OTHER_UNIT = 0.06, 0.12, 0.15, 0.4
"""What a cell gains in the table of another, and in its row or column; and loses elsewhere, and with another unit."""


class Together(NamedTuple):
    """A cell for each figure."""

    matches: tuple[Match, ...]
    score: float
    margin: float
    """To the best choice with other digits."""


def search_together(found: Sequence[Sequence[Match]], *, one_unit: bool) -> Together | None:
    """The cells that fit best together; None where a figure has none.

    found: for each figure the matches with a score, best first. one_unit: whether they are added or compared.
    """
    if not all(found):
        return None
    choices = [_around(first, found, one_unit=one_unit) for first in found[0][:MOST_FIRST]]
    choices = sorted((one for one in choices if one), key=lambda one: -one.score)
    if not choices:
        return None
    best, *others = choices
    own = [digits_of(one) for one in best.matches]
    other = next((one.score for one in others if [digits_of(cell) for cell in one.matches] != own), 0.0)
    return best._replace(margin=min(best.margin, best.score - other))


def _around(first: Match, found: Sequence[Sequence[Match]], *, one_unit: bool) -> Together | None:
    """The best choice with the first cell given, ahead of those with another cell for one of the others."""
    chosen, total, ahead = [first], first.score, first.score
    for others in found[1:]:
        taken = {place_of(one.number) for one in chosen}
        free = [
            (_score(first, one, one_unit=one_unit), one)
            for one in others[:MOST_OTHER]
            if place_of(one.number) not in taken
        ]
        if not free:
            return None
        score, best = max(free, key=lambda one: one[0])
        second = max((near for near, one in free if digits_of(one) != digits_of(best)), default=0.0)
        chosen.append(best)
        total, ahead = total + score, min(ahead, score - second)
    return Together(tuple(chosen), total / len(found), ahead / len(found))


def _score(first: Match, other: Match, *, one_unit: bool) -> float:
    one, two = first.number, other.number
    score = other.score
    if one.document != two.document:
        score -= OTHER_DOCUMENT
    elif one.table == two.table:
        score += SAME_TABLE + IN_LINE * (one.row == two.row or one.col == two.col)
    if one_unit and unit_of(one) and unit_of(two) and unit_of(one) != unit_of(two):
        score -= OTHER_UNIT
    return score


def unit_of(number: Number) -> str:
    """What a number counts, as far as it says so itself: `KRW`, `%`, 개소."""
    if counted := number.unit or re.sub(r"[\W\d_]", "", number.shown):
        return counted
    named = [match[1] for label in (*number.row_path, *number.column_path) if (match := IN_BRACKETS.search(label))]
    return named[-1] if named else ""


def whole_of(part: Number, numbers: Sequence[Number]) -> Number | None:
    """The total of the column that a cell stands in, else of its row; None where the table shows none.

    What is called one is, where nothing beside it is larger: 총무과 has a total's first syllable. What all others of
    the column add up to is one, whatever it is called.
    """
    beside = [one for one in numbers if (one.document, one.table) == (part.document, part.table) and one != part]
    column = [one for one in beside if one.col == part.col]
    row = [one for one in beside if one.row == part.row and is_whole(one.column_path)]
    called = [one for one in column if is_whole(one.row_path[-1:])]
    # of three cells or more, that which is the sum of the others
    whole = sum(one.value for one in (part, *column))
    added = [one for one in column if len(column) > 1 and one.value and 2 * one.value == whole]
    largest = max(map(_size, (part, *column)))
    found = (
        [one for one in called if _size(one) == largest] or added or [one for one in row if _size(one) >= _size(part)]
    )
    return min(found, key=lambda one: (abs(one.row - part.row), abs(one.col - part.col)), default=None)


def _size(number: Number) -> Decimal:
    return abs(number.value)


def is_whole(labels: Sequence[str]) -> bool:
    """Whether a label says that it is the sum of the others."""
    return any(
        TOTALS.intersection(words_of(label)) or label.replace(" ", "").startswith(("합", "총", "전체", "소계"))
        for label in labels
    )
