"""Reads pictures of text (PNG, JPEG, TIFF): each frame becomes a page of a PDF in memory, read as a scan is."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pymupdf

from tasks.documents.blocks import BBox, ImageCandidate
from tasks.documents.document_errors import CorruptDocument, RefusedDocument, shorten
from tasks.documents.document_readers import Reader, ReadOptions
from tasks.documents.embedded_images import MOST_PIXELS, UNREADABLE, Undecodable, decode_image
from tasks.documents.pdf.pdf_document import draw_pages, find_ocr_languages
from tasks.documents.pdf.pdf_reader import PdfReader

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("PNG", "JPEG", "TIFF")
MOST_FRAMES = 500
SCREEN_DPI = 96
"""Resolution of pictures that do not tell theirs."""
LEAST_DPI, MOST_DPI = 36, 2400
"""Resolutions below and above these, in dots per inch, are taken for mistakes of the file."""


def open_image(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """Read a picture, a page for each frame, its text by tesseract, where that is installed. Raises DocumentError."""
    reader = PdfReader(_make_pdf(path), path, password=None, options=options.model_copy(update={"pdf_reader": "auto"}))
    note = "There is no tesseract that reads Korean or English, so the text of the picture was not read."
    reader.header = reader.header.model_copy(
        update={
            "format": "image",
            "reader": "trivet image 1",
            "notes": () if find_ocr_languages() or options.ocr == "off" else (note,),
        }
    )
    return reader


def image_pictures(path: Path, *, password: str | None) -> Iterator[ImageCandidate]:  # noqa: ARG001
    """Yield each frame as a picture that fills its page. Raises CorruptDocument or RefusedDocument."""
    for number, frame in enumerate(_frames(path), start=1):
        candidate = ImageCandidate(page=number, bbox=(0.0, 0.0, *_size_in_points(frame)), n=1, source="raster")
        try:
            yield candidate.model_copy(update=decode_image(_encode_png(frame))._asdict())
        except Undecodable as error:
            yield candidate.model_copy(update={"problem": str(error)})


def render_pages(
    path: Path, boxes: Mapping[int, Sequence[BBox]], *, password: str | None
) -> Iterator[tuple[int, bytes]]:
    """Yield the 1-based number and the PNG of each existing page of `boxes`. Raises DocumentError."""
    del password  # pictures have none
    yield from draw_pages(_make_pdf(path), boxes)


def _make_pdf(path: Path) -> pymupdf.Document:
    """Return a PDF with a page for each frame at its resolution. Raises DocumentError."""
    document = pymupdf.open()
    for frame in _frames(path):
        width, height = _size_in_points(frame)
        page = document.new_page(width=width, height=height)
        page.insert_image(page.rect, stream=_encode_png(frame))
    return document


def _frames(path: Path) -> Iterator[Image.Image]:
    """Yield the frames of a TIFF, of other pictures the first, upright. Raises CorruptDocument, RefusedDocument."""
    from PIL import Image, ImageOps, ImageSequence  # not needed to read text

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of every oddity; what fails raises
            with Image.open(path, formats=FORMATS) as image:
                # frames of an animated PNG are not pages
                count = getattr(image, "n_frames", 1) if image.format == "TIFF" else 1
                if count > MOST_FRAMES:
                    raise RefusedDocument(f"The picture has {count:,} frames, more than {MOST_FRAMES}; split it.")
                for frame in [image] if count == 1 else ImageSequence.Iterator(image):
                    if frame.width * frame.height > MOST_PIXELS:
                        size = f"{frame.width} × {frame.height} pixels, more than the {MOST_PIXELS:,} that are read"
                        raise RefusedDocument(f"The picture has {size}; scale it.")
                    frame.load()
                    yield ImageOps.exif_transpose(frame)
    except Image.DecompressionBombError as error:
        raise RefusedDocument(f"The picture has more pixels than the {MOST_PIXELS:,} that are read.") from error
    except UNREADABLE as error:
        raise CorruptDocument(f"The picture is damaged ({shorten(error)}); get it again.") from error


def _size_in_points(frame: Image.Image) -> tuple[float, float]:
    """Return width and height in points of a frame at its resolution, SCREEN_DPI where none is credible."""
    dpi = float(frame.info.get("dpi", (SCREEN_DPI,))[0] or SCREEN_DPI)
    dpi = dpi if LEAST_DPI <= dpi <= MOST_DPI else SCREEN_DPI
    return round(frame.width * 72 / dpi, 2), round(frame.height * 72 / dpi, 2)


def _encode_png(image: Image.Image) -> bytes:
    file = BytesIO()
    is_writable = image.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16")  # the modes that PNG can hold
    (image if is_writable else image.convert("RGB")).save(file, "PNG")
    return file.getvalue()
