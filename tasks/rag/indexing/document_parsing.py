"""One document, read once: what is kept under the key of its content is not read again."""

from __future__ import annotations

from pathlib import Path

from storage.artifacts import Artifacts
from tasks.documents.blocks import Document, PageStatus
from tasks.documents.document_errors import DocumentError
from tasks.documents.document_readers import ReadOptions
from tasks.documents.formats import sniff
from tasks.documents.isolation import DocumentUnreadable, Failure, Job, ReadLimits, read_document
from tasks.keys import content_key
from tasks.rag.corpus import PageTrouble, Parsed, Source

PARSER_VERSION = 1
"""Raise it when a reader would give another document for the same bytes."""


def parse_source(
    source: Source,
    artifacts: Artifacts,
    *,
    options: ReadOptions,
    limits: ReadLimits,
    password: str | None,
    log: Path | None,
) -> Parsed:
    """Read a document, or recall it; a document that cannot be read comes back with the failure.

    A document is kept under its content and the options, never under the password that opened it.
    """
    key = content_key("parse", PARSER_VERSION, {"source": source, "options": options, "limits": limits})
    if (kept := artifacts.recall(key)) and _is_whole(recalled := artifacts.load(Parsed, kept), artifacts):
        return recalled
    parsed = _read(source, artifacts, options=options, limits=limits, password=password, log=log)
    locked = parsed.failure and parsed.failure.reason == "needs_password"
    if not parsed.may_pass and not locked:
        artifacts.remember(key, artifacts.save("parsed", parsed))
    return parsed


def _is_whole(parsed: Parsed, artifacts: Artifacts) -> bool:
    return parsed.document is None or artifacts.verify(parsed.document)


def _read(
    source: Source,
    artifacts: Artifacts,
    *,
    options: ReadOptions,
    limits: ReadLimits,
    password: str | None,
    log: Path | None,
) -> Parsed:
    path = artifacts.path(source.content)
    try:
        sniffed = sniff(path, suffix=source.suffix)
        job = Job(path=path, digest=source.digest, format=sniffed.format, password=password)
        read = read_document(job, options=options, limits=limits, log=log)
    except DocumentError as error:
        return Parsed(source=source, failure=Failure(reason=error.reason, message=str(error)))
    except DocumentUnreadable as error:
        return Parsed(source=source, failure=error.failure)
    notes = (*sniffed.notes, *read.document.notes)
    return _kept(source, read.document, artifacts, notes=notes, retryable_pages=read.retryable)


def _kept(
    source: Source,
    document: Document,
    artifacts: Artifacts,
    *,
    notes: tuple[str, ...],
    retryable_pages: tuple[str, ...],
) -> Parsed:
    troubled = tuple(
        PageTrouble(page=page.number, status=page.status, reason=page.reason or "")
        for page in document.pages
        if page.status is not PageStatus.OK
    )
    return Parsed(
        source=source,
        document=artifacts.save("document-blocks", document),
        format=document.format,
        reader=document.reader,
        pages=len(document.pages),
        paged=document.page_source != "none",
        troubled=troubled,
        notes=notes,
        retryable_pages=retryable_pages,
    )
