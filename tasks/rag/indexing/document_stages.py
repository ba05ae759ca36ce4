"""The stages of documents: parse, cut into chunks, embed, make segments. Results are kept under keys of inputs."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.protocols import Embedder
from storage.artifacts import Artifacts
from storage.embeddings import EmbeddingCache
from storage.index import open_index
from storage.records import Ref
from storage.segments import DocumentContent, Segment, pack_segment, split_documents
from storage.storage_errors import DamagedIndex, NotAnIndex
from storage.vectors import EXACT_UP_TO, PER_CENTRE, Centres, count_lists, train_centres
from tasks.documents.blocks import Document, PageStatus
from tasks.documents.document_errors import DocumentError
from tasks.documents.document_readers import ReadOptions
from tasks.documents.formats import sniff
from tasks.documents.isolation import (
    DocumentUnreadable,
    Failure,
    Job,
    ReadDocument,
    ReadLimits,
    check_password,
    read_document,
)
from tasks.documents.receipt import make_receipt
from tasks.keys import content_key
from tasks.rag.corpus import Chunked, Embedded, PageTrouble, Parsed, Pictured, Searchable, Source
from tasks.rag.indexing.chunks import FigureText, chunk_document, tokenize_chunks
from tasks.rag.indexing.figures import DocumentFigures
from tasks.rag.indexing.metadata import read_facts
from tasks.rag.indexing.notice_facts import extract_facts
from tasks.rag.numbers.cell_facts import drop_page_marks
from tasks.rag.numbers.document_numbers import document_cells
from tasks.resources import embed_texts

PARSER_VERSION = 16
"""Raise it when a reader would give another document for the same bytes."""


def reading_key(source: Source, *, options: ReadOptions, limits: ReadLimits) -> str:
    """Return the key under which the result of reading a document is remembered."""
    return content_key("parse", PARSER_VERSION, {"source": source, "options": options, "limits": limits})


def parse_source(
    source: Source,
    artifacts: Artifacts,
    *,
    options: ReadOptions,
    limits: ReadLimits,
    password: str | None,
    log: Path | None,
) -> Parsed:
    """Read a document, or recall what was read of it; a document that cannot be read is returned with its failure.

    The password is no part of the key, so that it is stored nowhere: a locked document that is recalled is opened
    again with the password that is given.
    """
    key = reading_key(source, options=options, limits=limits)
    recalled_ref = artifacts.recall(key)
    recalled = artifacts.load(Parsed, recalled_ref) if recalled_ref else None
    if recalled and recalled.document and not artifacts.verify(recalled.document):
        recalled = None
    if recalled and not recalled.locked:
        return recalled
    path = artifacts.path(source.content)
    try:
        sniffed = sniff(path, suffix=source.suffix)
        job = Job(path=path, digest=source.digest, format=sniffed.format, password=password)
        if recalled:
            check_password(job, options=options, limits=limits)
            return recalled
        read, locked = _read_source(job, options=options, limits=limits, log=log)
    except DocumentError as error:
        parsed = Parsed(source=source, failure=Failure(reason=error.reason, message=str(error)))
    except DocumentUnreadable as error:
        parsed = Parsed(source=source, failure=error.failure)
    else:
        document = read.document
        receipt = make_receipt(document)
        parsed = Parsed(
            source=source,
            document=artifacts.save("document-blocks", document),
            format=document.format,
            reader=document.reader,
            pages=sum(page.number is not None for page in document.pages) or 1,  # without pages it counts as one
            page_source=document.page_source,
            estimated_pages=tuple(
                page.number
                for page in document.pages
                if page.number and any(block.place.estimated for block in page.blocks)
            ),
            troubled=tuple(
                PageTrouble(page=page.number, status=page.status, reason=page.reason or "")
                for page in document.pages
                if page.status is not PageStatus.OK or page.reason
            ),
            notes=(*sniffed.notes, *document.notes),
            letters=receipt.letters,
            letters_lost=receipt.letters_lost,
            hidden_pieces=len(receipt.hidden),
            retryable_pages=read.retryable,
            locked=locked,
        )
    refused = parsed.failure and parsed.failure.reason == "needs_password"  # the next run may bring the password
    if not parsed.may_pass and not refused:
        artifacts.remember(key, artifacts.save("parsed", parsed))
    return parsed


def _read_source(job: Job, *, options: ReadOptions, limits: ReadLimits, log: Path | None) -> tuple[ReadDocument, bool]:
    """Return a document, and whether it took the password to open it. Raises DocumentUnreadable."""
    try:
        return read_document(job._replace(password=None), options=options, limits=limits, log=log), False
    except DocumentUnreadable as error:
        if error.failure.reason != "needs_password" or job.password is None:
            raise
    return read_document(job, options=options, limits=limits, log=log), True


CHUNKER_VERSION = 21
"""Raise it when chunks, tokens or facts would differ for the same document."""


def cut(pictured: Pictured, artifacts: Artifacts, *, chunk_chars: int, overlap_chars: int, tokenizer: str) -> Chunked:
    """Cut a document that was read into chunks, or recall the chunks that were made of it before."""
    assert pictured.parsed.document is not None
    described = artifacts.load(DocumentFigures, pictured.figures).figures if pictured.figures else ()
    figures = [
        FigureText(page=figure.page, n=figure.n, bbox=figure.bbox, text=figure.text)
        for figure in described
        if figure.text
    ]
    settings = {"chunk_chars": chunk_chars, "overlap_chars": overlap_chars, "tokenizer": tokenizer}
    digest = pictured.parsed.source.digest
    # two files may read the same and are two documents all the same: their chunks have ids of their own
    inputs = {"source": digest, "document": pictured.parsed.document, "figures": figures, **settings}
    key = content_key("chunk", CHUNKER_VERSION, inputs)
    if recalled_ref := artifacts.recall(key):
        chunked = artifacts.load(Chunked, recalled_ref)
        if artifacts.verify(chunked.chunks) and artifacts.verify(chunked.numbers):
            return chunked
    document = artifacts.load(Document, pictured.parsed.document)
    chunks = chunk_document(
        document, digest=digest, figures=figures, chunk_chars=chunk_chars, overlap_chars=overlap_chars
    )
    tokens = tuple(map(tuple, tokenize_chunks(chunks, tokenizer=tokenizer)))
    searchable = Searchable(chunks=tuple(chunks), tokens=tokens, tokenizer=tokenizer)
    numeric, texts = document_cells(document.pages, document=digest)
    plain = document.model_copy(update={"pages": tuple(map(drop_page_marks, document.pages))})
    lengths = [len(chunk.text) for chunk in chunks]
    chunked = Chunked(
        digest=digest,
        chunks=artifacts.save("chunks", searchable),
        numbers=artifacts.put("numbers", b"".join(f.model_dump_json().encode() + b"\n" for f in (*numeric, *texts))),
        count=len(chunks),
        chars=sum(lengths),
        shortest=min(lengths, default=0),
        longest=max(lengths, default=0),
        title=document.title,
        facts=read_facts(plain),
        stated=extract_facts(plain),
    )
    artifacts.remember(key, artifacts.save("chunked", chunked))
    return chunked


def embed_document(
    chunked: Chunked,
    artifacts: Artifacts,
    embedder: Embedder,
    cache: EmbeddingCache,
    on_progress: Callable[[int], None],
) -> Embedded:
    """Embed a document's chunks into one npy file, (chunks, dimension). on_progress: gets the texts done since last."""
    texts = [chunk.search_text for chunk in artifacts.load(Searchable, chunked.chunks).chunks]
    file = io.BytesIO()
    np.save(file, embed_texts(embedder, cache, texts, on_progress), allow_pickle=False)
    return Embedded(chunked=chunked, vectors=artifacts.put("vectors", file.getvalue()), embedder=embedder.id)


SEGMENT_VERSION = 1
"""Raise it when the files of a segment would differ for the same documents."""
MOST_SHARDS = 64
"""Tasks of a run that make segments; beyond it each makes several."""

Leaf = tuple[Embedded, ...]
"""The documents that make up one segment: a leaf of the tree over the bits of their digests."""


def shard_segments(embedded: Sequence[Embedded]) -> list[tuple[Leaf, ...]]:
    """Divide the documents, by digest, into segments, and the segments into at most MOST_SHARDS shards."""
    ordered = sorted(embedded, key=lambda document: document.chunked.digest)
    leaves = [
        tuple(leaf)
        for leaf in split_documents(
            [(document.chunked.digest, document.chunked.count, document) for document in ordered]
        )
    ]
    each = -(-len(leaves) // MOST_SHARDS) or 1  # rounded up
    return [tuple(leaves[at : at + each]) for at in range(0, len(leaves), each)]


def make_segment(leaf: Leaf, artifacts: Artifacts, *, centres: Ref | None) -> Segment:
    """Make the segment of some documents, or recall it if it was made before.

    centres: those that the vectors are grouped around; None leaves them ungrouped.
    """
    inputs = [
        (document.chunked.digest, document.chunked.chunks, document.chunked.numbers, document.vectors)
        for document in leaf
    ]
    key = content_key("segment", SEGMENT_VERSION, {"documents": inputs, "centres": centres})
    if recalled_ref := artifacts.recall(key):
        segment = artifacts.load(Segment, recalled_ref)
        if all(artifacts.verify(ref) for ref in (segment.text, segment.vectors, segment.numbers)):
            return segment
    opened = None if centres is None else Centres.open(artifacts.path(centres))

    def contents() -> Iterator[DocumentContent]:  # a document at a time: all of them are too large
        """Yield what the index stores of each document: chunks, vectors, tokens and numbers."""
        for document in leaf:
            searchable = artifacts.load(Searchable, document.chunked.chunks)
            yield DocumentContent(
                document=document.chunked.digest,
                chunks=[chunk.model_dump_json().encode() for chunk in searchable.chunks],
                vectors=_load_vectors(document, artifacts),
                tokens=searchable.tokens,
                numbers=artifacts.get(document.chunked.numbers),
            )

    packed = pack_segment(contents(), centres=opened)
    for ref, data in packed.files.items():
        artifacts.put(ref.kind, data)
    artifacts.remember(key, artifacts.save("segment", packed.segment))
    return packed.segment


def is_grouped(embedded: Sequence[Embedded]) -> bool:
    """Return whether the documents have more than EXACT_UP_TO chunks, so that a search should not scan all vectors."""
    return sum(document.chunked.count for document in embedded) > EXACT_UP_TO


def find_centres(embedded: Sequence[Embedded], artifacts: Artifacts, *, index: Path) -> Ref:
    """Return the centres that vectors are grouped around: those of the index while they serve, else new ones."""
    rows = sum(document.chunked.count for document in embedded)
    try:
        with open_index(index) as opened:
            path, dimension = opened.centres_file, opened.vectors.dimension
            if (
                path is not None
                and Centres.open(path).serve(rows, dimension)
                and dimension == _load_vectors(embedded[0], artifacts).shape[1]
            ):
                return artifacts.put_file("centres", path)
    except (NotAnIndex, DamagedIndex):
        pass  # a first build, or one that replaces what is broken: centres are trained
    key = content_key("centres", SEGMENT_VERSION, {"vectors": sorted(document.vectors.digest for document in embedded)})
    if recalled_ref := artifacts.recall(key):
        return recalled_ref
    # vectors from all over the documents, the same ones for the same documents
    count = min(rows, PER_CENTRE * count_lists(rows))
    drawn = np.sort(np.random.default_rng(1).choice(rows, count, replace=False))
    sample: list[NDArray[np.float16]] = []
    start = 0
    for document in sorted(embedded, key=lambda document: document.chunked.digest):
        begin, end = np.searchsorted(drawn, [start, start + document.chunked.count])
        if begin < end:
            sample.append(_load_vectors(document, artifacts)[drawn[begin:end] - start])
        start += document.chunked.count
    centres = artifacts.put("centres", train_centres(np.concatenate(sample), rows).pack())
    artifacts.remember(key, centres)
    return centres


def _load_vectors(embedded: Embedded, artifacts: Artifacts) -> NDArray[np.float16]:
    return np.load(io.BytesIO(artifacts.get(embedded.vectors)), allow_pickle=False)
