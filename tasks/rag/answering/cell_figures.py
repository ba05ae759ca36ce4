"""Answers questions for arithmetic over cells of any table, in any wording."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from storage.index import Index
from tasks.language.sentences import Language
from tasks.rag.answering.cell_lookup import Cells, document_names_in
from tasks.rag.answering.question_reading import BESIDE_WEIGHT, NAME_WEIGHT
from tasks.rag.answers import Draft, RetrievalPlan
from tasks.rag.numbers.cell_search import PERCENTS, Match, digits_of
from tasks.rag.numbers.computation_reading import read_display
from tasks.rag.numbers.computations import Task, find_periods
from tasks.rag.numbers.concepts import words_of
from tasks.rag.numbers.evaluation import place_of
from tasks.rag.numbers.expressions import Expression, Line, Operation, lines_of
from tasks.rag.numbers.line_lookup import TOTALS, Lines, Number
from tasks.rag.numbers.operands import WHOLE, Reading, list_readings, strip_question
from tasks.rag.numbers.periods import WHOLE_YEAR, When, write_years_out
from tasks.rag.numbers.working_out import POINTS, work_out
from tasks.rag.retrieval.search import Hit

LEAST = 0.5
"""Confidence from which an answer is given."""
UNMEASURED = 0.5
"""Factor of the confidence where no cell holds a word that all values of the question are called by."""
MOST_MARGIN = 0.3
"""Lead over the next choice from which a larger lead makes an answer no surer."""
LARGEST_SHARE = Decimal("1.5")
"""Largest part of a whole that is read as a share; a larger one is taken for a mistake."""
ANY_TWO = (When(2000), When(2001))
"""Two periods with which a question is read only to see whether it asks for arithmetic."""
TIMES: Mapping[Language, str] = {"en": " times", "ko": "배"}
"""The words behind a result that is a multiple."""


class CellReading(NamedTuple):
    """A reading of the question with the cell of each of its lines."""

    reading: Reading
    lines: tuple[Line, ...]
    numbers: tuple[Number, ...]
    together: Together


def compute_from_cells(question: str, plan: RetrievalPlan, hits: Sequence[Hit], index: Index) -> Draft | None:
    """Return the value that a question asks for, computed from cells; None if none is sure. Raises WrongTokenizer."""
    text = write_years_out(" ".join(question.split()))
    names = document_names_in(plan)
    if not list_readings(text, ANY_TWO, spoken_names=names):
        return None
    cells = Cells(plan, hits, index)
    # without a year the one that most of the values are of is meant
    years = Counter(number.period.year for number in cells.numbers if number.period.label)
    latest = When(max(years, key=lambda year: (years[year], year))) if years else None  # of equally many, the later one
    whens, _ = find_periods(text, lambda: latest)
    plain = strip_question(text, names)
    # "the seats of both rooms": which words belong to each value has several readings
    possible = list_readings(text, whens, spoken_names=names)
    by_reading = [_fit_cells(reading, text, plain, cells) for reading in possible]
    candidates = [fitted for fitted in by_reading if fitted and _units_agree(fitted)]
    if not candidates:
        return None
    best = max(candidates, key=lambda fitted: fitted.together.score)
    confidence = confidence_of(best.together)
    # a word that all values are called by stands at no cell: of schools nothing is known from fishing boats
    lacking = [
        {word.text for word in match.unheld if word.weight > BESIDE_WEIGHT * NAME_WEIGHT}
        for match in best.together.matches
    ]
    if len({line.name for line in best.lines}) > 1 and set[str].intersection(*lacking):
        confidence *= UNMEASURED
    return _draft(best, text, round(confidence, 4)) if confidence >= LEAST else None


def _fit_cells(reading: Reading, question: str, plain: str, cells: Cells) -> CellReading | None:
    """Return the cells that fit the lines of a reading best together; None where a line has none."""
    lines = tuple(dict.fromkeys(lines_of(reading.expression)))
    line_names = tuple(line for line in lines if line.name != WHOLE)
    line_words = " ".join(line.name for line in line_names).split()
    more_words = " ".join(word for word in plain.split() if word not in line_words)
    matches = [
        cells.matches(line.name, more_words, question, When(line.year, line.part or WHOLE_YEAR) if line.year else None)
        for line in line_names
    ]
    together = choose_cells(matches, one_unit=_needs_one_unit(reading), is_unnamed=cells.is_unnamed)
    if together is None:
        return None
    numbers = [match.number for match in together.matches]
    if len(line_names) < len(lines):
        whole = find_total(numbers[0], cells.numbers)
        if whole is None:
            return None
        numbers.append(whole)
    ordered = (*line_names, *(line for line in lines if line.name == WHOLE))  # as `numbers` are
    return CellReading(reading, ordered, tuple(numbers), together)


def _needs_one_unit(reading: Reading) -> bool:
    """Return whether the values of a reading must have one unit: they are added, or one is a share of the other."""
    return reading.display_unit in ("%", "times") or _adds_or_subtracts(reading.expression)


def _adds_or_subtracts(expression: Expression) -> bool:
    """Return whether an expression adds or subtracts anywhere."""
    match expression:
        case Operation(sign, left, right):
            return sign in "+-" or _adds_or_subtracts(left) or _adds_or_subtracts(right)
        case _:
            return False


def _units_agree(fitted: CellReading) -> bool:
    """Return whether the units and values of the cells allow the arithmetic: a percentage is no part of a share."""
    units = set(map(unit_of, fitted.numbers))
    result_unit, expression = fitted.reading.display_unit, fitted.reading.expression
    if result_unit in ("%", "times") and len(fitted.numbers) < 2:
        return False  # a value is no share of itself
    is_share = result_unit == "%" and not _adds_or_subtracts(expression)
    if is_share and units & PERCENTS:
        return False
    is_sum = isinstance(expression, Operation) and expression.sign == "+"
    if len({number.value for number in fitted.numbers}) < len(fitted.numbers) and not is_sum:
        return False  # one number that is told twice
    lines, signs = {line.name for line in fitted.lines}, {number.value < 0 for number in fitted.numbers}
    if isinstance(expression, Operation) and expression.sign == "-" and len(lines) == len(signs) == 2:
        return False  # costs may stand in brackets: sales − (1,099) is no 2,866
    if not _needs_one_unit(fitted.reading):
        return True
    if is_share:
        part, whole = (abs(number.value) for number in fitted.numbers[:2])
        if not whole or part / whole > LARGEST_SHARE:
            return False
    tables = {(number.document, number.table) for number in fitted.numbers}
    return len(units) == 1 or (len(units - {""}) == 1 and len(tables) == 1)


def confidence_of(together: Together) -> float:
    """Return the probability that the cells are those that are meant, 0 … 1.

    It depends on the match that fits least and on the lead over the next choice: a logistic regression on 88 questions
    over reports, notices, statistics and filings.
    """
    # two inputs, not three: that was chosen with the totals of the check questions in sight
    logit = 3.6 * min(match.score for match in together.matches) + 9.0 * min(together.margin, MOST_MARGIN) - 2.75
    return 1 / (1 + math.exp(-logit))


def _draft(fitted: CellReading, question: str, confidence: float) -> Draft | None:
    """Return the answer that the cells give, with a citation for each; None where the computation abstains."""
    fitted = fitted._replace(numbers=tuple(number._replace(unit=unit_of(number)) for number in fitted.numbers))
    if fitted.reading.display_unit in ("%", "times"):
        # what was paid, as a part of something: "(746)" of a statement of cash flows is 746
        paid = [
            number._replace(value=-number.value, shown=number.shown.strip("()-− $€£¥₩"))
            if number.statement == "cash_flow" and number.value < 0
            else number
            for number in fitted.numbers
        ]
        fitted = fitted._replace(numbers=tuple(paid))
    numbers = {(line.name, line.year): number for line, number in zip(fitted.lines, fitted.numbers, strict=True)}
    format = read_display(question)
    spanned = any(line.year for line in fitted.lines)  # the title names the periods then
    label = "" if spanned else next((number.period.label for number in fitted.numbers if number.period.label), "")
    task = Task(fitted.reading.title, fitted.reading.expression, 1, label, fitted.reading.display_unit)
    first = iter([confidence])  # work_out multiplies the factors of all inputs: that of the whole choice counts once
    draft = work_out(
        format._replace(tasks=(task,)),
        Lines((), lambda _: ()),
        documents=tuple(dict.fromkeys(number.name for number in fitted.numbers)),
        describe=lambda name, when: (numbers.get((name, when.year)) or numbers[name, None], next(first, 1.0)),
    )
    if draft.abstained:
        return None
    result, *doubts = draft.text.split("\n")
    expression = fitted.reading.expression
    # between two percentages it is in percentage points
    is_difference = isinstance(expression, Operation) and expression.sign == "-" and isinstance(expression.right, Line)
    if fitted.reading.display_unit == "times":
        result = f"{result}{TIMES[format.language]}"
    elif is_difference and result.endswith("%"):
        result = f"{result[:-1]}{POINTS[format.language]}"
    return draft._replace(text="\n".join((result, *doubts)))


IN_BRACKETS = re.compile(r"\(\s*([가-힣]{1,3}|[㎀-㏟㎞㎡])\s*\)\s*$")
"""A unit in brackets behind a label: 쌀 생산(톤)."""
AS_WELL = 0.1
"""How much less cells of another document may score to fit as well; of 10 answers of such cells 9 were wrong."""
MOST_FIRST, MOST_OTHER = 40, 80
"""Cells of the first value that are tried; MOST_OTHER is the number for each other value."""
SAME_TABLE, IN_LINE, OTHER_DOCUMENT, OTHER_UNIT = 0.06, 0.12, 0.15, 0.4
"""What a cell gains in the table of the first one; IN_LINE: in its row or column; the others are lost elsewhere."""


class Together(NamedTuple):
    """A cell for each value of a reading, chosen together."""

    matches: tuple[Match, ...]
    score: float
    """Mean score of the cells, with what they gain or lose by standing together."""
    margin: float
    """Lead over the best choice with other digits."""


def choose_cells(matches: Sequence[Sequence[Match]], *, one_unit: bool, is_unnamed: bool = False) -> Together | None:
    """Return the cells that fit best together; None where a value has none.

    matches: for each value its matches, best first. one_unit: whether the values are added or compared. is_unnamed:
    whether one document is meant and none named; None then, too, where other cells of another fit as well.
    """
    if not all(matches):
        return None
    choices = [_choose_around(first, matches, one_unit=one_unit) for first in matches[0][:MOST_FIRST]]
    choices = sorted((choice for choice in choices if choice), key=lambda choice: -choice.score)
    if not choices:
        return None
    best, *rest = choices
    digits = [digits_of(match.number.shown) for match in best.matches]
    # the same digits in another table are the same answer, no rival
    rivals = [choice for choice in rest if [digits_of(match.number.shown) for match in choice.matches] != digits]
    next_score = max((choice.score for choice in rivals), default=0.0)
    documents = {match.number.document for match in best.matches}
    if is_unnamed and any(
        choice.score > best.score - AS_WELL and documents.isdisjoint(match.number.document for match in choice.matches)
        for choice in rivals
    ):
        return None
    return best._replace(margin=min(best.margin, best.score - next_score))


def _choose_around(first: Match, matches: Sequence[Sequence[Match]], *, one_unit: bool) -> Together | None:
    """Return the best choice with this first cell, and its lead over other cells; None if a value has none left."""
    cells, total, margin = [first], first.score, first.score
    for candidates in matches[1:]:
        used_places = {place_of(match.number) for match in cells}
        unused = [
            (_score(first, match, one_unit=one_unit), match)
            for match in candidates[:MOST_OTHER]
            if place_of(match.number) not in used_places
        ]
        if not unused:
            return None
        score, best = max(unused, key=lambda match: match[0])
        digits = digits_of(best.number.shown)
        second = max((other for other, match in unused if digits_of(match.number.shown) != digits), default=0.0)
        cells.append(best)
        total, margin = total + score, min(margin, score - second)
    return Together(tuple(cells), total / len(matches), margin / len(matches))


def _score(first: Match, second: Match, *, one_unit: bool) -> float:
    """Return the score of a further cell: more in the table and line of the first, less in another document or unit."""
    a, b = first.number, second.number
    score = second.score
    if a.document != b.document:
        score -= OTHER_DOCUMENT
    elif a.table == b.table:
        score += SAME_TABLE + IN_LINE * (a.row == b.row or a.col == b.col)
    if one_unit and unit_of(a) and unit_of(b) and unit_of(a) != unit_of(b):
        score -= OTHER_UNIT
    return score


def unit_of(number: Number) -> str:
    """Return what a number counts, as far as it says so itself: `KRW`, `%`, 개소; empty where it does not."""
    if counted := number.unit or re.sub(r"[\W\d_]", "", number.shown):
        return counted
    units = [match[1] for label in (*number.row_path, *number.column_path) if (match := IN_BRACKETS.search(label))]
    return units[-1] if units else ""


def find_total(part: Number, numbers: Sequence[Number]) -> Number | None:
    """Return the total of the column that a cell stands in, else of its row; None where the table shows none.

    A cell that is called a total is one where nothing beside it is larger: 총무과 has a total's first syllable. A cell
    that equals the sum of all others of the column is one, whatever it is called.
    """
    of_table = (number for number in numbers if (number.document, number.table) == (part.document, part.table))
    table_cells = [number for number in of_table if number != part]
    column = [number for number in table_cells if number.col == part.col]
    row = [number for number in table_cells if number.row == part.row and is_whole(number.column_path)]
    labelled = [number for number in column if is_whole(number.row_path[-1:])]
    # of three cells or more, that which is the sum of the others
    whole = sum(number.value for number in (part, *column))
    sums = [number for number in column if len(column) > 1 and number.value and 2 * number.value == whole]
    largest = max(map(_size, (part, *column)))
    totals = (
        [number for number in labelled if _size(number) == largest]
        or sums
        or [number for number in row if _size(number) >= _size(part)]
    )
    return min(totals, key=lambda number: (abs(number.row - part.row), abs(number.col - part.col)), default=None)


def _size(number: Number) -> Decimal:
    return abs(number.value)


def is_whole(labels: Sequence[str]) -> bool:
    """Return whether one of the labels says that it is a total."""
    return any(
        TOTALS.intersection(words_of(label)) or label.replace(" ", "").startswith(("합", "총", "전체", "소계"))
        for label in labels
    )
