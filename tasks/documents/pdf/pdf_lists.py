"""Grids that hold no table: indexes of exhibits and contents are read item by item, notes below a table are prose."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from tasks.documents.blocks import BBox, Cell
from tasks.documents.pdf.pdf_grids import Grid, GridCell
from tasks.documents.pdf.pdf_text import Word
from tasks.documents.pdf.pdf_words import enclosing_box, is_amount, is_word
from tasks.documents.raised_signs import drop_marks

MIN_ITEMS = 3
"""Numbered rows that a list has at least."""
NUMBERED_SHARE = 0.6
"""Share of the texts in the first column that are numbers of items."""
REFERENCE_SHARE = 0.25
"""Share of the texts behind the titles that say where a document is found, by date or file number."""
MOST_BEHIND = 2
"""Most columns behind the titles of a list, where none names the forms of filings."""
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


class Item(NamedTuple):
    """An item of a list: its cells from left to right, with the rows that continue them."""

    text: str
    bbox: BBox


def is_list(cells: Sequence[Cell]) -> bool:
    """Return whether the rows of a grid list documents or lead to pages, and so hold no amounts."""
    texts = _columns(cells)
    return len(texts) > 1 and (_numbers_documents(texts) or _leads_to_pages(texts))


def read_items(cells: Sequence[Cell]) -> list[Item]:
    """Return the items of a list; a row without a number continues the item above."""
    groups: list[list[Cell]] = []
    rows: dict[int, list[Cell]] = defaultdict(list)
    paged = _leads_to_pages(_columns(cells))
    begun = any(BEGUN.match(cell.text) for cell in cells if cell.col == 0)
    for cell in cells:
        if cell.text:
            rows[cell.row].append(cell)
    for row in sorted(rows):
        first = min(rows[row], key=lambda cell: cell.col)
        if groups and not paged and (first.col > 0 or (begun and not BEGUN.match(first.text))):
            groups[-1] += rows[row]  # the rest of a title that is wrapped over several rows
        else:
            groups.append(rows[row])
    items: list[Item] = []
    for group in groups:
        texts = [cell.text for cell in sorted(group, key=lambda cell: (cell.col, cell.row))]
        box = enclosing_box([cell.bbox for cell in group if cell.bbox])
        items.append(Item(" ".join(word for text in texts for word in text.split()), box))
    return items


def drop_notes(grid: Grid, cell_words: Mapping[GridCell, list[Word]]) -> Grid:
    """Return the grid without those last rows that are sentences below the table."""
    rows: dict[int, list[tuple[GridCell, list[Word]]]] = defaultdict(list)
    for cell, words in cell_words.items():
        rows[cell.row].append((cell, words))
    # without amounts, sentences may well be cells
    if sum(is_amount(" ".join(word.text for word in words)) for words in cell_words.values()) < MIN_ITEMS:
        return grid
    width = grid.xs[-1] - grid.xs[0]
    end = len(grid.ys) - 1
    for row in sorted(rows, reverse=True):
        if len(rows[row]) > 1 or rows[row][0][0].col > 0:
            break
        words = rows[row][0][1]
        wide = max(word.x1 for word in words) - min(word.x0 for word in words) > NOTE_SHARE * width
        if wide and sum(is_word(word.text) for word in words) >= NOTE_WORDS:
            end = row
    if end < 2 or any(cell.row < end < cell.row + cell.row_span for cell in grid.cells):
        return grid
    return Grid(grid.xs, grid.ys[: end + 1], tuple(cell for cell in grid.cells if cell.row < end))


def _columns(cells: Sequence[Cell]) -> list[list[str]]:
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
