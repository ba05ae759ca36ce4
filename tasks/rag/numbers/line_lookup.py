"""Finds a line of a statement in the numbers of documents: the cell that its name and a fiscal year mean."""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from tasks.documents.blocks import BBox
from tasks.rag.numbers.concepts import (
    FREE_WORDS,
    NEARLY,
    Concept,
    Statement,
    concepts,
    label_of,
    score_concepts,
    score_label,
    words_of,
)
from tasks.rag.numbers.expressions import Line
from tasks.rag.numbers.identities import Broken
from tasks.rag.numbers.periods import WHOLE_YEAR, Part, Period, PeriodColumns
from tasks.rag.numbers.row_paths import AMOUNTS, NIL

LEAST_SCORE = 0.6
"""Least score of a cell that is taken for the line."""
AS_GOOD = 0.035
"""A cell whose score is this much lower may be the one meant, if its table is more of a statement."""
SAID_SO = 0.05
"""Bonus of a label that is written as the question writes it."""
OTHER_TABLE = 0.8
"""Factor of a score where the table is not the statement that the line belongs to."""
OTHER_DOCUMENT = 0.97
"""Factor of a score for each document that fits the question better."""
QUALIFIED = 0.85
"""Factor of a score where the column is of a part of the company: a segment, a country."""
BROKEN = 0.9
"""Factor of a score where the cell breaks an identity."""
TOTALS = frozenset(("total", "consolidated", "합계", "연결", "계"))
"""Words of the header of the column that is the whole company."""
PLAIN_HEADERS = frozenset[str](
    tomllib.loads((files("tasks.rag.numbers") / "computation_words.toml").read_text("utf-8"))["plain_headers"].split()
)
"""Words of headers that name no part of a company."""
UNDATED = Period(kind="none", year=0, label="")
"""The period of a cell that nothing dates."""


class Number(NamedTuple):
    """A row of storage.numbers: the fields of a CellFact, and the name of its document."""

    name: str
    """Name of the document."""
    document: str
    value: Decimal
    shown: str
    scale: Decimal
    unit: str
    period: Period
    row_path: tuple[str, ...]
    column_path: tuple[str, ...]
    page: int | None
    bbox: BBox | None
    table: int
    row: int
    col: int
    statement: str = "other"
    broken: Broken | None = None
    """The first identity that it breaks; None where it breaks none."""
    cells: str | None = None
    """Name of the cell in a spreadsheet; None elsewhere."""


class Lines:
    """The lines of some documents, found by name and year; numbers are read once for each year."""

    def __init__(self, documents: Sequence[str], read: Callable[[int], Iterable[Number]]) -> None:
        """Make a lookup over documents: digests, those that fit best first. read: the numbers of a fiscal year."""
        self._rank = {document: at for at, document in enumerate(documents)}
        self.read = read
        self._years: dict[int, list[Number]] = {}
        self._sizes: Counter[tuple[str, int, int]] = Counter()  # cells by document, table and column
        self._named: dict[tuple[str, int], set[str]] = defaultdict(set)
        """Tables → the concepts that they hold of the statement that they are."""
        self._columns: Counter[tuple[str, int, int, str]] = Counter()  # cells of a row for one period

    def find(self, line: Line, year: int, part: Part = WHOLE_YEAR) -> Number | None:
        """Find the cell of a line and a fiscal year or part of it; None where no cell scores LEAST_SCORE or more."""
        columns = PeriodColumns(year, part, find_quarter_ends(self._numbers_of(year) if part.quarter else (), part))
        # a day in January belongs to the fiscal year before for some, and what its name is the day itself tells
        years = (year, year - 1) if part.month_and_day else (year,)
        scored = [
            (self._score(line, number, columns), number)
            for fiscal_year in years
            for number in self._numbers_of(fiscal_year)
        ]
        best = max((score for score, _ in scored), default=0.0)
        if best < LEAST_SCORE:
            return None
        near = [number for score, number in scored if score >= best - AS_GOOD]
        return max(near, key=self._preference)

    def _preference(self, number: Number) -> tuple[int, int, int, int]:
        """Return the sort key of cells of about one score: by document, lines of the statement, length, first table."""
        size = self._sizes[number.document, number.table, number.col]
        return -self._rank.get(number.document, 0), len(self._named[number.document, number.table]), size, -number.table

    def _numbers_of(self, year: int) -> list[Number]:
        """Return the numbers of a year, read once; note the columns and concepts of their tables."""
        if year not in self._years:
            self._years[year] = list(self.read(year))
            self._sizes.update((number.document, number.table, number.col) for number in self._years[year])
            self._columns.update(map(_row_of_period, self._years[year]))
            for number in self._years[year]:
                concept_keys = (
                    key for key, score in score_concepts(label_of(number.row_path)).items() if score >= NEARLY
                )
                kinds = concepts()
                self._named[number.document, number.table].update(
                    key for key in concept_keys if kinds[key].statement == number.statement
                )
        return self._years[year]

    def _score(self, line: Line, number: Number, columns: PeriodColumns) -> float:
        """Return how well a number fits a line by its labels, period, table and column; 0 if it does not."""
        # none: the line has no concept, and may be either
        if not columns.includes(
            number.document, number.period, balance=(line.concept.statement == "balance" if line.concept else None)
        ):
            return 0.0
        score = _score_line(line, number)
        if score < LEAST_SCORE:
            return 0.0
        if line.concept and line.of:
            return self._discount(score, number)
        statement: Statement | None = line.concept.statement if line.concept else None
        if statement and number.statement != statement:
            score *= OTHER_TABLE
        # several cells of a row for one period: only the column of the total is of the whole company
        if self._columns[_row_of_period(number)] > 1 and not TOTALS.intersection(
            words_of(" ".join(number.column_path))
        ):
            score *= QUALIFIED
        if has_further_words(number.column_path):
            score *= QUALIFIED
        return self._discount(score, number)

    def _discount(self, score: float, number: Number) -> float:
        """Lower a score for what speaks against the cell itself and its document."""
        if NIL.fullmatch(number.shown):
            score *= BROKEN
        if number.broken:
            score *= BROKEN
        return score * OTHER_DOCUMENT ** self._rank.get(number.document, 0)


def find_quarter_ends(numbers: Iterable[Number], part: Part) -> frozenset[tuple[str, date]]:
    """Return documents and days that the quarter of `part` ends with, by the longest span to each; else empty."""
    spans: dict[tuple[str, date], int] = {}
    for number in numbers if part.quarter else ():
        if number.period.end and number.period.kind == "duration":
            key = (number.document, number.period.end)
            spans[key] = max(spans.get(key, 0), number.period.months or 0)
    # the year so far: six months end where the second quarter does
    return frozenset(key for key, months in spans.items() if months == 3 * (part.quarter or 0))


def _row_of_period(number: Number) -> tuple[str, int, int, str]:
    return number.document, number.table, number.row, number.period.label


Names = tuple[tuple[str, str], ...]
"""Digest and name of each of some documents."""
Pages = tuple[tuple[str, int | None], ...]
"""Digest of a document and a page of it; None for documents without pages."""


# the ways to answer one question read the same numbers
@lru_cache(maxsize=4)
def select_numbers(paths: tuple[Path, ...], names: Names, pages: Pages) -> Sequence[Number]:
    """Return the numbers of documents. paths: those of storage.index. pages: those that count; empty for all."""
    from storage import numbers

    return [number_of(row) for row in numbers.select_numbers(paths, dict(names), pages=pages).records()]


_make_period = lru_cache(maxsize=4096)(Period)


def number_of(row: Mapping[str, Any]) -> Number:
    """Convert a row of storage.numbers to a Number."""
    broken = (Broken(identity["kind"], identity["expected"]) for identity in row["identities"] if not identity["holds"])
    read: dict[str, Any] = {
        "period": _make_period(**row["period"]) if row["period"] else UNDATED,
        "row_path": tuple(row["row_path"]),
        "column_path": tuple(row["column_path"]),
        "bbox": tuple(row["bbox"]) if row["bbox"] else None,
        "broken": next(broken, None),
    }
    return Number(**{field: row[field] for field in Number._fields if field in row} | read)


def _score_line(line: Line, number: Number) -> float:
    """Return how well a number's labels and unit fit a line: 1 for its name, 1.05 as written, 0 for another line."""
    label = label_of(number.row_path)
    concept = line.concept
    if concept is None:
        # how well the row's labels hold the words of the line: all of them, and few others
        line_words, own = frozenset(words_of(line.name)), frozenset(words_of(" ".join(number.row_path[-1:])))
        cell_words = frozenset(words_of(" ".join((*number.row_path, *number.column_path))))
        if not line_words or not own or not line_words <= cell_words:
            return 0.0
        return 1 - 0.1 * len(own - line_words - FREE_WORDS) - 0.1 * len(line_words - own)
    if line.of:
        return score_part_label(concept, line.of, number.row_path, number.column_path)
    counts_shares = any("share" in word for word in words_of(concept.key.replace("_", " ")))
    if concept.statement and not counts_shares and number.unit and number.unit not in AMOUNTS:
        return 0.0
    return score_label(concept, label) + (SAID_SO if words_of(label) == words_of(line.name) else 0)


def has_further_words(column_path: Sequence[str]) -> bool:
    """Return whether the headers of a column say more than its period and its unit."""
    words = (word for header in column_path for word in words_of(header))
    return any(word.isalpha() and word not in PLAIN_HEADERS for word in words)


SURELY = 0.85
"""Least score of a label for the line of a part: "casino revenue" is not the revenue of the part."""


def score_part_label(concept: Concept, of: str, row_path: Sequence[str], column_path: Sequence[str]) -> float:
    """Return how well a cell's labels name a concept of a part of a company, 0 to 1; of: the words that name the part.

    Part and line may stand in the row's label, in a heading above it or in the header of the column; 0 below SURELY.
    """
    part_words, labels = frozenset(words_of(of)), (*row_path, *column_path)
    if not part_words <= frozenset(words_of(" ".join(labels))):
        return 0.0
    rest = (" ".join(word for word in label.split() if part_words.isdisjoint(words_of(word))) for label in labels)
    best = max(score_label(concept, label) for label in rest)
    return best if best >= SURELY else 0.0


def is_same_amount(first: Number, second: Number) -> bool:
    """Return whether two cells show one amount, within the rounding of the coarser."""
    return abs(abs(first.value) - abs(second.value)) <= max(first.scale, second.scale)
