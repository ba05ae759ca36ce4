"""The common model of HWP 5 and HWPX: sections of paragraphs whose runs are text, objects and asides; list numbers.

Both readers make a `HangulDocument`, which `hwp_assembly` converts to blocks, so that one document gives the same text
from either format.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from tasks.documents.list_marks import format_number
from tasks.documents.raised_signs import raise_signs, shift_signs

MAX_NESTING = 50  # tables in tables, boxes in boxes; deeper nesting is an attempt to exhaust the stack
MAX_LEVEL = 9  # deepest level of lists and outlines; 0 is the outermost


class Generated(str):
    """Text that the word processor makes: the number of a note, a table, a figure."""

    __slots__ = ()


class Caption(NamedTuple):
    """The caption of a table, picture or text box."""

    paragraphs: tuple[Paragraph, ...]
    before: bool
    """Whether it stands above or left of its object; else below or right."""


class TableCell(NamedTuple):
    """A cell at its 0-based row and column, with its spans and paragraphs."""

    row: int
    col: int
    row_span: int
    col_span: int
    header: bool
    paragraphs: tuple[Paragraph, ...]


class Table(NamedTuple):
    """A table with the caption that belongs to it."""

    cells: tuple[TableCell, ...]
    caption: Caption | None
    in_line: bool
    """Whether it is treated like a character; else it floats beside the paragraph."""


class Shape(NamedTuple):
    """A drawing object: a text box, a picture, or a group of them."""

    paragraphs: tuple[Paragraph, ...]
    picture: bool
    alt: str
    caption: Caption | None
    in_line: bool


class AnchoredText(NamedTuple):
    """Text that is anchored in a paragraph and shown elsewhere on the page, such as a footnote."""

    kind: AsideKind
    paragraphs: tuple[Paragraph, ...]

    @property
    def mark(self) -> str:
        """The number of a note, raised as Hangul shows it where the note is anchored; "" without one."""
        first = next(iter(self.paragraphs[0].runs), "") if self.kind == "note" else ""
        return raise_signs(first) if isinstance(first, Generated) else ""


Run = str | Table | Shape | AnchoredText
AsideKind = Literal["note", "header", "footer", "hidden comment", "deleted in tracked changes"]
"""The last two are shown nowhere."""
ListKind = Literal["outline", "number", "bullet"]


class ListHead(NamedTuple):
    """The list of which a paragraph is an item, with its number or bullet."""

    kind: ListKind
    list_id: int
    level: int
    """Level in the list; 0 is the outermost."""


class Paragraph(NamedTuple):
    """Text and objects in their order, and the list that the paragraph is an item of."""

    runs: tuple[Run, ...]
    head: ListHead | None


class Section(NamedTuple):
    """The paragraphs of one section of the body."""

    paragraphs: tuple[Paragraph, ...]
    outline_id: int
    """The numbering that this section's outline paragraphs follow; 0 if none."""
    least_pages: int = 0
    """Pages that its lines and breaks take at least; 0 where the section defines no page."""


class NumberingLevel(NamedTuple):
    """How one level of a list writes its numbers."""

    pattern: str
    """`제^1조`, `^1.^2.`: ^n stands for the number of level n."""
    style: str
    """Number style by OWPML's name: DIGIT, HANGUL_SYLLABLE …"""
    start: int


class ListStyles(NamedTuple):
    """The lists that a document defines, by id, and what its paragraph and character shapes say of text."""

    numberings: Mapping[int, tuple[NumberingLevel, ...]]
    bullets: Mapping[int, str]
    heads: Mapping[str, ListHead]
    """Paragraph shape id → the list that paragraphs of this shape belong to."""
    places: Mapping[str, int]
    """Id of each character shape that is raised (1) or lowered (-1)."""


class HangulDocument(NamedTuple):
    """A document of HWP 5 or HWPX before its conversion to blocks."""

    sections: tuple[Section, ...]
    styles: ListStyles
    title: str | None
    metadata: dict[str, str]
    notes: tuple[str, ...]


def shift_run(text: str, place: int, runs: Sequence[Run]) -> str:
    """Return a text that stands behind `runs` in raised (place 1) or lowered signs (-1)."""
    return shift_signs(text, place, before=next((run for run in runs[-1:] if isinstance(run, str)), ""))


def count_pages(paragraphs: Iterable[tuple[bool, Sequence[int]]], *, columns: int) -> int:
    """Return how many pages a section takes at least, as the word processor broke its lines.

    paragraphs: whether a page begins with it, and how far each of its lines stands below the top of the page. Lines of
    several columns are not compared, and tables that go over pages have no lines here.
    """
    pages, last = 1, 0
    for number, (begins_page, tops) in enumerate(paragraphs):
        lines = tops if columns <= 1 else ()
        higher = [top for before, top in zip((last, *lines), lines, strict=False) if top < before]
        pages += max(len(higher), begins_page and number > 0)
        last = lines[-1] if lines else last
    return pages


def anchor_text(kind: AsideKind, paragraphs: tuple[Paragraph, ...]) -> list[Run]:
    """Return the text as a run of its kind; nothing if it is empty."""
    return [AnchoredText(kind, paragraphs)] if paragraphs else []


def make_shape(
    paragraphs: tuple[Paragraph, ...], *, picture: bool, description: str, caption: Caption | None, in_line: bool
) -> list[Run]:
    """Return a drawing object with its author's description; nothing for a line, an arrow or an empty box."""
    if not (paragraphs or picture or caption):
        return []
    # Hangul describes every object by itself: `그림입니다. 원본 그림의 이름: …`, `사각형입니다.`
    own_words = description.strip().partition("\n")[0].strip().endswith("입니다.")
    return [Shape(paragraphs, picture, "" if own_words else description.strip(), caption, in_line)]


_WINGDINGS = {
    0xF000 + code: sign
    for code, sign in {
        0x46: "☞", 0x6C: "●", 0x6D: "❍", 0x6E: "■", 0x6F: "□", 0x70: "❐", 0x71: "❑", 0x72: "❒", 0x73: "⬧",
        0x74: "⧫", 0x75: "◆", 0x76: "❖", 0x77: "⬥", 0x9E: "·", 0x9F: "•", 0xA1: "○", 0xA4: "◉", 0xA7: "▪",
        0xA8: "◻", 0xAA: "✦", 0xAB: "★", 0xD8: "➢", 0xE8: "➔", 0xF0: "⇨", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
    }.items()
}  # fmt: skip
"""Bullets are stored as private-use codes of the font Wingdings; these are the signs that it shows."""


class ListCounters:
    """Counts the paragraphs of every list of one document, in reading order."""

    def __init__(self, styles: ListStyles) -> None:
        self._styles = styles
        self._counts: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)

    def mark(self, head: ListHead, *, outline_id: int) -> str:
        """Return the bullet or number of the next paragraph of a list; "" where the list has none."""
        if head.kind == "bullet":
            return self._styles.bullets.get(head.list_id, "").translate(_WINGDINGS)
        list_id = outline_id if head.kind == "outline" else head.list_id
        levels = self._styles.numberings.get(list_id, ())
        if head.level >= len(levels):
            return ""
        counts = self._counts[head.kind, list_id]
        counts[head.level] = counts.get(head.level, levels[head.level].start - 1) + 1
        for deeper in [level for level in counts if level > head.level]:
            del counts[deeper]  # deeper levels start again below each item
        numbers = [format_number(counts.get(n, level.start), level.style) for n, level in enumerate(levels)]

        def fill(match: re.Match[str]) -> str:
            code = match[1]
            if code in "nN":  # ^n is the path 1.2.3, ^N the path 1.2.3.
                return ".".join(numbers[: head.level + 1]) + "." * (code == "N")
            index = (int(code) - 1) % 10  # ^0 is the tenth level
            return numbers[index] if index < len(numbers) else ""

        return re.sub(r"\^([0-9nN])", fill, levels[head.level].pattern)
