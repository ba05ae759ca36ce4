"""Locates blocks on the pages that a layout engine draws: blocks have the text, drawn pages the positions.

Letters and digits of both are compared; signs, white space and spelling variants of Unicode are left out. A block that
goes over the end of a page becomes one block on each page.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from tasks.documents.blocks import BBox, Block, Cell, HiddenText, Page, enclosing_box
from tasks.documents.document_readers import format_table, make_page
from tasks.documents.marks import fold_letters

_ANCHOR_LETTERS = (24, 12, 6, 3)
"""Letters of a run that occurs once on either side, longest first: such runs tie the text to the drawing."""
_SHORTEST_PIECE = 4
"""Letters of a piece that is searched for on its own."""
_OUT_OF_ORDER = 8
"""A piece of as many letters may stand on any page, as text boxes are drawn out of order; a shorter one, if it occurs
once."""
_CURVES_OF_A_WORD = 20
"""Curves on a page without text that are letters sooner than a drawing: a syllable has two to five."""
_WORD_GAP = 0.25
"""White between two signs that is wider, in heights of a line, is a space."""


HIDDEN = {"c": "in the colour of its ground", "s": "font size under 1 pt"}
"""Zones of signs in the body that nobody sees, and why."""


class LaidPage(NamedTuple):
    """A page as a layout engine draws it: signs with their boxes, in the order of drawing."""

    width: float
    """Width of the page in points."""
    height: float
    """Height of the page in points."""
    signs: str
    """The characters on the page, without white space."""
    zones: str
    """One letter for each sign: b for the body, h for what stands above it, f for what stands below, and the letters
    of `HIDDEN`."""
    boxes: tuple[BBox, ...]
    """The box of each sign, in points."""
    images: tuple[BBox, ...] = ()
    """Boxes of the pictures."""
    curves: int = 0
    """Number of shapes of curves."""


class LayoutFailed(Exception):
    """A document could not be laid out as pages; the message says why."""


def place_on_pages(blocks: Sequence[Block], laid: Sequence[LaidPage]) -> list[Page]:
    """Return the pages with blocks; pages of undrawn blocks are estimated. Raises LayoutFailed if none is drawn."""
    if not any(page.signs or page.curves for page in laid):
        raise LayoutFailed("the layout engine draws no text")
    drawn = _DrawnLetters(laid)
    margins = {fold_letters(text) for page in laid for zone in "hf" if (text := _zone_text(page, zone)[0])}
    marginal = [block for block in blocks if block.kind in ("header", "footer")]
    # a header or footer that is shown in the margin of a page gets a block of its own there
    in_margins = [block for block in marginal if any(fold_letters(block.text) in margin for margin in margins)]
    located = drawn.place_blocks([block for block in blocks if all(block is not margin for margin in in_margins)])
    by_page: dict[int, list[Block]] = {}
    for block in _with_neighbours(located, drawn):
        by_page.setdefault(block.page or 1, []).append(block)
    counter, pages = itertools.count(), list[Page]()  # blocks are counted in the order of the pages
    for number, page in enumerate(laid, start=1):
        header, footer = (_margin_blocks(page, number, kind, marginal) for kind in ("header", "footer"))
        body = list[Block]()
        for block in by_page.get(number, ()):  # a file may have a table before the line that is drawn above it
            at = len(body)
            while at and _is_above(block, body[at - 1]):
                at -= 1
            body.insert(at, block)
        inside = [block.with_place(block=next(counter)) for block in (*header, *body, *footer)]
        unseen = drawn.hidden_texts.get(number, ())
        made = make_page(number, inside, if_empty="blank page", width=page.width, height=page.height, hidden=unseen)
        if page.curves >= _CURVES_OF_A_WORD and not page.signs:
            made = made.model_copy(update={"reason": "drawn text, not read: the page has curves and no text"})
        if unshown := sum(block.place.estimated for block in inside):
            why = f"the layout does not show {unshown} of {len(inside)} blocks, which stand by their order"
            made = made.model_copy(update={"reason": f"estimated: {why}"})
        pages.append(made)
    return pages


def _is_above(block: Block, other: Block) -> bool:
    """Return whether a block is drawn above another one, which is a table or a figure."""
    if other.kind not in ("table", "figure") or not block.bbox or not other.bbox:
        return False
    (x0, _, x1, bottom), (begin, top, end, _) = block.bbox, other.bbox
    return bottom <= top and x0 < end and begin < x1


def doubt_pages(pages: Sequence[Page], why: str) -> list[Page]:
    """Return the pages with all their numbers estimated, and the reason."""
    doubted: list[Page] = []
    for page in pages:
        blocks = tuple(block.with_place(estimated=True) for block in page.blocks)
        doubted.append(page.model_copy(update={"blocks": blocks, "reason": f"estimated: {why}"}))
    return doubted


class _DrawnLetters:
    """The letters of all bodies in the order in which they are drawn; letters are used up as blocks are found."""

    def __init__(self, laid: Sequence[LaidPage]) -> None:
        letters = list[str]()
        self.pages, self.boxes = list[int](), list[BBox]()
        self.images = list[tuple[int, BBox]]()
        self.starts = list[int]()
        self.page_count = len(laid)
        self.hidden = dict[int, str]()
        """Why nobody sees a letter, for each that nobody sees."""
        for number, page in enumerate(laid, start=1):
            self.starts.append(len(letters))
            self.images += [(number, box) for box in page.images]
            for sign, zone, box in zip(page.signs, page.zones, page.boxes, strict=True):
                if zone in "bcs":
                    for letter in fold_letters(sign):
                        if zone in HIDDEN:
                            self.hidden[len(letters)] = HIDDEN[zone]
                        letters.append(letter)
                        self.pages.append(number)
                        self.boxes.append(box)
        self.starts.append(len(letters))
        self.letters = "".join(letters)
        self.hidden_texts = dict[int, list[HiddenText]]()
        """Texts that were cut from the blocks because nobody sees them, by page."""
        self._used = bytearray(len(letters))

    def place_blocks(self, blocks: Sequence[Block]) -> list[Block]:
        """Return the blocks in order, one for each page that shows it, unfound ones unchanged. Raises LayoutFailed."""
        texts = [_Text(block) for block in blocks]
        body = [text for text in texts if text.block.kind != "note"]
        spots = align("".join(text.key for text in body), self.letters)
        for spot in spots:
            if spot is not None:
                self._used[spot] = 1
        for text in body:
            text.spots, spots = spots[: len(text.key)], spots[len(text.key) :]
        self._find_the_rest(body, ahead=1)
        notes = [text for text in texts if text.block.kind == "note"]
        self._find_the_rest(notes, ahead=self.page_count)  # they stand at the feet of pages, or at the end
        if not any(spot is not None for text in texts for spot in text.spots) and any(text.key for text in texts):
            raise LayoutFailed("the layout shows nothing of the text")
        if self.hidden:
            texts = [seen for text in texts if (seen := text.without_hidden(self))]
        return [part for text in texts for part in text.parts(self)]

    def _find_the_rest(self, texts: Sequence[_Text], *, ahead: int) -> None:
        """Look for the letters that stand out of order: near their neighbours first, long pieces on any page.

        ahead: pages behind that of the neighbours which are near.
        """
        before = 0
        for text in texts:
            in_order = max((spot for spot in text.spots if spot is not None), default=before)
            first, last = (self.pages[spot] if self.pages else 1 for spot in (before, in_order))
            low, high = self.starts[first - 1], self.starts[min(last + ahead, self.page_count)]
            for start, end in text.unplaced():
                for at, spot in self._find_pieces(text.key[start:end], low, high):
                    text.spots[start + at] = spot
            before = in_order

    def _find_pieces(self, key: str, low: int, high: int, start: int = 0) -> Iterator[tuple[int, int]]:
        """Yield (letter of the key, where it is drawn); the key is halved until its parts are found, or too short."""
        size = len(key)
        at = self._find_unused(key, low, high)
        if at < 0 and size >= _SHORTEST_PIECE:
            at = self._find_unused(key, 0, len(self.letters))
            if size < _OUT_OF_ORDER and self._find_unused(key, at + 1, len(self.letters)) >= 0:
                at = -1
        if at >= 0:
            self._used[at : at + size] = b"\1" * size
            yield from zip(range(start, start + size), range(at, at + size), strict=True)
        elif size >= 2 * _SHORTEST_PIECE:
            half = size // 2
            yield from self._find_pieces(key[:half], low, high, start)
            yield from self._find_pieces(key[half:], low, high, start + half)

    def _find_unused(self, key: str, start: int, end: int) -> int:
        """Return where the key begins among the unused letters from `start` to `end`; -1 if it does not."""
        at = self.letters.find(key, start, end)
        while at >= 0 and self._used.find(1, at, at + len(key)) >= 0:
            at = self.letters.find(key, at + 1, end)
        return at

    def repeats(self, key: str, page: int) -> bool:
        """Return whether the key is drawn again at the head of a page, as the header of a table that continues."""
        start = self.starts[page - 1]
        return bool(key) and self._find_unused(key, start, start + len(key) + 40) >= 0


def align(key: str, drawn: str) -> list[int | None]:
    """Return where each letter of the key is drawn, in rising order; None for a letter that is not.

    As in patience diff: runs that occur once on either side are tied, then shorter ones between two of them.
    """
    spots = list[int | None]([None] * len(key))
    open_ranges = [(0, len(key), 0, len(drawn), 0)]
    while open_ranges:
        low, high, drawn_low, drawn_high, level = open_ranges.pop()
        while low < high and drawn_low < drawn_high and key[low] == drawn[drawn_low]:
            spots[low] = drawn_low
            low, drawn_low = low + 1, drawn_low + 1
        while low < high and drawn_low < drawn_high and key[high - 1] == drawn[drawn_high - 1]:
            high, drawn_high = high - 1, drawn_high - 1
            spots[high] = drawn_high
        if low == high or drawn_low == drawn_high or level == len(_ANCHOR_LETTERS):
            continue
        size = _ANCHOR_LETTERS[level]
        places = _unique_runs(drawn, drawn_low, drawn_high, size)
        anchors = [
            (at, places[run]) for run, at in _unique_runs(key, low, high, size).items() if places.get(run) is not None
        ]
        for at, drawn_at in (*_rising(anchors), (high, drawn_high)):
            if at < low or drawn_at < drawn_low:  # inside the run before
                continue
            open_ranges.append((low, at, drawn_low, drawn_at, level + 1))
            low, drawn_low = at, drawn_at
            while low < high and drawn_low < drawn_high and key[low] == drawn[drawn_low]:
                spots[low] = drawn_low
                low, drawn_low = low + 1, drawn_low + 1
    return spots


def _unique_runs(text: str, start: int, end: int, size: int) -> dict[str, int]:
    """Return where each run of so many letters begins that occurs once between start and end."""
    places, repeated = dict[str, int](), set[str]()
    for at in range(start, end - size + 1):
        run = text[at : at + size]
        if places.setdefault(run, at) != at:
            repeated.add(run)
    return {run: at for run, at in places.items() if run not in repeated}


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest part of the pairs, which rise in their first number, that also rises in the second."""
    tails, ends, before = list[int](), list[int](), list[int | None]()
    for index, (_, drawn_at) in enumerate(pairs):
        place = bisect_left(tails, drawn_at)
        before.append(ends[place - 1] if place else None)
        tails[place : place + 1], ends[place : place + 1] = [drawn_at], [index]
    chain, index = list[tuple[int, int]](), ends[-1] if ends else None
    while index is not None:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]


class _Text:
    """The text of a block, and where each letter of it is drawn."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._texts = [cell.text for cell in block.cells] if block.cells else [block.text]
        folded = [
            (letter, n, at)
            for n, text in enumerate(self._texts)
            for at, sign in enumerate(text)
            for letter in fold_letters(sign)
        ]
        self.key = "".join(letter for letter, _, _ in folded)
        self._signs = [(n, at) for _, n, at in folded]
        self.spots = list[int | None]([None] * len(self.key))

    def unplaced(self) -> list[tuple[int, int]]:
        """Return the runs of letters of one cell that have no place yet, as (start, end)."""
        runs, start = list[tuple[int, int]](), 0
        for _, group in itertools.groupby(
            zip(self._signs, self.spots, strict=True), lambda pair: (pair[0][0], pair[1] is None)
        ):
            letters = list(group)
            if letters[0][1] is None:
                runs.append((start, start + len(letters)))
            start += len(letters)
        return runs

    def without_hidden(self, drawn: _DrawnLetters) -> _Text | None:
        """Return the text without what nobody sees, which joins `drawn.hidden_texts`; None where nothing is left."""
        reasons = [drawn.hidden.get(spot, "") if spot is not None else "" for spot in self.spots]
        if not any(reasons):
            return self
        texts, cuts = list(self._texts), list[tuple[int, int, int, str, list[int]]]()
        runs = itertools.groupby(range(len(reasons)), lambda index: (self._signs[index][0], reasons[index]))
        for (n, reason), group in runs:
            letters = list(group)
            of_text = [at for m, at in self._signs if m == n]
            start, end = self._signs[letters[0]][1], self._signs[letters[-1]][1] + 1
            if reason:  # signs beside the letters are hidden with them at the ends of the text
                start, end = (0 if start == of_text[0] else start), (len(texts[n]) if end > of_text[-1] else end)
                cuts.append((n, start, end, reason, [spot for at in letters if (spot := self.spots[at]) is not None]))
        for n, start, end, reason, spots in cuts:
            box = enclosing_box([drawn.boxes[place] for place in spots if drawn.pages[place] == drawn.pages[spots[0]]])
            hidden = HiddenText(text=texts[n][start:end].strip(), reason=reason, bbox=box)
            drawn.hidden_texts.setdefault(drawn.pages[spots[0]], []).append(hidden)
        for n, start, end, *_ in reversed(cuts):
            texts[n] = texts[n][:start] + texts[n][end:]
        changes: dict[str, object] = {"text": texts[0].strip() if texts else ""}
        if self.block.cells:
            cells = [cell.model_copy(update={"text": text}) for cell, text in zip(self.block.cells, texts, strict=True)]
            changes = {"cells": tuple(cells), "text": format_table(cells)}
        seen = _Text(self.block.model_copy(update=changes))
        seen.spots = [spot for spot, reason in zip(self.spots, reasons, strict=True) if not reason]
        return seen if seen.key else None

    def parts(self, drawn: _DrawnLetters) -> list[Block]:
        """Return a block for each page that shows the text; the block itself where it is not found."""
        self._drawn = drawn
        self._spots = [list[int | None]([None] * len(text)) for text in self._texts]
        for (n, at), spot in zip(self._signs, self.spots, strict=True):
            self._spots[n][at] = spot
        pages = [self._pages(spots) for spots in self._spots]
        numbers = sorted({page for per_sign in pages for page in per_sign if page})
        if not numbers:
            return [self.block]
        if self.block.cells:
            return self._table_parts(pages, numbers)
        text, per_sign = self.block.text, pages[0]
        parts = list[Block]()
        for page in numbers:
            signs = [at for at, sign_page in enumerate(per_sign) if sign_page == page]
            part = text[signs[0] : signs[-1] + 1].strip()
            if not part:
                continue
            changes: dict[str, object] = {"page": page, "bbox": self._box(self._spots[0], signs), "text": part}
            if parts and self.block.kind == "heading":
                changes |= {"kind": "paragraph", "level": None}  # the rest of a heading over the page's end is none
            parts.append(self.block.model_copy(update=changes))
        return parts

    def _pages(self, spots: Sequence[int | None]) -> list[int | None]:
        """Return each sign's page, never falling, the neighbour's where it is not found; all None if none is found."""
        by_sign = [self._drawn.pages[spot] if spot is not None else None for spot in spots]
        share = Counter(page for page in by_sign if page)
        least = min(_SHORTEST_PIECE, max(share.values(), default=0))  # fewer letters on a page are there by chance
        confirmed = [page if page and share[page] >= least else None for page in by_sign]
        first = next((page for page in confirmed if page), None)
        if first is None:
            return confirmed
        return list(accumulate(confirmed, lambda before, page: max(before or 0, page or 0) or None, initial=first))[1:]

    def _box(self, spots: Sequence[int | None], signs: Iterable[int]) -> BBox | None:
        """Return the box around the signs that are drawn on the page of the first of them; None where none is drawn."""
        located = [spot for spot in (spots[at] for at in signs) if spot is not None]
        page = self._drawn.pages[located[0]] if located else None
        boxes = [self._drawn.boxes[spot] for spot in located if self._drawn.pages[spot] == page]
        return enclosing_box(boxes) if boxes else None

    def _table_parts(self, pages: Sequence[Sequence[int | None]], numbers: Sequence[int]) -> list[Block]:
        """Return a table for each page, of the rows there; a cell that crosses the end of a page is on both."""
        cells = self.block.cells
        rows = self._row_pages(pages)
        if len(numbers) == 1:
            located = [self._cell(cell, n, range(len(cell.text))) for n, cell in enumerate(cells)]
            return [self._part(located, numbers[0], text=self.block.text)]
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
        """Return the page on which each row begins; of a row that is not found, that of the next one."""
        begins: dict[int, int] = {}
        later = max(page for per_sign in pages for page in per_sign if page)
        for row in sorted({cell.row for cell in self.block.cells}, reverse=True):
            inside = [pages[n][0] for n, cell in enumerate(self.block.cells) if cell.row == row and pages[n]]
            later = min([later, *(page for page in inside if page)])
            begins[row] = later
        return begins

    def _header_again(self, page: int, inside: Sequence[Cell]) -> list[Cell]:
        """Return the rows of the header, without places, if the layout repeats them on this page; else none."""
        top = min(cell.row for cell in inside)
        rows = {cell.row for cell in self.block.cells if cell.header}
        header_cells = [cell for cell in self.block.cells if cell.row in rows and cell.row < top]
        repeated = self._drawn.repeats("".join(fold_letters(cell.text) for cell in header_cells), page)
        # compared, but not located
        return [cell.model_copy(update={"bbox": None}) for cell in header_cells] if repeated else []

    def _cell(self, cell: Cell, n: int, signs: Sequence[int]) -> Cell:
        text = cell.text if len(signs) == len(cell.text) else "".join(cell.text[at] for at in signs).strip()
        return cell.model_copy(update={"text": text, "bbox": self._box(self._spots[n], signs)})

    def _part(self, cells: Sequence[Cell], page: int, *, text: str | None = None) -> Block:
        boxes = [cell.bbox for cell in cells if cell.bbox]
        box, text = enclosing_box(boxes) if boxes else None, format_table(cells) if text is None else text
        return self.block.model_copy(update={"page": page, "bbox": box, "cells": tuple(cells), "text": text})


def _with_neighbours(blocks: Sequence[Block], drawn: _DrawnLetters) -> Iterator[Block]:
    """Yield the blocks with a page each: of an undrawn figure that of a picture, of others an estimate by order."""
    images, before = list(drawn.images), 1
    for shown, group in itertools.groupby(enumerate(blocks), lambda pair: pair[1].page is not None):
        pairs = list(group)
        run = [block for _, block in pairs]
        if shown:
            before = max(block.page or 1 for block in run)
            yield from run
            continue
        after = next((block.page for block in blocks[pairs[-1][0] + 1 :] if block.page), None)
        last = max(before, after or drawn.page_count)
        ends = list(accumulate(len(block.text) + 1 for block in run))
        for block, end in zip(run, ends, strict=True):
            image = next((place for place in images if before <= place[0] <= last and block.kind == "figure"), None)
            if image:
                images.remove(image)
                before = image[0]
                yield block.model_copy(update={"page": image[0], "bbox": image[1]})
            else:
                page = before + (last - before) * end // (ends[-1] + 1)
                known = before == after or drawn.page_count == 1
                estimated = not known and bool(fold_letters(block.text))
                yield block.with_place(estimated=estimated).model_copy(update={"page": page})


def _zone_text(page: LaidPage, zone: str) -> tuple[str, list[BBox]]:
    """Return a zone's text (b, h or f) with white space between words, and a box for each sign but white space."""
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
    """Return the header or footer of a page, if any; its text is the document's where both have the same letters."""
    text, boxes = _zone_text(page, kind[0])
    if not text:
        return []
    key = fold_letters(text)
    of_kind = [block for block in marginal_blocks if block.kind == kind and key]
    stored = next((block for block in of_kind if fold_letters(block.text) == key), None)
    drawn_block = Block(kind="header" if kind == "header" else "footer", text=stored.text if stored else text)
    return [(stored or drawn_block).model_copy(update={"page": number, "bbox": enclosing_box(boxes)})]
