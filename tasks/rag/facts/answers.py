"""Answers from facts of the catalogue: a fact of one document in its own words, or a table of several documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from storage.index import CatalogueEntry, Fact
from tasks.rag.answers import Citation, RetrievalPlan
from tasks.rag.facts.asked import asked_names
from tasks.rag.facts.comparing import FactCell, FactTable, compare_facts, fact_answer, table_markdown
from tasks.rag.language.sentences import language_of

MOST_DOCUMENTS = 6
"""Columns that a reader can compare."""
MOST_FACTS = 12


class Stated(NamedTuple):
    """An answer whose every value stands in a document, with its place."""

    text: str
    citations: tuple[Citation, ...]


def answer_from_facts(question: str, plan: RetrievalPlan, catalogue: Sequence[CatalogueEntry]) -> Stated | None:
    """What the catalogue's facts answer; None where the question asks for other things, or of no certain document."""
    names = asked_names(question)
    if not names or plan.filters.mode == "all":
        return None
    entries = _entries(plan, catalogue, names)
    if plan.needs_multi_doc and 2 <= len(entries) <= MOST_DOCUMENTS:
        return _table(compare_facts(names, entries, question=question), question)
    sure = plan.filters.mode == "only" or plan.query_type == "followup"
    certain = sure and len(plan.filters.documents) == 1
    if certain and not plan.needs_multi_doc:
        return _listed(fact_answer(question, entries[0]), entries[0])
    return None


def _entries(plan: RetrievalPlan, catalogue: Sequence[CatalogueEntry], names: Sequence[str]) -> list[CatalogueEntry]:
    """The documents that the question is about: of each side of a comparison the surest one that states such a fact.

    Where no sides are named, documents without such a fact are left out if there are others.
    """
    by_digest = {entry.document: entry for entry in catalogue}
    stating = {entry.document for entry in catalogue if any(fact.name in names for fact in entry.facts)}
    if plan.needs_multi_doc and len(plan.filters.groups) > 1:
        sides = [side for side in plan.filters.groups if side]
        digests = [next((digest for digest in side if digest in stating), side[0]) for side in sides]
    else:
        digests = [digest for digest in plan.filters.documents if digest in stating] or list(plan.filters.documents)
    return [by_digest[digest] for digest in dict.fromkeys(digests) if digest in by_digest]


def _table(table: FactTable, question: str) -> Stated | None:
    citations: list[Citation] = []

    def marked(cell: FactCell) -> FactCell:
        if cell.value is None or cell.source != "document":
            return cell
        citations.append(_citation(len(citations) + 1, cell))
        return cell.model_copy(update={"value": f"{cell.value} [{len(citations)}]"})

    rows = [row.model_copy(update={"cells": tuple(marked(cell) for cell in row.cells)}) for row in table.rows]
    if not citations:
        return None
    text = table_markdown(table.model_copy(update={"rows": tuple(rows)}), language_of(question))
    return Stated(text, tuple(citations))


def _citation(n: int, cell: FactCell) -> Citation:
    quote = f"{cell.label}: {cell.value}"
    return Citation(n=n, document=cell.document, digest=cell.digest, page=cell.page, bbox=cell.bbox, quote=quote)


def _listed(facts: Sequence[Fact], entry: CatalogueEntry) -> Stated | None:
    """A line per fact, as the document labels and writes it."""
    shown = facts[:MOST_FACTS]
    if not shown:
        return None
    citations = [
        Citation(
            n=n,
            document=entry.name,
            digest=entry.document,
            page=fact.page,
            bbox=fact.bbox,
            quote=f"{fact.label}: {fact.value}",
        )
        for n, fact in enumerate(shown, start=1)
    ]
    lines = [f"{fact.label}: {fact.value} [{n}]" for n, fact in enumerate(shown, start=1)]
    return Stated("\n".join(lines), tuple(citations))
