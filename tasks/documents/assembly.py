"""Shared by readers of formats without layout: blocks with their place, tables as text, text that JSON can hold."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence

from tasks.documents.blocks import Block, Cell, Kind, Page, PageStatus, Place
from tasks.documents.read_options import Header

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class _Headings:
    """The headings above the next block."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []

    def path_of(self, kind: Kind, text: str, level: int | None) -> tuple[str, ...]:
        """The path of a block; a heading closes those of its level and below, and stands above what follows."""
        if kind == "heading":
            self._open = [(above, heading) for above, heading in self._open if above < (level or 1)]
        path = tuple(heading for _, heading in self._open)
        if kind == "heading":
            self._open.append((level or 1, " ".join(text.split())))
        return () if kind in OUTSIDE else path


OUTSIDE = ("header", "footer", "note")
"""Kinds that stand below no heading of the text."""


def join_pages(pages: Sequence[Page]) -> tuple[Page, ...]:
    """Pages that were read alone as parts of one document: blocks are counted on, headings reach over the page."""
    headings, count = _Headings(), itertools.count()
    return tuple(
        page.model_copy(
            update={
                "blocks": tuple(
                    block.model_copy(
                        update={
                            "place": Place(
                                section=block.place.section,
                                block=next(count),
                                heading_path=headings.path_of(block.kind, block.text, block.level),
                            )
                        }
                    )
                    for block in page.blocks
                )
            }
        )
        for page in pages
    )


class BlockList:
    """Collects blocks in reading order and notes where each stands."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._headings = _Headings()

    def add(
        self,
        kind: Kind,
        text: str,
        *,
        level: int | None = None,
        cells: Sequence[Cell] = (),
        page: int | None = None,
        section: int | None = None,
    ) -> None:
        """Append a block; one without text is left out, save a figure. A table takes its text from its cells."""
        cells = tuple(map(_storable_cell, cells))
        text = (table_text(cells) if kind == "table" else storable(text)).strip("\n")
        if not text.strip() and kind != "figure":
            return
        path = self._headings.path_of(kind, text, level)
        place = Place(section=section, block=len(self._blocks), heading_path=path)
        self._blocks.append(Block(kind=kind, text=text, page=page, cells=cells, level=level, place=place))

    def __iter__(self) -> Iterator[Block]:
        return iter(self._blocks)

    def unpaged(self) -> list[Page]:
        """The one page of a document that stores no pages."""
        if not self._blocks:
            return [Page(number=None, status=PageStatus.EMPTY, reason="the document holds no text")]
        return [Page(number=None, status=PageStatus.OK, blocks=tuple(self._blocks))]

    def paged(self, count: int) -> list[Page]:
        """Pages 1 to `count`; a block without a page stands on the last one."""
        by_page: dict[int, list[Block]] = defaultdict(list)
        for block in self._blocks:
            by_page[block.page or count].append(block)
        return [_page(number, by_page[number]) for number in range(1, count + 1)]


def _page(number: int, blocks: list[Block]) -> Page:
    if not blocks:
        return Page(number=number, status=PageStatus.EMPTY, reason="blank page")
    return Page(number=number, status=PageStatus.OK, blocks=tuple(blocks))


def _storable_cell(cell: Cell) -> Cell:
    text = storable(cell.text)
    return cell if text == cell.text else cell.model_copy(update={"text": text})


def storable(text: str) -> str:
    """NFC, and without what JSON and PostgreSQL cannot hold: NUL goes, a lone surrogate becomes U+FFFD."""
    return unicodedata.normalize("NFC", _LONE_SURROGATE.sub("\ufffd", text.replace("\0", "")))


def table_text(cells: Sequence[Cell]) -> str:
    """Rows as lines, cells joined by ` | `; a merged cell stands once."""
    rows: dict[int, list[Cell]] = defaultdict(list)
    for cell in cells:
        rows[cell.row].append(cell)
    lines = [[" ".join(cell.text.split()) for cell in sorted(row, key=_column)] for _, row in sorted(rows.items())]
    return "\n".join(" | ".join(line) for line in lines if any(line))


def _column(cell: Cell) -> int:
    return cell.col


class SimpleReader:
    """A document that was read whole on opening. Implements tasks.documents.read_options.Reader."""

    def __init__(self, header: Header, pages: Sequence[Page]) -> None:
        self.header = header
        self._pages = pages

    def pages(self, first: int = 1) -> Iterator[Page]:
        """Pages from position `first` (1-based) on."""
        return iter(self._pages[first - 1 :])
