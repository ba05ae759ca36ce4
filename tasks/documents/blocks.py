"""One model for every document format: a document is pages, a page is blocks in reading order."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from storage.records import Record

BBox = tuple[float, float, float, float]
"""x0, y0, x1, y1 in points (1/72 inch), origin at the page's top left, rotation applied."""


def enclosing_box(boxes: Iterable[BBox]) -> BBox:
    """Return the smallest box around all boxes; there must be at least one."""
    x0s, y0s, x1s, y1s = zip(*boxes, strict=True)
    return min(x0s), min(y0s), max(x1s), max(y1s)


LONGEST_SIDE_PX = 2048
"""Larger pictures are scaled down: vision models do so themselves, and the store need not keep a poster."""

PageSource = Literal["layout", "estimated", "stored", "slides", "none"]
"""Whether page numbers come from a layout engine, from the order of the text, from the file, or do not exist."""

Kind = Literal["paragraph", "heading", "list", "table", "figure", "caption", "header", "footer", "note"]


class PageStatus(StrEnum):
    """The outcome of reading a page; every outcome but `ok` and `ocr` comes with a reason."""

    OK = "ok"
    OCR = "ocr"
    EMPTY = "empty"
    NEEDS_PASSWORD = "needs_password"
    TIMEOUT = "timeout"
    ERROR = "error"


class Cell(Record):
    """One cell of a table; a merged cell is listed once, at its top left, with its spans."""

    row: int
    col: int
    text: str
    row_span: int = 1
    col_span: int = 1
    header: bool = False
    """Whether it names columns; a label of a row is none."""
    indent: float = 0
    """How far its first line is set in by its format, in widths of a space; compared within its table alone."""
    bbox: BBox | None = None
    """Around its words on the page; None for an empty cell, and in formats without pages."""


class Place(Record):
    """Where a block stands in its document, for formats with and without pages."""

    section: int | None = None
    """0-based section of HWP, HWPX, DOCX; None where the format has none."""
    block: int = 0
    """0-based position among the document's blocks, in reading order."""
    heading_path: tuple[str, ...] = ()
    """Headings above the block, outermost first."""
    cells: str | None = None
    """The cells of a spreadsheet that it comes from, as spreadsheet programs name them: `Sheet '예산', B3:D9`."""
    estimated: bool = False
    """Whether its page is only estimated, from the pages of the blocks around it."""


class Block(Record):
    """A paragraph, table, figure … as the document has it; its text is NFC and otherwise untouched."""

    kind: Kind
    text: str
    """For a table: its rows, cells joined by ` | `, a line per row."""
    page: int | None = None
    """1-based; None where there are no pages. A page that a layout does not show says so: `place.estimated`."""
    bbox: BBox | None = None
    cells: tuple[Cell, ...] = ()
    level: int | None = None
    """Heading depth, 1 is the top; list depth, 1 is the outermost."""
    marker: str | None = None
    """The bullet or number of a list item, with which its text begins; None where the item has none."""
    place: Place = Place()

    def with_place(self, **changes: Any) -> Block:
        """Return the block with some fields of its place changed."""
        return self.model_copy(update={"place": self.place.model_copy(update=changes)})


class HiddenText(Record):
    """Text that a document holds and nobody sees: kept beside the blocks, so never indexed, answered or cited."""

    text: str
    reason: str
    """How it is hidden: `white on white`, `under a picture`, `display: none`, `hidden row` …"""
    bbox: BBox | None = None


class Page(Record):
    """One page, or the whole text of a document that stores no pages (`number` None)."""

    number: int | None
    """1-based number of the page; None for the whole text of a document without pages."""
    status: PageStatus
    reason: str | None = None
    """Why the page is not `ok`: blank, image-only, glyphs without Unicode, timeout after 20 s …"""
    width: float | None = None
    """Width in points; None where the format has none."""
    height: float | None = None
    """Height in points; None where the format has none."""
    blocks: tuple[Block, ...] = ()
    hidden: tuple[HiddenText, ...] = ()
    letters: int | None = None
    """Letters and digits that the page shows by its source; None where they were not counted. The last page of a
    document whose source is not by page has those of all.
    """
    letters_lost: int = 0
    """Number of the letters among `letters` that stand in no block."""


class Document(Record):
    """A parsed document. It does not know its file name: a renamed file is the same document."""

    format: str
    """Name of the DocumentFormat that the file was read as."""
    reader: str
    """Reader and version: `pymupdf 2.0 + pdfplumber 0.11.10`."""
    page_source: PageSource
    pages: tuple[Page, ...]
    title: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    """Author, dates and the like by name, from a reader of another package; empty from those here."""
    notes: tuple[str, ...] = ()
    """Remarks on the reading: text that was repaired, parts that were left out, and why."""


class ImageCandidate(Record):
    """A picture as a reader sees it: upright, RGB, transparent parts white or as the page shows them."""

    page: int | None
    """1-based; None where the format stores no pages."""
    bbox: BBox | None
    n: int
    """1-based order on its page, or in its document where there are no pages."""
    source: Literal["raster", "vector"]
    png: bytes = b""
    """The picture as PNG; empty when it could not be decoded."""
    width: int = 0
    """Pixels of the original, before it was scaled down."""
    height: int = 0
    problem: str | None = None
    """Why there is no picture: unsupported format, damaged, not fetched …"""
