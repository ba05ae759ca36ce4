"""Records passed between the steps of the rag pipeline: documents by content, and their shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from storage.records import Record, Ref
from storage.segments import CatalogueEntry, Fact, Segment
from tasks.documents.blocks import PageSource
from tasks.documents.isolation import Failure
from tasks.rag.indexing.chunks import Chunk
from tasks.rag.rag_errors import TooManyFailed

Item = TypeVar("Item")

SHARD_DOCUMENTS = 2
"""Documents per shard in small folders, so that two cores have work."""
SHARDS_BEFORE_GROWTH = 16
"""Number of shards from which on shards grow instead: a run has hundreds of tasks, not thousands."""
SHARD_DOCUMENTS_MAX = 320
"""Maximum documents per shard; beyond it the number of shards grows again. Each document is recalled by itself, so a
large shard costs a rerun no more; the server records some 30 tasks a second, and 10,000 documents make 170."""


class Source(Record):
    """A document as bytes. Its name is not here: a renamed file is the same source."""

    content: Ref
    suffix: str
    """Lower case, with its dot; distinguishes Markdown from plain text."""
    reader: str | None = None
    """Name and version of the installed package that reads it; None for built-in formats."""

    @model_serializer(mode="wrap")
    def _leave_out_no_reader(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without `reader` where there is none: keys of built-in formats do not depend on it."""
        told = handler(self)
        if self.reader is None:
            told.pop("reader", None)
        return told

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes, hex."""
        return self.content.digest


class PageTrouble(Record):
    """A page that was not read completely."""

    page: int | None
    status: str
    reason: str


class Parsed(Record):
    """The document of a source, or the failure."""

    source: Source
    document: Ref | None = None
    """tasks.documents.blocks.Document as JSON."""
    format: str | None = None
    reader: str | None = None
    pages: int = 0
    page_source: PageSource = "stored"
    """none: there are no pages, and `pages` is 1."""
    troubled: tuple[PageTrouble, ...] = ()
    notes: tuple[str, ...] = ()
    failure: Failure | None = None
    retryable_pages: tuple[str, ...] = ()
    """Pages that failed for a reason that may pass; such a document is not kept under its key."""

    @property
    def may_pass(self) -> str | None:
        """Why the document is worth a retry, if it is."""
        if self.failure and self.failure.retryable:
            return self.failure.message
        return "; ".join(self.retryable_pages) or None


class Pictured(Record):
    """A document and its figures."""

    parsed: Parsed
    figures: Ref | None = None
    """tasks.rag.indexing.figures.DocumentFigures as JSON; None when the document could not be read."""
    counts: dict[str, int] = Field(default_factory=dict)
    out_of_budget: int = 0
    """Figures that were not asked about because the run's budget was spent: the next run goes on with them."""
    failure: Failure | None = None


class Searchable(Record):
    """The chunks of a document, and the words that BM25 looks for in each."""

    chunks: tuple[Chunk, ...]
    tokens: tuple[tuple[str, ...], ...]
    tokenizer: str


class Chunked(Record):
    """A document cut into chunks, with its title and facts."""

    digest: str
    chunks: Ref
    """Searchable as JSON."""
    numbers: Ref
    """tasks.rag.numbers.cell_facts.CellFact as JSON, a line each."""
    count: int
    chars: int
    """Characters of all chunks together."""
    shortest: int
    longest: int
    title: str | None = None
    facts: dict[str, str] = Field(default_factory=dict)
    """Issuer, dates … under the names of the metadata table."""
    stated: tuple[Fact, ...] = ()
    """Facts of a request for proposals, in reading order."""


class Embedded(Record):
    """A document whose chunks have vectors."""

    chunked: Chunked
    vectors: Ref
    """npy, float16, (chunks, dimension)."""
    embedder: str
    """Id of the embedder, with its precision."""


class Corpus(Record):
    """All that an index is made of, documents in the order of their content: a renamed file moves no row."""

    entries: tuple[CatalogueEntry, ...]
    embedded: tuple[Embedded, ...]
    """The entries that have chunks, in the same order."""
    segments: tuple[Segment, ...] = ()
    """Of the same documents, in the same order."""
    centres: Ref | None = None
    """Around which the vectors of all segments are grouped."""


def shard_sources(sources: Iterable[Source]) -> list[tuple[Source, ...]]:
    """Split sources into shards by content, so that a new document changes one shard and leaves the others cached."""
    ordered = sorted(sources, key=lambda source: (source.digest, source.suffix))
    bits = shard_bits(len(ordered))
    shards: dict[int, list[Source]] = {}
    for source in ordered:
        shards.setdefault(int(source.digest[:8], 16) >> (32 - bits), []).append(source)
    return [tuple(shards[number]) for number in sorted(shards)]


def shard_bits(documents: int) -> int:
    """log2 of the number of shards for so many documents; it changes only when their number doubles."""
    small = min(documents // SHARD_DOCUMENTS, SHARDS_BEFORE_GROWTH)
    return max(small - 1, documents // SHARD_DOCUMENTS_MAX - 1, 0).bit_length()


def refuse_too_many_failures(
    shards: Iterable[Sequence[Parsed]], *, allowed: float, named: Callable[[dict[str, str]], Mapping[str, str]] = dict
) -> None:
    """Raises TooManyFailed when a larger share of the documents than `allowed` (0 to 1) gave nothing.

    named: replaces the first twelve digits of digests by names.
    """
    parsed = flat(shards)
    failed = [(item.source.digest[:12], item.failure.message) for item in parsed if item.failure]
    if len(failed) == len(parsed) or len(failed) > allowed * len(parsed):
        raise TooManyFailed(len(failed) / len(parsed), allowed=allowed, failed=named(dict(failed)))


def flat(shards: Iterable[Sequence[Item]]) -> tuple[Item, ...]:
    """The items of all shards, in order."""
    return tuple(item for shard in shards for item in shard)
