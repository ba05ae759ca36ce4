"""A corpus becomes a generation of an index folder."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from models.embedders import family
from storage.artifacts import Artifacts
from storage.errors import IndexUnusable
from storage.index import Generation, publish
from tasks.rag.corpus import Corpus, Searchable
from tasks.rag.indexing.chunks import Chunk


def publish_corpus(corpus: Corpus, artifacts: Artifacts, *, index: Path, settings: dict[str, JsonValue]) -> Generation:
    """Write and switch to the generation; chunks and words pass through one document at a time.

    Raises what storage.index.publish raises, IndexUnusable if the vectors are of several embedders.
    """
    return publish(
        index,
        chunks=_chunks(corpus, artifacts),
        vectors=_vectors(corpus, artifacts),
        tokens=_tokens(corpus, artifacts),
        catalogue=corpus.entries,
        embedder=_embedder(corpus),
        tokenizer=str(settings["tokenizer"]),
        settings=settings,
    )


def _embedder(corpus: Corpus) -> str:
    """What the index records: precisions may mix (a laptop and a worker), weights may not."""
    families = sorted({family(item.embedder) for item in corpus.embedded})
    if len(families) > 1:
        raise IndexUnusable(f"the vectors come from several embedders ({', '.join(families)}); index again with one")
    return families[0] if families else "none"


def _documents(corpus: Corpus, artifacts: Artifacts) -> Iterator[Searchable]:
    return (artifacts.load(Searchable, item.chunked.chunks) for item in corpus.embedded)


def _chunks(corpus: Corpus, artifacts: Artifacts) -> Iterable[Chunk]:
    return (chunk for document in _documents(corpus, artifacts) for chunk in document.chunks)


def _tokens(corpus: Corpus, artifacts: Artifacts) -> Iterable[tuple[str, ...]]:
    return (tokens for document in _documents(corpus, artifacts) for tokens in document.tokens)


def _vectors(corpus: Corpus, artifacts: Artifacts) -> NDArray[np.float16]:
    parts = [np.load(io.BytesIO(artifacts.get(item.vectors)), allow_pickle=False) for item in corpus.embedded]
    return np.concatenate(parts) if parts else np.empty((0, 1), np.float16)
