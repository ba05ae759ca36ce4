"""Pictures of a PDF, rendered from the page at their own resolution.

Extraction by object number fails on soft and stencil masks, CMYK and indexed colours, Decode arrays, inline images,
rotation, and labels over the picture. The pixel grids of page and image are aligned, so that an image that is shown
twice gives the same pixels twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import pymupdf

from tasks.documents.blocks import LONGEST_SIDE_PX, BBox, ImageCandidate
from tasks.documents.pdf.pdf_charts import Rect, enclosing_rect, find_charts, intersection
from tasks.documents.pdf.pdf_document import open_document

CHART_DPI = 150
TOUCH_PT = 1.0  # largest distance between tiles of one picture, and difference of their edges
SAME_PLACE = 0.5  # share of the smaller image that the larger one covers when they are layers of one picture
GROUND_SHARE = 0.85  # an image that covers more of the page is a scan or a background
GROUND_CHARS = 50  # visible characters from which such an image is the background of a page of text
MOST_PER_PAGE = 60
SMALLEST_PT = 1.0
PDF_ERRORS = (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, pymupdf.mupdf.FzErrorBase)  # pyright: ignore[reportPrivateImportUsage]


class Placement(NamedTuple):
    """A picture with its place on the unrotated page."""

    rect: Rect
    scale: tuple[float, float]
    """Pixels per point across and down, before the page is rotated."""
    source: Literal["raster", "vector"]


def pdf_images(path: Path, *, password: str | None) -> Iterator[ImageCandidate]:
    """Yield the pictures of each page, top to bottom. Raises DocumentError."""
    with open_document(path, password) as document:
        for number in range(1, document.page_count + 1):
            try:
                page = document[number - 1]
                pictures, has_background = _find_pictures(page)
                if not pictures and not has_background:
                    continue
                display = page.get_displaylist(annots=0)
                ordered = sorted(pictures, key=lambda picture: (round(picture.rect.y0), picture.rect.x0))
                for n, picture in enumerate(ordered[:MOST_PER_PAGE], start=1):
                    yield _render(page, display, picture, n)
                if more := len(ordered[MOST_PER_PAGE:]):
                    yield _problem(number, MOST_PER_PAGE + 1, f"{more} more pictures on this page are not taken")
                elif has_background:
                    yield _problem(number, len(ordered) + 1, "the image under the page's text is its background")
            except PDF_ERRORS as error:
                yield _problem(number, 1, f"the page's pictures cannot be read ({_shorten(error)})")


def _find_pictures(page: pymupdf.Page) -> tuple[list[Placement], bool]:
    """Return the pictures of a page, and whether it has a background image besides."""
    upright = Rect(*(page.rect * page.derotation_matrix))
    images: list[Placement] = []
    for info in cast("list[dict[str, Any]]", page.get_image_info()):  # inline images and stencils included
        rect = intersection(Rect(*info["bbox"]), upright)
        if min(rect.width, rect.height) > SMALLEST_PT:
            # pixels per point across and down; an image that is turned by a quarter swaps its sides
            a, b, c, d = info["transform"][:4]
            across, down = info["width"] / max(math.hypot(a, b), 1e-3), info["height"] / max(math.hypot(c, d), 1e-3)
            if abs(a) < 1e-3 * abs(b) and abs(d) < 1e-3 * abs(c):
                across, down = down, across
            elif abs(b) >= 1e-3 * abs(a) or abs(c) >= 1e-3 * abs(d):
                across = down = max(across, down)  # turned by another angle
            images.append(Placement(rect, (across, down), "raster"))

    # tiles and strips become the picture that they form
    before = len(images) + 1
    while len(images) < before:
        before = len(images)
        images = _join_tiles(_join_tiles(images, across=True), across=False)

    backgrounds = [image for image in images if image.rect.area > GROUND_SHARE * upright.area]
    if backgrounds:
        # the text that OCR puts under a scan is invisible (render mode 3)
        spans = cast("list[dict[str, Any]]", page.get_texttrace())
        if sum(len(span["chars"]) for span in spans if span["type"] != 3) < GROUND_CHARS:
            return [_join(backgrounds)], False  # a scan
    images = [image for image in images if image not in backgrounds]
    paths = cast("list[dict[str, Any]]", page.get_cdrawings())
    boxes = find_charts(paths, upright, lambda: [word[:4] for word in cast("list[Any]", page.get_text("words"))])
    charts = [Placement(chart, (CHART_DPI / 72, CHART_DPI / 72), "vector") for chart in boxes]
    return _join_layers([*images, *charts]), bool(backgrounds)


def _join_tiles(images: Sequence[Placement], *, across: bool) -> list[Placement]:
    """Return the pictures, neighbours that share a whole edge in one direction as one."""
    start, end = (0, 2) if across else (1, 3)
    sides = (1, 3) if across else (0, 2)
    chains: list[list[Placement]] = []
    for image in sorted(images, key=lambda image: (*(round(image.rect[side]) for side in sides), image.rect[start])):
        last = chains[-1][-1].rect if chains else None
        aligned = last and all(abs(last[side] - image.rect[side]) <= TOUCH_PT for side in sides)
        if last and aligned and abs(last[end] - image.rect[start]) <= TOUCH_PT:
            chains[-1].append(image)
        else:
            chains.append([image])
    return [_join(chain) for chain in chains]


def _join_layers(pictures: Sequence[Placement]) -> list[Placement]:
    """Return the pictures, those that mostly cover each other as one: a base and its mask, a chart over an image."""
    apart: list[Placement] = []
    for picture in sorted(pictures, key=lambda picture: -picture.rect.area):
        for position, larger in enumerate(apart):
            if intersection(picture.rect, larger.rect).area > SAME_PLACE * picture.rect.area:
                apart[position] = _join([larger, picture])
                break
        else:
            apart.append(picture)
    return apart


def _join(pictures: Sequence[Placement]) -> Placement:
    scale = (max(picture.scale[0] for picture in pictures), max(picture.scale[1] for picture in pictures))
    drawn = any(picture.source == "vector" for picture in pictures)
    return Placement(enclosing_rect(picture.rect for picture in pictures), scale, "vector" if drawn else "raster")


def _render(page: pymupdf.Page, display: pymupdf.DisplayList, picture: Placement, n: int) -> ImageCandidate:
    """Return the picture as the page shows it, rotation applied."""
    number = cast(int, page.number) + 1
    box = Rect(*(pymupdf.Rect(picture.rect) * page.rotation_matrix))
    across, down = reversed(picture.scale) if page.rotation % 180 else picture.scale
    width, height = max(1, round(box.width * across)), max(1, round(box.height * down))
    shrink = min(1.0, LONGEST_SIDE_PX / max(width, height))
    # the grid starts at the picture's own corner, so that its pixels are copied and not mixed
    across, down = max(1, round(width * shrink)) / box.width, max(1, round(height * shrink)) / box.height
    grid = pymupdf.Matrix(across, 0, 0, down, -box.x0 * across, -box.y0 * down)
    # a hundredth of a pixel less, lest rounding add a row
    inside = pymupdf.Rect(box.grown(-0.01 / across, -0.01 / down))
    pymupdf.TOOLS.reset_mupdf_warnings()
    try:
        pixels = display.get_pixmap(matrix=grid, colorspace=pymupdf.csRGB, alpha=0, clip=inside)
        complaint = pymupdf.TOOLS.mupdf_warnings()
        if complaint and pixels.is_unicolor:
            return _problem(number, n, f"the image is damaged ({_shorten(complaint)})", bbox=box)
        png = pixels.tobytes("png")
    except PDF_ERRORS as error:
        return _problem(number, n, f"the image cannot be shown ({_shorten(error)})", bbox=box)
    return ImageCandidate(page=number, bbox=box, n=n, source=picture.source, png=png, width=width, height=height)


def _problem(page: int, n: int, problem: str, *, bbox: BBox | None = None) -> ImageCandidate:
    return ImageCandidate(page=page, bbox=bbox, n=n, source="raster", problem=problem)


def _shorten(message: object) -> str:
    return " ".join(str(message).split())[:120]
