"""Where a quote stands: the paragraph or the row of a table, which is less than the passage it is from.

On a page that is drawn these are boxes; in a document without pages, the lines about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from storage.records import Ref
from tasks.documents.blocks import BBox, Block, Document

SLACK_POINTS = 1.0
MOST_BOXES = 20
READINGS_KEPT = 16
LINES_AROUND, LINE_CHARS = 3, 600


class Line(NamedTuple):
    """A paragraph, or a row of a table."""

    cells: tuple[str, ...]
    quoted: bool = False


def boxes_of(quote: str, *, within: BBox, blocks: Iterable[Block]) -> tuple[BBox, ...]:
    """Boxes around the blocks or rows that hold the quote, or are a part of it; `within` where there are none.

    blocks: those of the page. within: box of the passage, in points.
    """
    wanted, parts = _plain(quote), list[BBox]()
    for text, box in _pieces(block for block in blocks if block.bbox and _lies_in(block.bbox, within)):
        plain = _plain(text)
        if plain and wanted and wanted in plain:
            return (box,)
        if plain and plain in wanted:
            parts.append(box)
    return tuple(parts[:MOST_BOXES]) or (within,)


def lines_about(quote: str, blocks: Iterable[Block]) -> tuple[Line, ...]:
    """The row or paragraph with most words of the quote, what stands about it, and the first row of its table.

    Empty where no line has half of the words.
    """
    wanted = _words(quote)
    lines = [(number, cells) for number, block in enumerate(blocks) for cells in _lines(block)]
    shared = [len(wanted & _words(" ".join(cells))) for _, cells in lines]
    most = max(shared, default=0)
    if not most or 2 * most < len(wanted):
        return ()
    at = shared.index(most)
    first = max(at - LINES_AROUND, 0)
    head = next(row for row, (number, _) in enumerate(lines) if number == lines[at][0])
    shown = [*([head] if head < first else []), *range(first, min(at + LINES_AROUND + 1, len(lines)))]
    return tuple(Line(tuple(cell[:LINE_CHARS] for cell in lines[row][1]), row == at) for row in shown)


def _lines(block: Block) -> Iterator[tuple[str, ...]]:
    if not block.cells and block.text:
        yield (block.text,)
    for _, row in groupby(block.cells, key=lambda cell: cell.row):
        by_column = {cell.col: cell.text for cell in row}
        yield tuple(by_column.get(column, "") for column in range(max(by_column) + 1))


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def _pieces(blocks: Iterable[Block]) -> Iterator[tuple[str, BBox]]:
    """Text and box of each row of a table and of each other block."""
    for block in blocks:
        if not block.cells and block.bbox:
            yield block.text, block.bbox
        for _, row in groupby(block.cells, key=lambda cell: cell.row):
            cells = [cell for cell in row if cell.bbox and cell.text]
            if cells:
                yield " | ".join(cell.text for cell in cells), _around(cell.bbox for cell in cells if cell.bbox)


def _around(boxes: Iterable[BBox]) -> BBox:
    left, top, right, bottom = zip(*boxes, strict=True)
    return min(left), min(top), max(right), max(bottom)


def _lies_in(box: BBox, outer: BBox) -> bool:
    return (
        box[0] >= outer[0] - SLACK_POINTS
        and box[1] >= outer[1] - SLACK_POINTS
        and box[2] <= outer[2] + SLACK_POINTS
        and box[3] <= outer[3] + SLACK_POINTS
    )


def _plain(text: str) -> str:
    """The text without blanks and the lines between cells: readers and passages differ in them."""
    return "".join(text.replace("|", "").split())


def reading(kept: Ref) -> Document:
    """What was read of a document. Raises StorageError."""
    return _read(kept.model_dump_json())


@lru_cache(maxsize=READINGS_KEPT)
def _read(kept: str) -> Document:
    from tasks.resources import artifacts

    return artifacts().load(Document, Ref.model_validate_json(kept))
