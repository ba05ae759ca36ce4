"""Text of a PDF page that nobody sees.

Colours, sizes and the order of drawing tell, at little cost, which pages need a closer look. These are drawn with and
without the text in question: what leaves no mark is hidden, unless the page shows it as a scan that was read by OCR.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pymupdf
from pymupdf import mupdf  # pyright: ignore[reportMissingTypeStubs, reportPrivateImportUsage, reportAttributeAccessIssue]

from tasks.documents.blocks import BBox, HiddenText
from tasks.documents.document_readers import make_storable

EVERYWHERE = (-1e5, -1e5, 1e5, 1e5)
PLAIN = pymupdf.TEXT_PRESERVE_WHITESPACE
IN_ORDER = PLAIN | pymupdf.TEXT_COLLECT_VECTORS | pymupdf.TEXT_PRESERVE_IMAGES
"""Text, filled shapes and images as blocks, in the order in which they are drawn."""
PAINTED = 16 | 32 | 64  # in `char_flags`: filled, stroked, or part of a clip
VECTOR = re.compile(r"<vector filled, color: #(\w{6}), alpha: (\d+)")
ALIKE = 24
"""Steps of 255 by which a colour may differ from its ground to be looked at."""
SEEN = 14
"""Steps of 255 by which a letter changes a pixel that a person sees."""
LEAST_COVER = 3.0  # points; what is thinner is a line
LEAST_SIZE = 1.2  # points of a legible letter on a page of PAPER; less on a smaller one
PAPER = 840.0
PIXELS_PER_POINT = 2.0
MOST_PIXELS = 16_000_000
OUTSIDE, CLIPPED = "outside the page", "clipped, or on a hidden layer"
TINY, UNPAINTED, TRANSPARENT = "too small to read", "never painted", "transparent"
UNDER_IMAGE, UNDER_SHAPE, SAME_COLOUR = "under a picture", "under a shape", "in the colour of its ground"

SPACE = 32
Pixels = np.ndarray[Any, np.dtype[Any]]


class Mark(NamedTuple):
    """An image or a filled shape, with its position in the order of drawing."""

    order: int
    box: BBox
    colour: tuple[int, int, int] | None
    """Red, green, blue; None for an image and for what lets the ground shine through."""
    image: bool


class Char(NamedTuple):
    """A letter with its place on the page as it is shown, in points."""

    text: str
    origin: tuple[float, float]
    box: BBox
    line: int
    size: float
    colour: int
    alpha: int
    flags: int
    spaced: bool
    """Whether white space is before it."""
    order: int
    """Position of its block in the order of drawing."""


class HiddenChar(NamedTuple):
    """A letter that nobody sees, and why."""

    char: Char
    reason: str


def extract_textpage(shown: pymupdf.DisplayList, box: Sequence[float], matrix: pymupdf.Matrix, flags: int) -> Any:
    """Return the text that a page draws in a box, in the space of `matrix`."""
    textpage = mupdf.FzStextPage(mupdf.FzRect(*box))
    device = mupdf.fz_new_stext_device(textpage, mupdf.FzStextOptions(flags))
    endless = mupdf.FzRect(mupdf.FzRect.Fixed_INFINITE)
    mupdf.fz_run_display_list(shown.this, device, mupdf.FzMatrix(*matrix), endless, mupdf.FzCookie())
    mupdf.fz_close_device(device)
    return pymupdf.TextPage(textpage)


def find_hidden(
    page: pymupdf.Page,
    shown: pymupdf.DisplayList,
    textpage: Any,
    blocks: Sequence[dict[str, Any]],
    layers: Sequence[int],
) -> list[HiddenChar]:
    """Return the letters of a page that nobody sees, in the order of drawing.

    textpage, blocks: the page's text as MuPDF reads it, and its dictionary. layers: optional content that is off.
    """
    in_order = extract_textpage(shown, EVERYWHERE, pymupdf.Matrix(1, 1), IN_ORDER).extractBLOCKS()
    runs = (span for block in blocks for line in block.get("lines", ()) for span in line["spans"])
    spans = [span for span in runs if not span["text"].isspace()]
    marks = _find_marks(in_order)
    read = sum(len("".join(span["text"].split())) for span in spans)
    if not (
        layers
        or read != sum(len("".join(block[4].split())) for block in in_order if block[6] == 0)
        or _has_covered(in_order, marks)
        or _has_faint(spans, marks, least=_least_size(page))
    ):
        return []
    try:
        return _look_closely(page, shown, textpage, layers)
    except (RuntimeError, mupdf.FzErrorBase):
        return []  # a page that cannot be drawn keeps its text


def _find_marks(in_order: Sequence[Any]) -> list[Mark]:
    marks: list[Mark] = []
    for order, (x0, y0, x1, y1, text, _, kind) in enumerate(in_order):
        if kind == 0 or min(x1 - x0, y1 - y0) < LEAST_COVER:
            continue
        if kind == 1:
            marks.append(Mark(order, (x0, y0, x1, y1), None, image=True))
        elif filled := VECTOR.search(text):
            colour = _split(int(filled[1], 16)) if int(filled[2]) > 255 - ALIKE else None
            marks.append(Mark(order, (x0, y0, x1, y1), colour, image=False))
    return marks


def _least_size(page: pymupdf.Page) -> float:
    return LEAST_SIZE * min(1.0, max(page.rect.width, page.rect.height) / PAPER)


def _has_covered(in_order: Sequence[Any], marks: Sequence[Mark]) -> bool:
    """Return whether an image or a filled shape is drawn over text."""
    texts = np.array([(order, *block[:4]) for order, block in enumerate(in_order) if block[6] == 0])
    if not len(texts) or not marks or marks[-1].order < texts[0, 0]:
        return False
    covers = np.array([(mark.order, *mark.box) for mark in marks])
    for cover in covers:
        before = texts[: np.searchsorted(texts[:, 0], cover[0])]
        wide = np.minimum(before[:, 3], cover[3]) - np.maximum(before[:, 1], cover[1]) > LEAST_COVER
        if (wide & (np.minimum(before[:, 4], cover[4]) - np.maximum(before[:, 2], cover[2]) > LEAST_COVER)).any():
            return True
    return False


def _has_faint(spans: Sequence[dict[str, Any]], marks: Sequence[Mark], *, least: float) -> bool:
    """Return whether a run is tiny, unpainted, transparent, or has a colour that its ground may have."""
    for span in spans:
        if span["size"] < least or span["alpha"] < 4 * SEEN or not span["char_flags"] & PAINTED:
            return True
    pale = {span["color"] for span in spans}
    pale = {colour for colour in pale if min(_split(colour)) >= 255 - ALIKE}
    grounds = {mark.colour for mark in marks if mark.colour}
    near = {span["color"]: [g for g in grounds if _differ(_split(span["color"]), g) <= ALIKE] for span in spans}
    for span in spans:
        if span["color"] not in pale and not near[span["color"]]:
            continue
        x, y = (span["bbox"][0] + span["bbox"][2]) / 2, (span["bbox"][1] + span["bbox"][3]) / 2
        behind = [m.colour for m in marks if m.box[0] <= x <= m.box[2] and m.box[1] <= y <= m.box[3] and not m.image]
        # a heading in white on a dark bar is one of the commonest things on a page
        if any(ground in near[span["color"]] for ground in behind) or (span["color"] in pale and not any(behind)):
            return True
    return False


def _split(colour: int) -> tuple[int, int, int]:
    return colour >> 16 & 255, colour >> 8 & 255, colour & 255


def _differ(colour: Sequence[int], other: Sequence[int]) -> int:
    return max(abs(a - b) for a, b in zip(colour, other, strict=True))


def _look_closely(
    page: pymupdf.Page, shown: pymupdf.DisplayList, textpage: Any, layers: Sequence[int]
) -> list[HiddenChar]:
    document: Any = page.parent
    for layer in layers:
        document.set_layer_ui_config(layer, pymupdf.PDF_OC_ON)
    try:
        upright, box = pymupdf.Matrix(page.rotation_matrix), pymupdf.Rect(EVERYWHERE)
        in_order = page.get_textpage(clip=box, flags=IN_ORDER, matrix=upright).extractBLOCKS()
        chars = _list_chars(page.get_textpage(clip=box, flags=PLAIN, matrix=upright), in_order)
    finally:
        for layer in layers:
            document.set_layer_ui_config(layer, pymupdf.PDF_OC_OFF)
    # what the page shows is a part of all that it holds, in the same order
    read = iter(_list_chars(textpage, ()))
    expected = next(read, None)
    hidden: dict[Char, str] = {}
    kept: list[Char] = []
    frame = pymupdf.Rect(page.rect)
    for char in chars:
        if expected and char.text == expected.text and _are_near(char.origin, expected.origin):
            kept.append(char)
            expected = next(read, None)
        else:
            hidden[char] = CLIPPED if frame.intersects(pymupdf.Rect(char.box)) else OUTSIDE
    if expected:
        return []
    if kept:
        hidden |= _find_unseen(shown, kept, _find_marks(in_order), least=_least_size(page))
    return [HiddenChar(char, hidden[char]) for char in chars if char in hidden]


def _are_near(point: Sequence[float], other: Sequence[float]) -> bool:
    return abs(point[0] - other[0]) < 0.1 and abs(point[1] - other[1]) < 0.1


def _list_chars(textpage: Any, in_order: Sequence[Any]) -> list[Char]:
    """Return the letters of a page without white space; in_order: the same as blocks between images and shapes."""
    orders = [order for order, block in enumerate(in_order) if block[6] == 0 for _ in "".join(block[4].split())]
    chars: list[Char] = []
    line_no = 0
    for block in textpage.extractRAWDICT()["blocks"]:
        for line in block.get("lines", ()):
            line_no, spaced = line_no + 1, False
            for span in line["spans"]:
                look = (span["size"], span["color"], span["alpha"], span["char_flags"])
                for char in span["chars"]:
                    if char["c"].isspace():
                        spaced = True
                        continue
                    chars.append(Char(char["c"], char["origin"], char["bbox"], line_no, *look, spaced, 0))
                    spaced = False
    if len(orders) == len(chars):  # else the order is not known, and nothing counts as covered
        chars = [char._replace(order=order) for char, order in zip(chars, orders, strict=True)]
    return chars


def _find_unseen(
    shown: pymupdf.DisplayList, chars: Sequence[Char], marks: Sequence[Mark], *, least: float
) -> dict[Char, str]:
    """Return those of the letters inside a page that leave no mark on it, each with the reason."""
    unseen: dict[Char, str] = {}
    suspects: dict[Char, str] = {}
    for reason, char in zip(_suspect(chars, marks, least=least), chars, strict=True):
        if reason == TINY:
            unseen[char] = reason
        elif reason:
            suspects[char] = reason
    if not suspects:
        return unseen
    picture = Picture(shown)
    seen = _find_seen(picture, suspects)
    runs = [
        list(run) for _, run in groupby((char for char in suspects if char not in seen), key=lambda char: char.line)
    ]
    scanned = _find_scanned(picture, runs) if runs and picture.covers else []
    return unseen | {char: suspects[char] for run in runs if run not in scanned for char in run}


def _suspect(chars: Sequence[Char], marks: Sequence[Mark], *, least: float) -> list[str | None]:
    """Return for each letter why it may not be seen; None where nothing speaks for it."""
    boxes = np.array([char.box for char in chars])
    x, y = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
    orders = np.array([char.order for char in chars])
    colours = np.array([_split(char.colour) for char in chars])
    grounds = np.full((len(chars), 3), 255)
    covered = np.zeros(len(chars), dtype=int)
    for mark in marks:
        x0, y0, x1, y1 = mark.box
        inside = (x0 <= x) & (x <= x1) & (y0 <= y) & (y <= y1)
        # below an image, or a shape that lets through what is under it, the ground may have any colour
        grounds[inside & (orders > mark.order)] = mark.colour or -255
        covered[inside & (orders < mark.order)] = 2 if mark.image else 1
    alike = (grounds[:, 0] < 0) | (np.abs(grounds - colours).max(axis=1) <= ALIKE)
    # the size that a font claims may be wrong, so the distance of letters counts as well
    steps = np.abs(np.diff([char.origin for char in chars], axis=0)).max(axis=1, initial=0)
    nearest = np.minimum(np.append(steps, np.inf), np.append(np.inf, steps))
    small = (np.array([char.size for char in chars]) < least) & ((nearest < least) | (nearest == np.inf))
    reasons: list[str | None] = []
    for n, char in enumerate(chars):
        if small[n]:
            reasons.append(TINY)
        elif not char.flags & PAINTED:
            reasons.append(UNPAINTED)
        elif char.alpha < 4 * SEEN:
            reasons.append(TRANSPARENT)
        elif covered[n]:
            reasons.append(UNDER_IMAGE if covered[n] == 2 else UNDER_SHAPE)
        else:
            reasons.append(SAME_COLOUR if alike[n] else None)
    return reasons


def _find_seen(picture: Picture, suspects: dict[Char, str]) -> set[Char]:
    """Return the suspects that change what the page looks like."""
    complete = picture.draw()
    without = picture.draw(leave_out=picture.find_objects(suspects))
    changed = np.abs(complete.astype(np.int16) - without).max(axis=2) >= SEEN
    total = np.pad(changed.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    seen: set[Char] = set()
    for _, line in groupby(suspects, key=lambda char: char.line):
        chars = list(line)
        letters = [char for char in chars if char.text.isalnum()]
        for char in letters or chars:
            x0, y0, x1, y1 = char.box
            # letters touch their neighbours, so what is theirs alone counts
            inset = 0.15 if letters else 0.0
            dx, dy = inset * (x1 - x0), inset * (y1 - y0)
            left, top, right, bottom = picture.to_pixels((x0 + dx, y0 + dy, x1 - dx, y1 - dy))
            if total[bottom, right] - total[top, right] - total[bottom, left] + total[top, left] > 0:
                seen.add(char)
        # a comma or a bracket goes with the letter before it
        shown = bool(letters) and letters[0] in seen
        for char in chars if letters else ():
            shown = char in seen if char.text.isalnum() else shown
            if shown:
                seen.add(char)
    return seen


INK_SHARE = (0.02, 0.6)
"""Share of ink in the middle of a line of text, from light to heavy letters."""
WHITE_SHARE = 0.5
"""Ink between the lines, at most, as a share of the ink in them."""
CONTRAST = 50


def _find_scanned(picture: Picture, runs: Sequence[list[Char]]) -> list[list[Char]]:
    """Return the runs under which the page shows letters as an image or as outlines.

    Letters have ink in the middle of a line and white between the lines; a photograph has not. So has most of the text
    that OCR puts under or over a scan.
    """
    grey = picture.draw(leave_out=None).mean(axis=2)
    inked: list[list[Char]] = []
    lines = 0
    for run in runs:
        left, top, right, bottom = picture.to_pixels(_enclose(run))
        upright = bottom - top <= right - left or len(run) < 3
        area = grey[top:bottom, left:right] if upright else grey[top:bottom, left:right].T
        height = area.shape[0]
        middle = area[height // 4 : max(height * 3 // 4, height // 4 + 1)]
        if not middle.size:
            continue
        low, high = np.percentile(middle, (2, 98))
        ground = np.median(middle)
        ink = np.abs(middle - ground) > 0.4 * (high - low)
        if high - low < CONTRAST or not INK_SHARE[0] <= ink.mean() <= INK_SHARE[1]:
            continue
        inked.append(run)
        if len(run) == 1 and not run[0].text.isalnum():
            lines += 1  # a tick or a bullet that is drawn, and named for those who search
            continue
        spare = max(height // 5, 1)
        left, top, right, bottom = (
            (left, top - spare, right, bottom + spare) if upright else (left - spare, top, right + spare, bottom)
        )
        around = grey[max(top, 0) : bottom, max(left, 0) : right]
        around = around if upright else around.T
        edges = np.concatenate([around[:spare], around[-spare:]])
        lines += (np.abs(edges - ground) > 0.4 * (high - low)).mean() < WHITE_SHARE * ink.mean()
    return inked if 2 * lines > len(inked) else []


def _enclose(chars: Iterable[Char]) -> BBox:
    x0s, y0s, x1s, y1s = zip(*(char.box for char in chars), strict=True)
    return min(x0s), min(y0s), max(x1s), max(y1s)


PAINTING = ("fill_path", "fill_shade", "fill_image", "fill_image_mask")
TEXT = ("fill_text", "stroke_text", "ignore_text")
PASSED_ON = (
    *PAINTING, *TEXT, "stroke_path", "clip_path", "clip_stroke_path", "clip_text", "clip_stroke_text",
    "clip_image_mask", "pop_clip", "begin_mask", "end_mask", "begin_group", "end_group", "begin_tile", "end_tile",
    "render_flags", "set_default_colorspaces", "begin_layer", "end_layer",
)  # fmt: skip


class PartialDevice(mupdf.FzDevice2):
    """A device that passes on to another one what a page draws, without some of its text; it lists the boxes."""

    def __init__(self, target: Any, leave_out: frozenset[int] | None) -> None:
        super().__init__()
        self.target, self.leave_out = target, leave_out
        self.drawn: list[tuple[str, BBox]] = []
        for name in PASSED_ON:
            getattr(self, f"use_virtual_{name}")()


def _pass_on(name: str) -> Any:
    # of `end_mask`, the one that takes what the caller hands over
    call = getattr(vars(mupdf)["_mupdf"], "ll_fz_end_mask_tr" if name == "end_mask" else f"ll_fz_{name}")

    def draw(self: PartialDevice, _: Any, *arguments: Any) -> Any:
        if name in TEXT:
            left_out = self.leave_out is None or len(self.drawn) in self.leave_out
            box = mupdf.ll_fz_bound_text(arguments[0], None, arguments[2 if name == "stroke_text" else 1])
            self.drawn.append((name, (box.x0, box.y0, box.x1, box.y1)))
            if left_out:
                return None
        elif name in PAINTING:
            self.drawn.append((name, _bound(name, arguments)))
        return call(self.target.m_internal, *arguments)

    return draw


for _name in PASSED_ON:
    setattr(PartialDevice, _name, _pass_on(_name))


def _bound(name: str, arguments: Sequence[Any]) -> BBox:
    if name == "fill_path":
        box = mupdf.ll_fz_bound_path(arguments[0], None, arguments[2])
        return box.x0, box.y0, box.x1, box.y1
    if name == "fill_shade":
        return EVERYWHERE
    m = arguments[1]  # an image fills the unit square
    xs, ys = (m.e, m.e + m.a, m.e + m.c, m.e + m.a + m.c), (m.f, m.f + m.b, m.f + m.d, m.f + m.b + m.d)
    return min(xs), min(ys), max(xs), max(ys)


class Picture:
    """A page as pixels, with all of its text or without some of it."""

    def __init__(self, shown: pymupdf.DisplayList) -> None:
        self._shown = shown
        rect = shown.rect
        self._scale = min(PIXELS_PER_POINT, (MOST_PIXELS / max(rect.width * rect.height, 1.0)) ** 0.5)
        self._drawn: list[tuple[str, BBox]] = []
        self._size = (0, 0)

    def draw(self, *, leave_out: frozenset[int] | None = frozenset()) -> Pixels:
        """Return the page as rows of RGB; leave_out: numbers of text objects, None for all."""
        matrix = mupdf.FzMatrix(self._scale, 0, 0, self._scale, 0, 0)
        frame = mupdf.fz_round_rect(mupdf.fz_transform_rect(mupdf.fz_bound_display_list(self._shown.this), matrix))
        space = mupdf.FzColorspace(mupdf.FzColorspace.Fixed_RGB)
        pixels = mupdf.FzPixmap(space, frame, mupdf.FzSeparations(), 0)
        mupdf.fz_clear_pixmap_with_value(pixels, 255)
        target = mupdf.FzDevice(matrix, pixels)
        device = PartialDevice(target, leave_out)
        endless = mupdf.FzRect(mupdf.FzRect.Fixed_INFINITE)
        mupdf.fz_run_display_list(self._shown.this, device, mupdf.FzMatrix(), endless, mupdf.FzCookie())
        mupdf.fz_close_device(device)
        mupdf.fz_close_device(target)
        self._drawn = device.drawn
        picture = pymupdf.Pixmap("raw", pixels)
        self._size = picture.width, picture.height
        return np.frombuffer(picture.samples, np.uint8).reshape(picture.height, picture.width, 3)

    @property
    def covers(self) -> bool:
        """Whether the page draws images or shapes."""
        return any(name in PAINTING for name, _ in self._drawn)

    def find_objects(self, suspects: dict[Char, str]) -> frozenset[int]:
        """Return the numbers of the text objects of which the suspects are a part."""
        boxes = np.array([_middle(char) for char in suspects])
        covered = np.array([reason in (UNDER_IMAGE, UNDER_SHAPE) for reason in suspects.values()])
        found: set[int] = set()
        for number, (name, (x0, y0, x1, y1)) in enumerate(self._drawn):
            if name not in TEXT:
                continue
            inside = (x0 <= boxes[:, 0]) & (boxes[:, 0] <= x1) & (y0 <= boxes[:, 1]) & (boxes[:, 1] <= y1)
            later = [box for other, box in self._drawn[number + 1 :] if other in PAINTING]
            # what is written over a cover is not what is under it
            if (inside & ~covered).any() or (
                (inside & covered).any()
                and any(x0 < box[2] and box[0] < x1 and y0 < box[3] and box[1] < y1 for box in later)
            ):
                found.add(number)
        return frozenset(found)

    def to_pixels(self, box: BBox) -> tuple[int, int, int, int]:
        """Return left, top, right, bottom in pixels, inside the picture."""
        (width, height), scale = self._size, self._scale
        left, top = (min(max(int(edge * scale), 0), most) for edge, most in zip(box[:2], self._size, strict=True))
        right, bottom = min(max(int(box[2] * scale) + 1, left), width), min(max(int(box[3] * scale) + 1, top), height)
        return left, top, right, bottom


def _middle(char: Char) -> tuple[float, float]:
    return (char.box[0] + char.box[2]) / 2, (char.box[1] + char.box[3]) / 2


def find_chars(textpage: Any, boxes: Sequence[BBox]) -> list[Char]:
    """Return the letters whose middles lie in one of the boxes."""
    return [
        char
        for char in _list_chars(textpage, ())
        for x, y in [_middle(char)]
        if any(x0 <= x <= x1 and y0 <= y <= y1 for x0, y0, x1, y1 in boxes)
    ]


def remove_chars(textpage: Any, unwanted: Iterable[Char], to_shown: pymupdf.Matrix) -> None:
    """Take letters out of a text of MuPDF's; to_shown: from the space of the text to the page as it is shown."""
    places: defaultdict[tuple[str, int, int], list[Char]] = defaultdict(list)
    for found in unwanted:
        x, y = found.origin
        for key in {(found.text, round(x + dx), round(y + dy)) for dx in (-0.1, 0.1) for dy in (-0.1, 0.1)}:
            places[key].append(found)
    gone: set[int] = set()
    for block in textpage.this:
        if block.m_internal.type != mupdf.FZ_STEXT_BLOCK_TEXT:
            continue
        for line in block:
            chars = [char.m_internal for char in line]
            changed = False
            for char in chars:
                place: Any = pymupdf.Point(char.origin.x, char.origin.y) * to_shown
                origin = (place.x, place.y)
                for found in places.get((chr(char.c), round(origin[0]), round(origin[1])), ()):
                    if id(found) not in gone and _are_near(origin, found.origin):
                        gone.add(id(found))
                        char.c, changed = SPACE, True
                        break
            if changed:
                # one space stays for what was between words, and none at the ends, where it would widen the line
                left = [char for n, char in enumerate(chars) if char.c != SPACE or (n and chars[n - 1].c != SPACE)]
                left = left[: -1 if len(left) > 1 and left[-1].c == SPACE else None] or chars[:1]
                line.m_internal.first_char, line.m_internal.last_char = left[0], left[-1]
                for char, after in zip(left, [*left[1:], None], strict=True):
                    char.next = after


def group_hidden(hidden: Iterable[HiddenChar]) -> tuple[HiddenText, ...]:
    """Return hidden letters as runs of a line, each with its reason."""
    pieces: list[HiddenText] = []
    for (_, reason), run in groupby(hidden, key=lambda found: (found.char.line, found.reason)):
        chars = [found.char for found in run]
        text = "".join(" " * char.spaced + char.text for char in chars).strip()
        pieces.append(HiddenText(text=make_storable(text), reason=reason, bbox=_enclose(chars)))
    return tuple(pieces)
