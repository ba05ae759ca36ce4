"""The interface of a document reader: open a file, describe it, yield its pages one after another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Protocol

from storage.records import Record
from tasks.documents.blocks import Page


class ReadOptions(Record):
    """Options of reading that a user can set; part of every parse cache key, so no secrets here."""

    pdf_reader: Literal["auto", "pdfplumber", "pymupdf"] = "auto"
    """auto: pymupdf's text for every page, tables by layout only where a page asks for them."""
    tables: bool = True
    """Tables of PDFs become rows of their own."""
    ocr: Literal["auto", "off"] = "auto"
    """auto: tesseract (kor+eng) on pages without text, when it is installed."""


class Header(Record):
    """Description of a document before its first page is read."""

    format: str
    """Name of a tasks.documents.formats.DocumentFormat."""
    reader: str
    """Reader and version: `pymupdf 2.0`."""
    page_source: Literal["layout", "stored", "none"]
    page_count: int
    """Pages that `pages()` will yield; 1 for formats without pages."""
    title: str | None = None
    metadata: dict[str, str]
    notes: tuple[str, ...] = ()


class Reader(Protocol):
    """An open document. Raises tasks.documents.document_errors.DocumentError on opening.

    The `opener` of a format (tasks.documents.formats) makes one. It runs in a child process whose parent enforces CPU
    time and memory per page, so it may be slow or crash. Blocks carry their `place`; tasks.documents.assembly.BlockList
    fills it in.
    """

    header: Header

    def pages(self, first: int = 1) -> Iterator[Page]:
        """Pages from position `first` (1-based) on; each comes as soon as it is read.

        A page that cannot be read comes as a Page with status `error` and a reason, and the next one follows.
        """
        ...
