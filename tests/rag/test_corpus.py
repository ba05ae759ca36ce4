"""Shards: every document in one, chosen by content, so that a new document leaves the other shards cached."""

from __future__ import annotations

import hashlib
from contextlib import nullcontext

import pytest

from storage.records import Ref
from tasks.documents.isolation import Failure
from tasks.rag.corpus import Parsed, Source, refuse_too_many_failures, shard_bits, shard_sources
from tasks.rag.rag_errors import TooManyFailed


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


@pytest.mark.parametrize(("failed", "refused"), [(1, False), (2, False), (3, True), (4, True)])
def test_nothing_is_published_above_the_share_of_failures_that_a_user_allows(failed: int, refused: bool) -> None:
    corrupt = Failure(reason="corrupt", message="truncated")
    parsed = [Parsed(source=_source(n), failure=corrupt if n < failed else None) for n in range(4)]

    with pytest.raises(TooManyFailed) if refused else nullcontext():
        refuse_too_many_failures([parsed[:1], parsed[1:]], allowed=0.5)


def test_an_index_of_nothing_is_never_published() -> None:
    broken = Parsed(source=_source(1), failure=Failure(reason="corrupt", message="truncated"))

    with pytest.raises(TooManyFailed):
        refuse_too_many_failures([[broken]], allowed=1.0)
