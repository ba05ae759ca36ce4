"""An index as its measurers see it: the names of its documents, where hits stand, and what a run says of it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from storage.index import Index
from tasks import resources
from tasks.rag.answers import Filters
from tasks.rag.measuring.measured_figures import unknown_documents
from tasks.rag.measuring.measurement_rows import Subject
from tasks.rag.measuring.ranking_metrics import Place, Question
from tasks.rag.planning.routing import Router
from tasks.rag.retrieval.search import search

CHUNKS = 50
"""Chunks asked for, so that ten different pages are among them."""


class Gold(NamedTuple):
    """The gold documents of questions, in one index."""

    name_of: Callable[[str], str]
    """The name that hits carry: a file with the same content may come first in the catalogue."""
    notes: tuple[str, ...]
    """Gold documents that the index lacks."""


def gold_in(opened: Index, questions: Sequence[Question]) -> Gold:
    """The gold documents as the catalogue has them."""
    first = {
        unicodedata.normalize("NFC", name): entry.name
        for entry in opened.catalogue
        for name in (*entry.aliases, entry.name)
    }
    unknown = unknown_documents(questions, set(first))
    return Gold(lambda name: first.get(name, name), (unknown,) if unknown else ())


def places_in(
    opened: Index, *, strategy: str, bm25_weight: float, route: bool, rerank: str | None
) -> Callable[[Question], list[Place]]:
    """A search: it gives where the hits for a question stand, best first."""
    router = Router(opened.catalogue) if route else None
    reranker = resources.reranker(rerank) if rerank else None

    def places(question: Question) -> list[Place]:
        found = search(
            opened,
            question.question,
            strategy=strategy,
            top_k=CHUNKS,
            embedder=lambda: resources.embedder(str(opened.manifest.settings["embedder"])),
            bm25_weight=bm25_weight,
            filters=router.route(question.question) if router else Filters(),
            reranker=reranker,
        )
        return [Place(hit.document_name, hit.chunk.page) for hit in found.hits]

    return places


def subject_of(opened: Index, folder: Path) -> Subject:
    """The index as a run names it."""
    manifest = opened.manifest
    return Subject(
        generation=opened.generation,
        digest=opened.digest,
        environment={
            "index": str(folder.absolute()),
            "embedder": manifest.embedder,
            "tokenizer": manifest.tokenizer,
            "documents": manifest.documents,
            "chunks": manifest.chunks,
            "settings": manifest.settings,
        },
    )
