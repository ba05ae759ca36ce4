"""Pages as pictures, with boxes drawn over what an answer cites."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from tasks.documents.blocks import BBox
from tasks.documents.pdf.pdf_opening import open_document

DPI = 110
MOST_PIXELS = 16_000_000
"""A page as large as a poster is drawn at fewer dots per inch."""
INK, WASH = (214, 40, 40, 255), (255, 214, 10, 56)
MARGIN_POINTS = 3.0


def render_pages(
    path: Path, boxes: Mapping[int, Sequence[BBox]], *, password: str | None
) -> Iterator[tuple[int, bytes]]:
    """(page, PNG) for each 1-based page of `boxes`, which are in points of the page as it is shown.

    Pages that the file does not have are left out. Raises DocumentError.
    """
    with open_document(path, password) as document:
        for number in sorted(boxes):
            if 1 <= number <= document.page_count:
                page = document[number - 1]
                points = max(page.rect.width * page.rect.height, 1.0)
                scale = min(DPI / 72, (MOST_PIXELS / points) ** 0.5)
                pixels = page.get_pixmap(dpi=round(scale * 72), alpha=False)
                image = Image.frombytes("RGB", (pixels.width, pixels.height), pixels.samples)
                yield number, draw_boxes(image, boxes[number], pixels_per_point=pixels.width / page.rect.width)


def draw_boxes(image: Image.Image, boxes: Sequence[BBox], *, pixels_per_point: float) -> bytes:
    """The picture as PNG, each box washed with yellow inside a red frame."""
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
