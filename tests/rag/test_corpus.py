"""Shards: every document in one, chosen by content, so that a new document leaves the other shards cached."""

from __future__ import annotations

import hashlib

import pytest

from storage.records import Ref
from tasks.rag.corpus import Source, shard_bits, shard_sources


def _source(number: int) -> Source:
    return Source(
        content=Ref(kind="document", digest=hashlib.sha256(b"%d" % number).hexdigest(), size=1), suffix=".pdf"
    )


def test_every_source_is_in_one_shard() -> None:
    sources = [_source(number) for number in range(100)]

    shards = shard_sources(sources)

    assert sorted(source.digest for shard in shards for source in shard) == sorted(s.digest for s in sources)


def test_a_new_document_changes_one_shard() -> None:
    sources = [_source(number) for number in range(100)]

    before, after = set(shard_sources(sources)), set(shard_sources([*sources, _source(100)]))

    assert len(after - before) == 1


@pytest.mark.parametrize(
    ("documents", "shards"),
    [(0, 1), (3, 1), (5, 2), (64, 16), (4_096, 16), (10_000, 32)],
)
def test_shards_grow_in_size_before_they_grow_in_number(documents: int, shards: int) -> None:
    assert 2 ** shard_bits(documents) == shards
