"""What a paragraph of a PDF is (heading, caption, list item or plain text), by its number, size and weight."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tasks.documents.blocks import BBox, Cell, Kind
from tasks.documents.list_marks import BULLET, COUNTED, DIVISION
from tasks.documents.pdf.pdf_layout import SMALL_WORD, Paragraph
from tasks.documents.pdf.pdf_text import Fragment


class Draft(NamedTuple):
    """A block of a page in the making."""

    kind: Kind
    text: str
    bbox: BBox
    level: int | None = None
    cells: tuple[Cell, ...] = ()
    left: float = 0.0
    """Where the first row begins."""
    mark: str = ""
    """The bullet or the number of a list item."""
    alone: bool = False
    """A single line that ends well before the margin, as a title does."""


class BodyStyle(NamedTuple):
    """Font size (points) and weight of most of the text."""

    size: float
    bold: bool


def body_style(fragments: Iterable[Fragment]) -> BodyStyle | None:
    """The commonest style, by characters; None without text."""
    styles: Counter[BodyStyle] = Counter()
    for fragment in fragments:
        styles[BodyStyle(round(fragment.size * 2) / 2, fragment.bold)] += len(fragment.text)
    return styles.most_common(1)[0][0] if styles else None


MAX_HEADING_CHARS = 120
MAX_HEADING_ROWS = 3
MAX_NUMBERED_HEADING_CHARS = 60  # a longer numbered line is a sentence, not a title
LARGER = 1.12  # font size of a heading over that of running text
FAR_LARGER = 1.35  # … of one that may fill the width of its column
FULL_SHARE = 0.9  # of the column's width that a line of running text fills
HEADED_SHARE = 0.66  # of the numbered lines of a kind that have text below them, if they are headings

DIVISION_LEVEL = {"편": 1, "부": 1, "장": 1, "절": 2, "관": 3, "조": 4}
DECIMAL = re.compile(r"(?P<number>\d{1,2}(?:\.\d{1,2}){0,4})\.?\s+(?=\D)")
CAPTION = re.compile(
    r"[<\[【〈(]?\s*(?:그림|표|사진|도표|별표|Figure|Fig\.|Table|Chart|Exhibit)\s*[\dⅠ-ⅩA-Z][\d.\-–]*\s*[>\]】〉)]?[\s.:]"
    r"|[(\[]\s*단위\s*[:：]"
)
NUMBERS = {
    2: re.compile(r"\d{1,2}\.(?!\d)"),
    4: re.compile(r"[가나다라마바사아자차카타파하]\."),
    5: re.compile(r"\d{1,2}\)"),
    6: re.compile(r"[가나다라마바사아자차카타파하]\)"),
    7: re.compile(r"[(（]\d{1,2}[)）]"),
    8: re.compile(r"[(（][가나다라마바사아자차카타파하][)）]"),
    9: re.compile(r"[①-⑳]"),
}
"""Numbers of sections by the depth that Korean offices give them: 1. 가. 1) 가) (1) (가) ①."""
TOLD = re.compile(r"[:：]\s*\S|(?:\.\s?){4,}|·{4,}|…{2,}|(?:[다요음함임됨것]|바람)$")
"""A line with this says something, and is no title: a value behind a colon, leader dots, the ending of a sentence."""
SENTENCE_END = re.compile(r"[.;,。][”’\"']*\s*$|(?:다|요|음|함|임)\.\s*$")


def classify(paragraph: Paragraph, text: str, body: BodyStyle) -> tuple[Kind, int | None]:
    """Kind of a paragraph, and its level where it has one."""
    rows, first = paragraph.rows, paragraph.rows[0]
    if first.mono and len(rows) > 1:
        return "paragraph", None
    larger = first.size >= LARGER * body.size
    bold = all(row.bold for row in rows) and not body.bold
    if CAPTION.match(text) and len(text) < 2 * MAX_HEADING_CHARS and len(rows) <= MAX_HEADING_ROWS and not larger:
        return "caption", None
    if _could_head(paragraph, text) and not (_fills(paragraph) and first.size < FAR_LARGER * body.size and not bold):
        level = _heading_level(text, first.size / body.size, larger=larger, bold=bold)
        if level is not None:
            return "heading", level
    if first.mark or BULLET.match(text) or COUNTED.match(text):
        return "list", None
    return "paragraph", None


def with_numbered_headings(drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts of a page; numbered lines with text below each of them are headings, not the items of a list.

    A heading may stand below a heading, so the deepest numbers come first.
    """
    promoted: dict[int, int] = {}
    for level, number in reversed(NUMBERS.items()):
        places = [n for n, draft in enumerate(drafts) if draft.kind == "list" and number.match(draft.text)]
        titles = [n for n in places if _is_title(drafts[n])]
        below = {n: n + 1 in promoted or _has_text_below(drafts, n, level) for n in titles}
        known = [found for found in below.values() if found is not None]
        if known and len(titles) >= HEADED_SHARE * len(places) and sum(known) >= HEADED_SHARE * len(known):
            promoted |= {n: level for n, found in below.items() if found is not False}
    return [
        draft._replace(kind="heading", level=promoted[n], mark="") if n in promoted else draft
        for n, draft in enumerate(drafts)
    ]


def _is_title(draft: Draft) -> bool:
    short = len(draft.text) <= MAX_NUMBERED_HEADING_CHARS and any(map(str.isalpha, draft.text))
    return draft.alone and short and not SENTENCE_END.search(draft.text) and not TOLD.search(draft.text)


def _has_text_below(drafts: Sequence[Draft], n: int, level: int) -> bool | None:
    """Whether a paragraph, a table or bullets follow; None above a deeper number, and at the end of the page."""
    if n + 1 == len(drafts):
        return None
    below = drafts[n + 1]
    if below.kind != "list":
        return below.kind in ("paragraph", "table", "figure", "caption")
    if any(number.match(below.text) for deeper, number in NUMBERS.items() if deeper > level):
        return None
    return not (any(map(str.isdigit, below.mark)) or COUNTED.match(below.text))


def _could_head(paragraph: Paragraph, text: str) -> bool:
    return bool(
        len(paragraph.rows) <= MAX_HEADING_ROWS
        and len(text) <= MAX_HEADING_CHARS
        and any(char.isalpha() for char in text)
        and not SENTENCE_END.search(text)
        and not SMALL_WORD.match(text)
        and text.count("”") <= text.count("“")
        and (DIVISION.match(text) or not any(row.tabular for row in paragraph.rows))
    )


def _fills(paragraph: Paragraph) -> bool:
    """Whether all lines but the last run to the margin, as those of sentences do."""
    rows, width = paragraph.rows, paragraph.right - paragraph.left
    return len(rows) > 1 and all(row.x1 - paragraph.left > FULL_SHARE * width for row in rows[:-1])


def _heading_level(text: str, ratio: float, *, larger: bool, bold: bool) -> int | None:
    """Level by number where there is one, else by size; None for what is no heading."""
    short = len(text) <= MAX_NUMBERED_HEADING_CHARS
    division = DIVISION.match(text)
    if division and short and (larger or bold or not division["word"]):
        if division["unit"]:
            return DIVISION_LEVEL[division["unit"]]
        return 3 if division["square"] else 1
    if (decimal := DECIMAL.match(text)) and short and (larger or bold):
        return 1 + decimal["number"].count(".") + 1
    if short and (larger or bold):
        for level, number in NUMBERS.items():
            if number.match(text):
                return level
    if BULLET.match(text) or COUNTED.match(text):
        return 4 if short and larger else None
    if larger:
        return 1 if ratio >= 1.7 else 2 if ratio >= 1.35 else 3
    return 4 if bold else None
