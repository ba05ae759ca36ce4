"""What HWP 5 and HWPX have in common: sections of paragraphs whose runs are text, objects and asides.

Both readers lower their format to a `HangulDocument`; `hwp_assembly` turns it into blocks. So the same document
gives the same text from either format.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

MAX_NESTING = 50
"""Tables within tables, boxes within boxes; deeper nesting is an attempt to exhaust the stack."""

MAX_LEVEL = 9
"""Deepest level of lists and outlines; 0 is the outermost."""


class Generated(NamedTuple):
    """Text that the word processor makes: the number of a note, a table, a figure."""

    text: str


class Caption(NamedTuple):
    paragraphs: tuple[Paragraph, ...]
    before: bool
    """Above or left of its object; else below or right."""


class TableCell(NamedTuple):
    row: int
    col: int
    row_span: int
    col_span: int
    header: bool
    paragraphs: tuple[Paragraph, ...]


class Table(NamedTuple):
    cells: tuple[TableCell, ...]
    caption: Caption | None
    in_line: bool
    """Stands in the line like a character; else it floats beside the paragraph."""


class Shape(NamedTuple):
    """A drawing object: a text box, a picture, or a group of them."""

    paragraphs: tuple[Paragraph, ...]
    picture: bool
    alt: str
    caption: Caption | None
    in_line: bool


class Aside(NamedTuple):
    """Text anchored in a paragraph that stands elsewhere on the page."""

    kind: Literal["note", "header", "footer"]
    paragraphs: tuple[Paragraph, ...]


Run = str | Generated | Table | Shape | Aside


class ListHead(NamedTuple):
    """That a paragraph is numbered or bulleted, and by which list."""

    kind: Literal["outline", "number", "bullet"]
    list_id: int
    level: int
    """0 is the outermost."""


class Paragraph(NamedTuple):
    runs: tuple[Run, ...]
    head: ListHead | None


class Section(NamedTuple):
    paragraphs: tuple[Paragraph, ...]
    outline_id: int
    """The numbering that this section's outline paragraphs follow; 0 if none."""


class NumberingLevel(NamedTuple):
    """How one level of a numbering looks: `제^1조`, `^1.^2.`, and in which figures."""

    pattern: str
    style: str
    """OWPML's name: DIGIT, HANGUL_SYLLABLE …"""
    start: int


class ListStyles(NamedTuple):
    numberings: Mapping[int, tuple[NumberingLevel, ...]]
    bullets: Mapping[int, str]


class HangulDocument(NamedTuple):
    sections: tuple[Section, ...]
    styles: ListStyles
    title: str | None
    metadata: dict[str, str]
    notes: tuple[str, ...]
