"""Pictures of document pages with the cited box drawn, behind links that carry their own permission.

A link shows one page of one document to whoever has it, so that a chat client can show the picture without signing in.
"""

from __future__ import annotations

import re
import tempfile
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlencode

from fastapi.responses import JSONResponse, Response

from flows.service.web.signing_in import Keys
from storage.storage_errors import StorageError
from tasks.documents.blocks import BBox
from tasks.documents.document_errors import ReaderUnusable
from tasks.documents.formats import format_named
from tasks.documents.isolation import DocumentUnreadable, ReadLimits
from tasks.rag.answering.evidence import NoPicture, draw_pages
from tasks.rag.answers import Citation

PATH = "/pictures/{document}/{page}.png"
DIGEST = re.compile(r"[0-9a-f]{64}")
KEPT = 128
"""Pictures in memory, some 20 MB."""
MOST_BOXES = 20


def address(keys: Keys, document: str, page: int, boxes: tuple[BBox, ...] = ()) -> str:
    """The link to a page. document: digest."""
    path = PATH.format(document=document, page=page)
    told = ";".join(",".join(f"{edge:.2f}" for edge in box) for box in boxes[:MOST_BOXES])
    return f"{path}?{urlencode({'boxes': told, 'key': keys.permission(_meant(document, page, told))})}"


def address_of(keys: Keys, citation: Citation) -> str | None:
    """The link to the page that a citation names; None without one."""
    if citation.page is None:
        return None
    return address(keys, citation.digest, citation.page, (citation.bbox,) if citation.bbox else ())


def is_drawn(format: str | None) -> bool:
    """Whether pages of the format can be drawn."""
    try:
        return format is not None and format_named(format).page_renderer is not None
    except ReaderUnusable:
        return False


def _meant(document: str, page: int, boxes: str) -> str:
    return f"{document}/{page}/{boxes}"


def respond(keys: Keys, document: str, page: int, boxes: str, key: str) -> Response:
    """The picture; 403 for a link that the server did not make, 404 with the reason where there is none."""
    if not keys.permits(_meant(document, page, boxes), key):
        return JSONResponse({"error": "this link to a picture is not of this server; take it from an answer"}, 403)
    try:
        png = draw(document, page, boxes)
    except (DocumentUnreadable, NoPicture, StorageError) as reason:
        return JSONResponse({"error": f"no picture of this page: {reason}"}, 404)
    headers = {"Cache-Control": "private, max-age=604800, immutable", "X-Content-Type-Options": "nosniff"}
    return Response(png, media_type="image/png", headers=headers)


@lru_cache(maxsize=KEPT)
def draw(document: str, page: int, boxes: str = "") -> bytes:
    """The PNG of a page. Raises NoPicture, DocumentUnreadable, StorageError."""
    from tasks.resources import artifacts

    if not DIGEST.fullmatch(document):
        raise NoPicture("a document is named by 64 hex digits")
    drawn = {page: [_box(one) for one in boxes.split(";") if one]}
    path = artifacts().find("document", document)
    with tempfile.TemporaryDirectory(prefix="trivet-") as scratch:
        for _, file in draw_pages(path, document, drawn, scratch=Path(scratch), limits=ReadLimits()):
            return file.read_bytes()
    raise NoPicture(f"it has no page {page}")


def _box(told: str) -> BBox:
    try:
        x0, y0, x1, y1 = map(float, told.split(","))
    except ValueError:
        raise NoPicture("a box is four numbers") from None
    return x0, y0, x1, y1
