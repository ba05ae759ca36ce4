"""An index made of chunks here and now, as tests and benchmarks need one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from storage.index import Generation
from storage.publishing import publish_segments
from storage.records import Ref
from storage.segments import CatalogueEntry, DocumentContent, Segment, pack_segment, split_documents
from tasks.language.tokens import BIGRAM
from tasks.rag.indexing.chunks import tokenize_chunks


def publish(
    out: Path,
    *,
    chunks: Iterable[Any],
    catalogue: Sequence[CatalogueEntry],
    vectors: NDArray[np.float16] | None = None,
    tokens: Sequence[Sequence[str]] | None = None,
    embedder: str = "nobody@1",
    tokenizer: str | None = BIGRAM,
    settings: dict[str, JsonValue] | None = None,
    numbers: Iterable[bytes] = (),
) -> Generation:
    """Make the segments of an index here, and publish them.

    vectors: of the chunks; unset: unlike each other. tokens: unset, those of the tokenizer; no tokenizer: without BM25.
    numbers: rows of storage.numbers, as JSON lines, of one document each.
    Raises as `publish_segments`.
    """
    chunks = list(chunks)
    if vectors is None:
        vectors = np.eye(len(chunks), max(len(chunks), 8), dtype=np.float16)
    if tokens is None and tokenizer is not None:
        tokens = tokenize_chunks(chunks, tokenizer=tokenizer)
    made: dict[Ref, bytes] = {}
    segments: list[Segment] = []
    for part in split_documents(_by_document(catalogue, chunks, vectors, tokens, numbers)):
        packed = pack_segment(part)
        segments.append(packed.segment)
        made |= packed.files
    with TemporaryDirectory() as folder:

        def written(ref: Ref) -> Path:
            (path := Path(folder) / ref.digest).write_bytes(made[ref])
            return path

        return publish_segments(
            out,
            segments=segments,
            path_of=written,
            catalogue=catalogue,
            embedder=embedder,
            tokenizer=tokenizer,
            settings=settings or {},
        )


def _by_document(
    catalogue: Sequence[CatalogueEntry],
    chunks: Iterable[Any],
    vectors: NDArray[np.float16],
    tokens: Sequence[Sequence[str]] | None,
    numbers: Iterable[bytes],
) -> list[tuple[str, int, DocumentContent]]:
    """The rows of each document, in the order of the catalogue."""
    rows: dict[str, list[int]] = {entry.document: [] for entry in catalogue}
    lines: list[bytes] = []
    for chunk in chunks:
        rows[chunk.document].append(len(lines))
        lines.append(chunk.model_dump_json().encode())
    told: dict[str, list[bytes]] = {}
    for of_document in filter(None, numbers):
        told.setdefault(json.loads(of_document.split(b"\n", 1)[0])["document"], []).append(of_document)
    return [
        (
            document,
            len(own),
            DocumentContent(
                document,
                [lines[row] for row in own],
                vectors[own],
                None if tokens is None else [tokens[row] for row in own],
                b"".join(told.get(document, ())),
            ),
        )
        for document, own in rows.items()
        if own or document in told
    ]
