"""Records that the steps of the rag pipeline exchange: documents by content, and their shards."""

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
"""Documents in a shard of a small folder, few enough that two cores have work."""
SHARDS_BEFORE_GROWTH = 16
"""Number of shards from which the shards grow instead of their number: a run has hundreds of task runs, not
thousands."""
SHARD_DOCUMENTS_MAX = 320
"""Most documents in a shard; beyond it the number of shards grows again. Each document is recalled by itself, so a
large shard makes a rerun no slower; the server records some 30 task runs a second, and 10,000 documents make 170."""


class Source(Record):
    """A document as bytes. Its name is no part of it: a renamed file is the same source."""

    content: Ref
    suffix: str
    """The suffix of its file, lower case with its dot, which distinguishes Markdown from plain text."""
    reader: str | None = None
    """Name and version of the installed package that reads it; None for built-in formats."""

    @model_serializer(mode="wrap")
    def _leave_out_no_reader(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out `reader` where there is none, so that cache keys of built-in formats do not depend on it."""
        fields = handler(self)
        if self.reader is None:
            fields.pop("reader", None)
        return fields

    @property
    def digest(self) -> str:
        """SHA-256 of the file's bytes, in hexadecimal digits."""
        return self.content.digest


class PageTrouble(Record):
    """A page that was not read completely, and why."""

    page: int | None
    status: str
    reason: str


class Parsed(Record):
    """The document that was read from a source, or why it could not be read."""

    source: Source
    document: Ref | None = None
    """tasks.documents.blocks.Document as JSON; None where the reading failed."""
    format: str | None = None
    reader: str | None = None
    pages: int = 0
    page_source: PageSource = "stored"
    """What the page numbers count; `none`: the format has no pages, and `pages` is 1."""
    estimated_pages: tuple[int, ...] = ()
    """Pages with text that the layout does not show."""
    troubled: tuple[PageTrouble, ...] = ()
    notes: tuple[str, ...] = ()
    failure: Failure | None = None
    locked: bool = False
    """Whether it took a password to open; who recalls the text has to give it again."""
    letters: int | None = None
    """Letters and digits that the document shows; None where they were not counted."""
    letters_lost: int = 0
    hidden_pieces: int = 0
    retryable_pages: tuple[str, ...] = ()
    """Pages that failed for a reason that may pass; a document with such pages is not cached."""

    @property
    def may_pass(self) -> str | None:
        """Why reading the document again may succeed; None where it would not."""
        if self.failure and self.failure.retryable:
            return self.failure.message
        return "; ".join(self.retryable_pages) or None


class Pictured(Record):
    """A document that was read, with the records of its figures and their counts."""

    parsed: Parsed
    figures: Ref | None = None
    """tasks.rag.indexing.figures.DocumentFigures as JSON; None when the document could not be read."""
    counts: dict[str, int] = Field(default_factory=dict)
    """Number of figures by what is done with them."""
    out_of_budget: int = 0
    """Figures that were not described because the run's budget was spent; the next run continues with them."""
    failure: Failure | None = None


class Searchable(Record):
    """The chunks of a document, and the words by which BM25 finds each."""

    chunks: tuple[Chunk, ...]
    tokens: tuple[tuple[str, ...], ...]
    tokenizer: str


class Chunked(Record):
    """A document cut into chunks, with its numbers, title and facts."""

    digest: str
    chunks: Ref
    """Searchable as JSON."""
    numbers: Ref
    """tasks.rag.numbers.cell_facts.CellFact as JSON, one a line; behind them TextCell, which have no value."""
    count: int
    """Number of chunks."""
    chars: int
    """Characters of all chunks together."""
    shortest: int
    """Characters of the shortest chunk; `longest` is that of the longest."""
    longest: int
    title: str | None = None
    facts: dict[str, str] = Field(default_factory=dict)
    """Issuer, dates … as strings, under the names that the metadata table uses."""
    stated: tuple[Fact, ...] = ()
    """Facts that a request for proposals states, in reading order."""


class Embedded(Record):
    """A document with a vector for each of its chunks."""

    chunked: Chunked
    vectors: Ref
    """The vectors of the chunks, npy, float16, (chunks, dimension), in their order."""
    embedder: str
    """Id of the embedder, with its precision."""


class Corpus(Record):
    """Everything that an index is made of, in the order of the documents' digests: a renamed file moves no row."""

    entries: tuple[CatalogueEntry, ...]
    embedded: tuple[Embedded, ...]
    """The documents that have chunks, in the order of `entries`."""
    segments: tuple[Segment, ...] = ()
    """The segments of these documents, in the same order."""
    centres: Ref | None = None
    """The centres around which the vectors of all segments are grouped; None for a small index."""


def shard_sources(sources: Iterable[Source]) -> list[tuple[Source, ...]]:
    """Return the sources in shards, by digest: a new document changes one shard and leaves the others cached."""
    ordered = sorted(sources, key=lambda source: (source.digest, source.suffix))
    bits = shard_bits(len(ordered))
    shards: dict[int, list[Source]] = {}
    for source in ordered:
        shards.setdefault(int(source.digest[:8], 16) >> (32 - bits), []).append(source)  # digests spread evenly
    return [tuple(shards[number]) for number in sorted(shards)]


def shard_bits(documents: int) -> int:
    """Return log2 of the number of shards for so many documents; it changes only when their number doubles."""
    small = min(documents // SHARD_DOCUMENTS, SHARDS_BEFORE_GROWTH)
    return max(small - 1, documents // SHARD_DOCUMENTS_MAX - 1, 0).bit_length()


def refuse_too_many_failures(
    shards: Iterable[Sequence[Parsed]], *, allowed: float, rename: Callable[[dict[str, str]], Mapping[str, str]] = dict
) -> None:
    """Raise TooManyFailed where more of the documents than the share `allowed` (0 … 1), or all, could not be read.

    rename: replaces the keys of a mapping, the first twelve digits of digests, by names of documents.
    """
    parsed = flat(shards)
    failed = [(item.source.digest[:12], item.failure.message) for item in parsed if item.failure]
    if len(failed) == len(parsed) or len(failed) > allowed * len(parsed):  # of none read, nothing can be published
        raise TooManyFailed(len(failed) / len(parsed), allowed=allowed, failed=rename(dict(failed)))


def flat(shards: Iterable[Sequence[Item]]) -> tuple[Item, ...]:
    """Return the items of all shards in order."""
    return tuple(item for shard in shards for item in shard)
