"""Texts become the rows of an index: what was embedded before is looked up, the rest computed and kept as it comes."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.protocols import Embedder
from storage.artifacts import Artifacts
from tasks.rag.corpus import Chunked, Embedded, Searchable

TEXTS_PER_SAVE = 32


class VectorCache(Protocol):
    """Vectors by embedder and text; `storage.embeddings.EmbeddingCache` is one."""

    def get_many(self, embedder_id: str, texts: Sequence[str]) -> dict[str, NDArray[np.float16]]:
        """Vectors of those texts that are known."""
        ...

    def put_many(
        self, embedder_id: str, texts: Sequence[str], vectors: NDArray[np.float32] | NDArray[np.float16]
    ) -> None:
        """Keep the vectors of `texts`."""
        ...


def embed_texts(
    embedder: Embedder,
    cache: VectorCache,
    texts: Sequence[str],
    on_progress: Callable[[int], None] = lambda _: None,
) -> NDArray[np.float16]:
    """(len(texts), dimension), a row for each text; equal texts are computed once.

    on_progress: called with the number of distinct texts done since its last call, those found in the cache first.
    A kill loses at most the last 32 texts. Raises what the embedder and the cache raise.
    """
    row_of = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    rows = np.empty((len(row_of), embedder.dimension), np.float16)
    known = cache.get_many(embedder.id, list(row_of))
    for text, vector in known.items():
        rows[row_of[text]] = vector
    on_progress(len(known))
    missing = [text for text in row_of if text not in known]
    for start in range(0, len(missing), TEXTS_PER_SAVE):
        batch = missing[start : start + TEXTS_PER_SAVE]
        vectors = embedder.embed(batch).astype(np.float16)
        cache.put_many(embedder.id, batch, vectors)
        rows[[row_of[text] for text in batch]] = vectors
        on_progress(len(batch))
    return rows[[row_of[text] for text in texts]]


def embed_document(
    chunked: Chunked, artifacts: Artifacts, embedder: Embedder, cache: VectorCache, on_progress: Callable[[int], None]
) -> Embedded:
    """The vectors of a document's chunks, kept as one npy file."""
    texts = [chunk.search_text for chunk in artifacts.load(Searchable, chunked.chunks).chunks]
    file = io.BytesIO()
    np.save(file, embed_texts(embedder, cache, texts, on_progress), allow_pickle=False)
    return Embedded(chunked=chunked, vectors=artifacts.put("vectors", file.getvalue()), embedder=embedder.id)
