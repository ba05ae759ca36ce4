"""All numbers of a document's tables, checked against each other, with their statement and in the filer's own years."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import get_args

from tasks.documents.blocks import Page
from tasks.language.numbers import CURRENCIES
from tasks.rag.numbers.cell_facts import CellFact, cell_facts
from tasks.rag.numbers.concepts import NEARLY, Statement, concepts, label_of, score_concepts
from tasks.rag.numbers.identities import with_identities
from tasks.rag.numbers.periods import Period, period_in, year_to

EARLY = r"(?:January|February)\s+\d{1,2},\s+(?P<end>20\d\d|19\d\d)"
NAMED = re.compile(
    rf"\bfiscal(?:\s+year)?\s+(?P<year>20\d\d|19\d\d)\b[^.]{{0,60}}?\bend(?:ed|ing|s)\b[^.]{{0,20}}?{EARLY}"
)
CALLED = re.compile(rf"{EARLY}[^.]{{0,30}}?[(“\"][^.)]{{0,20}}?fiscal(?:\s+year)?\s+(?P<year>20\d\d|19\d\d)")
"""A year that ends in January or February, and what the filer calls it."""
SPOKEN = re.compile(r"\bfiscal(?:\s+year)?\s+(20\d\d|19\d\d)\b", re.IGNORECASE)
TERM = re.compile(r"제\s?(\d{1,3})\s?기(?=$|[^가-힣]|[에의은는이가를와과말초로도]|보다|까지|부터|대비)")
TERM_OF_YEAR = re.compile(
    r"제\s?(?P<term>\d{1,3})\s?기[^가-힣\d]{0,6}(?:(?:19|20)\d\d\s?[.년][^제]{1,24}?(?:~|부터|-|–)\s*)?(?P<year>(?:19|20)\d\d)\s?[.년]"
)
"""A term and the year in which it ends."""
BUSINESS_YEAR = re.compile(
    r"(?:사업|회계)\s?연도[^가-힣\d]{0,6}(?:(?:19|20)\d\d\s?[.년].{1,24}?(?:~|부터|-|–)\s*)?((?:19|20)\d\d)\s?[.년]"
)
"""The year in which the document's own term ends."""
RELATIVE_TERM = re.compile(r"(?<![가-힣])(?P<before>전{0,2})(?:당)?기(?:\s?말)?(?![가-힣])")


def document_numbers(pages: Iterable[Page], *, document: str) -> list[CellFact]:
    """Every numeric cell in reading order. document: SHA-256 of its bytes, hex."""
    pages = list(pages)
    facts = with_years(with_statements(with_identities(with_scales(cell_facts(pages, document=document)))))
    texts = [block.text for page in pages for block in page.blocks]
    return _with_terms(_with_named_years(facts, texts), texts)


def _with_terms(facts: Sequence[CellFact], texts: Sequence[str]) -> list[CellFact]:
    """With the years of Korean business terms: 제23기 (2023. 1. 1. ~ 2023. 12. 31.), 당기, 전기."""
    begun = Counter(int(match["year"]) - int(match["term"]) for text in texts for match in TERM_OF_YEAR.finditer(text))
    spoken = Counter(int(term) for text in texts for term in TERM.findall(text))
    if not spoken:
        return list(facts)
    current = spoken.most_common(1)[0][0]
    whole = Counter(int(year) - current for text in texts for year in BUSINESS_YEAR.findall(text))
    if not (begun or whole):
        return list(facts)
    before = (begun or whole).most_common(1)[0][0]
    dated = list(facts)
    for place, fact in enumerate(facts):
        said = " ".join((*fact.column_path, *fact.row_path[-1:]))
        own = period_in(said)
        if own and own == fact.period:
            continue  # the line above a table may name the date of one of its terms, its header only its own
        if found := TERM.search(said):
            term = int(found[1])
        elif found := RELATIVE_TERM.search(said):
            term = current - len(found["before"])
        else:
            continue
        period = Period(kind="none", year=before + term, label=f"제{term}기")
        dated[place] = fact.model_copy(update={"period": period})
    return dated


def _with_named_years(facts: Sequence[CellFact], texts: Sequence[str]) -> Sequence[CellFact]:
    """With years that end in January or February named for the year of that day, where the filer does so.

    Where no sentence says so, the fiscal year that the text speaks of most is that of the columns seen most.
    """
    early = {
        place: period
        for place, fact in enumerate(facts)
        if (period := fact.period) and period.end and period.end.month < 3
    }
    votes, spoken = Counter[int](), Counter[int]()
    for text in texts:
        for pattern in (NAMED, CALLED):
            votes.update(int(match["end"]) - int(match["year"]) for match in pattern.finditer(text))
        spoken.update(map(int, SPOKEN.findall(text)))
    if votes:
        for_end = votes[0] > votes[1]
    else:
        ends = Counter(period.end.year for period in early.values() if period.end)
        commonest = [max(years, key=lambda year: (years[year], year), default=0) for years in (spoken, ends)]
        for_end = commonest[0] == commonest[1] > 0
    named = list(facts)
    for place, period in early.items() if for_end else ():
        year = period.end.year if period.end else period.year
        label = f"FY{year}" if period.label.startswith("FY") else period.label
        named[place] = facts[place].model_copy(
            update={"period": period.model_copy(update={"year": year, "label": label})}
        )
    return named


FEWEST_LINES = 4
"""Lines of one statement that make a table that statement."""


def with_statements(facts: Sequence[CellFact]) -> list[CellFact]:
    """The facts, in their order, with the statement that their table is; of a part of one nothing is said."""
    tables: dict[int, set[tuple[str, ...]]] = defaultdict(set)
    for fact in facts:
        tables[fact.table].add(fact.row_path)
    kinds: dict[int, Statement] = {}
    for table, paths in tables.items():
        counts: Counter[Statement] = Counter()
        for path in paths:
            named = {key for key, score in score_concepts(label_of(path)).items() if score >= NEARLY}
            counts.update({kind for key in named if (kind := concepts()[key].statement)})
        # of two that have as many lines the one that a report shows first, whatever the order of a set
        kind = max(get_args(Statement), key=lambda kind: counts[kind])
        if counts[kind] >= FEWEST_LINES:
            kinds[table] = kind
    return [fact.model_copy(update={"statement": kinds[fact.table]}) if fact.table in kinds else fact for fact in facts]


FEWEST_SHARED = 2
"""Figures of a table that must stand in others."""
FEWEST_DIGITS = 4
AMOUNTS = frozenset(CURRENCIES.values())


def with_scales(facts: Iterable[CellFact]) -> list[CellFact]:
    """The numbers of a document, those of tables without a scale in that of the tables that they repeat."""
    facts = list(facts)
    known: dict[tuple[str, int], set[Decimal]] = defaultdict(set)
    tables: dict[int, list[CellFact]] = defaultdict(list)
    for fact in facts:
        if fact.unit in AMOUNTS:
            tables[fact.table].append(fact)
            if fact.scale > 1 and (key := _key(fact)):
                known[key].add(fact.scale)
    scales: dict[int, Decimal] = {}
    for table, own in tables.items():
        keys = {key for fact in own if (key := _key(fact)) in known and key}
        shared = {scale for key in keys for scale in known[key]}
        if all(fact.scale <= 1 for fact in own) and len(keys) >= FEWEST_SHARED and len(shared) == 1:
            scales[table] = shared.pop()
    for place, fact in enumerate(facts):
        # an amount with decimals is of a share
        if fact.table in scales and fact.unit in AMOUNTS and "." not in fact.shown:
            scale = scales[fact.table]
            facts[place] = fact.model_copy(update={"value": fact.value * scale, "scale": scale})
    return facts


def _key(fact: CellFact) -> tuple[str, int] | None:
    """The digits and the year of a figure; None where many figures may have them."""
    digits = re.sub(r"[^\d.]", "", fact.shown)
    return (digits, fact.period.year) if fact.period and len(digits) >= FEWEST_DIGITS else None


FLOWS = ("income", "cash_flow")
DAYS_APART = 8
"""Years of 52 or 53 weeks end a few days apart."""
YEAR_DAYS = range(365 - DAYS_APART, 366 + DAYS_APART)
MOST_QUARTERS = 0.25
"""Share of a document's spans that may be quarters for it to be an annual report."""


def with_years(facts: Sequence[CellFact]) -> list[CellFact]:
    """The facts, in their order; a flow in a column of the last day of a fiscal year is of the year up to that day.

    In a document that has many quarters, only cash flows are, which it shows for the year so far.
    """
    periods = [fact.period for fact in facts if fact.period]
    # months and days that the document's years end with
    ends = {(one.end.month, one.end.day) for one in periods if one.end and one.months == 12}
    spans = Counter(one.months for one in periods if one.kind == "duration")
    is_annual = spans[3] <= MOST_QUARTERS * (spans[3] + spans[12])
    days: dict[int, set[date]] = defaultdict(set)
    for fact in facts:
        if fact.period and fact.period.kind == "instant" and fact.period.end:
            days[fact.table].add(fact.period.end)
    yearly = {
        table for table, found in days.items() if _are_years(sorted(found), ends, sure=not (spans[3] or spans[6]))
    }
    dated = list(facts)
    for place, fact in enumerate(facts):
        period = fact.period
        if fact.table not in yearly or period is None or period.end is None or period.kind != "instant":
            continue
        # a fact is of a span by its line, else by the statement that its table is
        best = max(score_concepts(label_of(fact.row_path)).items(), key=lambda found: found[1], default=("", 0.0))
        statement = concepts()[best[0]].statement if best[1] >= NEARLY else fact.statement
        if statement in FLOWS and (is_annual or fact.statement == "cash_flow"):
            dated[place] = fact.model_copy(update={"period": year_to(period.end)})
    return dated


def _are_years(days: Sequence[date], ends: set[tuple[int, int]], *, sure: bool) -> bool:
    """Whether days are ends of years: of those that the document names, else a year apart where nothing is shorter."""
    if not ends:
        return sure and len(days) > 1 and all((late - early).days in YEAR_DAYS for early, late in pairwise(days))
    named = [date(2024, *end).timetuple().tm_yday for end in ends]
    for day in days:
        apart = [abs(day.timetuple().tm_yday - end) for end in named]
        if min(min(one, 366 - one) for one in apart) > DAYS_APART:
            return False
    return True
