"""All numbers of a document's tables, checked against each other, with their statement and in the filer's own years."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date

from tasks.documents.blocks import Page
from tasks.rag.numbers.cell_facts import CellFact, cell_facts
from tasks.rag.numbers.identities import with_identities
from tasks.rag.numbers.periods import Period, period_in
from tasks.rag.numbers.shared_scales import with_scales
from tasks.rag.numbers.statements import with_statements
from tasks.rag.numbers.year_columns import with_years

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
    if _are_named_for_end(pages, facts):
        facts = [_named_for_end(fact) for fact in facts]
    return _with_terms(facts, [block.text for page in pages for block in page.blocks])


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
    return [_of_term(fact, before, current) for fact in facts]


def _of_term(fact: CellFact, before: int, current: int) -> CellFact:
    own = period_in(" ".join((*fact.column_path, *fact.row_path[-1:])))
    if own and own == fact.period:
        return fact  # the line above a table may name the date of one of its terms, its header only its own
    said = " ".join((*fact.column_path, *fact.row_path[-1:]))
    if found := TERM.search(said):
        term = int(found[1])
    elif found := RELATIVE_TERM.search(said):
        term = current - len(found["before"])
    else:
        return fact
    return fact.model_copy(update={"period": Period(kind="none", year=before + term, label=f"제{term}기")})


def _are_named_for_end(pages: Sequence[Page], facts: Sequence[CellFact]) -> bool:
    """Whether the filer names a year that ends in January or February for the year of that day.

    Where no sentence says so, the fiscal year that the text speaks of most is that of the columns seen most.
    """
    votes: Counter[int] = Counter()
    spoken: Counter[int] = Counter()
    for page in pages:
        for block in page.blocks:
            for pattern in (NAMED, CALLED):
                votes.update(int(match["end"]) - int(match["year"]) for match in pattern.finditer(block.text))
            spoken.update(map(int, SPOKEN.findall(block.text)))
    if votes:
        return votes[0] > votes[1]
    ends = Counter(
        fact.period.end.year for fact in facts if fact.period and fact.period.end and _is_early(fact.period.end)
    )
    return bool(ends and spoken) and max(spoken, key=lambda y: (spoken[y], y)) == max(ends, key=lambda y: (ends[y], y))


def _is_early(day: date) -> bool:
    return day.month < 3


def _named_for_end(fact: CellFact) -> CellFact:
    period = fact.period
    if not period or not period.end or not _is_early(period.end):
        return fact
    year = period.end.year
    label = f"FY{year}" if period.label.startswith("FY") else period.label
    return fact.model_copy(update={"period": period.model_copy(update={"year": year, "label": label})})
