"""The page of a cited place: where its quote stands, the paragraph or the row of a table, less than its passage.

On a page that is drawn these are boxes in its picture; in a document without pages, the lines about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi.responses import Response

from flows.service.served_collections import Collection
from flows.service.web.doors import statuses_of
from flows.service.web.page_pictures import DIGEST, address, is_drawn
from flows.service.web.visits import ROOT, Page, Problem, Visit
from storage.records import Ref
from storage.storage_errors import StorageError
from tasks.documents.blocks import BBox, Block, Document
from tasks.documents.blocks import Page as ReadPage
from tasks.rag.answers import Citation, page_source_of, place_of

SLACK_POINTS = 1.0
MOST_BOXES = 20
READINGS_KEPT = 16
LINES_AROUND, LINE_CHARS = 3, 600


class Line(NamedTuple):
    """A paragraph, or a row of a table."""

    cells: tuple[str, ...]
    quoted: bool = False


def _place(visit: Visit) -> Response:
    document, page = visit.query.get("document", ""), visit.query.get("page", "")
    visit = in_collection_of(visit, document)
    if not DIGEST.fullmatch(document) or not (page == "" or (page.isdecimal() and 0 < int(page) < 10**6)):
        raise Problem(404, "this is no place in a document; open it from an answer")
    place = _place_of(
        visit, document, int(page) if page else None, visit.query.get("box", ""), visit.query.get("quote", "")
    )
    return visit.page("place_part.html" if visit.is_part else "place.html", place=place)


def in_collection_of(visit: Visit, document: str) -> Visit:
    """The visit in a collection that has this document."""

    def has(one: Collection) -> bool:
        with one.live.borrow() as current:
            return any(entry.document == document for entry in current.index.catalogue)

    return visit.where(has) if visit.workplace.collections.names else visit


def place_values(visit: Visit, citation: Citation) -> dict[str, Any] | None:
    """What the template of a cited place needs; None where the index has the document no longer."""
    box = ",".join(f"{edge:.2f}" for edge in citation.bbox or ())
    try:
        return _place_of(visit, citation.digest, citation.page, box, citation.quote)
    except (Problem, StorageError):
        return None


def _place_of(visit: Visit, document: str, page: int | None, box: str, said: str) -> dict[str, Any]:
    """What the template of a cited place needs. Raises Problem."""
    with visit.live.borrow() as current:
        entry = current.index.entry(document)
    if entry is None:
        raise Problem(404, "this document is no longer in the index; ask again to see what it says now")
    boxes: tuple[BBox, ...] = ()
    if box and page:  # around the quote, or around its passage where the reading of the document is not at hand
        boxes = (_box(box),)
        for one in _pages(visit, document) if said else ():
            if one.number == page:
                boxes = boxes_of(said, within=_box(box), blocks=one.blocks)
    drawn = page is not None and is_drawn(entry.format)
    blocks = (block for one in _pages(visit, document) for block in one.blocks)
    lines = () if drawn or not said else lines_about(said, blocks)
    last = entry.pages or page or 1
    around = {"before": (page or 0) - 1, "after": (page or 0) + 1}
    return {
        "document": entry.name,
        "where": place_of(entry.name, page, page_source_of(entry), language=visit.language),
        "picture": address(visit.workplace.keys, document, page, boxes) if drawn and page else None,
        "quote": said,
        "lines": lines,
        "columns": max((len(line.cells) for line in lines), default=1),
        "page": page,
        "source": page_source_of(entry),
        "pages": entry.pages,
        "links": {
            name: f"{ROOT}/place?{urlencode({'document': document, 'page': at})}" if 1 <= at <= last else ""
            for name, at in around.items()
        },
    }


def _pages(visit: Visit, document: str) -> tuple[ReadPage, ...]:
    """What was read of a document; none where that is not at hand."""
    status = statuses_of(visit.live.folder).get(document)
    try:
        return reading(status.reading).pages if status and status.reading else ()
    except StorageError:
        return ()


def _box(told: str) -> tuple[float, float, float, float]:
    try:
        x0, y0, x1, y1 = map(float, told.split(","))
    except ValueError:
        raise Problem(422, f"{told[:40]} is no box; open the place from an answer") from None
    return x0, y0, x1, y1


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


PAGES = (Page("GET", "/place", _place),)
