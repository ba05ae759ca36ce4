"""Positioned text of a PDF page in the direction of reading: runs, words and characters, form fields, annotations.

Words of Hebrew and Arabic lines come in the order in which they are read; a page places them from right to left.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby, pairwise
from typing import Any, NamedTuple, cast

import pymupdf

from tasks.documents.blocks import BBox
from tasks.documents.document_readers import make_storable
from tasks.documents.marks import MOST_CHARS, join_fractions, lower_signs, raise_signs, shift_signs
from tasks.documents.pdf.pdf_hidden import UNTRUE, HiddenChar, extract_textpage, find_chars, find_hidden, remove_chars

Span = Mapping[str, Any]
"""A text of one font and size, as MuPDF gives it."""
SMALL = (0.4, 0.87)
"""Font size of a raised sign over that of the text beside it; still smaller is text beside a drop cap."""
RISE = (0.12, 0.75)
"""How far its baseline stands above that of the text beside it, in font sizes of that text."""
RISE_OF_EQUALS = (0.2, 0.6)
"""The same for digits that are as large as the text."""
FALL = (0.06, 0.45)
"""How far the baseline of lowered digits stands below."""
MARK = re.compile(
    r"\s*[(\[]?(?:주\s?)?(?:[\d+\-–−=,*†‡§¶#./⁄()\s]|(?<![^\W\d_])[^\W\d_]{1,2}(?![^\W\d_]))+[)\]]?\s*|\s*(?:TM|SM)\s*"
)
"""Digits, signs and letters that make no word: raised words, such as those of a logotype, stay words."""
DIGITS = re.compile(r"\s*[\d*†‡§¶#,()]+\s*")
RAISED_GAP_EMS = 0.1
"""White behind a raised sign from which a word begins there, in font sizes."""
NEAR_EMS = (-0.25, 0.3)
"""White between a text and a mark that MuPDF gives as a line of its own, in font sizes of the text."""
MOST_LOOSE = 300
"""Lines of small digits on a page, up to which the texts beside them are looked for."""


def mark_spans(spans: Sequence[Span]) -> list[str] | None:
    """Return the texts of a line's spans in raised and lowered signs; None where all stand on the line."""
    levels = [span["origin"][1] for span in spans]
    largest = max(span["size"] for span in spans)
    if max(levels) - min(levels) < RISE[0] * min(span["size"] for span in spans):
        return None
    texts: list[str] = []
    done, raised = "", False
    base: Span | None = None
    for i, span in enumerate(spans):
        text: str = span["text"]
        beside = base or next((other for other in spans[i + 1 :] if other["text"].strip()), span)
        below = re.fullmatch(r"([/⁄]?)(\d{1,3})(.*)", text) if span["size"] < SMALL[1] * largest else None
        if not text.strip() or (place := find_place(span, beside)) == 0:
            if raised and text[:1].isalnum() and not done[-1:].isspace():
                gap = span["bbox"][0] - spans[i - 1]["bbox"][2]
                text = f" {text}" if gap > RAISED_GAP_EMS * span["size"] else text
            if below and re.search(r"[⁰¹²³⁴-⁹][/⁄]$", done + below[1]):  # the number below the stroke of a fraction
                text = below[1] + lower_signs(below[2]) + below[3]
            elif any(map(str.isalnum, text)):
                base = span
            raised = raised and not text.strip()
        else:
            raised = place > 0
            text = shift_signs(text, place, before=done)
        texts.append(text)
        done += text
    return texts if texts != [span["text"] for span in spans] else None


def find_place(span: Span, beside: Span) -> int:
    """Return 1 for a text that is raised above the text beside it, -1 for lowered digits, else 0."""
    if len(span["text"].strip()) > MOST_CHARS or not MARK.fullmatch(span["text"]):
        return 0
    share = span["size"] / beside["size"] if beside["size"] else 1.0
    rise = (beside["origin"][1] - span["origin"][1]) / (beside["size"] or 1.0)
    is_digits = DIGITS.fullmatch(span["text"]) is not None
    if SMALL[0] <= share <= SMALL[1]:
        return 1 if RISE[0] <= rise <= RISE[1] else -1 if FALL[0] <= -rise <= FALL[1] and is_digits else 0
    equal = SMALL[1] < share < 1 / SMALL[1] and RISE_OF_EQUALS[0] <= rise <= RISE_OF_EQUALS[1]
    return int(equal and is_digits)


def mark_words(words: Sequence[Word], spans: Sequence[Span], texts: Sequence[str]) -> Iterator[Word]:
    """Yield a line's words in the signs of `texts`, those of its spans, cut behind raised ones; else as they are."""
    signs = [(sign, i) for i, span in enumerate(spans) for sign in span["text"] if not sign.isspace()]
    shown = [text.strip() for text in texts]
    at = 0
    for word in words:
        own = signs[at : at + len(word.text)]
        at += len(own)
        if "".join(sign for sign, _ in own) != word.text:  # MuPDF cut the line in another way
            yield word
            continue
        start, written = word, ""
        for i in dict.fromkeys(i for _, i in own):
            plain = "".join(sign for sign, at_span in own if at_span == i)
            whole = plain == "".join(spans[i]["text"].split())
            if written and texts[i][:1].isspace() and not spans[i]["text"][:1].isspace():
                yield start._replace(text=join_fractions(written), x1=spans[i - 1]["bbox"][2])
                start, written = word._replace(x0=spans[i]["bbox"][0]), ""
            written += shown[i] if whole else raise_signs(plain) if texts[i] != spans[i]["text"] else plain
        yield start._replace(text=join_fractions(written))


def attach_marks(
    fragments: Sequence[Fragment], words: Callable[[], list[Word]], leads: Mapping[tuple[int, int], Span]
) -> tuple[list[Fragment], list[Word]] | None:
    """Return runs and words with the marks that are lines of their own behind the words beside them; None without any.

    leads: the largest span of each line.
    """
    sizes = Counter[float]()
    for fragment in fragments:
        sizes[fragment.size] += len(fragment.text)
    body = sizes.most_common(1)[0][0] if sizes else 0.0
    loose = [
        fragment
        for fragment in fragments
        if fragment.size <= SMALL[1] * body and len(fragment.text) <= MOST_CHARS and MARK.fullmatch(fragment.text)
        if leads[fragment.line]["text"].strip() == fragment.text.strip()  # the only span of its line
    ]
    marks = [
        (mark, base)
        for mark in (sorted(loose) if len(loose) <= MOST_LOOSE else ())
        for base in fragments
        if base.x0 < mark.x0 <= base.x1 + NEAR_EMS[1] * base.size and find_place(leads[mark.line], leads[base.line]) > 0
    ]
    if not marks:
        return None
    by_line = {fragment.line: fragment for fragment in fragments}
    marked = words()
    for mark, base in marks:
        ends = [(mark.x0 - word.x1) / base.size if word.line == base.line else 9.0 for word in marked]
        at = next((i for i, gap in enumerate(ends) if NEAR_EMS[0] <= gap <= NEAR_EMS[1]), None)
        if at is None or mark.line not in by_line:
            continue
        word, number = marked[at], sum(word.line == base.line for word in marked[:at])
        inside = list(re.finditer(r"\S+", by_line[base.line].text))
        if number < len(inside) and inside[number][0] == word.text:
            text = by_line[base.line].text
            raised = raise_signs(mark.text.strip(), before=word.text)
            end = inside[number].end()
            x1 = max(by_line[base.line].x1, mark.x1)
            by_line[base.line] = by_line[base.line]._replace(text=text[:end] + raised + text[end:], x1=x1)
            del by_line[mark.line]
            marked[at] = word._replace(text=word.text + raised, x1=mark.x1)
            marked = [word for word in marked if word.line != mark.line]
    return list(by_line.values()), marked


# CID_FOR_UNKNOWN_UNICODE stays off: a glyph without Unicode must show as U+FFFD, not as a plausible wrong letter.
TEXT_FLAGS = pymupdf.TEXT_PRESERVE_WHITESPACE | pymupdf.TEXT_MEDIABOX_CLIP
BOLD = pymupdf.TEXT_FONT_BOLD
STRUCK_ONCE = pymupdf.TEXT_COLLECT_STYLES
"""MuPDF then takes a sign that is drawn again at its place for a bold one, which costs ten times the CPU seconds."""
GAP_EMS = 0.3  # least white between two words, in font sizes
STRUCK_BOLD = 8  # in `char_flags`
STRUCK_EMS = 0.25  # how far from its place a sign is drawn again, in font sizes
MOST_STRUCK = 30_000  # signs of a page; MuPDF compares each with each
DAMAGED = re.compile(r"[\x00\ud800-\udfff]")
MEANINGLESS = re.compile(r"[\x01-\x08\x0e-\x1f\ue000-\uf8ff\ufffd\U000f0000-\U0010ffff]")
"""Control characters, private use, and the replacement for glyphs without Unicode."""
GARBAGE_SHARE = 0.3  # of unreadable characters in a text that is useless; bullets of symbol fonts stay far below


class Fragment(NamedTuple):
    """A run of text on one baseline without a wide gap."""

    x0: float
    y0: float
    x1: float
    y1: float
    text: str
    size: float
    """Font size in points."""
    bold: bool
    upright: bool
    """False for text that runs up or down the page."""
    line: tuple[int, int]
    """Identifies the run; its words carry the same pair."""


class Word(NamedTuple):
    """A word or a single character with its box, in points."""

    x0: float
    y0: float
    x1: float
    y1: float
    text: str
    line: tuple[int, int]


class PageText(NamedTuple):
    """The text of a page in reading space, which is rotated so that most text runs from left to right."""

    width: float
    height: float
    fragments: tuple[Fragment, ...]
    words: Callable[[], list[Word]]
    to_reading: pymupdf.Matrix
    """From unrotated page space, in which drawings and annotations are reported."""
    to_page: pymupdf.Matrix | None = None
    """From reading space to the page as it is shown; None where they are the same."""
    note: str | None = None
    """Sentence on what was replaced in the text or removed from it; None where nothing was."""
    hidden: tuple[HiddenChar, ...] = ()
    """Texts that nobody sees, with boxes on the page as it is shown; they are no part of `text`."""


def extract_text(page: pymupdf.Page, *, layers: Sequence[int] = ()) -> PageText:
    """Return the text that a person sees, with fields and annotations; layers: numbers of layers that are off."""
    shown = page.get_displaylist()
    width, height = size = (page.rect.width, page.rect.height)
    unturned = pymupdf.Matrix(1, 1)
    textpage = extract_textpage(shown, (0, 0, *size), unturned, TEXT_FLAGS)
    blocks: list[dict[str, Any]] = textpage.extractDICT()["blocks"]
    hidden = find_hidden(page, shown, textpage, blocks, layers)
    flags = TEXT_FLAGS | pymupdf.TEXT_IGNORE_ACTUALTEXT * any(found.reason == UNTRUE for found in hidden)
    upright = pymupdf.Matrix(page.rotation_matrix)
    # the glyph of a tick is a letter of another meaning; `read_remarks` tells what is ticked
    boxes = [
        map_box(tuple(widget.rect), upright) for widget in list_widgets(page) if widget.field_type_string in TICKED
    ]
    unwanted = [found.char for found in hidden] + (find_chars(textpage, boxes) if boxes else [])

    def extract(to_shown: pymupdf.Matrix, size: tuple[float, float]) -> tuple[PageText, Counter[tuple[int, int]]]:
        """Return the text in a direction of reading, without unwanted signs, and its characters by direction."""
        along = extract_textpage(shown, (0, 0, *size), ~to_shown, flags)
        if unwanted:
            remove_chars(along, unwanted, to_shown)
        return _read_textpage(along, along.extractDICT()["blocks"], size, struck=bool(flags & STRUCK_ONCE))

    if unwanted:
        text, directions = extract(unturned, size)
    else:
        text, directions = _read_textpage(textpage, blocks, size)
    if _is_struck_twice(text.fragments):
        flags |= STRUCK_ONCE
        text, directions = extract(unturned, size)
    text = text._replace(to_reading=upright, hidden=tuple(hidden))
    direction, count = directions.most_common(1)[0] if directions else ((1, 0), 0)
    if direction not in ((0, -1), (0, 1), (-1, 0)) or count <= sum(directions.values()) / 2:
        return text  # most of it runs from left to right
    # Columns are where the reader's right and down lie on the page; the offset brings the corner back to (0, 0).
    dx, dy = direction
    offset = {(0, -1): (0, height), (0, 1): (width, 0), (-1, 0): (width, height)}[direction]
    to_shown = pymupdf.Matrix(dx, dy, -dy, dx, *offset)
    reading_size = size if dy == 0 else (height, width)
    text, _ = extract(to_shown, reading_size)
    return text._replace(to_reading=upright * ~to_shown, to_page=to_shown, hidden=tuple(hidden))


def store_drawn(text: str) -> str:
    """Return a text of a page as it is stored; a soft hyphen that was drawn shows as a hyphen."""
    return make_storable(text.replace("\u00ad", "-"))


def count_unreadable(texts: Iterable[str]) -> tuple[int, int]:
    """Return two counts: characters without meaning outside their font, and all characters except spaces."""
    text = "".join(texts)
    return len(MEANINGLESS.findall(text)), len(text) - text.count(" ")


def is_mostly_unreadable(texts: Iterable[str]) -> bool:
    """Return whether too many characters have no Unicode for the text to be useful."""
    bad, total = count_unreadable(texts)
    return bad > GARBAGE_SHARE * total


def map_box(box: Sequence[float], matrix: pymupdf.Matrix) -> BBox:
    """Return the upright box around a transformed box."""
    moved = pymupdf.Rect(box) * matrix
    return (moved.x0, moved.y0, moved.x1, moved.y1)


def _is_struck_twice(fragments: Sequence[Fragment]) -> bool:
    """Return whether a run is drawn again over itself, as bold or with a shadow; False above MOST_STRUCK signs."""
    if sum(len(fragment.text) for fragment in fragments) > MOST_STRUCK:
        return False
    places: dict[tuple[str, int, int], Fragment] = {}
    for fragment in fragments:
        begin = fragment.text[:3]
        for shift in (0.0, 2.0):  # two grids of 4 points: what is near is in one place of either
            place = (begin, int((fragment.x0 + shift) / 4), int((fragment.y0 + shift) / 4))
            earlier = places.setdefault(place, fragment)
            near = STRUCK_EMS * earlier.size
            over = abs(earlier.x0 - fragment.x0) < near and abs(earlier.y0 - fragment.y0) < near
            if earlier is not fragment and over and (earlier.text in fragment.text or fragment.text in earlier.text):
                return True
    return False


def _read_textpage(
    textpage: Any, blocks: Sequence[dict[str, Any]], size: tuple[float, float], *, struck: bool = False
) -> tuple[PageText, Counter[tuple[int, int]]]:
    """Return a text of MuPDF's, and the number of characters by direction of writing.

    blocks: the text as a dictionary. struck: signs drawn twice were taken for bold ones.
    """
    width, height = size
    fragments: list[Fragment] = []
    directions: Counter[tuple[int, int]] = Counter()
    damaged = 0
    leads: dict[tuple[int, int], Span] = {}
    raised: dict[tuple[int, int], tuple[list[Span], list[str]]] = {}
    """Spans of the lines with raised or lowered signs, and their texts in these signs."""
    parted: dict[tuple[int, int], list[_Gap]] = {}
    for block_no, block in enumerate(blocks):
        for line_no, line in enumerate(block.get("lines", ())):
            spans = line["spans"]
            if len(spans) > 1 and (gaps := _part_spans(spans)):
                parted[block_no, line_no] = gaps
            raw = spans[0]["text"] if len(spans) == 1 else "".join([span["text"] for span in spans])
            if not raw or raw.isspace():
                continue
            text = store_drawn(raw)
            if text != raw:
                damaged += len(DAMAGED.findall(raw))
            direction = round(line["dir"][0]), round(line["dir"][1])
            marked = (
                mark_spans(spans) if len(spans) > 1 and direction == (1, 0) and not RIGHT_TO_LEFT.search(raw) else None
            )
            if marked:
                raised[block_no, line_no] = spans, marked
                text = store_drawn("".join(marked))
            x0, y0, x1, y1 = line["bbox"]
            if text[0].isspace():
                x0 += (x1 - x0) * (len(text) - len(text.lstrip())) / len(text)  # the box begins with the first letter
                text = text.lstrip()
            directions[direction] += len(text)
            lead = spans[0] if len(spans) == 1 else max(spans, key=lambda span: len(span["text"].strip()))
            leads[block_no, line_no] = lead
            # a bold head that runs into its sentence is part of it
            *_, last = [lead, *(span for span in spans if any(map(str.isalpha, span["text"])))]
            # some fonts tell their weight by name only
            bold = all(
                span["flags"] & BOLD or "Bold" in span["font"] or (struck and span["char_flags"] & STRUCK_BOLD)
                for span in (lead, last)
            )
            upright = direction == (1, 0)
            fragments.append(Fragment(x0, y0, x1, y1, text, lead["size"], bold, upright, (block_no, line_no)))
    words = cache(lambda: _extract_words(textpage, raised, parted))
    if attached := attach_marks(fragments, words, leads):
        fragments, with_marks = attached
        words = cache(lambda: with_marks)
    if any(RIGHT_TO_LEFT.search(fragment.text) for fragment in fragments if not fragment.text.isascii()):
        fragments = _restore_spaces(fragments, words())
    page_text = PageText(
        width,
        height,
        tuple(fragments),
        words=words,
        to_reading=pymupdf.Matrix(1, 1),
        note=f"{damaged} NUL or lone surrogate characters replaced" if damaged else None,
    )
    return page_text, directions


def _restore_spaces(fragments: Iterable[Fragment], words: Iterable[Word]) -> list[Fragment]:
    """Return the runs, right-to-left ones from words: MuPDF drops spaces where the direction of writing changes."""
    by_line: dict[tuple[int, int], list[Word]] = {}
    for word in words:
        by_line.setdefault(word.line, []).append(word)
    spaced: list[Fragment] = []
    for fragment in fragments:
        inside = sorted(by_line.get(fragment.line, ()), key=lambda word: word.x0)
        if inside and runs_right_to_left([fragment.text]):
            text, right = join_right_to_left(inside), max(word.x1 for word in inside)
            fragment = fragment._replace(text=text, x0=inside[0].x0, x1=right)
        spaced.append(fragment)
    return spaced


_RaisedLines = Mapping[tuple[int, int], tuple[Sequence[Span], Sequence[str]]]


class _Gap(NamedTuple):
    """White between two runs of a line that MuPDF joins without a space, since one stands higher than the other."""

    before: str
    """The end of the first run, up to the white."""
    x0: float
    x1: float


def _part_spans(spans: Sequence[dict[str, Any]]) -> list[_Gap]:
    """Return the gaps between runs that no space parts, and put one there."""
    gaps: list[_Gap] = []
    for left, right in pairwise(spans):
        x0, x1 = left["bbox"][2], right["bbox"][0]
        joint = left["text"][-1:] + right["text"][:1]
        if x1 - x0 > GAP_EMS * left["size"] and len(joint) == 2 and not any(map(str.isspace, joint)):
            gaps.append(_Gap(left["text"].rsplit(None, 1)[-1], x0, x1))
            left["text"] += " "
    return gaps


def _extract_words(
    textpage: pymupdf.TextPage, raised: _RaisedLines, parted: Mapping[tuple[int, int], Sequence[_Gap]]
) -> list[Word]:
    """Return the words in MuPDF's order, cut at the gaps of their line, with raised and lowered signs marked."""
    words: list[Word] = []
    for line, own in groupby(textpage.extractWORDS(), key=lambda word: (word[5], word[6])):
        of_line = [Word(x0, y0, x1, y1, store_drawn(text), line) for x0, y0, x1, y1, text, *_ in own]
        for gap in parted.get(line, ()):
            of_line = [piece for word in of_line for piece in _cut_word(word, gap)]
        words += mark_words(of_line, *raised[line]) if line in raised else of_line
    return words


def _cut_word(word: Word, gap: _Gap) -> list[Word]:
    """Return a word as the two on both sides of a gap within it, or as it is."""
    end = word.text.find(gap.before) + len(gap.before)
    if not (word.x0 < gap.x0 and gap.x1 < word.x1 and gap.before in word.text and end < len(word.text)):
        return [word]
    return [word._replace(text=word.text[:end], x1=gap.x0), word._replace(text=word.text[end:], x0=gap.x1)]


FIELDS_WITH_TEXT = ("Text", "ComboBox", "ListBox")
PRINTED = ("FreeText", "Stamp")  # annotations that are part of the page; others are comments


class Remark(NamedTuple):
    """The value of a form field, or the text of an annotation, with its place."""

    text: str
    bbox: BBox
    """Box in unrotated page space, in points."""
    printed: bool
    """Form field, free text or stamp, as against a comment."""
    seen: bool = True
    """False for a field or an annotation that viewers do not show."""


TICKED = ("CheckBox", "RadioButton")
UNSEEN_FIELDS = (1, 3)  # `field_display`: hidden, and only in print
UNSEEN = 2 | 32  # flags of an annotation: hidden, not for the screen


def list_widgets(page: pymupdf.Page) -> list[Any]:
    """Return the form fields of a page."""
    return list(cast("Iterable[Any]", page.widgets())) if page.first_widget is not None else []


def read_remarks(page: pymupdf.Page, text: PageText) -> list[Remark]:
    """Return ☑ or ☐ of boxes, then values of fields and contents of annotations that the page's text lacks."""
    remarks: list[Remark] = []
    ticks: list[Remark] = []
    for widget in list_widgets(page):
        box, seen = tuple(widget.rect), widget.field_display not in UNSEEN_FIELDS
        if widget.field_type_string in FIELDS_WITH_TEXT:
            value = widget.field_value
            entry = "\n".join(map(str, value)) if isinstance(value, list | tuple) else str(value or "")
            remarks.append(Remark(make_storable(entry).strip(), box, printed=True, seen=seen))
        elif widget.field_type_string in TICKED and seen:
            # the state of a button is its own, the value that of its group
            kind, state = cast(Any, page.parent).xref_get_key(widget.xref, "AS")
            state = state if kind == "name" else str(widget.field_value)
            is_off = state.lstrip("/") in ("Off", "False", "None", "")
            ticks.append(Remark("☐" if is_off else "☑", box, printed=True))
    for annotation in cast("Iterable[Any]", page.annots()):
        content, seen = make_storable(annotation.info.get("content") or "").strip(), not annotation.flags & UNSEEN
        remarks.append(Remark(content, tuple(annotation.rect), printed=annotation.type[1] in PRINTED, seen=seen))

    page_text, upright = "".join("".join(f.text for f in text.fragments).split()), pymupdf.Matrix(page.rotation_matrix)
    new: list[Remark] = []
    for remark in remarks:
        plain = "".join(remark.text.split())
        held = page_text
        if remark.printed:  # "14" in another place is not the value of this field
            x0, y0, x1, y1 = map_box(remark.bbox, text.to_reading)
            inside = [f.text for f in text.fragments if f.x0 < x1 and x0 < f.x1 and f.y0 < y1 and y0 < f.y1]
            frame = pymupdf.Rect(remark.bbox) * upright
            unseen = (found.char.text for found in text.hidden if frame.intersects(found.char.box))
            held = "".join("".join([*inside, "\0", *unseen]).split())
        if plain and plain not in held and remark not in new:
            new.append(remark)
    return ticks + new


def has_fields(page: pymupdf.Page) -> bool:
    """Return whether the page holds form fields or annotations, with or without text."""
    return page.first_widget is not None or page.first_annot is not None


RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
WORD_GAP = 0.15
"""White between two words, in heights of a line."""


def runs_right_to_left(texts: Sequence[str]) -> bool:
    """Return whether most letters of a line belong to scripts that run from right to left."""
    count = sum(len(RIGHT_TO_LEFT.findall(text)) for text in texts)
    return count > 0 and 2 * count > sum(sign.isalpha() for text in texts for sign in text)


def join_right_to_left(pieces: Sequence[Fragment | Word]) -> str:
    """Return a line of right-to-left text from its pieces in visual order; pieces that do not touch get a space.

    Words of Latin letters, and numbers behind them, keep their order (Unicode's bidirectional algorithm, rule L2).
    """
    ordered: list[Fragment | Word] = []
    latin: list[Fragment | Word] = []
    for piece in pieces:
        letters = any(map(str.isalpha, piece.text)) and not RIGHT_TO_LEFT.search(piece.text)
        number = not letters and any(map(str.isdigit, piece.text))
        if letters or (number and latin):
            latin.append(piece)
        else:
            ordered = [piece, *latin, *ordered]
            latin = []
    ordered = [*latin, *ordered]
    text = ordered[0].text
    for before, piece in pairwise(ordered):
        white = max(before.x0 - piece.x1, piece.x0 - before.x1)
        text += piece.text if white < WORD_GAP * (piece.y1 - piece.y0) else f" {piece.text}"
    return text
