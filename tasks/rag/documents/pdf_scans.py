"""PDF pages without usable text: why there is none, and what tesseract reads from their image."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pymupdf

from tasks.rag.documents.ocr import OcrLine, read_image
from tasks.rag.documents.pdf_text import Fragment

OCR_DPI = 300
MAX_OCR_PIXELS = 30_000_000
"""Larger pages are rendered coarser."""
SCAN_SHARE = 0.7
"""Share of the page that one image covers when the page is a scan."""


def is_blank(page: pymupdf.Page) -> bool:
    """Whether the page shows a single colour."""
    return bool(page.get_pixmap(dpi=36, colorspace=pymupdf.csGRAY, alpha=False).is_unicolor)


def why_no_text(page: pymupdf.Page) -> str:
    """What a page without text shows instead."""
    drawn = Counter(str(entry[0]) for entry in page.get_bboxlog())
    if any("text" in kind for kind in drawn):
        return "glyphs without Unicode"
    if any("image" in kind for kind in drawn):
        return "image-only"
    if page.first_widget is not None:
        return "only empty form fields"
    return "only vector drawings" if drawn else "blank"


def is_scan(page: pymupdf.Page) -> bool:
    """Whether one image covers most of the page."""
    images: list[dict[str, Any]] = page.get_image_info()
    return any(abs(pymupdf.Rect(image["bbox"]) & page.rect) >= SCAN_SHARE * abs(page.rect) for image in images)


def read_scan(page: pymupdf.Page) -> list[Fragment]:
    """What tesseract reads on the rendered page, in points of the shown page.

    Raises tasks.rag.documents.ocr.OcrFailed.
    """
    dpi = OCR_DPI
    pixels = page.rect.width * page.rect.height * (dpi / 72) ** 2
    if pixels > MAX_OCR_PIXELS:
        dpi = max(int(dpi * (MAX_OCR_PIXELS / pixels) ** 0.5), 36)
    image = page.get_pixmap(dpi=dpi, colorspace=pymupdf.csGRAY, alpha=False)
    return _fragments(read_image(image.tobytes("png"), dpi=dpi), 72 / dpi)


def _fragments(lines: Sequence[OcrLine], scale: float) -> list[Fragment]:
    return [
        Fragment(
            line.x0 * scale,
            line.y0 * scale,
            line.x1 * scale,
            line.y1 * scale,
            line.text,
            size=_size(lines, line) * scale,
            bold=False,
            upright=True,
            line=(number, 0),
        )
        for number, line in enumerate(lines)
    ]


def _size(lines: Sequence[OcrLine], line: OcrLine) -> float:
    """Height of the line's paragraph: single lines vary with their letters."""
    heights = sorted(other.y1 - other.y0 for other in lines if other.paragraph == line.paragraph)
    return heights[len(heights) // 2]
