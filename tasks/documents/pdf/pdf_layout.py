"""Reading order of a PDF page: runs of text → columns → rows → paragraphs, with tables in between."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby, pairwise
from statistics import median
from typing import NamedTuple

from tasks.documents.list_marks import starts_item
from tasks.documents.pdf.pdf_line_ends import join_lines
from tasks.documents.pdf.pdf_tables import Table
from tasks.documents.pdf.pdf_text import Fragment, join_right_to_left, runs_right_to_left
from tasks.documents.pdf.pdf_words import enclosing_box

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
INDENT_EMS = 0.8  # a row indented by more than this begins a paragraph

LOOSE_MARK = re.compile(r"o|[+xX]|(?:\d{1,2}\.){1,5}\d{1,2}")
"""What is a mark only where it stands apart from the text of its item."""

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
    """Whether it is made of separate runs, as rows of a table are."""
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
    text = rows[0].text.strip()
    for before, row in pairwise(rows):
        following = row.text.strip()
        if before.tabular or row.tabular:
            text += f"\n{following}"
        else:
            text = join_lines(text, following, spaced=before.text[-1:].isspace())
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
    # how many boxes cover each bin: +1 where one begins and -1 behind its end, added up
    change = [0] * (bins + 1)
    for box in boxes:
        change[int((box.x0 - left) / BIN)] += 1
        change[int((box.x1 - left) / BIN) + 1] -= 1
    cover = list(accumulate(change))[:bins]
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
    return Row(*box, text, lead.size, lead.bold, any(wide[1:] if mark else wide), mark)


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
    if abs(row.size - before.size) > 0.12 * before.size or begins_item(row):
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
