"""Answers from facts of the catalogue: those of one document, or a table of several."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple

from storage.catalogue import CatalogueEntry, Fact
from tasks.language.sentences import Language, language_of
from tasks.rag.answers import Citation, Draft, RetrievalPlan
from tasks.rag.facts.asked_facts import asked_criteria, asked_ids, asked_names, is_about
from tasks.rag.facts.fact_values import DISPLAY, FACTS, FactName, bare, read_value
from tasks.rag.planning.names import stem_of

MOST_DOCUMENTS = 6
"""Maximum number of columns of a table."""
MOST_FACTS = 12

STATED = "the catalogue holds such facts of the documents that are meant"
SURE = 0.9
"""Confidence of an answer from facts, whose label and value were read by rules."""


def answer_from_facts(question: str, plan: RetrievalPlan, catalogue: Sequence[CatalogueEntry]) -> Draft | None:
    """An answer from facts of the catalogue; None if the question asks for others, or no certain document is meant."""
    names = asked_names(question)
    if not names or plan.filters.mode == "all":
        return None
    entries = _entries(plan, catalogue, names)
    if plan.needs_multi_doc and 2 <= len(entries) <= MOST_DOCUMENTS:
        stated = table_markdown(compare_facts(names, entries, question=question), language_of(question))
        return stated if stated.citations else None
    sure = plan.filters.mode == "only" or plan.query_type == "followup"
    if sure and _is_one(plan, catalogue) and entries and not plan.needs_multi_doc:
        shown = fact_answer(question, entries[0])[:MOST_FACTS]
        # a line per fact, as the document labels and writes it
        lines = [f"{fact.label}: {fact.value} [{n}]" for n, fact in enumerate(shown, start=1)]
        citations = tuple(_citation(n, entries[0], fact) for n, fact in enumerate(shown, start=1))
        return Draft("\n".join(lines), citations, reason=STATED, confidence=SURE) if shown else None
    return None


def _is_one(plan: RetrievalPlan, catalogue: Sequence[CatalogueEntry]) -> bool:
    """Whether one document is meant, perhaps in several forms: a HWP and its HWPX."""
    return len({stem_of(entry.name) for entry in catalogue if entry.document in plan.filters.documents}) == 1


def _entries(plan: RetrievalPlan, catalogue: Sequence[CatalogueEntry], names: Sequence[str]) -> list[CatalogueEntry]:
    """The documents that the question is about: for each side the first that states such a fact, else all that do."""
    by_digest = {entry.document: entry for entry in catalogue}
    stating = {entry.document for entry in catalogue if any(fact.name in names for fact in entry.facts)}
    if plan.needs_multi_doc and len(plan.filters.groups) > 1:
        sides = [side for side in plan.filters.groups if side]
        digests = [next((digest for digest in side if digest in stating), side[0]) for side in sides]
    else:
        digests = [digest for digest in plan.filters.documents if digest in stating] or list(plan.filters.documents)
    return [by_digest[digest] for digest in dict.fromkeys(digests) if digest in by_digest]


def _citation(n: int, entry: CatalogueEntry, fact: Fact) -> Citation:
    quote = f"{fact.label}: {fact.value}"
    return Citation(n=n, document=entry.name, digest=entry.document, page=fact.page, bbox=fact.bbox, quote=quote)


class FactCell(NamedTuple):
    """What one document says of a fact."""

    entry: CatalogueEntry
    fact: Fact | None = None
    """None where the document does not state it."""
    of_metadata: bool = False
    """The fact is read from the metadata table, because the document does not state it."""


class FactRow(NamedTuple):
    """A row of the table: one fact, a cell per document."""

    name: str
    label: str | None
    """A criterion or requirement id; None for other facts."""
    cells: tuple[FactCell, ...]
    """In the order of the documents."""

    @property
    def agreement(self) -> Literal["equal", "differ", "unknown"]:
        """Whether the documents that state it state the same; unknown where spellings cannot be compared."""
        stated = [cell.fact.canonical for cell in self.cells if cell.fact]
        if len(stated) < 2 or None in stated:
            return "unknown"
        return "equal" if len(set(stated)) == 1 else "differ"


class Contradiction(NamedTuple):
    """A value that differs between metadata table and document; the comparison shows the document's."""

    document: str
    name: str
    stated: str
    metadata: str


class FactTable(NamedTuple):
    """Facts of several documents side by side."""

    documents: tuple[str, ...]
    rows: tuple[FactRow, ...]
    contradictions: tuple[Contradiction, ...] = ()


MOST_ROWS = 60
FIELDS: dict[FactName, str] = FACTS["metadata"]
"""Facts that the metadata table may state too → its column."""
COMPARABLE: tuple[FactName, ...] = ("amount", "published", "opening", "deadline")
LIKELY_BUDGET = re.compile(r"예산|사업금액|사업비|budget")
"""The amount that a question about the budget means where a document states several."""
_TECHNICAL = re.compile(r"기술(?:능력)?(?:평가|점수)|기술능력|technical(?:proposal|score|evaluation)?")
_PRICE = re.compile(r"(?:입찰)?가격(?:평가|점수)?|(?:price|cost)(?:proposal|score|evaluation)?")
_WORDS: dict[Language, dict[str, str]] = FACTS["table"]


def fact_answer(question: str, entry: CatalogueEntry) -> tuple[Fact, ...]:
    """The facts of the document that answer the question; empty where it asks for more than the catalogue knows."""
    names = asked_names(question)
    if not names or not is_about(question, entry):
        return ()
    found: list[Fact] = []
    for name in names:
        facts = [fact for fact in entry.facts if fact.name == name]
        if name == "points":
            found += asked_criteria(question, facts)
        elif name == "requirement":
            ids = asked_ids(question)
            found += [fact for fact in facts if not ids or fact.canonical in ids]
        elif facts:
            found.append(_meant(facts, question))
    return tuple(found)


def compare_facts(names: Sequence[str], entries: Sequence[CatalogueEntry], *, question: str = "") -> FactTable:
    """The facts of those names, a row each, a column per document; criteria and requirements have rows of their own."""
    rows: list[FactRow] = []
    for name in [known for known in DISPLAY if known in names]:
        if name == "points":
            rows += _criteria_rows(entries, question)
        elif name == "requirement":
            rows += _requirement_rows(entries, question)
        else:
            rows.append(FactRow(name, None, tuple(_cell(entry, name, question) for entry in entries)))
    contradictions = [found for name in names for entry in entries if (found := _contradiction(entry, name, question))]
    return FactTable(tuple(entry.name for entry in entries), tuple(rows[:MOST_ROWS]), tuple(contradictions))


def table_markdown(table: FactTable, lang: Language) -> Draft:
    """The table in Markdown, aligned for a terminal; every value of a document carries the mark of its citation."""
    said = _WORDS[lang]
    citations: list[Citation] = []

    def shown(cell: FactCell) -> str:
        if cell.fact is None:
            return said["missing"]
        value = cell.fact.value
        if not cell.of_metadata:
            citations.append(_citation(len(citations) + 1, cell.entry, cell.fact))
            value = f"{value} [{len(citations)}]"
        text = " ".join(value.split()).replace("|", "\\|")
        return f"{text} ({said['metadata']})" if cell.of_metadata else text

    columns = [stem_of(name).replace("|", "\\|") for name in table.documents]
    lines = [[said["fact"], *columns]]
    lines += [[_row_name(row, lang), *map(shown, row.cells)] for row in table.rows]
    widths = [max(3, *(_width(line[column]) for line in lines)) for column in range(len(lines[0]))]
    drawn = [
        "| " + " | ".join(text + " " * (wide - _width(text)) for text, wide in zip(line, widths, strict=True)) + " |"
        for line in lines
    ]
    drawn.insert(1, "| " + " | ".join("-" * wide for wide in widths) + " |")
    return Draft("\n".join([*drawn, *_remarks(table, lang)]), tuple(citations), reason=STATED, confidence=SURE)


def _meant(facts: Sequence[Fact], question: str) -> Fact:
    """Of facts that share a name, the one whose label the question contains, else a budget, else the first."""
    asked = bare(question)
    called = [fact for fact in facts if bare(fact.label) in asked]
    budgets = [fact for fact in facts if LIKELY_BUDGET.search(bare(fact.label))]
    return (called or budgets or facts)[0]


def _cell(entry: CatalogueEntry, name: str, question: str) -> FactCell:
    facts = [fact for fact in entry.facts if fact.name == name]
    if facts:
        return FactCell(entry, _meant(facts, question))
    if name in FIELDS and (value := entry.metadata.get(FIELDS[name])):
        fact = Fact(name=name, label="", value=value, canonical=_canonical(name, value), page=None, bbox=None)
        return FactCell(entry, fact, of_metadata=True)
    return FactCell(entry)


def _canonical(name: FactName, told: str) -> str | None:
    return next((stated.canonical for stated in read_value(name, "", told)), None)


def _contradiction(entry: CatalogueEntry, name: str, question: str) -> Contradiction | None:
    """A difference in an amount or a date; names are not compared, since either source may shorten them."""
    if name not in COMPARABLE:
        return None
    cell, told = _cell(entry, name, question), entry.metadata.get(FIELDS[name])
    if not told or cell.of_metadata or not cell.fact or not cell.fact.canonical:
        return None
    stated, canonical = cell.fact.canonical, _canonical(name, told)
    # a day without its hour is no contradiction
    if canonical is None or canonical.startswith(stated) or stated.startswith(canonical):
        return None
    return Contradiction(entry.name, name, cell.fact.value, told)


def _criteria_rows(entries: Sequence[CatalogueEntry], question: str) -> list[FactRow]:
    by_document: list[dict[str, Fact]] = []
    labels: dict[str, str] = {}
    for entry in entries:
        keyed: dict[str, Fact] = {}
        for fact in asked_criteria(question, [fact for fact in entry.facts if fact.name == "points"]):
            key = bare(fact.label)
            key = "기술평가" if _TECHNICAL.fullmatch(key) else "가격평가" if _PRICE.fullmatch(key) else key
            keyed.setdefault(key, fact)
            labels.setdefault(key, fact.label)
        by_document.append(keyed)
    rows = [_row("points", label, entries, [facts.get(key) for facts in by_document]) for key, label in labels.items()]
    return rows or [_row("points", None, entries, [None] * len(entries))]


def _requirement_rows(entries: Sequence[CatalogueEntry], question: str) -> list[FactRow]:
    """The requirements that the question names; else how many there are."""
    stated = [{fact.canonical: fact for fact in entry.facts if fact.name == "requirement"} for entry in entries]
    if ids := asked_ids(question):
        return [_row("requirement", one, entries, [facts.get(one) for facts in stated]) for one in ids]
    counted = [
        next(iter(facts.values())).model_copy(update={"value": str(len(facts)), "canonical": str(len(facts))})
        if facts
        else None
        for facts in stated
    ]
    return [_row("requirement", None, entries, counted)]


def _row(name: str, label: str | None, entries: Sequence[CatalogueEntry], facts: Sequence[Fact | None]) -> FactRow:
    return FactRow(name, label, tuple(map(FactCell, entries, facts)))


def _remarks(table: FactTable, lang: Language) -> list[str]:
    said = _WORDS[lang]
    remarks: list[str] = []
    for agreement in ("equal", "differ"):
        names = [_row_name(row, lang) for row in table.rows if row.agreement == agreement]
        if names:
            remarks.append(f"{said[agreement]}: {', '.join(names)}")
    for one in table.contradictions:
        document, fact = stem_of(one.document).replace("|", "\\|"), DISPLAY[one.name][lang]
        told = said["contradiction"]
        remarks.append(told.format(document=document, fact=fact, metadata=one.metadata, stated=one.stated))
    return ["", *remarks] if remarks else []


def _row_name(row: FactRow, lang: Language) -> str:
    if row.name == "requirement" and row.label is None:
        return _WORDS[lang]["requirements"]
    name = DISPLAY[row.name][lang]
    return f"{name}: {row.label}" if row.label else name


def _width(text: str) -> int:
    """Width in terminal columns: Hangul takes two."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else not unicodedata.combining(sign) for sign in text)
