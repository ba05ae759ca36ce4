"""Pictures of a PDF, rendered from the page at their own resolution.

Extraction by object number fails on soft and stencil masks, CMYK and indexed colours, Decode arrays, inline images,
rotation, and labels over the picture. The pixel grids of page and image are aligned, so that an image that is shown
twice gives the same pixels twice.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import pymupdf

from tasks.documents.blocks import LONGEST_SIDE_PX, BBox, ImageCandidate, enclosing_box
from tasks.documents.document_errors import shorten
from tasks.documents.pdf.pdf_document import open_document

CHART_DPI = 150
TOUCH_PT = 1.0  # largest distance between tiles of one picture, and difference of their edges
SAME_PLACE = 0.5  # share of the smaller image that the larger one covers when they are layers of one picture
GROUND_SHARE = 0.85  # an image that covers more of the page is a scan or a background
GROUND_CHARS = 50  # visible characters from which such an image is the background of a page of text
MOST_PER_PAGE = 60
LEAST_IMAGE_PT = 1.0
PDF_ERRORS = (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, pymupdf.mupdf.FzErrorBase)  # pyright: ignore[reportPrivateImportUsage]


class Placement(NamedTuple):
    """A picture with its place on the unrotated page."""

    rect: Rect
    scale: tuple[float, float]
    """Pixels per point across and down, before the page is rotated."""
    source: Literal["raster", "vector"]


def pdf_images(path: Path, *, password: str | None) -> Iterator[ImageCandidate]:
    """Yield up to MOST_PER_PAGE pictures of each page, top to bottom, and a problem for more. Raises DocumentError."""
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
                yield _problem(number, 1, f"the page's pictures cannot be read ({shorten(error)})")


def _find_pictures(page: pymupdf.Page) -> tuple[list[Placement], bool]:
    """Return the pictures of a page, of a scan its image alone, and whether it has a background image besides."""
    upright = Rect(*(page.rect * page.derotation_matrix))
    images: list[Placement] = []
    for info in cast("list[dict[str, Any]]", page.get_image_info()):  # inline images and stencils included
        rect = intersection(Rect(*info["bbox"]), upright)
        if min(rect.width, rect.height) > LEAST_IMAGE_PT:
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
    """Return the pictures, largest first; those that mostly cover each other, such as a base and its mask, are one."""
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
    return Placement(Rect.around(*(picture.rect for picture in pictures)), scale, "vector" if drawn else "raster")


def _render(page: pymupdf.Page, display: pymupdf.DisplayList, picture: Placement, n: int) -> ImageCandidate:
    """Return the picture as the page shows it, rotation applied, or a problem; n: its number on the page."""
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
            return _problem(number, n, f"the image is damaged ({shorten(complaint)})", bbox=box)
        png = pixels.tobytes("png")
    except PDF_ERRORS as error:
        return _problem(number, n, f"the image cannot be shown ({shorten(error)})", bbox=box)
    return ImageCandidate(page=number, bbox=box, n=n, source=picture.source, png=png, width=width, height=height)


def _problem(page: int, n: int, problem: str, *, bbox: BBox | None = None) -> ImageCandidate:
    return ImageCandidate(page=page, bbox=bbox, n=n, source="raster", problem=problem)


RULE_PT = 2.0  # a thinner path is a line: borders are often thin filled shapes
SLANT_PT = 0.2
CELL_PT = 5.0
MOST_CELLS = 600  # grid cells along one side of a page; on a poster the cells are larger
GAP_CELLS = 2  # paths with at most this many grid cells between them belong together
SMALLEST_PT = (72.0, 48.0)  # width, height; what is smaller is an icon or a logo
PAGE_SHARE = 0.85  # a single rectangle that covers more of the page is its border or background
SHAPE_PT = 24.0
FILLED_SHAPE_PT = 16.0  # lower filled shapes are letters drawn as outlines
LABEL_REACH_PT = (40.0, 30.0)  # distance of labels from what they label: sideways, up and down
LABEL_PT = 160.0  # a longer line that reaches beyond the picture's surroundings belongs to a paragraph
FEWEST_MARKS = 10  # marks in a scatter plot
MOST_PATHS = 20_000  # paths on a page that are searched; a map may have millions
MOST_NODES = 60  # boxes in a diagram; pages with more are forms

Colour = tuple[float, ...]


class Element(NamedTuple):
    """A rule, a box, or a free shape among the drawings of a page."""

    kind: str
    """`rule`: a straight line along an axis; `box`: a rectangle; `free`: anything with a curve or a slant."""
    rect: Rect
    fill: Colour | None
    segments: int


def find_charts(paths: Sequence[dict[str, Any]], page: Rect, words: Callable[[], Sequence[BBox]]) -> list[Rect]:
    """Return the boxes of the drawn charts and diagrams with their labels, top to bottom.

    paths: as pymupdf's `Page.get_cdrawings()` gives them; MOST_PATHS are searched. words: gives the boxes of the page's
    words; called only when the drawings look like a picture.
    """
    elements = [element for path in paths[:MOST_PATHS] for element in _elements(path) if page.touches(element.rect)]
    # neither the border of the page nor its background
    elements = [element for element in elements if element.kind != "box" or element.rect.area <= PAGE_SHARE * page.area]
    shapes = any(map(_is_shape, elements)) or len(_small_shapes(elements)) >= FEWEST_MARKS
    if not (shapes or _bar_groups(elements) or _is_diagram(elements)):
        return []  # most pages end here, before their words are read
    word_boxes: list[BBox] = []
    charts: list[Rect] = []
    for cluster in _clusters(elements, page):
        box = Rect.around(*(element.rect for element in cluster))
        word_boxes = word_boxes or list(words())
        if _is_picture(cluster, box, word_boxes):
            charts.append(_with_labels(box, word_boxes, page))
    return sorted(merge_overlapping(charts), key=lambda chart: (chart.y0, chart.x0))


def _elements(path: dict[str, Any]) -> list[Element]:
    """Return a path's elements, each rectangle its own (a table is often one path); none if invisible or white."""
    fill = path.get("fill") if path.get("fill_opacity") != 0 else None
    stroked = path.get("color") is not None and path.get("stroke_opacity") != 0
    if not stroked and (fill is None or min(fill) > 0.99):
        return []  # invisible, or a white ground
    rects = [Rect(*item[1]) for item in path["items"] if item[0] == "re"]
    elements = [Element("rule" if min(r.width, r.height) < RULE_PT else "box", r, fill, 1) for r in rects]
    lines = [item for item in path["items"] if item[0] != "re"]
    if not lines:
        return elements

    rect = Rect.around(*map(_extent, lines))
    if min(rect.width, rect.height) < RULE_PT:
        return [*elements, Element("rule", rect, fill, len(lines))]
    free = [item for item in lines if _is_free(item)]
    # one stroke of many upright and level pieces is a step chart; a table is many strokes, a box is four
    joined = sum(first[2] == second[1] for first, second in pairwise(lines) if first[0] == second[0] == "l")
    if not free and joined >= 8:
        return [*elements, Element("free", rect, fill, len(lines))]
    # the curves and slanted lines of a rounded box are in its corners only
    corners = [Rect(x, y, x, y).grown(rect.width * 0.3, rect.height * 0.5) for x in rect[::2] for y in rect[1::2]]
    rounded = len(free) < len(lines) and all(any(corner.holds(_extent(item)) for corner in corners) for item in free)
    if not free or rounded:
        closed = fill is not None or path.get("closePath") or len(lines) >= 4
        return [*elements, Element("box" if closed else "rule", rect, fill, len(lines))]
    return [*elements, Element("free", rect, fill, len(free))]


def _is_free(item: tuple[Any, ...]) -> bool:
    """Return whether an item is a curve, a quad that is not upright, or a line that follows neither axis."""
    if item[0] == "qu":
        xs, ys = {round(point[0]) for point in item[1]}, {round(point[1]) for point in item[1]}
        return len(xs) > 2 or len(ys) > 2
    extent = _extent(item)
    return item[0] == "c" or min(extent.width, extent.height) > SLANT_PT


def _extent(item: tuple[Any, ...]) -> Rect:
    """Return the box of a line or quad; of a curve, the box of its control points."""
    points = item[1] if item[0] == "qu" else [point for point in item[1:] if isinstance(point, tuple)]
    xs, ys = [point[0] for point in points], [point[1] for point in points]
    return Rect(min(xs), min(ys), max(xs), max(ys))


def _is_shape(element: Element) -> bool:
    """Return whether an element is a free shape too large to be a letter, a bullet or an arrowhead."""
    if element.kind != "free" or max(element.rect.width, element.rect.height) < SHAPE_PT:
        return False
    return element.fill is None or min(element.rect.width, element.rect.height) >= FILLED_SHAPE_PT


def _small_shapes(elements: Sequence[Element]) -> list[Element]:
    """Return the small free shapes: marks of a scatter plot and arrowheads, but letters and bullets too."""
    return [element for element in elements if element.kind == "free" and not _is_shape(element)]


def _clusters(elements: Sequence[Element], page: Rect) -> list[list[Element]]:
    """Return groups as large as a picture: elements close together, on one baseline of bars, or in one frame."""
    from scipy.ndimage import label  # few pages hold drawings that look like a picture

    cell_pt = max(CELL_PT, max(page.width, page.height) / MOST_CELLS)
    grid = np.zeros((int(page.height / cell_pt) + 2, int(page.width / cell_pt) + 2), dtype=bool)
    for rect in [*(element.rect for element in elements), *(Rect.around(*bars) for bars in _bar_groups(elements))]:
        rows, columns = _grid_span(rect, page, cell_pt, grid.shape)
        grid[rows.start : rows.stop + GAP_CELLS, columns.start : columns.stop + GAP_CELLS] = True
    labelled: Any = label(grid)  # connected areas, whose neighbours share an edge, by numbers from 1
    clusters: defaultdict[int, list[Element]] = defaultdict(list)
    for element in elements:
        rows, columns = _grid_span(element.rect, page, cell_pt, grid.shape)
        clusters[int(labelled[0][rows.start, columns.start])].append(element)

    # those as large as a picture, each with the clusters inside its outline
    hulls = [(Rect.around(*(element.rect for element in cluster)), cluster) for cluster in clusters.values()]
    large = [
        outer
        for outer, _ in hulls
        if outer.width >= SMALLEST_PT[0] and outer.height >= SMALLEST_PT[1] and outer.area <= PAGE_SHARE * page.area
    ]
    frames = merge_overlapping(large)
    return [[element for inner, cluster in hulls if frame.holds(inner) for element in cluster] for frame in frames]


def _grid_span(rect: Rect, page: Rect, cell_pt: float, shape: tuple[int, ...]) -> tuple[range, range]:
    """Return the rows and columns of the grid from the first (`start`) to the last (`stop`) that a box reaches."""

    def cell(offset: float, cells: int) -> int:
        return int(min(max(offset / cell_pt, 0), cells - 1))

    rows = range(cell(rect.y0 - page.y0, shape[0]), cell(rect.y1 - page.y0, shape[0]))
    columns = range(cell(rect.x0 - page.x0, shape[1]), cell(rect.x1 - page.x0, shape[1]))
    return rows, columns


def _is_picture(cluster: Sequence[Element], box: Rect, words: Sequence[BBox]) -> bool:
    """Return whether a cluster is a chart or a diagram, not a table or an ornament."""
    near = sum(box.grown(*LABEL_REACH_PT).touches(word) for word in words)
    if near < 2 and len(cluster) < 12:
        return False  # an ornament: what informs has labels

    def is_ground(bar: Rect) -> bool:
        widths = (word[2] - word[0] for word in words if bar.grown(1, 1).holds(word))
        return sum(widths) > 0.5 * bar.width

    # of a chart, at most half of the bars are the ground of a line of text or of a cell
    if any(sum(map(is_ground, bars)) <= len(bars) / 2 for bars in _bar_groups(cluster)):
        return True
    # three or more lines each way along most of the width or height; slanted lines in it strike out cells
    across = sum(element.kind == "rule" and element.rect.width > 0.6 * box.width for element in cluster)
    down = sum(element.kind == "rule" and element.rect.height > 0.6 * box.height for element in cluster)
    if across >= 3 and down >= 3:
        return any(_is_shape(element) and element.segments >= 3 for element in cluster)
    return any(map(_is_shape, cluster)) or _is_scatter(cluster, box) or _is_diagram(cluster)


def _is_scatter(cluster: Sequence[Element], box: Rect) -> bool:
    """Return whether small shapes are spread over half of the box both ways, beside an axis or in a frame."""
    marks = [element.rect for element in _small_shapes(cluster)]
    if len(marks) < FEWEST_MARKS:
        return False
    straight = [element.rect for element in cluster if element.kind != "free"]
    axes = any(max(rect.width / box.width, rect.height / box.height) > 0.6 for rect in straight)
    over = Rect.around(*marks)
    spread = over.width > box.width / 2 and over.height > box.height / 2
    return axes and spread and len({round(mark.y0 / 4) for mark in marks}) >= min(10, len(marks) / 2)


def _is_diagram(elements: Sequence[Element]) -> bool:
    """Return whether there are three or more separate boxes, and two or more lines or arrowheads that lead to one."""
    rects = (element.rect for element in elements if element.kind == "box")
    boxes = [rect for rect in rects if rect.width >= 30 and rect.height >= 12]  # each could hold a word
    if not 3 <= len(boxes) <= MOST_NODES:
        return False
    apart = [box for box in boxes if not any(near is not box and box.grown(1, 1).touches(near) for near in boxes)]
    if len(apart) < 3:
        return False
    links = [element for element in elements if element.kind != "box"]
    return sum(any(_leads_to(link, box) for box in apart) for link in links) >= 2


def _leads_to(link: Element, box: Rect) -> bool:
    """Return whether an arrowhead touches the box, or a line meets it at a right angle; table rules run along cells."""
    line = link.rect
    if link.kind == "free":
        return not _is_shape(link) and box.grown(2, 2).touches(line) and not box.holds(line)
    if line.width > line.height:
        return box.y0 + 3 < line.y0 < box.y1 - 3 and min(abs(line.x0 - box.x1), abs(line.x1 - box.x0)) <= 3
    return box.x0 + 3 < line.x0 < box.x1 - 3 and min(abs(line.y0 - box.y1), abs(line.y1 - box.y0)) <= 3


def _bar_groups(elements: Sequence[Element]) -> list[list[Rect]]:
    """Return groups of filled rectangles of one thickness on one baseline, with at least three different lengths."""
    filled = [element for element in elements if element.kind == "box" and element.fill is not None]
    groups: list[list[Rect]] = []
    for axis, baseline in ((0, 1), (0, 3), (1, 0), (1, 2)):  # standing on or hanging from it, to its right or left
        by_base: defaultdict[tuple[int, int], list[Element]] = defaultdict(list)
        for element in filled:
            thickness = element.rect[axis + 2] - element.rect[axis]
            by_base[round(element.rect[baseline]), round(thickness)].append(element)
        for bars in by_base.values():
            lengths = {round(bar.rect[3 - axis] - bar.rect[1 - axis]) for bar in bars}
            places = {round(bar.rect[axis]) for bar in bars}
            differ = len(lengths) >= max(3, 0.4 * len(bars)) and len(places) == len(bars)
            if differ and not _are_cells(bars, filled):
                groups.append([bar.rect for bar in bars])
    return groups


def _are_cells(bars: Sequence[Element], filled: Sequence[Element]) -> bool:
    """Return whether the colour of more than a third of the bars continues beside them, as in cells."""
    members = set(map(id, bars))
    neighbours = [element for element in filled if id(element) not in members]

    def goes_on(bar: Element) -> bool:
        around = bar.rect.grown(1, 1)
        return any(near.fill == bar.fill and around.touches(near.rect) for near in neighbours)

    return sum(map(goes_on, bars)) > len(bars) / 3


def _with_labels(box: Rect, words: Sequence[BBox], page: Rect) -> Rect:
    """Return the box enlarged by lines of text close to it, within the page: axis labels, legend, title."""
    lines: list[Rect] = []
    for word in words:
        # words that follow each other on a line; a gap as wide as the line is high parts them
        last = lines[-1] if lines else None
        if last and abs(last.y1 - word[3]) < 2 and 0 <= word[0] - last.x1 < last.height:
            lines[-1] = Rect.around(last, word)
        else:
            lines.append(Rect(*word))
    reach = box.grown(*LABEL_REACH_PT)
    for line in lines:
        if reach.holds(line) or (line.width <= LABEL_PT and reach.touches(line)):
            box = Rect.around(box, line)
    return intersection(box.grown(3, 3), page)


class Rect(NamedTuple):
    """A rectangle (x0, y0, x1, y1) in points; y grows downwards."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def width(self) -> float:
        """Return the width of the rectangle in points."""
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        """Return the height of the rectangle in points."""
        return self.y1 - self.y0

    @property
    def area(self) -> float:
        """Return the area in square points."""
        return self.width * self.height

    def grown(self, dx: float, dy: float) -> Rect:
        """Return the rectangle with each side moved outwards by `dx` or `dy` points."""
        return Rect(self.x0 - dx, self.y0 - dy, self.x1 + dx, self.y1 + dy)

    @classmethod
    def around(cls, *boxes: BBox) -> Rect:
        """Return the smallest rectangle around all of the boxes; there must be at least one."""
        return cls(*enclosing_box(boxes))

    def touches(self, box: BBox) -> bool:
        """Return whether `box` overlaps the rectangle or shares an edge with it."""
        return self.x0 <= box[2] and box[0] <= self.x1 and self.y0 <= box[3] and box[1] <= self.y1

    def holds(self, box: BBox) -> bool:
        """Return whether `box` lies within the rectangle."""
        return self.x0 <= box[0] and self.y0 <= box[1] and box[2] <= self.x1 and box[3] <= self.y1


def merge_overlapping(boxes: Sequence[Rect]) -> list[Rect]:
    """Return the boxes with those joined that overlap or touch, until none do."""
    apart: list[Rect] = []
    for box in boxes:
        while overlapped := next((earlier for earlier in apart if earlier.touches(box)), None):
            apart.remove(overlapped)
            box = Rect.around(box, overlapped)
        apart.append(box)
    return apart


def intersection(first: Rect, second: Rect) -> Rect:
    """Return the intersection of two rectangles; its sides are zero where they do not overlap."""
    x0, y0 = max(first.x0, second.x0), max(first.y0, second.y0)
    return Rect(x0, y0, max(x0, min(first.x1, second.x1)), max(y0, min(first.y1, second.y1)))
