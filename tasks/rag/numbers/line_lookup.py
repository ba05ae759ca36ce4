"""Finds a line of a statement in the numbers of documents: the cell that its name and a fiscal year mean."""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from importlib.resources import files
from typing import Any, NamedTuple

from tasks.documents.blocks import BBox
from tasks.language.numbers import CURRENCIES
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

SURE = 0.6
"""A cell that fits less is not taken for the line."""
AS_GOOD = 0.035
"""A cell that fits this much less may be the one meant, if its table is more of a statement."""
SAID_SO = 0.05
"""What a label gains that is written as the question writes it."""
OTHER_TABLE = 0.8
"""Share of a fit that is left where the table is not the statement that the line belongs to."""
OTHER_DOCUMENT = 0.97
"""Share that is left for each document that fits the question better."""
QUALIFIED = 0.85
"""Share that is left where the column is of a part: a segment, a country."""
BROKEN = 0.9
"""Share that is left where the cell breaks a sum."""
TOTALS = frozenset(("total", "consolidated", "합계", "연결", "계"))
"""Words of the one column that is no part."""
NIL = frozenset("-–—")
PLAIN_HEADERS = frozenset[str](
    tomllib.loads((files("tasks.rag.numbers") / "computation_words.toml").read_text("utf-8"))["plain_headers"].split()
)
"""Words of headers that name no part of a company."""
AMOUNTS = frozenset(CURRENCIES.values())
UNDATED = Period(kind="none", year=0, label="")
"""The period of a cell that nothing dates."""


class Number(NamedTuple):
    """A row of storage.numbers."""

    name: str
    """Of the document."""
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
    statement: str
    broken: Broken | None
    """The identity that it breaks."""
    cells: str | None = None
    """Name of the cell in a spreadsheet."""


Read = Callable[[int], Iterable[Mapping[str, Any]]]
"""Rows of storage.numbers of a fiscal year, of the documents that a question is about."""


class Lines:
    """The lines of some documents, found by name and year; rows are read once for each year."""

    def __init__(self, documents: Sequence[str], read: Read) -> None:
        """documents: digests, those that fit the question best first."""
        self._rank = {document: at for at, document in enumerate(documents)}
        self._read = read
        self._years: dict[int, list[Number]] = {}
        self._sizes: Counter[tuple[str, int, int]] = Counter()
        self._named: dict[tuple[str, int], set[str]] = defaultdict(set)
        """Tables → the concepts that they hold of the statement that they are."""
        self._columns: Counter[tuple[str, int, int, str]] = Counter()

    def find(self, line: Line, year: int, part: Part = WHOLE_YEAR) -> Number | None:
        """The cell of that line and fiscal year, or part of it; None where none fits well enough."""
        wanted = PeriodColumns(year, part, quarter_ends(self._of(year) if part.quarter else (), part))
        # a day in January belongs to the fiscal year before for some, and what its name is the day itself tells
        years = (year, year - 1) if part.month_and_day else (year,)
        scored = [(self._score(line, number, wanted), number) for one in years for number in self._of(one)]
        best = max((score for score, _ in scored), default=0.0)
        if best < SURE:
            return None
        near = [number for score, number in scored if score >= best - AS_GOOD]
        return max(near, key=self._preference)

    def _preference(self, number: Number) -> tuple[int, int, int, int]:
        """Of cells that fit alike: the document that the question means, and in it the statement itself."""
        size = self._sizes[number.document, number.table, number.col]
        return -self._rank.get(number.document, 0), len(self._named[number.document, number.table]), size, -number.table

    def _of(self, year: int) -> list[Number]:
        if year not in self._years:
            self._years[year] = [number_of(row) for row in self._read(year)]
            self._sizes.update((one.document, one.table, one.col) for one in self._years[year])
            self._columns.update(map(_row_of_period, self._years[year]))
            for one in self._years[year]:
                named = (key for key, score in score_concepts(label_of(one.row_path)).items() if score >= NEARLY)
                kinds = concepts()
                self._named[one.document, one.table].update(
                    key for key in named if kinds[key].statement == one.statement
                )
        return self._years[year]

    def _score(self, line: Line, number: Number, wanted: PeriodColumns) -> float:
        # none: the line has no concept, and may be either
        if not wanted.holds(
            number.document, number.period, balance=(line.concept.statement == "balance" if line.concept else None)
        ):
            return 0.0
        fits = _fit_of(line, number)
        if fits < SURE:
            return 0.0
        if line.concept and line.of:
            return self._doubted(fits, number)
        statement: Statement | None = line.concept.statement if line.concept else None
        if statement and number.statement != statement:
            fits *= OTHER_TABLE
        if self._columns[_row_of_period(number)] > 1 and not TOTALS.intersection(
            words_of(" ".join(number.column_path))
        ):
            fits *= QUALIFIED
        if says_more(number.column_path):
            fits *= QUALIFIED
        return self._doubted(fits, number)

    def _doubted(self, fits: float, number: Number) -> float:
        """A fit without what the cell itself and its document take away."""
        if number.shown in NIL:
            fits *= BROKEN
        if number.broken:
            fits *= BROKEN
        return fits * OTHER_DOCUMENT ** self._rank.get(number.document, 0)


def quarter_ends(numbers: Iterable[Number], part: Part) -> frozenset[tuple[str, date]]:
    """Documents and the days in them that a quarter ends with: the longest span that ends then tells which it is."""
    spans: dict[tuple[str, date], int] = {}
    for one in numbers if part.quarter else ():
        if one.period.end and one.period.kind == "duration":
            key = (one.document, one.period.end)
            spans[key] = max(spans.get(key, 0), one.period.months or 0)
    return frozenset(key for key, months in spans.items() if months == 3 * (part.quarter or 0))


def _row_of_period(number: Number) -> tuple[str, int, int, str]:
    return number.document, number.table, number.row, number.period.label


def number_of(row: Mapping[str, Any]) -> Number:
    """A row of storage.numbers."""
    box = row["bbox"]
    return Number(
        name=row["name"],
        document=row["document"],
        value=row["value"],
        shown=row["shown"],
        scale=row["scale"],
        unit=row["unit"],
        period=Period(**row["period"]) if row["period"] else UNDATED,
        row_path=tuple(row["row_path"]),
        column_path=tuple(row["column_path"]),
        page=row["page"],
        bbox=(box[0], box[1], box[2], box[3]) if box else None,
        cells=row.get("cells"),
        table=row["table"],
        row=row["row"],
        col=row["col"],
        statement=row.get("statement", "other"),
        broken=next((Broken(one["kind"], one["expected"]) for one in row["identities"] if not one["holds"]), None),
    )


def _fit_of(line: Line, number: Number) -> float:
    label = label_of(number.row_path)
    concept = line.concept
    if concept is None:
        # how well the row's labels hold the words of the line: all of them, and few others
        wanted, own = frozenset(words_of(line.said)), frozenset(words_of(" ".join(number.row_path[-1:])))
        beside = frozenset(words_of(" ".join((*number.row_path, *number.column_path))))
        if not wanted or not own or not wanted <= beside:
            return 0.0
        return 1 - 0.1 * len(own - wanted - FREE_WORDS) - 0.1 * len(wanted - own)
    if line.of:
        return fit_of_part(concept, line.of, number.row_path, number.column_path)
    counted = any("share" in word for word in words_of(concept.key.replace("_", " ")))
    if concept.statement and not counted and number.unit and number.unit not in AMOUNTS:
        return 0.0
    return score_label(concept, label) + (SAID_SO if words_of(label) == words_of(line.said) else 0)


def says_more(column_path: Sequence[str]) -> bool:
    """Whether the headers of a column say more than its period and its unit."""
    words = (word for header in column_path for word in words_of(header))
    return any(word.isalpha() and word not in PLAIN_HEADERS for word in words)


SURELY = 0.85
"""How well the label must name the line of a part: "casino revenue" is not the revenue of the part."""


def fit_of_part(concept: Concept, of: str, row_path: Sequence[str], column_path: Sequence[str]) -> float:
    """How well the labels of a cell name a concept of a part of a company, 0 … 1; of: the words that name the part.

    Part and line may stand in the row's label, in a heading above it or in the header of the column.
    """
    wanted, labels = frozenset(words_of(of)), (*row_path, *column_path)
    if not wanted <= frozenset(words_of(" ".join(labels))):
        return 0.0
    rest = (" ".join(word for word in label.split() if wanted.isdisjoint(words_of(word))) for label in labels)
    best = max(score_label(concept, label) for label in rest)
    return best if best >= SURELY else 0.0


def agree(one: Number, other: Number) -> bool:
    """Whether two cells show one amount, within the rounding of the coarser."""
    return abs(abs(one.value) - abs(other.value)) <= max(one.scale, other.scale)
