"""Columns that name a day above figures of a year: what flows has a span, whether or not the header says so."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import date
from itertools import pairwise

from tasks.rag.numbers.cell_facts import CellFact
from tasks.rag.numbers.concepts import NEARLY, concepts, fits, label_of
from tasks.rag.numbers.periods import year_to

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
    ends = _year_ends(facts)
    spans = Counter(fact.period.months for fact in facts if fact.period and fact.period.kind == "duration")
    is_annual = spans[3] <= MOST_QUARTERS * (spans[3] + spans[12])
    days: dict[int, set[date]] = defaultdict(set)
    for fact in facts:
        if fact.period and fact.period.kind == "instant" and fact.period.end:
            days[fact.table].add(fact.period.end)
    yearly = {
        table for table, found in days.items() if _are_years(sorted(found), ends, sure=not (spans[3] or spans[6]))
    }
    return [_of_year(fact) if fact.table in yearly and _flows(fact, is_annual=is_annual) else fact for fact in facts]


def _year_ends(facts: Sequence[CellFact]) -> set[tuple[int, int]]:
    """Months and days that the document's years end with."""
    periods = (fact.period for fact in facts)
    return {(one.end.month, one.end.day) for one in periods if one and one.end and one.months == 12}


def _are_years(days: Sequence[date], ends: set[tuple[int, int]], *, sure: bool) -> bool:
    """Whether days are ends of years: of those that the document names, else a year apart where nothing is shorter."""
    if ends:
        return all(any(_apart(day, end) <= DAYS_APART for end in ends) for day in days)
    return sure and len(days) > 1 and all((late - early).days in YEAR_DAYS for early, late in pairwise(days))


def _apart(day: date, end: tuple[int, int]) -> int:
    """Days between a day and that day of any year."""
    apart = abs(day.timetuple().tm_yday - date(2024, *end).timetuple().tm_yday)
    return min(apart, 366 - apart)


def _flows(fact: CellFact, *, is_annual: bool) -> bool:
    """Whether a fact is of a span: by its line, else by the statement that its table is."""
    if fact.period is None or fact.period.kind != "instant":
        return False
    best = max(fits(label_of(fact.row_path)).items(), key=lambda found: found[1], default=("", 0.0))
    statement = concepts()[best[0]].statement if best[1] >= NEARLY else fact.statement
    return statement in FLOWS and (is_annual or fact.statement == "cash_flow")


def _of_year(fact: CellFact) -> CellFact:
    assert fact.period and fact.period.end  # noqa: PT018
    return fact.model_copy(update={"period": year_to(fact.period.end)})
