"""Blocks of a PDF page in reading order: running headers, paragraphs and tables, comments, running footers.

The kind of a paragraph follows from its number, size and weight. A running header or footer is a row near the edge
that neighbouring pages repeat, or a page number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from tasks.documents.blocks import BBox, Block, Cell, Kind, Place
from tasks.documents.document_readers import Headings
from tasks.documents.list_marks import BULLET, COUNTED, DIVISION, find_mark
from tasks.documents.pdf.pdf_layout import SMALL_WORD, Paragraph, arrange_page, group_rows, join_rows
from tasks.documents.pdf.pdf_lists import read_items
from tasks.documents.pdf.pdf_tables import Table, format_table
from tasks.documents.pdf.pdf_text import Fragment, PageText
from tasks.documents.pdf.pdf_words import enclosing_box
from tasks.documents.raised_signs import NOTE


class Draft(NamedTuple):
    """A block of a page that is still being put together."""

    kind: Kind
    text: str
    bbox: BBox
    level: int | None = None
    cells: tuple[Cell, ...] = ()
    left: float = 0.0
    """Left edge of the first row, in points."""
    mark: str = ""
    """The bullet or the number of a list item."""
    alone: bool = False
    """A single line that ends well before the margin, as a title does."""


class BodyStyle(NamedTuple):
    """The font size (points) and weight of most of the text."""

    size: float
    bold: bool


def find_body_style(fragments: Iterable[Fragment]) -> BodyStyle | None:
    """Return the commonest style, weighted by characters; None without text."""
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
STATEMENT = re.compile(r"[:：]\s*\S|(?:\.\s?){4,}|·{4,}|…{2,}|(?:[다요음함임됨것]|바람)$")
"""A line with this says something, and is no title: a value behind a colon, leader dots, the ending of a sentence."""
SENTENCE_END = re.compile(r"[.;,。][”’\"']*\s*$|(?:다|요|음|함|임)\.\s*$")


def classify_paragraph(paragraph: Paragraph, text: str, body: BodyStyle) -> tuple[Kind, int | None]:
    """Return the kind of a paragraph, and its level if it is a heading."""
    rows, first = paragraph.rows, paragraph.rows[0]
    if NOTE.match(text):
        return "note", None
    larger = first.size >= LARGER * body.size
    bold = all(row.bold for row in rows) and not body.bold
    few_rows = len(rows) <= MAX_HEADING_ROWS
    if CAPTION.match(text) and len(text) < 2 * MAX_HEADING_CHARS and few_rows and not larger:
        return "caption", None
    # all lines but the last run to the margin, as those of sentences do
    margin = paragraph.left + FULL_SHARE * (paragraph.right - paragraph.left)
    fills = len(rows) > 1 and all(row.x1 > margin for row in rows[:-1])
    could_head = (
        few_rows
        and len(text) <= MAX_HEADING_CHARS
        and any(char.isalpha() for char in text)
        and not SENTENCE_END.search(text)
        and not SMALL_WORD.match(text)  # in 47 documents 51 such lines of sentences were once headings
        and text.count("”") <= text.count("“")
        and (DIVISION.match(text) or not any(row.tabular for row in rows))
    )
    if could_head and not (fills and first.size < FAR_LARGER * body.size and not bold):
        level = _heading_level(text, first.size / body.size, larger=larger, bold=bold)
        if level is not None:
            return "heading", level
    if first.mark or BULLET.match(text) or COUNTED.match(text):
        return "list", None
    return "paragraph", None


def with_numbered_headings(drafts: Sequence[Draft]) -> list[Draft]:
    """Return the drafts of a page; numbered lines with text below each of them become headings, not items of a list.

    A heading may stand below a heading, so the deepest numbers are decided first.
    """

    def is_title(draft: Draft) -> bool:
        short = len(draft.text) <= MAX_NUMBERED_HEADING_CHARS and any(map(str.isalpha, draft.text))
        return draft.alone and short and not SENTENCE_END.search(draft.text) and not STATEMENT.search(draft.text)

    promoted: dict[int, int] = {}
    for level, number in reversed(NUMBERS.items()):
        places = [n for n, draft in enumerate(drafts) if draft.kind == "list" and number.match(draft.text)]
        titles = [n for n in places if is_title(drafts[n])]
        below = {n: n + 1 in promoted or _has_text_below(drafts, n, level) for n in titles}
        decided = [has_text for has_text in below.values() if has_text is not None]
        if decided and len(titles) >= HEADED_SHARE * len(places) and sum(decided) >= HEADED_SHARE * len(decided):
            promoted |= {n: level for n, has_text in below.items() if has_text is not False}
    return [
        draft._replace(kind="heading", level=promoted[n], mark="") if n in promoted else draft
        for n, draft in enumerate(drafts)
    ]


def _has_text_below(drafts: Sequence[Draft], n: int, level: int) -> bool | None:
    """Return whether a paragraph, a table or bullets follow; None above a deeper number, and at the end of the page."""
    if n + 1 == len(drafts):
        return None
    below = drafts[n + 1]
    if below.kind != "list":
        return below.kind in ("paragraph", "table", "figure", "caption")
    if any(number.match(below.text) for deeper, number in NUMBERS.items() if deeper > level):
        return None
    return not (any(map(str.isdigit, below.mark)) or COUNTED.match(below.text))


def _heading_level(text: str, ratio: float, *, larger: bool, bold: bool) -> int | None:
    """Return the level of a heading by its number, else by its size and weight; None for what is no heading."""
    short = len(text) <= MAX_NUMBERED_HEADING_CHARS
    division = DIVISION.match(text)
    if division and short and (larger or bold or not division["word"]):
        if division["unit"]:
            return DIVISION_LEVEL[division["unit"]]
        return 3 if division["square"] else 1
    decimal = DECIMAL.match(text)
    if decimal and short and (larger or bold):
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


SHORT_SHARE = 0.2  # of the column's width that a title leaves free


def build_blocks(
    fragments: Sequence[Fragment],
    tables: Sequence[Table] = (),
    *,
    running: RunningRows,
    body: BodyStyle,
    page: int,
    comments: Iterable[tuple[str, BBox]] = (),
    to_page: Callable[[BBox], BBox] | None = None,
) -> tuple[Block, ...]:
    """Return the blocks of a page with their places, from boxes in reading space.

    fragments: text outside of tables; comments: annotations that are not printed; to_page: from reading space to the
    shown page, where these differ.
    """
    own = [fragment for fragment in fragments if fragment.line not in running.header | running.footer]
    items = [draft for item in arrange_page(own, tables) for draft in _drafts(item, body)]
    drafts = _edge_drafts(fragments, running.header, "header")
    # the items of a run of list items get their depths by where their first rows begin; 1 is the outermost
    lefts: list[float] = []
    for draft in with_numbered_headings(items):
        if draft.kind != "list":
            lefts = []
            drafts.append(draft)
            continue
        while lefts and draft.left < lefts[-1] - 4:  # points by which items of one depth may differ
            lefts.pop()
        if not lefts or draft.left > lefts[-1] + 4:
            lefts.append(draft.left)
        drafts.append(draft._replace(level=len(lefts)))
    drafts += [Draft("note", text, bbox) for text, bbox in comments]
    drafts += _edge_drafts(fragments, running.footer, "footer")

    if to_page:
        drafts = [
            draft._replace(
                bbox=to_page(draft.bbox),
                cells=tuple(c.model_copy(update={"bbox": to_page(c.bbox)}) if c.bbox else c for c in draft.cells),
            )
            for draft in drafts
        ]
    headings = Headings()
    return tuple(
        Block(
            kind=draft.kind,
            text=draft.text,
            page=page,
            bbox=draft.bbox,
            cells=draft.cells,
            level=draft.level,
            marker=draft.mark or None,
            place=Place(block=number, heading_path=headings.path_of(draft.kind, draft.text, draft.level)),
        )
        for number, draft in enumerate(drafts)
    )


def _edge_drafts(
    fragments: Iterable[Fragment], lines: frozenset[tuple[int, int]], kind: Literal["header", "footer"]
) -> list[Draft]:
    rows = group_rows([fragment for fragment in fragments if fragment.line in lines]) if lines else []
    return [Draft(kind, _row_text(row), enclosing_box([f[:4] for f in row])) for row in rows]


def _row_text(row: Sequence[Fragment]) -> str:
    return " ".join(" ".join(fragment.text for fragment in row).split())


def _drafts(item: Paragraph | Table, body: BodyStyle) -> list[Draft]:
    """Return the draft of a paragraph or table; of a table that is a list, one for each item."""
    if isinstance(item, Table) and item.listed:
        rows = read_items(item.cells)
        return [Draft("list", row.text, row.bbox, left=item.bbox[0], mark=find_mark(row.text)) for row in rows]
    if isinstance(item, Table):
        return [Draft("table", format_table(item.cells), item.bbox, cells=item.cells)]
    text = join_rows(item.rows)
    kind, level = classify_paragraph(item, text, body)
    first = item.rows[0]
    mark = first.mark or find_mark(text) if kind == "list" else ""
    alone = len(item.rows) == 1 and first.x1 < item.right - SHORT_SHARE * (item.right - item.left)
    return [Draft(kind, text, enclosing_box([row[:4] for row in item.rows]), level, (), first.x0, mark, alone)]


EDGE_ROWS = 3  # rows at each end of a page that may be a header or footer
EDGE_RUNS = 40  # runs of text among which these rows are searched
EDGE_SHARE = 0.09  # share of the page's height in which headers and footers stand
NUMBER_SHARE = 0.1  # share of the page's height in which a lone number is a page number
SAME_HEIGHT = 4.0  # points by which repeated rows may differ in height
NUMBER = re.compile(r"\d{1,6}")
COUNTING = re.compile(r"^\W?\s*\d{1,6}\b(?![.)])|\b\d{1,6}\s*\W?$")  # begins or ends with a number
PAGE_NUMBER = re.compile(r"\W*(?:(?:page|p\.|쪽)\s*)?\d{1,4}(?:\s*(?:/|of|쪽|면)\s*\d{0,4})?\W*", re.IGNORECASE)


class EdgeRow(NamedTuple):
    """A row near the upper or lower edge of a page."""

    y0: float
    y1: float
    text: str
    lines: frozenset[tuple[int, int]]
    """Keys (`Fragment.line`) of the runs of text that it is made of."""


class Margins(NamedTuple):
    """The outermost rows of a page, from each edge inwards."""

    height: float
    top: tuple[EdgeRow, ...]
    bottom: tuple[EdgeRow, ...]


class RunningRows(NamedTuple):
    """The runs (`Fragment.line`) that are headers and footers."""

    header: frozenset[tuple[int, int]]
    footer: frozenset[tuple[int, int]]


def find_margins(text: PageText) -> Margins:
    """Return the outermost rows of a page, which are compared with those of its neighbours."""
    upright = sorted((f for f in text.fragments if f.upright), key=lambda f: f.y0 + f.y1)
    top = tuple(map(_edge_row, group_rows(upright[:EDGE_RUNS])[:EDGE_ROWS]))
    bottom = tuple(map(_edge_row, reversed(group_rows(upright[-EDGE_RUNS:])[-EDGE_ROWS:])))
    return Margins(text.height, top, bottom)


def find_running_rows(own: Margins, neighbours: Mapping[int, Margins]) -> RunningRows:
    """Return the headers and footers of a page; neighbours: by distance in pages (-1 is the page before)."""
    above = {distance: margins.top for distance, margins in neighbours.items()}
    below = {distance: margins.bottom for distance, margins in neighbours.items()}
    header = _runs_from_edge([(row, row.y1) for row in own.top], own.height, above)
    footer = _runs_from_edge([(row, own.height - row.y0) for row in own.bottom], own.height, below)
    return RunningRows(header, footer - header)  # of a page of a few rows both ends may claim one


def _edge_row(row: Sequence[Fragment]) -> EdgeRow:
    lines = frozenset(f.line for f in row)
    return EdgeRow(min(f.y0 for f in row), max(f.y1 for f in row), _row_text(row), lines)


def _runs_from_edge(
    rows: Iterable[tuple[EdgeRow, float]], height: float, neighbours: Mapping[int, Sequence[EdgeRow]]
) -> frozenset[tuple[int, int]]:
    """Return the runs of the outermost rows, up to the first row of the page's own text.

    rows: from the edge inwards, each with its depth from the edge in points.
    """
    runs: frozenset[tuple[int, int]] = frozenset()
    for row, depth in rows:
        at_edge = depth <= EDGE_SHARE * height
        lone_number = depth <= NUMBER_SHARE * height and PAGE_NUMBER.fullmatch(row.text)
        if not lone_number and not any(
            _repeats(row, near_row, distance=distance, at_edge=at_edge)
            for distance, near_rows in neighbours.items()
            for near_row in near_rows
        ):
            break
        runs |= row.lines
    return runs


def _repeats(row: EdgeRow, near_row: EdgeRow, *, distance: int, at_edge: bool) -> bool:
    """Return whether both have the same words at one height near the edge, or a number that counts the pages."""
    if NUMBER.sub("#", row.text) != NUMBER.sub("#", near_row.text):
        return False
    if at_edge and abs(row.y0 - near_row.y0) <= SAME_HEIGHT and not PAGE_NUMBER.fullmatch(row.text):
        return True
    steps = [int(b) - int(a) for a, b in zip(NUMBER.findall(row.text), NUMBER.findall(near_row.text), strict=True)]
    counted = COUNTING.search(row.text) is not None
    return counted and distance in (steps[0], steps[-1]) and all(step in (0, distance) for step in steps)
