"""Text of a PDF page that nobody sees.

Style, size and the order of drawing tell, at little cost, which pages need a closer look. Such a page is drawn with and
without its text: a letter that leaves no mark in its own colour is hidden, unless the page shows it as a scan that was
read by OCR.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import pymupdf
from pymupdf import mupdf  # pyright: ignore[reportMissingTypeStubs, reportPrivateImportUsage, reportAttributeAccessIssue]

from tasks.documents.blocks import BBox, HiddenText, enclosing_box
from tasks.documents.document_readers import make_storable
from tasks.documents.marks import fold_letters

EVERYWHERE = (-1e5, -1e5, 1e5, 1e5)
PLAIN = pymupdf.TEXT_PRESERVE_WHITESPACE | pymupdf.TEXT_IGNORE_ACTUALTEXT
IN_ORDER = PLAIN | pymupdf.TEXT_COLLECT_VECTORS | pymupdf.TEXT_PRESERVE_IMAGES
"""Text, filled shapes and images as blocks, in the order in which they are drawn."""
PAINTED = 16 | 32 | 64  # in `char_flags`: filled, stroked, or part of a clip
VECTOR = re.compile(r"<vector (\w+), color: #(\w{6}), alpha: (\d+)")
ALIKE = 24
"""Steps of 255 by which a colour may differ from its ground to be looked at."""
SEEN = 14
"""Steps of 255 by which a letter changes a pixel that a person sees."""
LEAST_MARK = 3.0  # points; what is thinner is a line
TILED = 1.1
"""Area around two shapes that leave no room between them, over the sum of their own."""
EDGE, MARGIN = 0.15, 0.3
"""Shares of a letter at each edge of its box: where it touches other letters, and where marks touch it."""
LETTER_HEIGHT = 1.4  # of the box of a letter, in font sizes
LEAST_SIZE = 1.2  # points of a legible letter on a page of PAPER; less on a smaller one
PAPER = 840.0
PIXELS_PER_POINT = 2.0
MOST_PIXELS = 16_000_000
MOST_PAIRS = 2_000_000  # of letters and marks that are compared at once
OUTSIDE, CLIPPED = "outside the page", "clipped, or on a hidden layer"
TINY, UNPAINTED, TRANSPARENT = "too small to read", "never painted", "transparent"
UNTRUE = "said in place of what is drawn"
NO_LETTER = re.compile("[\x01-\x08\x0e-\x1f\u0590-\u109f\ue000-\uf8ff\ufffd\U000f0000-\U0010ffff]")
"""Glyphs without Unicode, and scripts whose letters stand in another order than they are drawn."""
UNDER_IMAGE, UNDER_SHAPE, SAME_COLOUR = "under a picture", "under a shape", "in the colour of its ground"
COVERED = {UNDER_IMAGE, UNDER_SHAPE}

SPACE = 32
GAP_POINTS = 6.0
"""How far from a letter that was covered another text begins that is written over it."""
Array = np.ndarray[Any, np.dtype[Any]]


class Char(NamedTuple):
    """A letter, or a run of letters in one style, on the page as it is shown."""

    text: str
    box: BBox
    size: float
    colour: int
    alpha: int
    flags: int
    origin: tuple[float, float] = (0.0, 0.0)
    line: int = 0
    spaced: bool = False
    """Whether white space is before it."""


class HiddenChar(NamedTuple):
    """A letter that nobody sees, and why."""

    char: Char
    reason: str


class Marks(NamedTuple):
    """Images and filled shapes of a page in the order of drawing."""

    orders: Array
    boxes: Array
    colours: Array
    """Red, green, blue; -1 for images and for what lets the ground shine through."""
    images: Array
    """Whether each is an image."""
    palette: Array
    """The colours that differ, without that of images, and with the paper: (K, 3)."""


def extract_textpage(shown: pymupdf.DisplayList, box: Sequence[float], matrix: pymupdf.Matrix, flags: int) -> Any:
    """Return the text that a page draws in a box, in the space of `matrix`."""
    textpage = mupdf.FzStextPage(mupdf.FzRect(*box))
    device = mupdf.fz_new_stext_device(textpage, mupdf.FzStextOptions(flags))
    _run(shown, device, mupdf.FzMatrix(*matrix), mupdf.FzRect(mupdf.FzRect.Fixed_INFINITE))
    return pymupdf.TextPage(textpage)


def _run(shown: pymupdf.DisplayList, device: Any, matrix: Any, region: Any) -> None:
    mupdf.fz_run_display_list(shown.this, device, matrix, region, mupdf.FzCookie())
    mupdf.fz_close_device(device)


def find_hidden(
    page: pymupdf.Page,
    shown: pymupdf.DisplayList,
    textpage: Any,
    blocks: Sequence[dict[str, Any]],
    layers: Sequence[int],
) -> list[HiddenChar]:
    """Return what nobody sees: words given in place of drawn ones, then letters as they are drawn; [] if it is unclear.

    textpage, blocks: the page's text as MuPDF reads it, and its dictionary. layers: optional content that is off.
    """
    least = LEAST_SIZE * min(1.0, max(page.rect.width, page.rect.height) / PAPER)
    in_order = extract_textpage(shown, EVERYWHERE, pymupdf.Matrix(1, 1), IN_ORDER).extractBLOCKS()
    marks, spans = _find_marks(in_order), _list_spans(blocks)
    letters = _join_letters(span["text"] for span in spans)
    drawn_letters = _join_letters(block[4] for block in in_order if block[6] == 0)
    instead: list[HiddenChar] = []
    if letters != drawn_letters:
        # letters are looked for as they are drawn
        size = (0.0, 0.0, page.rect.width, page.rect.height)
        drawn = extract_textpage(shown, size, pymupdf.Matrix(1, 1), PLAIN | pymupdf.TEXT_MEDIABOX_CLIP)
        if (untrue := _find_untrue(drawn, textpage)) is not None:
            textpage, spans = drawn, _list_spans(drawn.extractDICT()["blocks"])
            letters = _join_letters(span["text"] for span in spans)
            instead = [HiddenChar(Char(untrue, tuple(page.rect), 0.0, 0, 255, PAINTED, line=-1), UNTRUE)] * bool(untrue)
    # of a page that shows no letter, MuPDF keeps none that are cut off
    if shows_all := letters != "" and not layers and letters == drawn_letters:
        if _is_plain(spans, in_order, marks, least=least):
            return instead
        runs = [Char(s["text"], s["bbox"], s["size"], s["color"], s["alpha"], s["char_flags"]) for s in spans]
        reasons = {reason for reason in _suspect(runs, _find_orders(runs, in_order), marks, least=least) if reason}
        # of a run that is drawn in pieces, the first is older than what lies under the others
        if not reasons or (reasons <= COVERED and not _are_covered(textpage, in_order, marks, least=least)):
            return instead
    chars, hidden = _list_chars(textpage), dict[int, str]()
    try:
        if not shows_all:
            shown_chars = chars
            chars, in_order = _list_held(page, layers)
            hidden, marks = _find_unshown(chars, shown_chars, pymupdf.Rect(page.rect)), _find_marks(in_order)
        inside = [n for n in range(len(chars)) if n not in hidden]
        orders = _find_orders(chars, in_order)[inside]
        unseen = _find_unseen(shown, [chars[n] for n in inside], orders, marks, least=least)
    except (_Unclear, RuntimeError, mupdf.FzErrorBase):
        return instead  # a page that cannot be drawn keeps its text
    hidden |= {inside[n]: reason for n, reason in unseen.items()}
    return instead + [HiddenChar(chars[n], hidden[n]) for n in sorted(hidden)]


def _join_letters(texts: Iterable[str]) -> str:
    return "".join("".join(texts).split())


def _list_spans(blocks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the texts of one style of a page's dictionary, but white space."""
    lines = (line for block in blocks for line in block.get("lines", ()))
    return [span for line in lines for span in line["spans"] if not span["text"].isspace()]


def _is_plain(spans: Sequence[dict[str, Any]], in_order: Sequence[Any], marks: Marks, *, least: float) -> bool:
    """Return whether each text is legible by its style, none in the colour of a mark or of paper, and marks come first.

    Such are most pages; the answer costs a fourth of a comparison of each text with each mark.
    """
    first = next(order for order, block in enumerate(in_order) if block[6] == 0)
    if len(marks.orders) and marks.orders[-1] > first:
        return False
    looks = {(span["alpha"], span["char_flags"] & PAINTED) for span in spans}
    if min(span["size"] for span in spans) < least or any(alpha < 4 * SEEN or not paint for alpha, paint in looks):
        return False
    return not _are_alike(np.array([_split(colour) for colour in {span["color"] for span in spans}]), marks).any()


def _find_untrue(drawn: Any, written: Any) -> str | None:
    """Return the words that a page gives for others that it draws (`ActualText`); "" if all are true, None without any.

    drawn, written: its text without and with them. Single signs are names of symbols, and glyphs without Unicode need
    theirs; "nothing" stands for words that are drawn alone.
    """
    drawn_text, text = (textpage.extractText() for textpage in (drawn, written))
    if drawn_text == text:
        return None
    parts = ((word for word in part.split() if len(word) > 1 or word.isdecimal()) for part in (drawn_text, text))
    drawn_words, written_words = map(Counter, parts)
    # most words are the same in both, and need no folding
    visible, words = (
        Counter(map(fold_letters, rest.elements()))
        for rest in (drawn_words - written_words, written_words - drawn_words)
    )
    untrue = words - visible
    if untrue.total() + (visible - words).total() <= len(NO_LETTER.findall(drawn_text)):
        return ""
    return " ".join(word for word in text.split() if fold_letters(word) in untrue) or "nothing"


def _are_covered(textpage: Any, in_order: Sequence[Any], marks: Marks, *, least: float) -> bool:
    """Return whether something is drawn over a letter after it, by the words of a page.

    A word that is drawn in pieces is looked at again by its letters, as if of one width. True where it is unclear.
    """
    boxes = textpage.extractWORDS()
    words = [Char(text, (x0, y0, x1, y1), (y1 - y0) / 2, 0, 255, PAINTED) for x0, y0, x1, y1, text, *_ in boxes]
    pieces: list[Char] = []
    try:
        reasons = _suspect(words, _find_orders(words, in_order), marks, least=least) or [""] * len(words)
        for word, reason in zip(words, reasons, strict=True):
            if reason not in COVERED:
                pieces.append(word)
                continue
            x0, y0, x1, y1 = word.box
            edges = [x0 + (x1 - x0) * n / len(word.text) for n in range(len(word.text) + 1)]
            signs = zip(word.text, pairwise(edges), strict=True)
            pieces += [word._replace(text=sign, box=(left, y0, right, y1)) for sign, (left, right) in signs]
        return not COVERED.isdisjoint(_suspect(pieces, _find_orders(pieces, in_order), marks, least=least))
    except _Unclear:
        return True


class _Unclear(Exception):
    """The letters of a page are read in two ways that differ."""


def _list_held(page: pymupdf.Page, layers: Sequence[int]) -> tuple[list[Char], Sequence[Any]]:
    """Return the letters of a page and of its layers, shown or not, and its blocks in the order of drawing."""
    document: Any = page.parent
    for layer in layers:
        document.set_layer_ui_config(layer, pymupdf.PDF_OC_ON)
    try:
        upright, box = pymupdf.Matrix(page.rotation_matrix), pymupdf.Rect(EVERYWHERE)
        in_order = page.get_textpage(clip=box, flags=IN_ORDER, matrix=upright).extractBLOCKS()
        return _list_chars(page.get_textpage(clip=box, flags=PLAIN, matrix=upright)), in_order
    finally:
        for layer in layers:
            document.set_layer_ui_config(layer, pymupdf.PDF_OC_OFF)


def _find_unshown(held: Sequence[Char], shown: Sequence[Char], frame: pymupdf.Rect) -> dict[int, str]:
    """Return the numbers of the letters of a page that it does not show, each with the reason. Raises _Unclear."""
    # what the page shows is a part of all that it holds, in the same order
    read = iter(shown)
    expected = next(read, None)
    reasons: dict[int, str] = {}
    for n, char in enumerate(held):
        if expected and char.text == expected.text and _are_near(char.origin, expected.origin):
            expected = next(read, None)
        else:
            reasons[n] = CLIPPED if frame.intersects(pymupdf.Rect(char.box)) else OUTSIDE
    if expected:
        raise _Unclear
    return reasons


def _find_orders(chars: Sequence[Char], in_order: Sequence[Any]) -> Array:
    """Return the number of the block in which each letter or run is drawn. Raises _Unclear if blocks hold others."""
    counts = [len("".join(char.text.split())) for char in chars]
    texts = [(n, len("".join(block[4].split()))) for n, block in enumerate(in_order) if block[6] == 0]
    numbers, in_blocks = zip(*texts, strict=True) if texts else ((), ())
    if sum(counts) != sum(in_blocks):
        raise _Unclear
    ends = np.cumsum(in_blocks)
    return np.array(numbers, dtype=int)[np.searchsorted(ends, np.cumsum(counts) - counts, side="right")]


def _find_marks(in_order: Sequence[Any]) -> Marks:
    """Return what is drawn large enough to cover letters, and the paper as a last colour; that of an image is -1."""
    looks: dict[str, tuple[int, int, int]] = {}
    for text in {block[4] for block in in_order if block[6] > 1}:
        if drawn := VECTOR.search(text):
            colour = _split(int(drawn[2], 16))
            # of lines, those cover letters that are as pale as paper
            if drawn[1] == "filled" or min(colour) >= 255 - ALIKE:
                looks[text] = colour if int(drawn[3]) > 255 - ALIKE else (-1, -1, -1)
    marks: list[tuple[int, BBox, tuple[int, int, int], bool]] = []
    tiled: Sequence[Any] = (0.0, 0.0, 0.0, 0.0, "")
    for order, (x0, y0, x1, y1, text, _, kind) in enumerate(in_order):
        if kind == 0:
            continue
        if x1 - x0 < LEAST_MARK or y1 - y0 < LEAST_MARK:
            # thin shapes of one colour, side by side, cover as one
            from_x, from_y, to_x, to_y, look = tiled
            joined = min(x0, from_x), min(y0, from_y), max(x1, to_x), max(y1, to_y)
            parts = (x1 - x0) * (y1 - y0) + (to_x - from_x) * (to_y - from_y)
            if look == text and (joined[2] - joined[0]) * (joined[3] - joined[1]) <= TILED * parts:
                x0, y0, x1, y1 = joined
            tiled = x0, y0, x1, y1, text
        colour = (-1, -1, -1) if kind == 1 else looks.get(text)
        if colour and min(x1 - x0, y1 - y0) >= LEAST_MARK:
            marks.append((order, (x0, y0, x1, y1), colour, kind == 1))
    orders, boxes, colours, images = zip(*marks, strict=True) if marks else ((), (), (), ())
    return Marks(
        np.array(orders, dtype=int),
        np.array(boxes, dtype=float).reshape(-1, 4),
        np.array([*colours, (255, 255, 255)]),  # the last is the paper
        np.array([*images, False]),
        np.array([*{colour for colour in colours if colour[0] >= 0}, (255, 255, 255)]),
    )


def _split(colour: int) -> tuple[int, int, int]:
    return colour >> 16 & 255, colour >> 8 & 255, colour & 255


def _shrink(chars: Sequence[Char], share: float) -> Array:
    """Return the boxes of letters without a share of their size at each edge: left, top, right, bottom, each (N,)."""
    x0, y0, x1, y1, sizes = np.array([(*char.box, char.size) for char in chars]).T
    across, down = share * np.minimum(x1 - x0, sizes), share * np.minimum(y1 - y0, sizes)
    return np.array([x0 + across, y0 + down, x1 - across, y1 - down])


def _suspect(chars: Sequence[Char], orders: Array, marks: Marks, *, least: float) -> list[str]:
    """Return for each letter or run why it may not be seen, "" where nothing speaks for it; [] without any."""
    if not chars:
        return []
    cores = _shrink(chars, MARGIN)
    x0, y0, x1, y1, sizes, colours, alphas, flags = np.array([(*char.box, *char[2:6]) for char in chars]).T
    colours = colours.astype(int)[:, None] >> np.array([16, 8, 0]) & 255
    if not _are_alike(colours, marks).any():  # then no ground hides a letter, and most are older than all letters
        late = marks.orders > orders.min()
        paper = np.append(late, True)  # which is behind the last of the colours
        marks = Marks(marks.orders[late], marks.boxes[late], marks.colours[paper], marks.images[paper], marks.palette)
    ground, cover = np.full(len(chars), -1), np.full(len(chars), -1)
    step = max(MOST_PAIRS // max(len(marks.orders), 1), 1)
    for start in range(0, len(chars) if len(marks.orders) else 0, step):
        part = slice(start, start + step)
        left, top, right, bottom = (side[part, None] for side in cores)
        from_x, from_y, to_x, to_y = marks.boxes.T
        before = marks.orders < orders[part, None]  # (letters, marks)
        # a heading in white on a dark bar is one of the commonest things on a page
        ground[part] = _find_last(before & (from_x <= left) & (right <= to_x) & (from_y <= top) & (bottom <= to_y))
        cover[part] = _find_last(~before & (from_x < right) & (left < to_x) & (from_y < bottom) & (top < to_y))
    grounds = marks.colours[ground]
    pale = colours.min(axis=1) >= 255 - ALIKE
    reasons = {
        # the size that a font claims may be wrong, so that of letters counts as well
        TINY: (sizes < least) & (np.minimum(x1 - x0, y1 - y0) < LETTER_HEIGHT * least),
        UNPAINTED: (flags.astype(int) & PAINTED) == 0,
        TRANSPARENT: alphas < 4 * SEEN,
        UNDER_IMAGE: (cover >= 0) & marks.images[cover],
        UNDER_SHAPE: cover >= 0,
        SAME_COLOUR: np.where(grounds[:, 0] < 0, pale, np.abs(grounds - colours).max(axis=1) <= ALIKE),
    }
    if not any(found.any() for found in reasons.values()):
        return []
    return np.select(list(reasons.values()), list(reasons), default="").tolist()


def _are_alike(colours: Array, marks: Marks) -> Array:
    """Return whether each colour, (N, 3), is nearly that of a mark or of the paper."""
    return (np.abs(colours[:, None] - marks.palette).max(axis=-1) <= ALIKE).any(axis=1)


def _find_last(table: Array) -> Array:
    """Return the number of the last column of each row that is true; -1 where none is."""
    return np.where(table.any(axis=1), table.shape[1] - 1 - table[:, ::-1].argmax(axis=1), -1)


def _are_near(point: Sequence[float], other: Sequence[float]) -> bool:
    return abs(point[0] - other[0]) < 0.1 and abs(point[1] - other[1]) < 0.1


def _list_chars(textpage: Any) -> list[Char]:
    """Return the letters of a page without white space."""
    chars: list[Char] = []
    lines = (line for block in textpage.extractRAWDICT()["blocks"] for line in block.get("lines", ()))
    for line_no, line in enumerate(lines):
        spaced = False
        for span in line["spans"]:
            look = (span["size"], span["color"], span["alpha"], span["char_flags"])
            for char in span["chars"]:
                if not char["c"].isspace():
                    chars.append(Char(char["c"], char["bbox"], *look, char["origin"], line_no, spaced))
                spaced = char["c"].isspace()
    return chars


def _find_unseen(
    shown: pymupdf.DisplayList, chars: Sequence[Char], orders: Array, marks: Marks, *, least: float
) -> dict[int, str]:
    """Return number and reason of each letter that leaves no mark on its page; least: points of a legible one."""
    reasons = _suspect(chars, orders, marks, least=least)
    if not reasons:
        return {}
    suspects = [n for n in range(len(chars)) if reasons[n]]
    drawn = [n for n in suspects if reasons[n] not in (TINY, UNPAINTED)]
    scale = min(PIXELS_PER_POINT, (MOST_PIXELS / max(shown.rect.width * shown.rect.height, 1.0)) ** 0.5)
    boxes = [chars[n].box for n in suspects]
    around = max(max(x1 - x0, y1 - y0) for x0, y0, x1, y1 in boxes)
    x0, y0, x1, y1 = enclosing_box(boxes)
    region = pymupdf.Rect(x0 - around, y0 - around, x1 + around, y1 + around) & shown.rect
    without = _draw(shown, scale, region, with_text=False)
    # what is written over a cover is not what is under it
    covered = np.array([reason in (UNDER_IMAGE, UNDER_SHAPE) for reason in reasons])
    over = np.flatnonzero(~covered)
    cores = _shrink(chars, EDGE)
    left, top, right, bottom = cores[:, over]

    def is_written_over(n: int) -> bool:
        middle = (cores[1, n] + cores[3, n]) / 2
        near = (left < cores[2, n]) & (cores[0, n] < right) & (top < middle) & (middle < bottom)
        return bool(covered[n] and (near & (orders[over] > orders[n])).any())

    found: set[int] = set()
    if drawn:
        found = _find_inked(chars, cores, drawn, without, _draw(shown, scale, region, with_text=True))
        found = {n for n in found if not is_written_over(n)}

    runs: list[list[int]] = []
    for _, line in groupby(range(len(chars)), key=lambda n: chars[n].line):
        numbers = list(line)
        if not any(reasons[n] for n in numbers):
            continue
        # a comma or a bracket goes with the letter before it
        letters = [n for n in numbers if chars[n].text.isalnum()] or numbers
        visible = {n: not reasons[n] or n in found for n in letters}
        last = letters[0]
        run: list[int] = []
        for n in numbers:
            last = n if n in visible else last
            run += [n] if reasons[n] and not visible[last] else []
        runs += [run] if run else []
    legible = [[chars[n] for n in run if reasons[n] != TINY] for run in runs]
    scanned = _find_scanned([run for run in legible if run], without)
    return {n: reasons[n] for run in runs for n in run if chars[n] not in scanned}


def _find_inked(
    chars: Sequence[Char], cores: Array, numbers: Sequence[int], without: Picture, complete: Picture
) -> set[int]:
    """Return those of some letters that change a pixel towards their own colour."""
    inked: set[int] = set()
    for (_, colour), run in groupby(numbers, key=lambda n: (chars[n].line, chars[n].colour)):
        own = list(run)
        left, top, right, bottom = without.find_pixels(cores[:, own])
        x0, y0, x1, y1 = left.min(), top.min(), right.max(), bottom.max()
        ground = without.pixels[y0:y1, x0:x1].astype(int)
        change = complete.pixels[y0:y1, x0:x1] - ground
        seen = (np.abs(change).max(axis=-1) >= SEEN) & ((change * (_split(colour) - ground)).sum(axis=-1) > 0)
        # the number of such pixels above and left of each
        count = np.pad(seen.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
        left, top, right, bottom = left - x0, top - y0, right - x0, bottom - y0
        inside = count[bottom, right] - count[top, right] - count[bottom, left] + count[top, left]
        inked |= {n for n, pixels in zip(own, inside, strict=True) if pixels}
    return inked


class Picture(NamedTuple):
    """A part of a page as it is drawn."""

    pixels: Array
    """Rows of red, green and blue."""
    left: int
    top: int
    scale: float
    """Pixels in a point."""

    def find_pixels(self, boxes: Any) -> Any:
        """Return the first columns and rows that show boxes, and those behind the last: left, top, right, bottom."""
        height, width = self.pixels.shape[:2]
        x0, y0, x1, y1 = (np.asarray(edges) * self.scale for edges in boxes)
        left, right = (np.floor(x).astype(int) - self.left for x in (x0, x1))
        top, bottom = (np.floor(y).astype(int) - self.top for y in (y0, y1))
        left, top = left.clip(0, width), top.clip(0, height)
        return left, top, np.clip(right + 1, left, width), np.clip(bottom + 1, top, height)


def _draw(shown: pymupdf.DisplayList, scale: float, region: pymupdf.Rect, *, with_text: bool) -> Picture:
    """Return the pixels of a region, (height, width, 3), at `scale` pixels a point, with or without its text."""
    matrix, area = mupdf.FzMatrix(scale, 0, 0, scale, 0, 0), mupdf.FzRect(*region)
    frame = mupdf.fz_round_rect(mupdf.fz_transform_rect(area, matrix))
    space = mupdf.FzColorspace(mupdf.FzColorspace.Fixed_RGB)
    pixels = mupdf.FzPixmap(space, frame, mupdf.FzSeparations(), 0)
    mupdf.fz_clear_pixmap_with_value(pixels, 255)
    device = mupdf.FzDevice(matrix, pixels)
    if not with_text:  # MuPDF passes over what a device has no function for
        device.m_internal.fill_text = device.m_internal.stroke_text = None
    _run(shown, device, mupdf.FzMatrix(), area)
    picture = pymupdf.Pixmap("raw", pixels)
    rows = np.frombuffer(picture.samples, np.uint8).reshape(picture.height, picture.width, 3)
    return Picture(rows, picture.x, picture.y, scale)


CONTRAST = 50
"""Steps of 255 between letters and their ground."""
LEAST_STROKES = 0.4
"""Strokes that a row of pixels crosses, at least, for each letter of the text."""
LEAST_SHOWN = 0.7
"""Share of the letters at whose places there is ink."""
WHITE_SHARE = 0.5
"""Ink between the lines, at most, as a share of the ink in them."""
REACH = 0.75
"""How far from its text a picture may show a line, in heights of the line."""
LONGEST = 10.0
"""How much of a line is looked at, in heights: scans may be skew."""


def _find_scanned(runs: Sequence[Sequence[Char]], drawn: Picture) -> set[Char]:
    """Return the letters of the runs that the page shows as an image or as outlines.

    Letters are as many strokes in a row, with white between the lines; a photograph has not both. So has most of the
    text that OCR puts under or over a scan.
    """
    inked: list[Sequence[Char]] = []
    lines = 0
    turned = Picture(drawn.pixels.swapaxes(0, 1), drawn.top, drawn.left, drawn.scale)
    for run in runs:
        picture, boxes = drawn, [char.box for char in run]
        x0, y0, x1, y1 = enclosing_box(boxes)
        if y1 - y0 > x1 - x0 and len(run) > 2:  # it runs up or down the page
            picture, boxes = turned, [(top, left, bottom, right) for left, top, right, bottom in boxes]
            x0, y0, x1, y1 = enclosing_box(boxes)
        height = y1 - y0
        boxes = [box for box in boxes if box[2] <= x0 + LONGEST * height] or boxes[:1]
        x1 = max(box[2] for box in boxes)
        left, top, right, bottom = picture.find_pixels((x0, y0 - REACH * height, x1, y1 + REACH * height))
        lefts, tops, rights, bottoms = picture.find_pixels(np.array([*boxes, (x0, y0, x1, y1)]).T)
        area, own = picture.pixels[top:bottom, left:right].mean(axis=2), slice(tops[-1] - top, bottoms[-1] - top)
        if not area[own].size:
            continue
        low, high = np.percentile(area, (2, 98))
        ink = np.abs(area - np.median(area)) > 0.4 * (high - low)
        strokes = (ink[own, 1:] & ~ink[own, :-1]).sum(axis=1).max()
        places = zip(lefts[:-1] - left, rights[:-1] - left, strict=True)
        shown = sum(ink[own, start:end].any() for start, end in places)
        if high - low < CONTRAST or strokes < LEAST_STROKES * len(boxes) or shown < LEAST_SHOWN * len(boxes):
            continue
        inked.append(run)
        profile = ink.mean(axis=1)
        band = max((own.stop - own.start) // 4, 1)
        body = np.convolve(profile, np.full(band, 1 / band), "same")[own]
        peak = own.start + int(body.argmax())
        white = max(profile[: peak + 1].min(), profile[peak:].min()) < WHITE_SHARE * body.max()
        # of a tick or a bullet that is drawn, the text is its name
        lines += white or (len(run) == 1 and not run[0].text.isalnum())
    return {char for run in inked for char in run} if 2 * lines > len(inked) else set()


def find_chars(textpage: Any, boxes: Sequence[BBox]) -> list[Char]:
    """Return the letters whose middles lie in one of the boxes."""
    return [
        char
        for char in _list_chars(textpage)
        for x, y in [((char.box[0] + char.box[2]) / 2, (char.box[1] + char.box[3]) / 2)]
        if any(x0 <= x <= x1 and y0 <= y <= y1 for x0, y0, x1, y1 in boxes)
    ]


def remove_chars(textpage: Any, unwanted: Iterable[Char], to_shown: pymupdf.Matrix) -> None:
    """Take letters out of a text of MuPDF's; to_shown: from the space of the text to the page as it is shown."""
    places: defaultdict[tuple[str, int, int], list[Char]] = defaultdict(list)
    for found in unwanted:
        x, y = found.origin
        for key in {(found.text, round(x + dx), round(y + dy)) for dx in (-0.1, 0.1) for dy in (-0.1, 0.1)}:
            places[key].append(found)
    lines = [
        (line.m_internal, [char.m_internal for char in line])
        for block in textpage.this
        if block.m_internal.type == mupdf.FZ_STEXT_BLOCK_TEXT
        for line in block
    ]
    gone: set[int] = set()
    gaps: dict[tuple[int, int], tuple[int, Any]] = {}
    """Line and letter that were removed by their place, in steps of GAP_POINTS."""
    changed: set[int] = set()
    for n, (_, chars) in enumerate(lines):
        for char in chars:
            place: Any = pymupdf.Point(char.origin.x, char.origin.y) * to_shown
            origin = (place.x, place.y)
            for found in places.get((chr(char.c), round(origin[0]), round(origin[1])), ()):
                if id(found) not in gone and _are_near(origin, found.origin):
                    gone.add(id(found))
                    char.c = SPACE
                    changed.add(n)
                    gaps[int(char.origin.x / GAP_POINTS), int(char.origin.y / GAP_POINTS)] = n, char
                    break
    for n, (_, chars) in enumerate(lines):
        # what is written over a cover within a line is read where it stands
        x, y = (int(edge / GAP_POINTS) for edge in (chars[0].origin.x, chars[0].origin.y))
        near = (gaps.get((x + dx, y + dy)) for dx in (0, -1, 1) for dy in (0, -1, 1))
        line, gap = next(filter(None, near), (n, None))
        others = lines[line][1]
        if gap and n not in changed and any(char.c != SPACE for char in others):
            at = next(i for i, char in enumerate(others) if char is gap)
            others[at:at] = chars
            chars.clear()
            changed.add(n)
    for line, chars in (lines[n] for n in changed):
        # one space stays for what was between words, and none at the ends, where it would widen the line
        left = [char for n, char in enumerate(chars) if char.c != SPACE or (n and chars[n - 1].c != SPACE)]
        left = left[: -1 if len(left) > 1 and left[-1].c == SPACE else None] or chars[:1]
        line.first_char, line.last_char = (left[0], left[-1]) if left else (None, None)
        for char, after in zip(left, [*left[1:], None], strict=False):
            char.next = after


def group_hidden(hidden: Iterable[HiddenChar]) -> tuple[HiddenText, ...]:
    """Return hidden letters as runs of a line, each with its reason."""
    pieces: list[HiddenText] = []
    for (_, reason), run in groupby(hidden, key=lambda found: (found.char.line, found.reason)):
        chars = [found.char for found in run]
        text = "".join(" " * char.spaced + char.text for char in chars).strip()
        box = enclosing_box([char.box for char in chars])
        pieces.append(HiddenText(text=make_storable(text), reason=reason, bbox=box))
    return tuple(pieces)
