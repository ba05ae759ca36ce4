"""Locates blocks on the pages that a layout engine draws: blocks have the text, drawn pages the positions.

Letters and digits of both are compared; signs, white space and spelling variants of Unicode are left out. A block that
goes over the end of a page becomes one block on each page.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from tasks.documents.blocks import BBox, Block, Cell, Page, PageStatus
from tasks.documents.document_readers import format_table, make_page

LEAST_FOUND = 0.8
"""Share of the text that the layout must show; below, the two are not of one document."""
_SHORTEST_PIECE = 4
"""Letters of a piece that is searched for on its own."""
_DISTINCT = 25
"""A piece of as many letters may stand anywhere further on, a shorter one near the place of the last only."""
_OUT_OF_ORDER = 8
"""A piece of as many letters may stand before the place of the last: text boxes are drawn out of order."""
_NEAR = 60
"""Letters between two texts that follow each other: what only one of the two sides has."""
_WORD_GAP = 0.25
"""White between two signs that is wider, in heights of a line, is a space."""


class LaidPage(NamedTuple):
    """A page as a layout engine draws it: signs with their boxes, in the order of drawing."""

    width: float
    """Width of the page in points."""
    height: float
    """Height of the page in points."""
    signs: str
    """The characters on the page, without white space."""
    zones: str
    """One letter for each sign: b for the body, h for what stands above it, f for what stands below."""
    boxes: tuple[BBox, ...]
    """The box of each sign, in points."""
    images: tuple[tuple[int, BBox], ...] = ()
    """Boxes of the pictures, each with the number of signs that are drawn before it."""


class LayoutFailed(Exception):
    """A document could not be laid out as pages; the message says why."""


def place_on_pages(blocks: Sequence[Block], laid: Sequence[LaidPage]) -> list[Page]:
    """Return the pages with their blocks; blocks without a place come last, in a page without a number.

    Raises LayoutFailed if too few blocks are found on the pages.
    """
    drawn = _DrawnLetters(laid)
    margins = {_fold(text) for page in laid for zone in "hf" if (text := _zone_text(page, zone)[0])}
    marginal = [block for block in blocks if block.kind in ("header", "footer")]
    # a header or footer that is shown in the margin of a page gets a block of its own there
    in_margins = [block for block in marginal if any(_fold(block.text) in margin for margin in margins)]
    located = drawn.place_blocks([block for block in blocks if all(block is not margin for margin in in_margins)])
    by_page: dict[int | None, list[Block]] = {}
    for block in _with_neighbours(located, drawn):
        by_page.setdefault(block.page, []).append(block)
    pages: list[Page] = []
    for number, page in enumerate(laid, start=1):
        header, footer = (_margin_blocks(page, number, kind, marginal) for kind in ("header", "footer"))
        inside = (*header, *by_page.get(number, ()), *footer)
        pages.append(make_page(number, inside, if_empty="blank page", width=page.width, height=page.height))
    if unplaced := by_page.get(None):
        reason = f"no page: the layout does not show {len(unplaced)} of {len(blocks)} blocks where they are expected"
        pages.append(Page(number=None, status=PageStatus.OK, reason=reason, blocks=tuple(unplaced)))

    # blocks are counted in the order of the pages
    counter = itertools.count()

    def count_block(block: Block) -> Block:
        return block.model_copy(update={"place": block.place.model_copy(update={"block": next(counter)})})

    return [page.model_copy(update={"blocks": tuple(map(count_block, page.blocks))}) for page in pages]


def _fold(text: str) -> str:
    """Return the letters and digits of a text, the same for all its spellings in Unicode and for both cases."""
    return "".join(sign for sign in unicodedata.normalize("NFKC", text).casefold() if sign.isalnum())


class _Piece(NamedTuple):
    """A piece of a key, and where it is drawn."""

    start: int
    drawn_at: int
    length: int


class _DrawnLetters:
    """The letters of all bodies in the order in which they are drawn; letters are used up as blocks are found."""

    def __init__(self, laid: Sequence[LaidPage]) -> None:
        letters = list[str]()
        self.pages, self.boxes = list[int](), list[BBox]()
        self.images = list[tuple[int, BBox]]()
        self.starts = list[int]()
        self.page_count = len(laid)
        for number, page in enumerate(laid, start=1):
            self.starts.append(len(letters))
            self.images += [(number, box) for _, box in page.images]
            for sign, zone, box in zip(page.signs, page.zones, page.boxes, strict=True):
                if zone == "b":
                    for letter in _fold(sign):
                        letters.append(letter)
                        self.pages.append(number)
                        self.boxes.append(box)
        self.letters = "".join(letters)
        self._used = bytearray(len(letters))
        self.cursor = 0
        self._ahead = 0
        """Where the last piece ends, be it near or far."""

    def place_blocks(self, blocks: Sequence[Block]) -> list[Block]:
        """Return the blocks with pages and boxes, in their order. Raises LayoutFailed."""
        body = [block for block in blocks if block.kind != "note"]
        texts = {id(block): _Text(block, self, self.cursor) for block in body}
        self.cursor = 0  # notes stand at the feet of pages, or behind the text
        texts |= {id(block): _Text(block, self, self.cursor, near=False) for block in blocks if block.kind == "note"}
        # of pictures, few texts are drawn
        counted_texts = [texts[id(block)] for block in blocks if block.kind != "figure"]
        drawn_letters = sum(text.drawn_letters for text in counted_texts)
        letters = sum(text.letter_count for text in counted_texts)
        if drawn_letters < LEAST_FOUND * letters:
            raise LayoutFailed(f"the layout shows {drawn_letters} of the {letters} letters of the text")
        return [part for block in blocks for part in texts[id(block)].parts()]

    def find_pieces(self, key: str, cursor: int, *, near: bool = True, start: int = 0) -> list[_Piece]:
        """Return where the key is drawn, in pieces: it is halved until each part is found in one run, or too short."""
        size = len(key)
        if not size:
            return []
        distinct = size >= (_DISTINCT if near else _SHORTEST_PIECE)
        at = self._find_unused(key, cursor, len(self.letters) if distinct else cursor + _NEAR + 40 * size)
        if at < 0 and size >= _OUT_OF_ORDER:
            at = self._find_unused(key, 0, cursor)
        if at >= 0:
            self._used[at : at + size] = b"\1" * size
            return [_Piece(start, at, size)]
        if size < 2 * _SHORTEST_PIECE:  # halves would be too short to mean one place
            return []
        half = size // 2
        first = self.find_pieces(key[:half], cursor, near=near, start=start)
        after = first[-1].drawn_at + first[-1].length if first else cursor
        return first + self.find_pieces(key[half:], max(cursor, after), near=near, start=start + half)

    def goes_on(self, cursor: int, piece: _Piece, letters: int) -> bool:
        """Return whether the text continues at the piece: near the last one, or as the second in a row at a distance.

        One piece alone at a distance is a text box, or another place with the same words.
        """
        # measured on 14 documents: .932 of the letters are on their page, .928 without this rule
        slack = _NEAR + 2 * letters
        near = piece.drawn_at - cursor <= slack or abs(piece.drawn_at - self._ahead) <= slack
        self._ahead = piece.drawn_at + piece.length
        return near

    def _find_unused(self, key: str, start: int, end: int) -> int:
        """Return where the key begins among the unused letters from `start` to `end`; -1 if it does not."""
        at = self.letters.find(key, start, end)
        while at >= 0 and any(self._used[at : at + len(key)]):
            at = self.letters.find(key, at + 1, end)
        return at

    def repeats(self, key: str, page: int) -> bool:
        """Return whether the key is drawn again at the head of a page, as the header of a table that continues."""
        start = self.starts[page - 1]
        return bool(key) and self._find_unused(key, start, start + len(key) + 40) >= 0


class _Text:
    """The text of a block, and where each letter of it is drawn."""

    def __init__(self, block: Block, drawn: _DrawnLetters, cursor: int, *, near: bool = True) -> None:
        self._block, self._drawn = block, drawn
        self.letter_count = self.drawn_letters = 0
        texts = [cell.text for cell in block.cells] if block.cells else [block.text]
        ends = list[int]()
        self._spots = list[list[int | None]]()
        for text in texts:
            spots = list[int | None]([None] * len(text))
            begin = 0
            for line in text.split("\n"):
                # the letters of the line, and where each stands in the text
                letters = [(letter, at) for at, sign in enumerate(line, begin) for letter in _fold(sign)]
                begin += len(line) + 1
                pieces = drawn.find_pieces("".join(letter for letter, _ in letters), cursor, near=near)
                self.letter_count += len(letters)
                self.drawn_letters += sum(piece.length for piece in pieces)
                for piece in pieces:
                    for step in range(piece.length):
                        spots[letters[piece.start + step][1]] = piece.drawn_at + step
                ahead = [piece for piece in pieces if piece.drawn_at >= cursor]
                if ahead and (not near or drawn.goes_on(cursor, ahead[0], len(letters))):
                    cursor = ahead[0].drawn_at + ahead[0].length
                    ends += [piece.drawn_at + piece.length for piece in ahead]
            self._spots.append(spots)
        drawn.cursor = max([drawn.cursor, *ends])

    def parts(self) -> list[Block]:
        """Return a block for each page that shows the text; the block itself where it is not found."""
        pages = [self._pages(spots) for spots in self._spots]
        numbers = sorted({page for per_sign in pages for page in per_sign if page})
        if not numbers:
            return [self._block]
        if self._block.cells:
            return self._table_parts(pages, numbers)
        text, per_sign = self._block.text, pages[0]
        parts = list[Block]()
        for page in numbers:
            signs = [at for at, sign_page in enumerate(per_sign) if sign_page == page]
            part = text[signs[0] : signs[-1] + 1].strip()
            if not part:
                continue
            changes: dict[str, object] = {"page": page, "bbox": self._box(self._spots[0], signs), "text": part}
            if parts and self._block.kind == "heading":
                changes |= {"kind": "paragraph", "level": None}  # the rest of a heading over the page's end is none
            parts.append(self._block.model_copy(update=changes))
        return parts

    def _pages(self, spots: Sequence[int | None]) -> list[int | None]:
        """Return the page of each sign, never falling; signs that are not found share the page of those before them."""
        by_sign = [self._drawn.pages[spot] if spot is not None else None for spot in spots]
        share = Counter(page for page in by_sign if page)
        least = min(_SHORTEST_PIECE, max(share.values(), default=0))  # fewer letters on a page are there by chance
        confirmed = [page if page and share[page] >= least else None for page in by_sign]
        first = next((page for page in confirmed if page), None)
        if first is None:
            return confirmed
        return list(accumulate(confirmed, lambda before, page: max(before or 0, page or 0) or None, initial=first))[1:]

    def _box(self, spots: Sequence[int | None], signs: Iterable[int]) -> BBox | None:
        """Return the box around those of the signs that are drawn on the page of the first of them."""
        located = [spot for spot in (spots[at] for at in signs) if spot is not None]
        page = self._drawn.pages[located[0]] if located else None
        return enclosing_box([self._drawn.boxes[spot] for spot in located if self._drawn.pages[spot] == page])

    def _table_parts(self, pages: Sequence[Sequence[int | None]], numbers: Sequence[int]) -> list[Block]:
        """Return the rows of the table by page; a cell that crosses the end of a page is on both."""
        cells = self._block.cells
        rows = self._row_pages(pages)
        if len(numbers) == 1:
            located = [self._cell(cell, n, range(len(cell.text))) for n, cell in enumerate(cells)]
            return [self._part(located, numbers[0], text=self._block.text)]
        by_page: dict[int, list[Cell]] = {}
        for n, cell in enumerate(cells):
            first, last = rows[cell.row], rows.get(cell.row + cell.row_span, numbers[-1])
            # no letter stands before its row or behind the next
            inside = [min(max(page or first, first), last) for page in pages[n]]
            for page in sorted(set(inside)) or [first]:
                signs = [at for at, sign_page in enumerate(inside) if sign_page == page]
                by_page.setdefault(page, []).append(self._cell(cell, n, signs))
        parts = list[Block]()
        for page in sorted(by_page):
            inside = by_page[page]
            if parts:
                inside = [*self._header_again(page, inside), *inside]
            # rows are counted from 0, and spans end with the last row
            rows_here = sorted({cell.row for cell in inside})
            moved: list[Cell] = []
            for cell in inside:
                row = rows_here.index(cell.row)
                span = sum(cell.row <= spanned < cell.row + cell.row_span for spanned in rows_here)
                moved.append(cell.model_copy(update={"row": row, "row_span": max(1, min(span, len(rows_here) - row))}))
            parts.append(self._part(moved, page))
        return parts

    def _row_pages(self, pages: Sequence[Sequence[int | None]]) -> dict[int, int]:
        """Return the page on which each row begins."""
        begins: dict[int, int] = {}
        later = max(page for per_sign in pages for page in per_sign if page)
        for row in sorted({cell.row for cell in self._block.cells}, reverse=True):
            inside = [pages[n][0] for n, cell in enumerate(self._block.cells) if cell.row == row and pages[n]]
            later = min([later, *(page for page in inside if page)])
            begins[row] = later
        return begins

    def _header_again(self, page: int, inside: Sequence[Cell]) -> list[Cell]:
        """Return the rows of the header on pages where the layout repeats them."""
        top = min(cell.row for cell in inside)
        rows = {cell.row for cell in self._block.cells if cell.header}
        header_cells = [cell for cell in self._block.cells if cell.row in rows and cell.row < top]
        repeated = self._drawn.repeats("".join(_fold(cell.text) for cell in header_cells), page)
        # compared, but not located
        return [cell.model_copy(update={"bbox": None}) for cell in header_cells] if repeated else []

    def _cell(self, cell: Cell, n: int, signs: Sequence[int]) -> Cell:
        text = cell.text if len(signs) == len(cell.text) else "".join(cell.text[at] for at in signs).strip()
        return cell.model_copy(update={"text": text, "bbox": self._box(self._spots[n], signs)})

    def _part(self, cells: Sequence[Cell], page: int, *, text: str | None = None) -> Block:
        box = enclosing_box([cell.bbox for cell in cells if cell.bbox])
        text = format_table(cells) if text is None else text
        return self._block.model_copy(update={"page": page, "bbox": box, "cells": tuple(cells), "text": text})


def enclosing_box(boxes: Sequence[BBox]) -> BBox | None:
    """Return the smallest box around all boxes; None for no boxes."""
    if not boxes:
        return None
    left, top, right, bottom = zip(*boxes, strict=True)
    return min(left), min(top), max(right), max(bottom)


def _with_neighbours(blocks: Sequence[Block], drawn: _DrawnLetters) -> Iterator[Block]:
    """Yield the blocks; one without a place of its own gets the page that holds the blocks before and after it."""
    images = list(drawn.images)
    after = list[int | None]()
    following: int | None = None
    for block in reversed(blocks):
        after.append(following)
        following = block.page or following
    before: int | None = None
    for block, later in zip(blocks, reversed(after), strict=True):
        if block.page:
            before = block.page
            yield block
            continue
        low, high = before or 1, later or drawn.page_count
        fitting = [place for place in images if low <= place[0] <= high] if block.kind == "figure" else []
        if fitting:
            images.remove(fitting[0])
            yield block.model_copy(update={"page": fitting[0][0], "bbox": fitting[0][1]})
        else:
            yield block.model_copy(update={"page": low if low == high else None})


def _zone_text(page: LaidPage, zone: str) -> tuple[str, list[BBox]]:
    """Return the text of a zone (b, h or f) of a page, with white space between words, and the box of each sign."""
    inside = [(sign, box) for sign, kind, box in zip(page.signs, page.zones, page.boxes, strict=True) if kind == zone]
    text = ""
    for n, (sign, box) in enumerate(inside):
        if n:
            last = inside[n - 1][1]
            apart = box[0] - last[2]
            same_line = abs(box[3] - last[3]) < (box[3] - box[1]) / 2
            text += "\n" if not same_line else " " if apart > _WORD_GAP * (box[3] - box[1]) else ""
        text += sign
    return text, [box for _, box in inside]


def _margin_blocks(page: LaidPage, number: int, kind: str, marginal_blocks: Sequence[Block]) -> list[Block]:
    """Return the header or footer of a page; its text is the document's where both have the same letters."""
    text, boxes = _zone_text(page, kind[0])
    if not text:
        return []
    key = _fold(text)
    of_kind = [block for block in marginal_blocks if block.kind == kind and key]
    stored = next((block for block in of_kind if _fold(block.text) == key), None)
    drawn_block = Block(kind="header" if kind == "header" else "footer", text=stored.text if stored else text)
    return [(stored or drawn_block).model_copy(update={"page": number, "bbox": enclosing_box(boxes)})]
