"""Where on its page a quote stands: the paragraph or the row of a table, which is less than the passage it is from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby

from storage.records import Ref
from tasks.documents.blocks import BBox, Block, Document

SLACK_POINTS = 1.0
MOST_BOXES = 20
READINGS_KEPT = 16


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
