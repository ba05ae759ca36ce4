"""The interface of document readers, and shared parts of its implementations."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from operator import attrgetter
from typing import Any, Literal, Protocol

from pydantic import Field, field_validator

from storage.records import Record
from tasks.documents.blocks import BBox, Block, Cell, HiddenText, Kind, Page, PageSource, PageStatus, Place
from tasks.documents.marks import NOTE, join_fractions

PROGRESS: ContextVar[Callable[[], None]] = ContextVar("progress", default=lambda: None)
"""Called by a reader between the parts of a long document: from there on, its budget of a page counts anew."""
MOST_COVERED = 200_000
"""Places of a table under cells that span; once they are used up, a cell counts for one place."""
SURROGATE = re.compile(r"[\ud800-\udfff]")
INVISIBLE = re.compile(
    "[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]|(?<![\U0001f3f4\U000e0000-\U000e007f])[\U000e0000-\U000e007f]+"
)
"""Signs without ink and width; the last are letters that nobody sees, but behind a black flag, as in that of Wales."""


class ReadOptions(Record):
    """Reading options that a user can set; part of every parse cache key, so no secrets here."""

    pdf_reader: Literal["auto", "pdfplumber", "pymupdf"] = "auto"
    """auto: pymupdf's text for every page, tables by layout only where a page asks for them."""
    tables: bool = True
    """Tables of PDFs become rows of their own."""
    ocr: Literal["auto", "off"] = "auto"
    """auto: tesseract (kor+eng) on pages without text, when it is installed."""
    layout: Literal["auto", "off"] = "auto"
    """auto: HWP and HWPX are laid out as pages."""

    @field_validator("ocr", "layout", mode="before")
    @classmethod
    def _read_off(cls, value: Any) -> Any:
        return "off" if value is False else value  # YAML takes a bare `off` for False


class Header(Record):
    """Description of a document before its first page is read."""

    format: str
    """Name of the DocumentFormat that the file is read as."""
    reader: str
    """Name and version of the reader: `pymupdf 2.0`."""
    page_source: PageSource
    page_count: int
    """Pages that `pages()` will yield; 1 for formats without pages."""
    title: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    """Of a reader of another package; the readers here give none, as nothing asks for it."""
    notes: tuple[str, ...] = ()


class Reader(Protocol):
    """An open document, made by the `opener` of a format, which raises DocumentError.

    It runs in a child process whose parent enforces CPU time and memory per page, so it may be slow or crash.
    Blocks carry their `place`, which `BlockList` fills in.
    """

    header: Header

    def pages(self, first: int = 1) -> Iterator[Page]:
        """Yield the pages from position `first` (1-based) on, each as soon as it is read.

        A page that cannot be read comes as a Page with status `error` and a reason, and the next one follows.
        """
        ...


class SimpleReader:
    """A Reader of a document that was read completely on opening."""

    def __init__(self, header: Header, pages: Sequence[Page]) -> None:
        self.header = header
        self._pages = pages

    def pages(self, first: int = 1) -> Iterator[Page]:
        """Return the pages from position `first` (1-based) on."""
        return iter(self._pages[first - 1 :])


def read_whole(pages: Sequence[Page], *, page_source: PageSource | None = None, **about: Any) -> SimpleReader:
    """Return a reader of pages that were all read already; there must be at least one.

    page_source: by default, pages with numbers are stored ones. about: further fields of its Header.
    """
    source = page_source or ("none" if pages[0].number is None else "stored")
    return SimpleReader(Header(page_source=source, page_count=len(pages), **about), pages)


class Headings:
    """The headings that are open at a point of a document."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []

    def path_of(self, kind: Kind, text: str, level: int | None) -> tuple[str, ...]:
        """Return the headings above a block, of which a heading closes those as deep; margins and notes have none."""
        if kind == "heading":
            self._open = [(above, heading) for above, heading in self._open if above < (level or 1)]
        path = tuple(heading for _, heading in self._open)
        self._open += [(level or 1, " ".join(text.split()))] if kind == "heading" else []
        return () if kind in ("header", "footer", "note") else path


def join_pages(pages: Sequence[Page]) -> tuple[Page, ...]:
    """Return pages that were read independently, with block numbers and heading paths of the whole document."""
    headings, count = Headings(), itertools.count()

    def number_block(block: Block) -> Block:
        path = headings.path_of(block.kind, block.text, block.level)
        place = Place(section=block.place.section, block=next(count), heading_path=path)
        return block.model_copy(update={"place": place})

    return tuple(page.model_copy(update={"blocks": tuple(map(number_block, page.blocks))}) for page in pages)


class BlockList:
    """Collects blocks in reading order and gives each its place in the document."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._hidden: list[tuple[int | None, HiddenText]] = []
        self._headings = Headings()

    def hide(self, text: str, reason: str, *, page: int | None = None, bbox: BBox | None = None) -> None:
        """Keep a text that nobody sees beside the blocks of its page, or of the first page where that is unknown."""
        if text := make_storable(text).strip():
            self._hidden.append((page, HiddenText(text=text, reason=reason, bbox=bbox)))

    def hide_blocks(self, blocks: BlockList, reason: str) -> None:
        """Keep the texts of blocks that nobody sees, and what was hidden already among them."""
        for block in blocks:
            self.hide(block.text, reason, page=block.page, bbox=block.bbox)
        self.keep_hidden_of(blocks)

    def add(
        self,
        kind: Kind,
        text: str,
        *,
        level: int | None = None,
        cells: Sequence[Cell] = (),
        page: int | None = None,
        section: int | None = None,
        bbox: BBox | None = None,
        at: str | None = None,
        marker: str | None = None,
    ) -> None:
        """Append a block unless it has no text (a figure needs none); a paragraph behind a raised mark is a note.

        The text of a table comes from its cells. at: the cells of a spreadsheet, see `Place.cells`.
        """
        room, kept = MOST_COVERED, list[Cell]()
        for cell in cells:
            area = cell.row_span * cell.col_span
            room -= area if area > 1 else 0
            changes: dict[str, Any] = {"row_span": 1, "col_span": 1} if room < 0 and area > 1 else {}
            if (storable := make_storable(cell.text)) != cell.text:
                changes["text"] = storable
            kept.append(cell.model_copy(update=changes) if changes else cell)
        cells = tuple(kept)
        text = (format_table(cells) if kind == "table" else make_storable(text)).strip("\n")
        if not text.strip() and kind != "figure":
            return
        kind = "note" if kind == "paragraph" and NOTE.match(text) else kind
        place = self._next_place(kind, text, level, section=section, cells=at)
        block = Block(kind=kind, text=text, page=page, bbox=bbox, cells=cells, level=level, marker=marker, place=place)
        self._blocks.append(block)

    def _next_place(self, kind: Kind, text: str, level: int | None, *, section: int | None, cells: str | None) -> Place:
        path = self._headings.path_of(kind, text, level)
        return Place(section=section, block=len(self._blocks), heading_path=path, cells=cells)

    def extend(self, blocks: BlockList, *, below: int = 0) -> None:
        """Append the blocks of another list; its headings become deeper by `below` levels."""
        for block in blocks:
            level = (block.level or 1) + below if block.kind == "heading" else block.level
            section, cells = block.place.section, block.place.cells
            place = self._next_place(block.kind, block.text, level, section=section, cells=cells)
            self._blocks.append(block.model_copy(update={"level": level, "place": place}))
        self.keep_hidden_of(blocks)

    def keep_hidden_of(self, blocks: BlockList) -> None:
        """Keep the hidden texts of another list."""
        self._hidden += blocks._hidden

    def __iter__(self) -> Iterator[Block]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)

    def unpaged(self) -> list[Page]:
        """Return the one page of a document that stores no pages."""
        return self.keep_hidden([make_page(None, self._blocks, if_empty="the document holds no text")])

    def paged(self, count: int) -> list[Page]:
        """Return the pages 1 to `count`; a block without a page goes to the last one."""
        by_page: dict[int, list[Block]] = defaultdict(list)
        for block in self._blocks:
            by_page[block.page or count].append(block)  # endnotes, headers and footers of Word have none
        return self.keep_hidden(
            [make_page(number, by_page[number], if_empty="blank page") for number in range(1, count + 1)]
        )

    def keep_hidden(self, pages: Sequence[Page]) -> list[Page]:
        """Return the pages with the hidden texts of each; the first has those of no known page."""
        numbers, by_page = {page.number for page in pages}, defaultdict[int | None, list[HiddenText]](list)
        for number, hidden in self._hidden:
            by_page[number if number in numbers else pages[0].number].append(hidden)
        return [page.model_copy(update={"hidden": tuple(by_page[page.number])}) for page in pages]


def make_page(
    number: int | None,
    blocks: Sequence[Block],
    *,
    if_empty: str,
    width: float | None = None,
    height: float | None = None,
    hidden: Sequence[HiddenText] = (),
) -> Page:
    """Return a page with its blocks; `if_empty` is the reason that it gets when there are none."""
    status, reason = (PageStatus.OK, None) if blocks else (PageStatus.EMPTY, if_empty)
    inside, unseen = tuple(blocks), tuple(hidden)
    return Page(number=number, status=status, reason=reason, width=width, height=height, blocks=inside, hidden=unseen)


def make_storable(text: str) -> str:
    """Return a text in NFC that JSON and PostgreSQL can hold: NUL is removed, a lone surrogate becomes U+FFFD.

    Signs that do not show go, too: a soft hyphen shows only at the end of a line, and would cut a word for a search.
    """
    text = text.replace("\0", "")
    if text.isascii():
        return text
    return join_fractions(unicodedata.normalize("NFC", SURROGATE.sub("\ufffd", INVISIBLE.sub("", text))))


def format_table(cells: Sequence[Cell], *, between: str = " | ", fills: bool = False) -> str:
    """Return the rows of a table, but empty ones, as lines, `between` between cells; a merged cell is written once.

    fills: places without a cell stay, empty, so that columns line up.
    """
    lines: list[str] = []
    for _, row in itertools.groupby(sorted(cells, key=attrgetter("row", "col")), key=attrgetter("row")):
        texts, column = list[str](), 0
        for cell in row:
            texts += [""] * (cell.col - column) if fills else []
            texts.append(" ".join(cell.text.split()))
            column = cell.col + cell.col_span
        lines += [between.join(texts)] if any(texts) else []
    return "\n".join(lines)
