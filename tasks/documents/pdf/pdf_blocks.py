"""Blocks of a PDF page in reading order: running headers, paragraphs and tables, comments, running footers.

The kind of a paragraph follows from its number, size and weight. A running header or footer is a row near the edge
that neighbouring pages repeat, or a page number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from statistics import median
from typing import Literal, NamedTuple

from tasks.documents.blocks import BBox, Block, Cell, Kind, Place, enclosing_box
from tasks.documents.document_readers import Headings, format_table
from tasks.documents.marks import BULLET, COUNTED, DIVISION, NOTE, find_mark, starts_item
from tasks.documents.pdf.pdf_line_ends import join_lines
from tasks.documents.pdf.pdf_tables import Table, read_items
from tasks.documents.pdf.pdf_text import Fragment, PageText, join_right_to_left, runs_right_to_left
from tasks.documents.pdf.pdf_words import LED, count_cover

BIN = 2.0  # points; resolution of the search for gutters between columns
MIN_COLUMN_LINES = 3  # a column of prose has at least this many lines,
MIN_COLUMN_EMS = 9.0  # whose median width is at least this, in font sizes,
MIN_COLUMN_SHARE = 0.5  # and at least this share of the column's width
FULL_LINE_SHARE = 0.9  # of the column's width
MAX_SPANNING_SHARE = 0.3  # share of runs that may cross a gutter: titles, wide captions
WORD_GAP_EMS = 0.12  # from this gap on, two runs are separate words
TAB_GAP_EMS = 1.5  # from this gap on, two runs are separate columns of a row
MAX_LEADING_EMS = 0.75  # largest white space between two rows of one paragraph
DOUBLE_SPACED_EMS = 1.5  # largest white space between two rows of one sentence
HANGING_EMS = 4.0  # rows of an item hang at most so far from the first
MAX_MARK_CHARS = 10  # of the bullet or number of a list item
MARK_GAP_EMS = 0.4  # from this gap on, a mark stands apart from the text of its item
SHORT_LINE_EMS = 2.5  # a row that ends so far before the longest was not broken for want of space
INDENT_EMS = 0.8  # a row indented by more than this begins a paragraph

LOOSE_MARK = re.compile(r"o|[+xX]|(?:\d{1,2}\.){1,5}\d{1,2}")
"""Signs that mark an item only where they stand apart from its text."""

SMALL_WORD = re.compile(r"[a-z]{2,}(?=[\s,;.’']|$)")
"""A word in small letters, with which neither a title nor a sentence begins."""
SENTENCE_STOP = re.compile(r"[.:;!?。][”’\"')\]]*\s*$")


class Row(NamedTuple):
    """The text on one baseline within a column."""

    x0: float
    y0: float
    x1: float
    y1: float
    text: str
    """The text, with the space at its end where there is one."""
    size: float
    bold: bool
    tabular: bool
    """Whether it is made of separate runs, as rows of a table are, or dots lead to an amount or a page in it."""
    mark: str = ""
    """The bullet or number of a list item, where it stands apart from the text."""


class Paragraph(NamedTuple):
    """Rows that belong together, in the column from `left` to `right` (points)."""

    rows: tuple[Row, ...]
    left: float
    right: float


class _Item(NamedTuple):
    x0: float
    y0: float
    x1: float
    y1: float
    item: Fragment | Table


def arrange_page(fragments: Iterable[Fragment], tables: Iterable[Table]) -> list[Paragraph | Table]:
    """Return paragraphs and tables in reading order; vertical text comes last."""
    fragments = list(fragments)
    boxes = [_Item(*fragment[:4], fragment) for fragment in fragments if fragment.upright]
    boxes += [_Item(*table.bbox, table) for table in tables]
    arranged = [item for column in _split_columns(boxes) for item in _group_paragraphs(column)]
    return arranged + [Paragraph((_make_row([piece]),), piece.x0, piece.x1) for piece in fragments if not piece.upright]


def group_rows(fragments: Sequence[Fragment]) -> list[list[Fragment]]:
    """Group runs by baseline: rows from top to bottom, each from left to right."""
    rows: list[list[Fragment]] = []
    lead = None
    for fragment in sorted(fragments, key=lambda f: f.y0 + f.y1):
        # they share a baseline, or one is a subscript or superscript of the other
        shared = min(lead.y1, fragment.y1) - max(lead.y0, fragment.y0) if lead else 0.0
        if lead and shared >= 0.5 * min(lead.y1 - lead.y0, fragment.y1 - fragment.y0):
            rows[-1].append(fragment)
            lead = max(lead, fragment, key=lambda f: f.size)
        else:
            rows.append([fragment])
            lead = fragment
    for row in rows:
        row.sort(key=lambda f: f.x0)
    return rows


def join_rows(rows: Sequence[Row]) -> str:
    """Return the text of a paragraph; rows of separate runs keep their line ends, others are joined."""
    text, right = rows[0].text.strip(), max(row.x1 for row in rows)
    for before, row in pairwise(rows):
        following = row.text.strip()
        if before.tabular or row.tabular:
            text += f"\n{following}"
        else:
            is_short = right - before.x1 > SHORT_LINE_EMS * before.size
            text = join_lines(text, following, spaced=before.text[-1:].isspace(), is_short=is_short)
    return text


def _split_columns(boxes: list[_Item], depth: int = 0) -> list[list[_Item]]:
    """Return the boxes in groups that are read one after the other; only columns of prose are separated."""
    gutter = _find_gutter(boxes) if depth < 4 and len(boxes) > 2 * MIN_COLUMN_LINES else None
    if gutter is None:
        return [boxes] if boxes else []
    groups: list[list[_Item]] = []
    single: list[_Item] = []
    for left, right, spanning in _split_bands(boxes, gutter):
        side_by_side = (
            left
            and right
            and max(min(b.y0 for b in left), min(b.y0 for b in right))
            < min(max(b.y1 for b in left), max(b.y1 for b in right))
        )
        if side_by_side and _is_prose_column(left) and _is_prose_column(right):
            groups += [single] if single else []
            groups += _split_columns(left, depth + 1) + _split_columns(right, depth + 1)
            single = list(spanning)
        else:
            single += [*left, *right, *spanning]
    return [*groups, single] if single else groups


def _find_gutter(boxes: Sequence[_Item]) -> float | None:
    """Return the x between columns that the fewest boxes cross; None where nothing stands side by side."""
    left, right = min(box.x0 for box in boxes), max(box.x1 for box in boxes)
    if right - left > 10_000 or right - left < 20 * BIN:  # no page is so wide, and no two columns so narrow
        return None
    bins = int((right - left) / BIN) + 2
    cover = count_cover(((box.x0, box.x1) for box in boxes), begin=left, step=BIN, steps=bins)
    first, last = int(0.15 * bins), int(0.85 * bins)  # a margin is no gutter
    fewest = min(cover[first:last])
    if fewest > MAX_SPANNING_SHARE * len(boxes):
        return None
    runs: list[tuple[int, int]] = []
    for x in range(first, last):
        if cover[x] == fewest:
            begin = runs.pop()[0] if runs and x == runs[-1][1] + 1 else x
            runs.append((begin, x))
    # of equally wide ones, that nearest to the middle
    widest = max(runs, key=lambda run: (run[1] - run[0], -abs(run[0] + run[1] - bins)))
    gutter = left + ((widest[0] + widest[1]) / 2 + 0.5) * BIN
    lines_left = sum(box.x1 <= gutter for box in boxes)
    lines_right = sum(box.x0 >= gutter for box in boxes)
    return gutter if min(lines_left, lines_right) >= MIN_COLUMN_LINES else None


def _split_bands(boxes: Iterable[_Item], gutter: float) -> Iterable[tuple[list[_Item], list[_Item], list[_Item]]]:
    """Yield bands from top to bottom: boxes left and right of the gutter, and those that cross it and end the band."""
    left: list[_Item] = []
    right: list[_Item] = []
    spanning: list[_Item] = []
    for box in sorted(boxes, key=lambda b: b.y0):
        crosses = box.x0 < gutter < box.x1
        if not crosses and spanning:
            yield left, right, spanning
            left, right, spanning = [], [], []
        (spanning if crosses else left if box.x1 <= gutter else right).append(box)
    yield left, right, spanning


def _is_prose_column(side: Sequence[_Item]) -> bool:
    """Return whether one side of a gutter is a column of prose, or holds a table."""
    if any(isinstance(box.item, Table) for box in side):
        return True
    lines = group_rows([box.item for box in side if isinstance(box.item, Fragment)])
    if len(lines) < MIN_COLUMN_LINES:
        return False
    x0, _, x1, _ = enclosing_box([box[:4] for box in side])
    widths = [sum(piece.x1 - piece.x0 for piece in line) for line in lines]
    least = MIN_COLUMN_EMS * median(line[0].size for line in lines)
    if median(widths) >= max(MIN_COLUMN_SHARE * (x1 - x0), least):
        return True
    # the labels of a figure are more than the lines of text above it, of which several follow each other and are full
    least = max(FULL_LINE_SHARE * (x1 - x0), least)
    full = (len(line) == 1 and width >= least for line, width in zip(lines, widths, strict=True))
    return any(is_full and sum(1 for _ in run) >= MIN_COLUMN_LINES for is_full, run in groupby(full))


def _group_paragraphs(column: Sequence[_Item]) -> list[Paragraph | Table]:
    """Return the paragraphs and tables of a column from top to bottom."""
    left, _, right, _ = enclosing_box([box[:4] for box in column])
    lines = group_rows([box.item for box in column if isinstance(box.item, Fragment)])
    pieces: list[Row | Table] = [_make_row(line) for line in lines]
    pieces += [box.item for box in column if isinstance(box.item, Table)]
    pieces.sort(key=lambda piece: piece.bbox[1] if isinstance(piece, Table) else (piece.y0 + piece.y1) / 2)

    # the white between two rows of one paragraph: the lower quartile between rows of one size
    whites = sorted(
        below.y0 - above.y1
        for above, below in pairwise([piece for piece in pieces if isinstance(piece, Row)])
        if abs(above.size - below.size) < 0.5 and below.y0 - above.y1 < MAX_LEADING_EMS * below.size
    )
    white = whites[len(whites) // 4] if whites else 0.0

    arranged: list[Paragraph | Table] = []
    rows: list[Row] = []
    for piece in pieces:
        if rows and (
            isinstance(piece, Table)
            or not (
                _continues_sentence(rows, piece, right)
                or (piece.y0 - rows[-1].y1 <= white + 0.25 * piece.size and _continues_paragraph(rows, piece, right))
            )
        ):
            arranged.append(Paragraph(tuple(rows), left, right))
            rows = []
        if isinstance(piece, Table):
            arranged.append(piece)
        else:
            rows.append(piece)
    if rows:
        arranged.append(Paragraph(tuple(rows), left, right))
    return arranged


def _make_row(pieces: Sequence[Fragment]) -> Row:
    """Return the runs of one baseline as a row; a space is put into a gap that has none."""
    box = enclosing_box([piece[:4] for piece in pieces])
    lead = max(pieces, key=lambda piece: len(piece.text))
    gaps = [after.x0 - before.x1 for before, after in pairwise(pieces)]
    wide = [gap > TAB_GAP_EMS * lead.size for gap in gaps]
    if gaps and runs_right_to_left([piece.text for piece in pieces]):
        return Row(*box, join_right_to_left(pieces), lead.size, lead.bold, any(wide))

    # a bullet or a number at the beginning that stands apart from the text of its item
    mark = pieces[0].text.strip() if gaps else ""
    if len(mark) > MAX_MARK_CHARS:
        mark = ""
    elif mark and not starts_item(f"{mark} x"):
        apart = gaps[0] > MARK_GAP_EMS * pieces[0].size and pieces[1].text[:1].isalpha()
        mark = mark if apart and LOOSE_MARK.fullmatch(mark) else ""

    text = pieces[0].text
    for gap, piece in zip(gaps, pieces[1:], strict=True):
        spaced = text[-1:].isspace() or piece.text[:1].isspace()
        text += piece.text if spaced or gap < WORD_GAP_EMS * lead.size else f" {piece.text}"
    tabular = any(wide[1:] if mark else wide) or bool(LED.search(text))
    return Row(*box, text, lead.size, lead.bold, tabular, mark)


def _continues_sentence(rows: Sequence[Row], row: Row, right: float) -> bool:
    """Return whether a sentence surely runs on: it has not ended, and a small word or the same white follows."""
    before = rows[-1]
    same_style = abs(row.size - before.size) < 0.5 and row.bold == before.bold and not (row.tabular or before.tabular)
    if not same_style or SENTENCE_STOP.search(before.text) or begins_item(row):
        return False
    white = row.y0 - before.y1
    full = right - before.x1 < 0.2 * (right - before.x0)
    if not (full or (row.bold and white <= MAX_LEADING_EMS * row.size)) or row.x0 >= before.x1 or row.x1 <= before.x0:
        return False
    if abs(row.x0 - before.x0) > INDENT_EMS * row.size and abs(row.x0 - rows[0].x0) > HANGING_EMS * row.size:
        return False
    even = len(rows) > 1 and abs(white - (before.y0 - rows[-2].y1)) < 1
    close = -row.size / 2 <= white < DOUBLE_SPACED_EMS * row.size
    return close and (even or bool(SMALL_WORD.match(row.text.lstrip())))


def _continues_paragraph(rows: Sequence[Row], row: Row, right: float) -> bool:
    """Return whether a row continues the paragraph above it."""
    before, first = rows[-1], rows[0]
    # lines that mix the same two sizes are as high, whichever of these is the commonest in each
    as_high = abs((row.y1 - row.y0) - (before.y1 - before.y0)) < 0.1
    if (abs(row.size - before.size) > 0.12 * before.size and not as_high) or begins_item(row):
        return False
    white = row.y0 - before.y1
    if white > MAX_LEADING_EMS * row.size:
        return False
    if row.x1 < before.x0 or row.x0 > before.x1:
        return False
    if before.tabular or row.tabular:
        return before.tabular == row.tabular
    if row.bold != before.bold:
        return False
    short = right - before.x1 > 0.2 * (right - min(first.x0, row.x0))
    indented = row.x0 > before.x0 + INDENT_EMS * row.size and before.x0 <= min(r.x0 for r in rows) + 1
    centred = abs((row.x0 + row.x1) - (before.x0 + before.x1)) < row.size
    ended = before.text.rstrip()[-1:] in ".。:!?"
    if begins_item(first):  # the rows of an item hang below its text, or return to the margin after a full row
        return not (short and ended) and (row.x0 >= first.x0 - INDENT_EMS * row.size or not short)
    return not (indented and not centred) and not (short and ended)


def begins_item(row: Row) -> bool:
    """Return whether a row begins a paragraph by its bullet or number."""
    return bool(row.mark) or starts_item(row.text)


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
        styles[BodyStyle(round(fragment.size * 2) / 2 or 0.5, fragment.bold)] += len(fragment.text)
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
    """Return the kind of a paragraph, and the level of a heading; None for any other kind."""
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
    headings = {n: drafts[n]._replace(kind="heading", level=level, mark="") for n, level in promoted.items()}
    return [headings.get(n, draft) for n, draft in enumerate(drafts)]


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
    """Return the level of a heading by its number, else by weight and size (`ratio`: over the body's); else None."""
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
    """Return the blocks of a page with their places, from boxes in reading space: headers, text, comments, footers.

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
        items = read_items(item.cells)
        return [Draft("list", text, box, left=item.bbox[0], mark=find_mark(text)) for text, box in items]
    if isinstance(item, Table):
        return [Draft("table", format_table(item.cells, fills=True), item.bbox, cells=item.cells)]
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
    """Return the EDGE_ROWS outermost rows at each end of a page, which are compared with those of its neighbours."""
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
