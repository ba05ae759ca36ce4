"""Opens PDFs with MuPDF, reads their metadata, and draws pages with boxes around what an answer cites."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pymupdf

from tasks.documents.blocks import BBox
from tasks.documents.document_errors import CorruptDocument, EmptyDocument, NeedsPassword, UnsupportedDocument
from tasks.documents.document_readers import storable

if TYPE_CHECKING:
    from PIL import Image

METADATA_NAMES = {name: name for name in ("title", "author", "subject", "keywords", "creator", "producer")} | {
    "creationDate": "created",
    "modDate": "modified",
    "format": "version",
}
"""Ours by MuPDF's."""
MUPDF_ERRORS = (RuntimeError, ValueError, pymupdf.mupdf.FzErrorBase)  # pyright: ignore[reportPrivateImportUsage]
MAX_NOTES = 4
MAX_NOTE_CHARS = 120
DPI = 110
MOST_PIXELS = 16_000_000  # larger pages are drawn at a lower resolution
INK, WASH = (214, 40, 40, 255), (255, 214, 10, 56)
MARGIN_POINTS = 3.0
PDF_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(?:(\d\d)(\d\d)(\d\d)?)?(?:([+-])(\d\d)'?(\d\d)|Z)?")


def open_document(path: Path, password: str | None) -> pymupdf.Document:
    """The document, unlocked; MuPDF prints nothing from here on. Raises DocumentError, OSError."""
    pymupdf.TOOLS.mupdf_display_errors(False)
    pymupdf.TOOLS.mupdf_display_warnings(False)
    pymupdf.TOOLS.reset_mupdf_warnings()
    if path.stat().st_size == 0:
        raise EmptyDocument("The document has no bytes; fetch it again.")
    try:
        document = pymupdf.open(path, filetype="pdf")
        if not document.is_pdf:  # MuPDF goes by the content, whatever `filetype` says
            raise CorruptDocument("The document is not a PDF; give it the name of what it is, or fetch it again.")
        if document.needs_pass and not password:
            raise NeedsPassword("The document is encrypted; give its password through `--password-env NAME`.")
        if document.needs_pass and not document.authenticate(password or ""):
            raise NeedsPassword("The document is encrypted and does not open with the given password; check it.")
        if not document.page_count:
            raise CorruptDocument(
                "The document holds no page that can be read: it is truncated or damaged; fetch it again."
            )
    except MUPDF_ERRORS as failure:
        raise _refusal(failure) from failure
    return document


def metadata_of(document: pymupdf.Document) -> dict[str, str]:
    """Title and other metadata stored in the file; dates in ISO 8601 where they are well formed."""
    told = {ours: (document.metadata or {}).get(name) for name, ours in METADATA_NAMES.items()}
    metadata = {name: storable(str(value)).strip() for name, value in told.items() if value}
    metadata |= {name: iso_date(metadata[name]) for name in ("created", "modified") if name in metadata}
    return {name: value for name, value in metadata.items() if value}


def opening_notes(document: pymupdf.Document) -> tuple[str, ...]:
    """Whether the file was repaired, and MuPDF's first warnings."""
    repaired = ["the file is damaged and was repaired; some of it may be missing"] if document.is_repaired else []
    return (*repaired, *complaints())


def iso_date(date: str) -> str:
    """`D:20230317171542-04'00'` as `2023-03-17T17:15:42-04:00`; anything else as it stands."""
    match = PDF_DATE.match(date)
    if match is None:
        return date
    year, month, day, hour, minute, second, sign, zone_hour, zone_minute = match.groups()
    text = "-".join(part for part in (year, month, day) if part)
    if hour:
        text += f"T{hour}:{minute}:{second or '00'}"
        text += f"{sign}{zone_hour}:{zone_minute}" if sign else "Z" if date.endswith("Z") else ""
    return text


def _refusal(failure: Exception) -> CorruptDocument | UnsupportedDocument:
    said = complaints(str(failure))
    if re.search(r"encryption handler|unsupported.*encrypt|unknown encryption", " ".join(said), re.IGNORECASE):
        return UnsupportedDocument(
            f"The document is protected by an encryption that is not read ({said[-1]}); save it without protection."
        )
    return CorruptDocument(
        f"The document cannot be read as a PDF ({said[-1]}): it is truncated or damaged; fetch it again."
    )


def complaints(*more: str) -> tuple[str, ...]:
    """The first few distinct MuPDF warnings since the last reset, without its counts of repetitions."""
    lines = [*pymupdf.TOOLS.mupdf_warnings().splitlines(), *more]
    said = dict.fromkeys(line.strip()[:MAX_NOTE_CHARS] for line in lines if line.strip() and not line.startswith("..."))
    return tuple(said)[:MAX_NOTES]


def render_pages(
    path: Path, boxes: Mapping[int, Sequence[BBox]], *, password: str | None
) -> Iterator[tuple[int, bytes]]:
    """(1-based page, PNG) for each existing page of `boxes`, in points of the shown page. Raises DocumentError."""
    with open_document(path, password) as document:
        yield from drawn_pages(document, boxes)


def drawn_pages(document: pymupdf.Document, boxes: Mapping[int, Sequence[BBox]]) -> Iterator[tuple[int, bytes]]:
    """(1-based page, PNG) for each existing page of `boxes`."""
    for number in sorted(boxes):
        if 1 <= number <= document.page_count:
            yield number, drawn_page(document[number - 1], boxes[number])


def drawn_page(page: pymupdf.Page, boxes: Sequence[BBox]) -> bytes:
    """A page as PNG with boxes in units of the page."""
    from PIL import Image  # not needed to read text

    points = max(page.rect.width * page.rect.height, 1.0)
    scale = min(DPI / 72, (MOST_PIXELS / points) ** 0.5)
    pixels = page.get_pixmap(dpi=round(scale * 72), alpha=False)
    image = Image.frombytes("RGB", (pixels.width, pixels.height), pixels.samples)
    return draw_boxes(image, boxes, pixels_per_point=pixels.width / page.rect.width)


def draw_boxes(image: Image.Image, boxes: Sequence[BBox], *, pixels_per_point: float) -> bytes:
    """The picture as PNG, with each box tinted yellow inside a red frame."""
    from PIL import Image, ImageDraw

    over = Image.new("RGBA", image.size)
    pen = ImageDraw.Draw(over)
    for x0, y0, x1, y1 in boxes:
        left, top, right, bottom = (
            (edge + side * MARGIN_POINTS) * pixels_per_point
            for edge, side in ((min(x0, x1), -1), (min(y0, y1), -1), (max(x0, x1), 1), (max(y0, y1), 1))
        )
        pen.rectangle((left, top, right, bottom), fill=WASH, outline=INK, width=max(2, round(pixels_per_point * 1.5)))
    file = io.BytesIO()
    Image.alpha_composite(image.convert("RGBA"), over).convert("RGB").save(file, "PNG", optimize=True)
    return file.getvalue()
