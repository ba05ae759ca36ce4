"""One document, cut and tokenised once: kept under the key of its content and settings."""

from __future__ import annotations

from storage.artifacts import Artifacts
from tasks.documents.blocks import Document
from tasks.keys import content_key
from tasks.rag.corpus import Chunked, Pictured, Searchable
from tasks.rag.facts.fact_extraction import extract_facts
from tasks.rag.indexing.chunks import FigureText, chunk_document, tokenize_chunks
from tasks.rag.indexing.figures import DocumentFigures
from tasks.rag.indexing.metadata import read_facts

CHUNKER_VERSION = 3
"""Raise it when chunks, tokens or facts would differ for the same document."""


def cut(
    pictured: Pictured,
    artifacts: Artifacts,
    *,
    chunk_chars: int,
    overlap_chars: int,
    tokenizer: str,
) -> Chunked:
    """The chunks of a document that was read, recalled if they were made before."""
    assert pictured.parsed.document is not None
    figures = _figure_texts(artifacts.load(DocumentFigures, pictured.figures)) if pictured.figures else []
    settings = {"chunk_chars": chunk_chars, "overlap_chars": overlap_chars, "tokenizer": tokenizer}
    digest = pictured.parsed.source.digest
    # two files may read the same and are two documents all the same: their chunks have ids of their own
    inputs = {"source": digest, "document": pictured.parsed.document, "figures": figures, **settings}
    key = content_key("chunk", CHUNKER_VERSION, inputs)
    if (kept := artifacts.recall(key)) and artifacts.verify((chunked := artifacts.load(Chunked, kept)).chunks):
        return chunked
    document = artifacts.load(Document, pictured.parsed.document)
    chunks = chunk_document(
        document, digest=digest, figures=figures, chunk_chars=chunk_chars, overlap_chars=overlap_chars
    )
    tokens = tuple(map(tuple, tokenize_chunks(chunks, tokenizer=tokenizer)))
    kept_chunks = Searchable(chunks=tuple(chunks), tokens=tokens, tokenizer=tokenizer)
    lengths = [len(chunk.text) for chunk in chunks]
    chunked = Chunked(
        digest=digest,
        chunks=artifacts.save("chunks", kept_chunks),
        count=len(chunks),
        chars=sum(lengths),
        shortest=min(lengths, default=0),
        longest=max(lengths, default=0),
        title=document.title,
        facts=read_facts(document),
        stated=extract_facts(document),
    )
    artifacts.remember(key, artifacts.save("chunked", chunked))
    return chunked


def _figure_texts(figures: DocumentFigures) -> list[FigureText]:
    return [
        FigureText(page=figure.page, n=figure.n, bbox=figure.bbox, text=figure.text)
        for figure in figures.figures
        if figure.text
    ]
