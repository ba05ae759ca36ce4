"""Reads all numbers of a document's tables, checks them against each other, and dates them as the filer does."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import get_args

from tasks.documents.blocks import Page
from tasks.rag.numbers.cell_facts import CellFact, TextCell, read_cells
from tasks.rag.numbers.concepts import NEARLY, Statement, concepts, label_of, score_concepts
from tasks.rag.numbers.identities import add_identities
from tasks.rag.numbers.periods import DAYS_APART, Period, find_period, fiscal_year_to
from tasks.rag.numbers.row_paths import AMOUNTS

EARLY = r"(?:January|February)\s+\d{1,2},\s+(?P<end>20\d\d|19\d\d)"
FISCAL_YEAR_NAMED = re.compile(
    rf"\bfiscal(?:\s+year)?\s+(?P<year>20\d\d|19\d\d)\b[^.]{{0,60}}?\bend(?:ed|ing|s)\b[^.]{{0,20}}?{EARLY}"
)
CALLED = re.compile(rf"{EARLY}[^.]{{0,30}}?[(“\"][^.)]{{0,20}}?fiscal(?:\s+year)?\s+(?P<year>20\d\d|19\d\d)")
"""A year that ends in January or February (group `end`), and the number that the filer gives it (`year`)."""
SPOKEN = re.compile(r"\bfiscal(?:\s+year)?\s+(20\d\d|19\d\d)\b", re.IGNORECASE)
TERM = re.compile(r"제\s?(\d{1,3})\s?기(?=$|[^가-힣]|[에의은는이가를와과말초로도]|보다|까지|부터|대비)")
TERM_OF_YEAR = re.compile(
    r"제\s?(?P<term>\d{1,3})\s?기[^가-힣\d]{0,6}(?:(?:19|20)\d\d\s?[.년][^제]{1,24}?(?:~|부터|-|–)\s*)?(?P<year>(?:19|20)\d\d)\s?[.년]"
)
"""A business term with the year in which it ends."""
BUSINESS_YEAR = re.compile(
    r"(?:사업|회계)\s?연도[^가-힣\d]{0,6}(?:(?:19|20)\d\d\s?[.년].{1,24}?(?:~|부터|-|–)\s*)?((?:19|20)\d\d)\s?[.년]"
)
"""The business year of the document: the year in which its own term ends."""
RELATIVE_TERM = re.compile(r"(?<![가-힣])(?P<before>전{0,2})(?:당)?기(?:\s?말)?(?![가-힣])")


def document_numbers(pages: Iterable[Page], *, document: str) -> list[CellFact]:
    """Return every numeric cell of a document in reading order; document: SHA-256 of its bytes, hex."""
    return document_cells(pages, document=document)[0]


def document_cells(pages: Iterable[Page], *, document: str) -> tuple[list[CellFact], list[TextCell]]:
    """Return the numeric cells of a document, and those of words; each in reading order."""
    pages = list(pages)
    cells = list(read_cells(pages, document=document))
    numbers = [cell for cell in cells if isinstance(cell, CellFact)]
    facts = infer_years(mark_statements(add_identities(infer_scales(numbers))))
    texts = [block.text for page in pages for block in page.blocks]
    return _date_by_terms(_rename_early_years(facts, texts), texts), [
        cell for cell in cells if isinstance(cell, TextCell)
    ]


def _date_by_terms(facts: Sequence[CellFact], texts: Sequence[str]) -> list[CellFact]:
    """Date facts by Korean business terms of known years: 제23기 (2023. 1. 1. ~ 2023. 12. 31.), 당기, 전기."""
    # the year of "term 0": with a term added it is the year in which that term ends
    named = (match for text in texts for match in TERM_OF_YEAR.finditer(text))
    zero_years = Counter(int(match["year"]) - int(match["term"]) for match in named)
    spoken = Counter(int(term) for text in texts for term in TERM.findall(text))
    if not spoken:
        return list(facts)
    current = spoken.most_common(1)[0][0]  # the term that a report speaks of most is its own
    zero_years_of_current = Counter(int(year) - current for text in texts for year in BUSINESS_YEAR.findall(text))
    if not (zero_years or zero_years_of_current):
        return list(facts)
    zero_year = (zero_years or zero_years_of_current).most_common(1)[0][0]
    dated = list(facts)
    for place, fact in enumerate(facts):
        labels = " ".join((*fact.column_path, *fact.row_path[-1:]))
        own = find_period(labels)
        if own and own == fact.period:
            continue  # a header names its own date; the line above a table may name that of one term alone
        if match := TERM.search(labels):
            term = int(match[1])
        elif match := RELATIVE_TERM.search(labels):
            term = current - len(match["before"])
        else:
            continue
        period = Period(kind="none", year=zero_year + term, label=f"제{term}기")
        dated[place] = fact.model_copy(update={"period": period})
    return dated


def _rename_early_years(facts: Sequence[CellFact], texts: Sequence[str]) -> Sequence[CellFact]:
    """Name years that end in January or February for the year of that day, where the filer does so.

    Where no sentence defines them, the fiscal year that the text names most is taken for that of the columns that are
    most frequent.
    """
    early = {
        place: period
        for place, fact in enumerate(facts)
        if (period := fact.period) and period.end and period.end.month < 3
    }
    votes, spoken = Counter[int](), Counter[int]()
    for text in texts:
        for pattern in (FISCAL_YEAR_NAMED, CALLED):
            # 0: named for the year of its last day; 1: for the year before
            votes.update(int(match["end"]) - int(match["year"]) for match in pattern.finditer(text))
        spoken.update(map(int, SPOKEN.findall(text)))
    if votes:
        for_end = votes[0] > votes[1]
    else:
        ends = Counter(period.end.year for period in early.values() if period.end)
        commonest = [max(years, key=lambda year: (years[year], year), default=0) for years in (spoken, ends)]
        for_end = commonest[0] == commonest[1] > 0
    result = list(facts)
    for place, period in early.items() if for_end else ():
        year = period.end.year if period.end else period.year
        label = f"FY{year}" if period.label.startswith("FY") else period.label
        result[place] = facts[place].model_copy(
            update={"period": period.model_copy(update={"year": year, "label": label})}
        )
    return result


FEWEST_LINES = 4
"""Least number of lines of one statement in a table that is taken for that statement."""


def mark_statements(facts: Sequence[CellFact]) -> list[CellFact]:
    """Return the facts, in order, with the statement that most lines of their table name, four at least, or `other`."""
    tables: dict[int, set[tuple[str, ...]]] = defaultdict(set)
    for fact in facts:
        tables[fact.table].add(fact.row_path)
    kinds: dict[int, Statement] = {}
    for table, paths in tables.items():
        counts: Counter[Statement] = Counter()
        for path in paths:
            concept_keys = {key for key, score in score_concepts(label_of(path)).items() if score >= NEARLY}
            counts.update({kind for key in concept_keys if (kind := concepts()[key].statement)})
        # of two that have as many lines the one that a report shows first, whatever the order of a set
        kind = max(get_args(Statement), key=lambda kind: counts[kind])
        if counts[kind] >= FEWEST_LINES:
            kinds[table] = kind
    return [fact.model_copy(update={"statement": kinds[fact.table]}) if fact.table in kinds else fact for fact in facts]


FEWEST_SHARED = 2
"""Least number of values that a table without a scale must share with tables of one scale."""
FEWEST_DIGITS = 4


def infer_scales(facts: Iterable[CellFact]) -> list[CellFact]:
    """Return the facts, in their order; tables without a scale get that of the tables whose values they repeat."""
    facts = list(facts)
    scales_of: dict[tuple[str, int], set[Decimal]] = defaultdict(set)
    tables: dict[int, list[CellFact]] = defaultdict(list)
    for fact in facts:
        if fact.unit in AMOUNTS:
            tables[fact.table].append(fact)
            if fact.scale > 1 and (key := _value_key(fact)):
                scales_of[key].add(fact.scale)
    scales: dict[int, Decimal] = {}
    for table, own in tables.items():
        keys = scales_of.keys() & {_value_key(fact) for fact in own}
        shared = {scale for key in keys for scale in scales_of[key]}
        if all(fact.scale <= 1 for fact in own) and len(keys) >= FEWEST_SHARED and len(shared) == 1:
            scales[table] = shared.pop()
    for place, fact in enumerate(facts):
        # an amount with decimals is of a share
        if fact.table in scales and fact.unit in AMOUNTS and "." not in fact.shown:
            scale = scales[fact.table]
            facts[place] = fact.model_copy(update={"value": fact.value * scale, "scale": scale})
    return facts


def _value_key(fact: CellFact) -> tuple[str, int] | None:
    """Return the digits and the year of a value; None where many values may share them."""
    digits = re.sub(r"[^\d.]", "", fact.shown)
    return (digits, fact.period.year) if fact.period and len(digits) >= FEWEST_DIGITS else None


FLOWS = ("income", "cash_flow")
YEAR_DAYS = range(365 - DAYS_APART, 366 + DAYS_APART)
MOST_QUARTERS = 0.25
"""Largest share of quarters among the spans of a document that is an annual report."""


def infer_years(facts: Sequence[CellFact]) -> list[CellFact]:
    """Return the facts, in their order; a flow under the last day of a fiscal year gets the year up to that day.

    Only in tables whose dates are all such days; in a document with many quarters, only in a cash flow statement.
    """
    periods = [fact.period for fact in facts if fact.period]
    # months and days that the document's years end with
    ends = {(period.end.month, period.end.day) for period in periods if period.end and period.months == 12}
    spans = Counter(period.months for period in periods if period.kind == "duration")
    is_annual = spans[3] <= MOST_QUARTERS * (spans[3] + spans[12])
    days: dict[int, set[date]] = defaultdict(set)
    for fact in facts:
        if fact.period and fact.period.kind == "instant" and fact.period.end:
            days[fact.table].add(fact.period.end)
    yearly = {
        table
        for table, ends_of_columns in days.items()
        if _are_years(sorted(ends_of_columns), ends, has_only_years=not (spans[3] or spans[6]))
    }
    dated = list(facts)
    for place, fact in enumerate(facts):
        period = fact.period
        if fact.table not in yearly or period is None or period.end is None or period.kind != "instant":
            continue
        # a fact is of a span by its line, else by the statement that its table is
        best = max(score_concepts(label_of(fact.row_path)).items(), key=lambda scored: scored[1], default=("", 0.0))
        statement = concepts()[best[0]].statement if best[1] >= NEARLY else fact.statement
        if statement in FLOWS and (is_annual or fact.statement == "cash_flow"):
            dated[place] = fact.model_copy(update={"period": fiscal_year_to(period.end)})
    return dated


def _are_years(days: Sequence[date], ends: set[tuple[int, int]], *, has_only_years: bool) -> bool:
    """Return whether days are ends of years: of those that the document names, else days that are a year apart.

    has_only_years: whether the document has no shorter spans, beside which days a year apart prove nothing.
    """
    if not ends:
        return (
            has_only_years and len(days) > 1 and all((late - early).days in YEAR_DAYS for early, late in pairwise(days))
        )
    year_days = [date(2024, *end).timetuple().tm_yday for end in ends]  # a leap year, as a year may end on February 29
    for day in days:
        apart = [abs(day.timetuple().tm_yday - end) for end in year_days]
        if min(min(days_apart, 366 - days_apart) for days_apart in apart) > DAYS_APART:
            return False
    return True
