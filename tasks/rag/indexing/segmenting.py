"""Documents become segments of an index: each is made once, wherever its shard runs, and kept by its content."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.artifacts import Artifacts
from storage.centres import PER_CENTRE, Centres, lists_for, train_centres
from storage.index import open_index
from storage.records import Ref
from storage.segments import DocumentContent, Segment, pack_segment, split
from storage.storage_errors import DamagedIndex, NotAnIndex
from storage.vectors import EXACT_UP_TO
from tasks.keys import content_key
from tasks.rag.corpus import Embedded, Searchable

SEGMENT_VERSION = 1
"""Raise it when the files of a segment would differ for the same documents."""
MOST_SHARDS = 64
"""Tasks of a run that make segments; beyond it each makes several."""

Leaf = tuple[Embedded, ...]
"""The documents of one segment."""


def shard_segments(embedded: Sequence[Embedded]) -> list[tuple[Leaf, ...]]:
    """The documents by segment, and the segments by shard."""
    ordered = sorted(embedded, key=lambda one: one.chunked.digest)
    leaves = [tuple(leaf) for leaf in split([(one.chunked.digest, one.chunked.count, one) for one in ordered])]
    each = -(-len(leaves) // MOST_SHARDS) or 1
    return [tuple(leaves[at : at + each]) for at in range(0, len(leaves), each)]


def make_segment(leaf: Leaf, artifacts: Artifacts, *, centres: Ref | None) -> Segment:
    """The segment of these documents, recalled if it was made before."""
    made_of = [(one.chunked.digest, one.chunked.chunks, one.chunked.numbers, one.vectors) for one in leaf]
    key = content_key("segment", SEGMENT_VERSION, {"documents": made_of, "centres": centres})
    if kept := artifacts.recall(key):
        segment = artifacts.load(Segment, kept)
        if all(artifacts.verify(ref) for ref in (segment.text, segment.vectors, segment.numbers)):
            return segment
    opened = None if centres is None else Centres.open(artifacts.path(centres))
    packed = pack_segment((_content(one, artifacts) for one in leaf), centres=opened)
    for ref, data in packed.files.items():
        artifacts.put(ref.kind, data)
    artifacts.remember(key, artifacts.save("segment", packed.segment))
    return packed.segment


def is_grouped(embedded: Sequence[Embedded]) -> bool:
    """Whether they are so many that a search should not scan all of their vectors."""
    return sum(one.chunked.count for one in embedded) > EXACT_UP_TO


def find_centres(embedded: Sequence[Embedded], artifacts: Artifacts, *, index: Path) -> Ref:
    """The centres around which vectors are grouped: those of the index while they serve, else new ones."""
    rows = sum(one.chunked.count for one in embedded)
    try:
        with open_index(index) as opened:
            path, before = opened.centres_file, opened.vectors.dimension
            if (
                path is not None
                and Centres.open(path).serve(rows, before)
                and before == _vectors(embedded[0], artifacts).shape[1]
            ):
                return artifacts.put_file("centres", path)
    except (NotAnIndex, DamagedIndex):
        pass
    key = content_key("centres", SEGMENT_VERSION, {"vectors": sorted(one.vectors.digest for one in embedded)})
    if kept := artifacts.recall(key):
        return kept
    sample = _sample(embedded, artifacts, count=PER_CENTRE * lists_for(rows), rows=rows)
    made = artifacts.put("centres", train_centres(sample, rows).pack())
    artifacts.remember(key, made)
    return made


def _content(one: Embedded, artifacts: Artifacts) -> DocumentContent:
    kept = artifacts.load(Searchable, one.chunked.chunks)
    return DocumentContent(
        document=one.chunked.digest,
        chunks=[chunk.model_dump_json().encode() for chunk in kept.chunks],
        vectors=_vectors(one, artifacts),
        tokens=kept.tokens,
        numbers=artifacts.get(one.chunked.numbers),
    )


def _vectors(one: Embedded, artifacts: Artifacts) -> NDArray[np.float16]:
    return np.load(io.BytesIO(artifacts.get(one.vectors)), allow_pickle=False)


def _sample(embedded: Sequence[Embedded], artifacts: Artifacts, *, count: int, rows: int) -> NDArray[np.float16]:
    """So many vectors from all over the documents, the same for the same documents."""
    drawn = np.sort(np.random.default_rng(1).choice(rows, min(rows, count), replace=False))

    def pieces() -> Iterator[NDArray[np.float16]]:
        start = 0
        for one in sorted(embedded, key=lambda one: one.chunked.digest):
            begin, end = np.searchsorted(drawn, [start, start + one.chunked.count])
            if begin < end:
                yield _vectors(one, artifacts)[drawn[begin:end] - start]
            start += one.chunked.count

    return np.concatenate(list(pieces()))
