"""What two indexes hold differently, and which pages a set of questions finds in each."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from storage.index_generation import Index
from storage.numbers import query_numbers
from storage.records import Record
from storage.storage_errors import NotAnIndex
from tasks.rag.measuring.ranking_metrics import Mean, Place, Question, Ranked, paired_difference, rank_questions

PAGES = 5
"""Different pages found for a question, the first ones, that are compared."""


class Held(Record):
    """Counts of what an index holds."""

    documents: int
    """That can be searched."""
    chunks: int
    tables: int
    """Chunks that are tables."""
    figures: int
    """Chunks that are figures."""
    numbers: int | None
    """None for an index that an older version made without them."""


class Moved(Record):
    """A question that finds other pages among its first ones."""

    id: str
    question: str
    gained: tuple[str, ...]
    """`report.pdf, page 3`, best first."""
    lost: tuple[str, ...]


class Asked(Record):
    """What questions find in two indexes."""

    questions: int
    moved: tuple[Moved, ...]
    metric: str = "hit@5"
    difference: Mean | None
    """Of the share of questions whose gold page is found, other − one; None without gold pages."""


class IndexDifference(Record):
    """Documents are told by name."""

    one: Held
    other: Held
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    """Other content under the same name."""
    recut: tuple[str, ...]
    """The same content in other chunks."""


Search = Callable[[Question], Sequence[Place]]


def difference(one: Index, other: Index) -> IndexDifference:
    """Reads all chunks of both. Raises DamagedIndex."""
    mine, yours = _documents(one), _documents(other)
    cut = _chunks_by_document(one), _chunks_by_document(other)
    both = [name for name in mine if name in yours]
    same = [name for name in both if mine[name] == yours[name]]
    return IndexDifference(
        one=_held(one),
        other=_held(other),
        added=tuple(name for name in yours if name not in mine),
        removed=tuple(name for name in mine if name not in yours),
        changed=tuple(name for name in both if mine[name] != yours[name]),
        recut=tuple(name for name in same if cut[0].get(mine[name]) != cut[1].get(mine[name])),
    )


def asked(questions: Sequence[Question], one: Search, other: Search) -> Asked:
    """The pages that each question finds first, in both."""
    moved: list[Moved] = []
    places: tuple[dict[str, list[Place]], dict[str, list[Place]]] = ({}, {})
    for question in questions:
        before, after = (list(dict.fromkeys(search(question))) for search in (one, other))
        places[0][question.id], places[1][question.id] = before, after
        gained = [place for place in after[:PAGES] if place not in before[:PAGES]]
        lost = [place for place in before[:PAGES] if place not in after[:PAGES]]
        if gained or lost:
            told = [tuple(map(_shown, each)) for each in (gained, lost)]
            moved.append(Moved(id=question.id, question=question.question, gained=told[0], lost=told[1]))
    ranked = [rank_questions(questions, lambda question, found=found: found[question.id]) for found in places]
    return Asked(questions=len(questions), moved=tuple(moved), difference=_difference(*ranked))


def _difference(one: Sequence[Ranked], other: Sequence[Ranked]) -> Mean | None:
    hits = [{each.id: each.page[f"hit@{PAGES}"] for each in ranked if each.page} for ranked in (one, other)]
    return paired_difference(hits[1], hits[0]) if hits[0] else None


def _documents(index: Index) -> Mapping[str, str]:
    """Name → digest, of documents that can be searched."""
    return {
        name: entry.document
        for entry in index.catalogue
        if entry.status == "ok"
        for name in (entry.name, *entry.aliases)
    }


def _chunks_by_document(index: Index) -> Mapping[str, str]:
    """Digest of a document → digest of its chunks."""
    found: dict[str, hashlib._Hash] = {}
    for row in range(len(index)):
        found.setdefault(index.document(row).document, hashlib.sha256()).update(index.chunk(row))
    return {document: chunks.hexdigest() for document, chunks in found.items()}


def _held(index: Index) -> Held:
    kinds = Counter(json.loads(index.chunk(row))["kind"] for row in range(len(index)))
    return Held(
        documents=sum(entry.status == "ok" for entry in index.catalogue),
        chunks=len(index),
        tables=kinds["table"],
        figures=kinds["figure"],
        numbers=_numbers(index),
    )


def _numbers(index: Index) -> int | None:
    try:
        return query_numbers(index.numbers, index.names, "SELECT count(*) FROM numbers").rows[0][0]
    except NotAnIndex:
        return None


def _shown(place: Place) -> str:
    return place.document if place.page is None else f"{place.document}, page {place.page}"
