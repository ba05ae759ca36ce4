"""What reading a document lost, or may have lost: letters, hidden text, pictures, unsure tables.

Letters are counted twice, as the file has them and as the blocks hold them, and compared as multisets: a reader that
drops a sentence, or reads one twice in place of another, is found out. Spaces and signs are not compared.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from html import unescape
from pathlib import Path

from storage.records import Record
from tasks.documents.archives import Package
from tasks.documents.blocks import Block, Document, Page, PageStatus
from tasks.documents.document_errors import DocumentError
from tasks.documents.text_reader import decode_html

NOTED_SHARE = 0.02
"""Share of a document's letters; one that lost more is named where an index is made."""
TEXT_PARTS = {
    "docx": re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml"),
    "pptx": re.compile(r"ppt/slides/slide\d+\.xml"),
    "hwpx": re.compile(r"Contents/section\d+\.xml"),
    "xlsx": re.compile(r"xl/(?!charts/)[^/]+(?:/[^/]+)?\.xml"),
}
"""The parts of a package that hold its text, by format."""
TEXT_ELEMENT = re.compile(rb"<((?:(?:w|a|hp|x):)?(?:t|delText))(?:\s[^>]*)?>(.*?)</\1>", re.DOTALL)
AMOUNT = re.compile(r"[$€£¥₩(+\-–—]*(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+)[%)]*")
"""An amount for certain; without a separator, groups of digits may be one number, a date or a telephone's."""
TAG = re.compile(r"<[^>]*>")
COPY = re.compile(rb"<(mc:Fallback|rPh)\b.*?</\1>|_x[0-9A-F]{4}_", re.DOTALL)
"""A second copy for programs that do not know the first (ECMA-376, part 3), the reading of Han letters, an escape."""
NO_TEXT = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style|title|desc|defs|metadata)\b.*?(?:</\1\s*>|\Z)"
    r"""|<[a-z/!?](?:"[^"]*(?:"|\Z)|'[^']*(?:'|\Z)|[^>"']++)*+(?:>|\Z)""",
    re.DOTALL | re.IGNORECASE,
)
"""Parts of HTML that are no text: tags, comments, code, and names of a page or a drawing."""
UNREAD = (PageStatus.NEEDS_PASSWORD, PageStatus.TIMEOUT, PageStatus.ERROR)
BLANK = (None, "blank", "blank page", "blank slide", "the sheet is empty", "the document holds no text")


class HiddenPiece(Record):
    """A piece of text that nobody sees, with its page."""

    page: int | None
    text: str
    reason: str


class Receipt(Record):
    """Account of a document that was read: its pages, letters and pictures, and how many of them were lost."""

    pages: int
    pages_read: int
    letters: int | None
    """Letters and digits that the document shows; None where its format, or recognition of a scan, lets none count."""
    letters_lost: int
    """Number of these letters that stand in no block."""
    hidden: tuple[HiddenPiece, ...]
    """Text that nobody sees, which is neither indexed nor cited."""
    drawn_text: tuple[int, ...]
    """Pages whose text is drawn as curves and was not read."""
    tables: int
    unsure_tables: tuple[int | None, ...]
    """Page of each table with a cell that holds two amounts."""
    replaced: int
    """Characters without Unicode, and others that were replaced."""

    @property
    def share_kept(self) -> float | None:
        """Share of the letters that stand in blocks; None where they were not counted."""
        return None if self.letters is None else 1 - self.letters_lost / max(self.letters, 1)


def make_receipt(document: Document) -> Receipt:
    """Return the receipt of a document that was read."""
    blocks = [block for page in document.pages for block in page.blocks]
    counted = [page for page in document.pages if page.letters is not None]
    tables = [block for block in blocks if block.kind == "table"]

    def is_unsure(table: Block) -> bool:  # a cell with two amounts is more often two cells than one
        texts = (cell.text.split() for cell in table.cells)
        return any(len(words) > 1 and all(map(AMOUNT.fullmatch, words)) for words in texts)

    return Receipt(
        pages=len(document.pages),
        pages_read=sum(
            page.status not in UNREAD
            # what shows nothing was read, too
            and (page.status is not PageStatus.EMPTY or page.reason in BLANK or str(page.reason).endswith("is hidden"))
            for page in document.pages
        ),
        letters=sum(page.letters or 0 for page in counted) if counted else None,
        letters_lost=sum(page.letters_lost for page in counted),
        hidden=tuple(
            HiddenPiece(page=page.number, text=piece.text, reason=piece.reason)
            for page in document.pages
            for piece in page.hidden
        ),
        drawn_text=tuple(page.number or 1 for page in document.pages if "drawn text" in (page.reason or "")),
        tables=len(tables),
        unsure_tables=tuple(table.page for table in tables if is_unsure(table)),
        replaced=sum(block.text.count("\ufffd") for block in blocks),
    )


def count_letters(texts: Iterable[str]) -> Counter[str]:
    """Count letters and digits; a ligature counts as its letters, a raised digit as the digit."""
    counts = Counter(unicodedata.normalize("NFKC", "\n".join(texts)))
    return Counter({sign: count for sign, count in counts.items() if sign.isalnum()})


def compare_letters(page: Page, source: Counter[str], *, earlier: Iterable[Page] = ()) -> Page:
    """Return the page with the number of letters that its source has, and how many of them it lost.

    source: letters that are shown, or hidden. earlier: pages that share the source, if it is not of this page alone.
    """
    pages = (*earlier, page)
    hidden = count_letters(piece.text for each in pages for piece in each.hidden)
    kept = count_letters(block.text for each in pages for block in each.blocks)
    shown = source - hidden
    return page.model_copy(update={"letters": shown.total(), "letters_lost": (shown - kept).total()})


def count_source_letters(path: Path, format: str) -> Counter[str] | None:
    """Count the letters in the HTML of a page, or in the XML of an Office or HWPX package, without its reader.

    Of a workbook its strings count once each: numbers look otherwise than they are stored. None for another format,
    and for a package with refused or damaged parts: its reader decides what that costs.
    """
    if format == "html":
        return count_letters([unescape(NO_TEXT.sub(" ", decode_html(path.read_bytes()).text))])
    if format not in TEXT_PARTS:
        return None
    try:
        with Package(path, check_sizes=False) as package:  # only XML is unpacked, and `xml_source` bounds that
            parts = [package.xml_source(name) for name in package.names if TEXT_PARTS[format].fullmatch(name)]
    except DocumentError:
        return None
    texts = (
        match[1].decode("utf-8", "replace") for part in parts for match in TEXT_ELEMENT.findall(COPY.sub(b"", part))
    )
    return count_letters(unescape(TAG.sub(" ", text)) for text in texts)
