"""Tables of a PDF page: words are put into the cells of grids; grids around prose, charts and lists are no tables."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from math import isclose
from statistics import median
from typing import NamedTuple

from tasks.documents.blocks import BBox, Cell, enclosing_box
from tasks.documents.marks import drop_marks
from tasks.documents.pdf.pdf_grids import PROSE_SHARE, SNAP, Edge, Grid, GridCell
from tasks.documents.pdf.pdf_line_ends import join_cell_lines
from tasks.documents.pdf.pdf_rows import complete_grid, holds_columns
from tasks.documents.pdf.pdf_text import Fragment, Word, join_right_to_left, runs_right_to_left
from tasks.documents.pdf.pdf_words import (
    count_gaps,
    find_words,
    group_lines,
    group_phrases,
    is_amount,
    is_number,
    is_word,
    is_year,
)

HOLE_SHARE = 0.34
"""Share of places without a cell up to which they are cells whose lines were forgotten."""
SENTENCE_WORDS = 8
"""Words from which the text of a cell is a sentence."""
AXIS_MARKS = 5
"""Numbers in equal steps from which they are the marks of an axis."""
MOST_HEADER_ROWS = 8
"""A first amount further down means that the table is one of words."""
BOX_AMOUNTS = 0.3
"""Share of lines that are amounts, or hold several, up to which a single column is no table."""
BOX_WIDTH = 0.45
"""Share of the page's width up to which a single column is a box of a diagram."""
LABEL_ENDS = (":", "：", "....", "····", ". . .", "……")
"""Signs between a label and its value."""
LEADERS = re.compile(r"^[.·]{2,}\s*(?=[$€£¥₩(\d-])|\s*(?:(?:\.\s?){5,}|·{5,})(?=\s*[$€£¥₩]?$)", re.MULTILINE)
"""Dots that lead the eye from a label to its amount."""


class Table(NamedTuple):
    """A table of a page: its cells and the words that went into them."""

    bbox: BBox
    cells: tuple[Cell, ...]
    words: tuple[Word, ...]
    """The words of the page that went into its cells."""
    listed: bool = False
    """Whether its rows are items of a list, not rows of a table."""


def is_box(grid: Grid, words: Sequence[Word], rules: Sequence[Edge], *, page_width: float) -> bool:
    """Return whether a grid is a narrow column of words: a box of a diagram with its title.

    rules: horizontal edges; those that go on beside the column belong to a table without lines at its sides.
    """
    x0, _, x1, _ = grid.bbox
    if len(grid.xs) > 2 or x1 - x0 >= BOX_WIDTH * page_width:
        return False
    left, right = x0 - SNAP, x1 + SNAP
    beyond = [rule.at for rule in rules if rule.start < left <= rule.end or rule.start <= right < rule.end]
    if sum(any(abs(at - y) <= SNAP for at in beyond) for y in grid.ys) > len(grid.ys) / 2:
        return False
    lines = group_lines(find_words(grid.bbox, words))
    rows = sum(all(is_number(word.text) for word in line) or holds_columns(group_phrases(line)) for line in lines)
    return rows <= BOX_AMOUNTS * len(lines)


def fill_grids(grids: Iterable[Grid], words: Sequence[Word], rules: Sequence[Edge]) -> list[Table]:
    """Return grids with their words as tables, without notes below; no prose, chart, decoration or single cell."""
    whole: list[Grid] = []
    for grid in grids:
        # a few empty places are cells whose lines were forgotten
        covered = grid.places()
        places = [(row, col) for row in range(len(grid.ys) - 1) for col in range(len(grid.xs) - 1)]
        holes = [GridCell(row, col) for row, col in places if (row, col) not in covered]
        if 0 < len(holes) <= HOLE_SHARE * len(places):
            grid = grid._replace(cells=tuple(sorted([*grid.cells, *holes])))
        whole.append(grid)

    inside = [frozenset(find_words(grid.bbox, words)) for grid in whole]
    tables: list[Table] = []
    for number, grid in enumerate(whole):
        if _crosses_prose(grid, inside[number]):
            continue
        # words that only other grids hold
        foreign_words = frozenset[Word]().union(*inside[:number], *inside[number + 1 :]) - inside[number]
        full = complete_grid(grid, [word for word in words if word not in foreign_words], rules)
        cell_words = _place_words(full, words)
        if (body := drop_notes(full, cell_words)) is not full:
            full = body
            cell_words = _place_words(full, words)
        decorates = any(check(cell_words) for check in (_underlines_prose, _is_prose, _is_chart))
        if len(cell_words) > 1 and not decorates:
            tables.append(_make_table(full, cell_words))
    return tables


def remove_table_words(fragments: Iterable[Fragment], words: Sequence[Word], tables: Sequence[Table]) -> list[Fragment]:
    """Return the runs of text without the words that went into tables; a run of these alone goes."""
    table_words = {word for table in tables for word in table.words}
    touched = {word.line for word in table_words}
    rest: dict[tuple[int, int], list[Word]] = defaultdict(list)
    for word in words:
        if word.line in touched and word not in table_words:
            rest[word.line].append(word)
    outer: list[Fragment] = []
    for fragment in fragments:
        if fragment.line not in touched:
            outer.append(fragment)
        elif remaining := rest.get(fragment.line):
            box = (min(w.x0 for w in remaining), fragment.y0, max(w.x1 for w in remaining), fragment.y1)
            outer.append(Fragment(*box, " ".join(w.text for w in remaining), *fragment[5:]))
    return outer


def count_header_rows(cells: Sequence[Cell]) -> int:
    """Return the number of rows that name the columns: those above the first amount, if that is near the top.

    A row between them that only its label fills ("ASSETS") heads the rows below and names no column. A form of labels
    and values has no names of columns.
    """
    if is_form(cells):
        return 0
    first_amount = min(
        # years name columns: "2022*" and "2015-2014" end no header
        (cell.row for cell in cells if cell.text and cell.col and is_number(cell.text) and not is_year(cell.text)),
        default=None,
    )
    rows = max((cell.row + cell.row_span for cell in cells), default=0)
    if rows < 2:
        return 0
    if first_amount is None or first_amount > MOST_HEADER_ROWS:
        return min(max((cell.row_span for cell in cells if cell.row == 0), default=1), rows - 1)
    names = (c.row + c.row_span for c in cells if c.text and c.row < first_amount and (c.col or c.col_span > 1))
    return min(max(names, default=0), first_amount, rows - 1)


def is_form(cells: Sequence[Cell]) -> bool:
    """Return whether the first row is a label with its value, or the second of two columns holds words and amounts."""
    first = [cell.text.rstrip() for cell in cells if cell.row == 0 and cell.text.strip()]
    if len(first) > 1 and first[0].endswith(LABEL_ENDS) and not any(map(is_year, first[1:])):
        return True
    values = [is_number(cell.text) for cell in cells if cell.col == 1 and cell.text.strip()]
    two = all(cell.col + cell.col_span <= 2 for cell in cells)
    return two and len(values) > 2 and any(values) and sum(values) < len(values) / 2


def _place_words(grid: Grid, words: Sequence[Word]) -> dict[GridCell, list[Word]]:
    """Return the words of each cell that has any: those whose middle it holds, whole, as lines run through amounts."""
    places = grid.places()
    cell_words: dict[GridCell, list[Word]] = defaultdict(list)
    for word in words:
        # the dots behind a label may reach into the column of its amount
        x = word.x0 if word.text.endswith(LABEL_ENDS[2:]) else (word.x0 + word.x1) / 2
        if cell := places.get(grid.place(x, (word.y0 + word.y1) / 2)):
            cell_words[cell].append(word)
    return cell_words


def _underlines_prose(cell_words: dict[GridCell, list[Word]]) -> bool:
    """Return whether sentences run on from cell to cell: the grid is made of underlines or coloured words."""
    cell_of = {word: cell for cell, inside in cell_words.items() for word in inside}
    rows: dict[GridCell, bool] = {}
    for line in group_lines(cell_of):
        for before, word in pairwise(line):
            if cell_of[before] == cell_of[word]:
                continue
            close = word.x0 - before.x1 < 0.5 * (word.y1 - word.y0)
            # a sentence is one run; cells are runs of their own
            running = close and before.line == word.line and is_word(before.text) and is_word(word.text)
            rows[cell_of[before]] = rows.get(cell_of[before], False) or running
    return bool(rows) and sum(rows.values()) > len(rows) / 2


def _crosses_prose(grid: Grid, inside: Iterable[Word]) -> bool:
    """Return whether most lines of text in a grid are parts of sentences that cross its columns without a gap."""
    lines = group_lines(inside)
    running = sum(
        sum(is_word(word.text) for word in line) >= SENTENCE_WORDS
        and count_gaps(line) == 0
        and line[-1].x1 - line[0].x0 > PROSE_SHARE * (grid.xs[-1] - grid.xs[0])
        and any(line[0].x0 < x < line[-1].x1 for x in grid.xs[1:-1])
        for line in lines
    )
    return running > len(lines) / 2


def _is_prose(cell_words: dict[GridCell, list[Word]]) -> bool:
    """Return whether lines are drawn around sentences: nothing stands beside them."""
    counts = [sum(is_word(word.text) for word in inside) for inside in cell_words.values()]
    is_alone = len({cell.row for cell in cell_words}) == len(cell_words)
    return is_alone and sum(count >= SENTENCE_WORDS for count in counts) > len(counts) / 2


def _is_chart(cell_words: dict[GridCell, list[Word]]) -> bool:
    """Return whether the amounts are marks of axes, which go by equal steps, with few words beside them."""
    columns: dict[int, list[float]] = defaultdict(list)
    words = 0
    for cell, inside in sorted(cell_words.items()):
        text = "".join(word.text for word in inside)
        try:
            value = float(text.replace(",", "").rstrip("%"))
        except ValueError:
            words += 1
        else:
            columns[cell.col].append(value)
    marks = 0
    for column in columns.values():
        steps = [after - before for before, after in pairwise(column)]
        if len(column) >= AXIS_MARKS and steps[0] != 0 and all(isclose(step, steps[0]) for step in steps):
            marks += len(column)
    amounts = sum(map(len, columns.values()))
    return words < amounts / 2 and marks > 0.8 * amounts


def _make_table(grid: Grid, cell_words: dict[GridCell, list[Word]]) -> Table:
    """Return the table; rows and columns in which no text begins, such as spacers, are not counted."""
    placed_words = tuple(word for words in cell_words.values() for word in words)
    rows = {row: i for i, row in enumerate(sorted({cell.row for cell in cell_words}))}
    cols = {col: i for i, col in enumerate(sorted({cell.col for cell in cell_words}))}
    cells: list[Cell] = []
    places = grid._replace(cells=tuple(cell_words)).places()
    for cell in grid.cells:
        # a title may reach over an empty cell
        if cell.row not in rows or cell.col not in cols or (cell not in cell_words and cell[:2] in places):
            continue
        lines: list[str] = []
        for line in group_lines(cell_words.get(cell, ())):
            text = line[0].text
            for before, word in pairwise(line):
                # words of one run had a space between them; words of different runs have one if there is a gap
                touching = before.line != word.line and word.x0 - before.x1 < 0.15 * (word.y1 - word.y0)
                text += word.text if touching else f" {word.text}"
            lines.append(join_right_to_left(line) if runs_right_to_left([word.text for word in line]) else text)
        cells.append(
            Cell(
                row=rows[cell.row],
                col=cols[cell.col],
                text=LEADERS.sub("", join_cell_lines(lines)),
                row_span=sum(cell.row <= row < cell.row + cell.row_span for row in rows),
                col_span=sum(cell.col <= col < cell.col + cell.col_span for col in cols),
                bbox=enclosing_box([word[:4] for word in cell_words[cell]]) if cell_words.get(cell) else None,
            )
        )
    cells.sort(key=lambda cell: (cell.row, cell.col))
    # dots lead from the first label to its value, so it names no column
    first_row = (word for cell, own in cell_words.items() if cell.row == min(rows) for word in own)
    led = any(word.text.endswith(LABEL_ENDS[2:]) for word in first_row)
    if is_list(cells):
        return Table(grid.bbox, tuple(cells), placed_words, listed=True)
    header_count = 0 if led else count_header_rows(cells)
    headed = tuple(cell.model_copy(update={"header": True}) if cell.row < header_count else cell for cell in cells)
    return Table(grid.bbox, headed, placed_words)


MIN_ITEMS = 3
"""Numbered rows that a list has at least."""
NUMBERED_SHARE = 0.6
"""Share of the texts in the first column that are numbers of items."""
REFERENCE_SHARE = 0.25
"""Share of the texts behind the titles that say where a document is found, by date or file number."""
MOST_BEHIND = 2
"""Most columns behind the titles of a list; an index with form, number and date in columns of their own is a table."""
TITLE_WORDS = 3
"""Median of the words in a title."""
RUNNING_CHARS = 60
"""Characters of a line from which the second of two columns is running text."""
NOTE_WORDS = 8
"""Words from which a line below a table is a sentence."""
NOTE_SHARE = 0.6
"""Share of the table's width that a sentence below it fills."""

ITEM = re.compile(r"[*†‡+#^ ]*(?:\d{1,3}(?:\.\d{1,3})*[A-Za-z]?(?:\s?\(\w{1,4}\))*|\(\d{1,3}\))[.*†‡+#^() ]*")
BEGUN = re.compile(r"[*†‡+#]?\d{1,3}\.\d{1,3}[A-Z]? +(?=[A-Za-z]|(?:19|20)\d\d [A-Z])")
"""A number and the title behind it."""
REFERENCE = re.compile(
    r"\b\d{1,2}/\d{1,2}/\d{2,4}\b|\b[A-Z][a-z]+ \d{1,2}, (?:19|20)\d\d\b|\bNos?\. ?\d|\b\d{1,3}-\d{4,6}\b"
)
SUM = re.compile(r"[$€£¥₩%]|\d,\d{3}")
PAGE_TITLE = re.compile(r"pages?(?: no\.?| number)?|쪽|면|페이지", re.IGNORECASE)
PAGE = re.compile(r"(?:[A-Z]{1,2}-)?\d{1,3}")


def is_list(cells: Sequence[Cell]) -> bool:
    """Return whether the rows of a grid list documents or lead to pages, and so hold no amounts."""
    texts = _columns(cells)
    return len(texts) > 1 and (_numbers_documents(texts) or _leads_to_pages(texts))


def read_items(cells: Sequence[Cell]) -> list[tuple[str, BBox]]:
    """Return text and box of each item of a list; a row without a number continues the item above."""
    groups: list[list[Cell]] = []
    paged = _leads_to_pages(_columns(cells))
    begun = any(BEGUN.match(cell.text) for cell in cells if cell.col == 0)
    for _, row in groupby((cell for cell in cells if cell.text), key=lambda cell: cell.row):
        first, *others = row
        if groups and not paged and (first.col > 0 or (begun and not BEGUN.match(first.text))):
            groups[-1] += [first, *others]  # the rest of a title that is wrapped over several rows
        else:
            groups.append([first, *others])
    items: list[tuple[str, BBox]] = []
    for group in groups:
        texts = [cell.text for cell in sorted(group, key=lambda cell: (cell.col, cell.row))]
        box = enclosing_box([cell.bbox for cell in group if cell.bbox])
        items.append((" ".join(" ".join(texts).split()), box))
    return items


def drop_notes(grid: Grid, cell_words: Mapping[GridCell, list[Word]]) -> Grid:
    """Return the grid without last rows that are sentences below the table; the grid itself without such."""
    # without amounts, sentences may well be cells
    if sum(is_amount(" ".join(word.text for word in words)) for words in cell_words.values()) < MIN_ITEMS:
        return grid
    end, least = len(grid.ys) - 1, NOTE_SHARE * (grid.xs[-1] - grid.xs[0])
    for cell, words in sorted(cell_words.items(), reverse=True):
        if cell.col > 0:
            break
        wide = max(word.x1 for word in words) - min(word.x0 for word in words) > least
        if wide and sum(is_word(word.text) for word in words) >= NOTE_WORDS:
            end = cell.row
    if end < 2 or any(cell.row < end < cell.row + cell.row_span for cell in grid.cells):
        return grid
    return Grid(grid.xs, grid.ys[: end + 1], tuple(cell for cell in grid.cells if cell.row < end))


def _columns(cells: Sequence[Cell]) -> list[list[str]]:
    """Return the texts of each column from top to bottom, without marks of notes and empty cells."""
    columns: dict[int, list[str]] = defaultdict(list)
    for cell in sorted(cells, key=lambda cell: (cell.row, cell.col)):
        if cell.text:
            columns[cell.col].append(" ".join(drop_marks(cell.text).split()))
    return [columns[col] for col in sorted(columns)]


def _numbers_documents(columns: Sequence[Sequence[str]]) -> bool:
    """Return whether documents are listed: number, title, and where each is found, or a title up to the margin."""
    numbers, titles, *rest = columns
    joined = [text for text in numbers if BEGUN.match(text)]
    if len(joined) >= MIN_ITEMS:  # number and title stand in one column
        numbers, titles, rest = [text.split()[0] for text in joined], joined, [titles, *rest]
    if len(rest) > MOST_BEHIND:
        return False  # a plan or a register: items with several columns of words and dates
    items = [text for text in numbers if ITEM.fullmatch(text) and not text.isdigit()]
    if len(items) < MIN_ITEMS or len(items) < NUMBERED_SHARE * len(numbers):
        return False
    if median(sum(map(is_word, text.split())) for text in titles) < TITLE_WORDS:
        return False
    behind = [text for column in rest for text in column]
    if any(SUM.search(text) for text in behind):  # sums of money or shares: a table whose rows are numbered
        return False
    if not behind:
        return max(map(len, titles)) > RUNNING_CHARS and any(REFERENCE.search(text) for text in titles)
    return sum(bool(REFERENCE.search(text)) for text in behind) >= REFERENCE_SHARE * len(behind)


def _leads_to_pages(columns: Sequence[Sequence[str]]) -> bool:
    """Return whether the last column is headed "Page" and holds page numbers in order, beside words alone."""
    head, *pages = columns[-1]
    if not PAGE_TITLE.fullmatch(head) or len(pages) < MIN_ITEMS or not all(map(PAGE.fullmatch, pages)):
        return False
    numbers = [int(page.rpartition("-")[2]) for page in pages]
    has_amounts = any(is_amount(text) for column in columns[1:-1] for text in column)
    return not has_amounts and all(a <= b for a, b in pairwise(numbers))
