"""The page of a cited place: where its quote stands, the paragraph or the row of a table, less than its passage.

On a page that is drawn these are boxes in its picture; in a document without pages, the lines about it. A link to a
picture carries its own permission: it shows one page of one document to whoever has it, so that a chat client can show
the picture without signing in.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi.responses import JSONResponse, Response

from flows.service.served_collections import Collection
from flows.service.web.doors import statuses_of
from flows.service.web.visits import ROOT, Keys, Pages, Problem, Visit
from storage.records import Ref
from storage.storage_errors import StorageError
from tasks.documents.blocks import BBox, Block, Document, enclosing_box
from tasks.documents.blocks import Page as ReadPage
from tasks.documents.document_errors import ReaderUnusable
from tasks.documents.formats import find_format
from tasks.documents.isolation import DocumentUnreadable, ReadLimits
from tasks.rag.answering.evidence import NoPicture, draw_pages
from tasks.rag.answers import Citation, page_source_of, place_of

PICTURE = "/pictures/{document}/{page}.png"
DIGEST = re.compile(r"[0-9a-f]{64}")
SLACK_POINTS = 1.0  # by which a block may stick out of the box of its passage
MOST_BOXES = 20
PICTURES_KEPT, READINGS_KEPT = 128, 16
"""Pictures in memory, some 20 MB, and documents."""
LINES_AROUND, LINE_CHARS, MOST_LINES = 3, 600, 400
pages = Pages()


class Line(NamedTuple):
    """A paragraph, or a row of a table."""

    cells: tuple[str, ...]
    quoted: bool = False


def place_address(document: str, page: int | None, box: BBox | None, quote: str) -> str:
    """Return the address of the page of a place. document: digest. box: in points."""
    edges = ",".join(f"{edge:.2f}" for edge in box or ())
    return f"{ROOT}/place?{urlencode({'document': document, 'page': page or '', 'box': edges, 'quote': quote})}"


def in_collection_of(visit: Visit, document: str) -> Visit:
    """Return the visit in a collection that has this document, else unchanged."""

    def has(collection: Collection) -> bool:
        with collection.live.borrow() as current:
            return any(entry.document == document for entry in current.index.catalogue)

    return visit.where(has) if visit.workplace.collections.names else visit


def place_values(visit: Visit, citations: Sequence[Citation]) -> dict[str, Any] | None:
    """Return what the template needs to show the first citation, and no later one; None without it or its document."""
    with suppress(Problem, StorageError):
        if citations:
            cited = citations[0]
            return _place_values(visit, cited.digest, cited.page, cited.bbox, cited.quote)
    return None


@pages.get("/place")
def show_place(visit: Visit) -> Response:
    """Show the place that the address names. Raises Problem."""
    document, page, box = (visit.query.get(name, "") for name in ("document", "page", "box"))
    visit = in_collection_of(visit, document)
    if not DIGEST.fullmatch(document) or not (page == "" or (page.isdecimal() and 0 < int(page) < 10**6)):
        raise Problem(404, "this is no place in a document; open it from an answer")
    edges = _read_box(box) if box else None
    values = _place_values(visit, document, int(page) if page else None, edges, visit.query.get("quote", ""))
    return visit.page("place_part.html" if visit.is_part else "place.html", place=values)


def _place_values(visit: Visit, document: str, page: int | None, box: BBox | None, quote: str) -> dict[str, Any]:
    """Return what the template of a cited place needs. Raises Problem."""
    with visit.live.borrow() as current:
        entry = current.index.entry(document)
    if entry is None:
        raise Problem(404, "this document is no longer in the index; ask again to see what it says now")
    status = statuses_of(visit.live.folder).get(document)
    pages: tuple[ReadPage, ...] = ()
    with suppress(StorageError):  # the reading is not at hand
        pages = _load_document(status.reading.model_dump_json()).pages if status and status.reading else ()
    blocks = next((read_page.blocks for read_page in pages if read_page.number == page), ())
    # around the quote, or around its passage where the reading of the document is not at hand
    boxes = boxes_of(quote, within=box, blocks=blocks) if box and page else ()
    drawn = page is not None and is_drawn(entry.format)
    if drawn:
        lines = tuple(Line(cells) for block in blocks for cells, _ in _rows(block))[:MOST_LINES]
    else:
        lines = lines_about(quote, (block for read_page in pages for block in read_page.blocks)) if quote else ()
    last = entry.pages or page or 1
    around = {"before": (page or 0) - 1, "after": (page or 0) + 1}
    return {
        "document": entry.name,
        "where": place_of(entry.name, page, page_source_of(entry, page), language=visit.language),
        "picture": picture_address(visit.workplace.keys, document, page, boxes) if drawn and page else None,
        "quote": quote,
        "told": status,
        "trouble": next(
            (trouble for trouble in (status.troubled_pages if status else ()) if trouble.page == page), None
        ),
        "lines": lines,
        "page": page,
        "source": page_source_of(entry, page),
        "pages": entry.pages,
        "links": {
            name: f"{ROOT}/place?{urlencode({'document': document, 'page': number})}" if 1 <= number <= last else ""
            for name, number in around.items()
        },
    }


@lru_cache(maxsize=READINGS_KEPT)
def _load_document(ref_json: str) -> Document:
    from tasks.resources import artifacts

    return artifacts().load(Document, Ref.model_validate_json(ref_json))


def boxes_of(quote: str, *, within: BBox, blocks: Iterable[Block]) -> tuple[BBox, ...]:
    """Return the box of the block or row that holds the quote, else up to MOST_BOXES of parts of it, else `within`.

    blocks: those of the page. within: box of the passage, in points.
    """

    def plain(text: str) -> str:  # without blanks and the lines between cells: readers and passages differ in them
        return "".join(text.replace("|", "").split())

    quoted, parts = plain(quote), list[BBox]()
    inside = (block for block in blocks if block.bbox and _lies_in(block.bbox, within))
    for cells, box in chain.from_iterable(map(_rows, inside)):
        piece = plain("".join(cells))
        if not (box and piece):
            continue
        if quoted and quoted in piece:
            return (box,)
        if piece in quoted:
            parts.append(box)
    return tuple(parts[:MOST_BOXES]) or (within,)


def _lies_in(box: BBox, outer: BBox) -> bool:
    starts = all(inner >= edge - SLACK_POINTS for inner, edge in zip(box[:2], outer[:2], strict=True))
    return starts and all(inner <= edge + SLACK_POINTS for inner, edge in zip(box[2:], outer[2:], strict=True))


def lines_about(quote: str, blocks: Iterable[Block]) -> tuple[Line, ...]:
    """Return the line most like the quote, lines about it and its table's first row; empty below half of the words."""

    def words(text: str) -> set[str]:
        return set(re.findall(r"\w+", text.casefold()))

    quoted = words(quote)
    lines = [(number, cells) for number, block in enumerate(blocks) for cells, _ in _rows(block)]
    shared = [len(quoted & words(" ".join(cells))) for _, cells in lines]
    most_shared = max(shared, default=0)
    if not most_shared or 2 * most_shared < len(quoted):
        return ()
    best = shared.index(most_shared)
    first = max(best - LINES_AROUND, 0)
    head = next(row for row, (number, _) in enumerate(lines) if number == lines[best][0])
    rows = [*([head] if head < first else []), *range(first, min(best + LINES_AROUND + 1, len(lines)))]
    return tuple(Line(tuple(cell[:LINE_CHARS] for cell in lines[row][1]), row == best) for row in rows)


def _rows(block: Block) -> Iterator[tuple[tuple[str, ...], BBox | None]]:
    """Yield the rows of a table as texts by column, each with its box if known, or text and box of another block."""
    if not block.cells and block.text:
        yield (block.text,), block.bbox
    for _, row in groupby(block.cells, key=lambda cell: cell.row):
        by_column = {cell.col: cell for cell in row}
        texts = (by_column[column].text if column in by_column else "" for column in range(max(by_column) + 1))
        boxes = [cell.bbox for cell in by_column.values() if cell.bbox and cell.text]
        yield tuple(texts), enclosing_box(boxes) if boxes else None


def picture_address(keys: Keys, document: str, page: int, boxes: tuple[BBox, ...] = ()) -> str:
    """Return the signed link to the picture of a page with up to MOST_BOXES frames. document: digest."""
    edges = ";".join(",".join(f"{edge:.2f}" for edge in box) for box in boxes[:MOST_BOXES])
    key = keys.permission(f"{document}/{page}/{edges}")
    return f"{PICTURE.format(document=document, page=page)}?{urlencode({'boxes': edges, 'key': key})}"


def picture_link(keys: Keys, citation: Citation) -> str | None:
    """Return the link to the picture of the page that a citation names; None without one."""
    if citation.page is None:
        return None
    return picture_address(keys, citation.digest, citation.page, (citation.bbox,) if citation.bbox else ())


def is_drawn(format: str | None) -> bool:
    """Return whether pages of the format can be drawn."""
    try:
        return format is not None and find_format(format).page_renderer is not None
    except ReaderUnusable:
        return False


def show_picture(keys: Keys, document: str, page: int, boxes: str, key: str) -> Response:
    """Send the picture; 403 for a link that the server did not make, 404 with the reason where there is none."""
    if not keys.permits(f"{document}/{page}/{boxes}", key):
        return JSONResponse({"error": "this link to a picture is not of this server; take it from an answer"}, 403)
    try:
        png = draw(document, page, boxes)
    except (DocumentUnreadable, NoPicture, StorageError) as reason:
        return JSONResponse({"error": f"no picture of this page: {reason}"}, 404)
    headers = {"Cache-Control": "private, max-age=604800, immutable", "X-Content-Type-Options": "nosniff"}
    return Response(png, media_type="image/png", headers=headers)


@lru_cache(maxsize=PICTURES_KEPT)
def draw(document: str, page: int, boxes: str = "") -> bytes:
    """Return the PNG of a page with `x0,y0,x1,y1;…` framed. Raises NoPicture, DocumentUnreadable, StorageError."""
    from tasks.resources import artifacts

    if not DIGEST.fullmatch(document):
        raise NoPicture("a document is named by 64 hex digits")
    drawn = {page: [_read_box(box) for box in boxes.split(";") if box]}
    path = artifacts().find("document", document)
    with tempfile.TemporaryDirectory(prefix="trivet-") as scratch:
        for _, file in draw_pages(path, document, drawn, scratch=Path(scratch), limits=ReadLimits()):
            return file.read_bytes()
    raise NoPicture(f"it has no page {page}")


def _read_box(text: str) -> BBox:
    """Return the box in `x0,y0,x1,y1`, in points. Raises Problem 422."""
    try:
        x0, y0, x1, y1 = map(float, text.split(","))
    except ValueError:
        raise Problem(422, f"{text[:40]} is no box; open the place from an answer") from None
    return x0, y0, x1, y1
