"""What answers in the tests of chat and serve: the first sentence of the best hit, from a real index, at any pace."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from models.embedders import family_of
from models.protocols import Embedder
from storage.index import Index, open_index
from storage.segments import CatalogueEntry
from tasks.rag.answering.assistant import Event
from tasks.rag.answers import Answered, Citation, RetrievalPlan, Retrieved, Turn
from tasks.rag.indexing.chunks import Chunk
from tasks.rag.retrieval.search import Hit, search
from tests.storage.publishing import publish

TEXTS = {
    "harbor.pdf": "The bid price of the harbor is 35,750,000 won. It is paid once.",
    "tram.pdf": "The bid price of the tram is 41,000,000 won. Delivery takes twelve months.",
    "가람시.pdf": "가람시 사업의 예산은 1,250,000,000원이다. 기간은 6개월이다.",
}


def publish_texts(out: Path, texts: dict[str, str] = TEXTS, *, embedder: Embedder | None = None) -> Path:
    """An index of one chunk per document; without an embedder its vectors mean nothing."""
    chunks = [
        Chunk(id=f"{digest(name)[:16]}-00000", document=digest(name), page=1, bbox=None, kind="text", text=text)
        for name, text in texts.items()
    ]
    vectors = embedder.embed([*texts.values()]) if embedder else np.eye(len(chunks), 8)
    publish(
        out,
        chunks=chunks,
        vectors=vectors.astype(np.float16),
        catalogue=[CatalogueEntry(document=digest(name), name=name, chunks=1) for name in texts],
        embedder=family_of(embedder.id) if embedder else "nobody@1",
        settings={"embedder": "minilm"},
    )
    return out


def publish_pages(out: Path, *pages: str) -> Path:
    """An index of one document of these pages, a.pdf and copy.pdf by name, whose vectors mean nothing."""
    document = "a" * 64
    chunks = [
        Chunk(id=f"{document[:16]}-{row:05d}", document=document, page=row + 1, bbox=None, kind="text", text=text)
        for row, text in enumerate(pages)
    ]
    catalogue = [CatalogueEntry(document=document, name="a.pdf", aliases=("copy.pdf",))]
    publish(out, chunks=chunks, catalogue=catalogue, settings={"embedder": "minilm"})
    return out


def digest(name: str) -> str:
    """Of the document called so."""
    return name.encode().hex().ljust(64, "0")[:64]


class FirstSentence:
    """Answers from one generation.

    A question with `slowly` drafts on until it is released, one with `hangs` is silent until then.
    """

    def __init__(self, index: Index, released: threading.Event) -> None:
        self.index = index
        self.histories: list[Sequence[Turn]] = []
        """What it was told of the conversation, question by question."""
        self.given_up = threading.Event()
        """Set when a question was ended from outside."""
        self._released = released

    def ask(
        self,
        question: str,
        *,
        history: Sequence[Turn] = (),
        documents: Collection[str] | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Answered:
        say = on_event or (lambda _: None)
        self.histories.append(history)
        if "fails" in question:
            raise ZeroDivisionError("by nothing")
        try:
            say(Event("stage", "retrieve"))
            found = search(self.index, question, strategy="bm25", top_k=3, embedder=no_embedder, documents=documents)
            say(Event("stage", "generate"))
            self._take_time(question, say)
        except BaseException:
            self.given_up.set()
            raise
        return answered(question, found.hits, say)

    def _take_time(self, question: str, say: Callable[[Event], None]) -> None:
        if "hangs" in question:
            self._released.wait(60)
        written = "It is"
        while "slowly" in question and not self._released.wait(0.02):
            written += " being written"
            say(Event("draft", written))


def answered(question: str, hits: Sequence[Hit], say: Callable[[Event], None]) -> Answered:
    """The answer that the best hit gives; the first draft is better than the second."""
    plan = RetrievalPlan(query_type="single", strategy="bm25", top_k=3, needs_multi_doc=False)
    if not hits:
        return Answered(
            question=question, answer="No document tells.", citations=(), abstained=True, plan=plan, retrieved=()
        )
    quote = hits[0].chunk.text.partition(". ")[0]
    for draft in ("The", f"The answer: {quote}", quote):
        say(Event("draft", draft))
    return Answered(
        question=question,
        answer=f"{quote} [1].",
        citations=(Citation(n=1, quote=quote, **where(hits[0])),),
        plan=plan,
        retrieved=tuple(Retrieved(score=hit.score, ranks=hit.ranks, text=hit.chunk.text, **where(hit)) for hit in hits),
        timings={"retrieve": 0.001},
    )


def where(hit: Hit) -> dict[str, Any]:
    return {
        "document": hit.document_name,
        "digest": hit.chunk.document,
        "page": hit.chunk.page,
        "bbox": hit.chunk.bbox,
        "chunk_id": hit.chunk.id,
    }


def no_embedder() -> Embedder:
    raise AssertionError("BM25 needs no vectors")


@contextmanager
def opened(index: Path, released: threading.Event) -> Generator[FirstSentence]:
    """Over the current generation."""
    with open_index(index) as current:
        yield FirstSentence(current, released)
