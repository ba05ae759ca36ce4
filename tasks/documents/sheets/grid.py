"""A sheet as its cells, and the tables and texts that stand on it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from tasks.documents.blocks import Cell

MOST_HEADER_ROWS = 4
MOST_CAPTION_CHARS = 120
MOST_COVERED = 2_000_000
"""Places under merged cells that are looked at."""
NEAR_AREAS = 8
"""Areas before one that it may belong to."""
AMOUNT = re.compile(r"[\s$₩€£¥(△▲▽▼+\-–—−]*\d[\d,.'’\s]*[%)원€\s\-−]*")
"""A number that is kept as text."""
YEAR = re.compile(r"['’]?(?:19|20)\d\d\s*(?:년도?)?")


class Value(NamedTuple):
    """The content of a cell as its program shows it."""

    text: str
    kind: Literal["text", "number", "date"]


class Area(NamedTuple):
    """A rectangle of cells: 0-based rows and columns, both ends included."""

    top: int
    left: int
    bottom: int
    right: int

    @property
    def name(self) -> str:
        """Return the name of the area, `B3:D9`, or `B3` for a single cell."""
        first, last = f"{column_letters(self.left)}{self.top + 1}", f"{column_letters(self.right)}{self.bottom + 1}"
        return first if first == last else f"{first}:{last}"


Cells = Mapping[int, Mapping[int, Value]]
"""Cells that are not empty, by row and column, 0-based."""


class Piece(NamedTuple):
    """A table or lines of text on a sheet, with the area that it covers."""

    kind: Literal["table", "caption", "paragraph"]
    area: Area
    text: str
    cells: tuple[Cell, ...] = ()


class Lines:
    """The rows or the columns of a sheet, numbered with and without its hidden ones."""

    def __init__(self, hidden: Iterable[int] = ()) -> None:
        self.hidden = frozenset(hidden)
        self._hidden = sorted(self.hidden)
        self._visible_before = [number - i for i, number in enumerate(self._hidden)]

    def visible_number(self, number: int) -> int:
        """Return the number of a line among those that are shown; of a hidden line, that of the next shown one."""
        return number - bisect_left(self._hidden, number)

    def stored_number(self, visible: int) -> int:
        """Return the number on the sheet of a line that is shown."""
        return visible + bisect_right(self._visible_before, visible)


class VisibleGrid(NamedTuple):
    """The rows and the columns of a sheet."""

    rows: Lines = Lines()
    columns: Lines = Lines()

    def explain_hidden(self, row: int, column: int) -> str | None:
        """Return which line hides a cell; None if it is shown."""
        if row in self.rows.hidden:
            return f"hidden row {row + 1}"
        return f"hidden column {column_letters(column)}" if column in self.columns.hidden else None

    def place_areas(self, merged: Sequence[Area]) -> dict[tuple[int, int], Area]:
        """Return merged areas by their stored top left, as they are shown; they show their text in what is left."""
        areas: dict[tuple[int, int], Area] = {}
        for area in merged:
            top, left = self.rows.visible_number(area.top), self.columns.visible_number(area.left)
            visible = Area(
                top,
                left,
                self.rows.visible_number(area.bottom + 1) - 1,
                self.columns.visible_number(area.right + 1) - 1,
            )
            if visible.bottom >= top and visible.right >= left:
                areas[area.top, area.left] = visible
        return areas


def find_hidden(cells: Cells, merged: Sequence[Area], visible: VisibleGrid) -> dict[str, list[str]]:
    """Return the texts of hidden rows and columns, by which it is."""
    areas, hidden = visible.place_areas(merged), dict[str, list[str]]()
    for row, values in sorted(cells.items()):
        for column, value in sorted(values.items()):
            if (row, column) not in areas and (reason := visible.explain_hidden(row, column)):
                hidden.setdefault(reason, []).append(value.text)
    return hidden


def find_shown_pieces(cells: Cells, merged: Sequence[Area], visible: VisibleGrid) -> list[Piece]:
    """Return the pieces of a sheet without its hidden rows and columns, with the names that its cells have there."""
    (rows, columns), seen = visible, dict[int, dict[int, Value]]()
    if not rows.hidden and not columns.hidden:
        return find_pieces(cells, merged)
    areas = visible.place_areas(merged)
    for row, values in cells.items():
        for column, value in values.items():
            if (row, column) in areas or not visible.explain_hidden(row, column):
                seen.setdefault(rows.visible_number(row), {}).setdefault(columns.visible_number(column), value)
    pieces: list[Piece] = []
    for piece in find_pieces(seen, list(areas.values())):
        top, left, bottom, right = piece.area
        area = Area(
            rows.stored_number(top),
            columns.stored_number(left),
            rows.stored_number(bottom),
            columns.stored_number(right),
        )
        moved: list[Cell] = []
        for cell in piece.cells:
            row, col = rows.stored_number(top + cell.row), columns.stored_number(left + cell.col)
            end, last = (
                rows.stored_number(top + cell.row + cell.row_span - 1),
                columns.stored_number(left + cell.col + cell.col_span - 1),
            )
            place = {
                "row": row - area.top,
                "col": col - area.left,
                "row_span": end - row + 1,
                "col_span": last - col + 1,
            }
            moved.append(cell.model_copy(update=place))
        pieces.append(piece._replace(area=area, cells=tuple(moved)))
    return pieces


def column_letters(column: int) -> str:
    """Return the name of a column: A for 0, AA for 26."""
    name = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        name = chr(65 + rest) + name
    return name


def find_pieces(cells: Cells, merged: Sequence[Area] = ()) -> list[Piece]:
    """Return the tables and texts of a sheet from the top left; empty rows and columns separate them."""
    spans = {(area.top, area.left): area for area in merged}
    # areas that one empty row or column parts are one table if the second names no rows or columns itself
    joined: list[Area] = []
    for area in _find_areas(_filled_columns(cells, merged)):
        for i, before in reversed(list(enumerate(joined))[-NEAR_AREAS:]):
            if _continues(before, area, cells):
                joined[i] = Area(before.top, before.left, area.bottom, area.right)
                break
        else:
            joined.append(area)
    parts = [piece for area in joined for piece in _pieces_of(area, cells, spans)]
    for i, (piece, below) in enumerate(pairwise(parts)):
        # a short line right above a table is its caption
        near = below.kind == "table" and below.area.top - piece.area.bottom <= 2
        if piece.kind == "paragraph" and near and len(piece.text) <= MOST_CAPTION_CHARS and "\n" not in piece.text:
            parts[i] = piece._replace(kind="caption")
    return parts


def _filled_columns(cells: Cells, merged: Sequence[Area]) -> dict[int, set[int]]:
    """Return the columns of each row that hold something, those under a merged cell with content included."""
    filled = {row: set(columns) for row, columns in cells.items() if columns}
    last_row = max(filled, default=0)
    last_column = max((max(columns) for columns in filled.values()), default=0)
    room = MOST_COVERED
    for area in merged:
        covered = area._replace(bottom=min(area.bottom, last_row), right=min(area.right, last_column))
        room -= max(covered.bottom - covered.top + 1, 0) * max(covered.right - covered.left + 1, 0)
        if area.left in cells.get(area.top, {}) and room >= 0:
            for row in range(covered.top, covered.bottom + 1):
                filled.setdefault(row, set()).update(range(covered.left, covered.right + 1))
    return filled


def _find_areas(filled: Mapping[int, set[int]]) -> Iterator[Area]:
    """Yield rectangles that no empty row or column crosses."""
    waiting = [(sorted(filled), 0, 1 << 20)]  # more columns than a sheet can have
    while waiting:
        rows, left, right = waiting.pop()
        # a run of rows without a gap, then of columns without a gap, until nothing parts it
        runs = list(_runs([row for row in rows if any(left <= column <= right for column in filled[row])]))
        columns_of_runs = [{column for row in run for column in filled[row] if left <= column <= right} for run in runs]
        across = [list(_runs(sorted(columns))) for columns in columns_of_runs]
        if len(runs) == 1 and len(across[0]) == 1:
            yield Area(runs[0][0], across[0][0][0], runs[0][-1], across[0][0][-1])
            continue
        # the last area that is pushed is read first, so they are pushed from the bottom right
        parts = [(run, columns[0], columns[-1]) for run, in_run in zip(runs, across, strict=True) for columns in in_run]
        waiting += reversed(parts)


def _runs(numbers: Sequence[int]) -> Iterator[list[int]]:
    run: list[int] = []
    for number in numbers:
        if run and number != run[-1] + 1:
            yield run
            run = []
        run.append(number)
    if run:
        yield run


def _continues(before: Area, area: Area, cells: Cells) -> bool:
    """Return whether a table goes on in an area below it or to its right."""
    if (before.left, before.right) == (area.left, area.right) and area.top == before.bottom + 2:
        several = area.right > area.left and before.bottom > before.top
        if several and _has_amount(cells, area.top, area):
            return True
    if (before.top, before.bottom) != (area.top, area.bottom) or area.left != before.right + 2:
        return False
    # on the right, its first column holds numbers below its head, so the labels are those on the left
    rows = [cells.get(row, {}) for row in range(area.top + 1, area.bottom + 1)]
    first = [row[area.left] for row in rows if area.left in row]
    return bool(first) and all(map(_is_amount, first))


def _is_amount(value: Value) -> bool:
    """Return whether a cell holds an amount; a year does not count, as it names a column."""
    if YEAR.fullmatch(value.text.strip()):
        return False
    return value.kind == "number" or (value.kind == "text" and AMOUNT.fullmatch(value.text) is not None)


def _has_amount(cells: Cells, row: int, area: Area) -> bool:
    """Return whether a row of an area holds an amount behind the first column."""
    row_cells = cells.get(row, {})
    return any(_is_amount(value) for column, value in row_cells.items() if area.left < column <= area.right)


def _pieces_of(area: Area, cells: Cells, spans: Mapping[tuple[int, int], Area]) -> Iterator[Piece]:
    """Yield the lines above a table, the table, and the lines below it."""
    # the column and value of the only cell of each row that has one
    alone: list[tuple[int, Value] | None] = []
    for row in range(area.top, area.bottom + 1):
        within = [(column, cell) for column, cell in cells.get(row, {}).items() if area.left <= column <= area.right]
        alone.append(within[0] if len(within) == 1 else None)

    def lines(first: int, end: int) -> Iterator[Piece]:
        for i in range(first, end):
            if single := alone[i]:
                row, (column, value) = area.top + i, single
                yield Piece("paragraph", Area(row, column, row, column), value.text)

    if all(alone) and (area.left == area.right or all(len(single[1].text) > 1 for single in alone if single)):
        if area.left == area.right and any(single and _is_amount(single[1]) for single in alone):
            yield _make_table(area, cells, spans)
        else:
            yield from lines(0, len(alone))
        return
    top, bottom = 0, len(alone)
    # a label above a row with amounts heads a group of rows, and is no title
    if area.right - area.left == 1 and _has_amount(cells, area.top + 1, area):
        alone[0] = None
    is_line = [single is not None and single[1].kind == "text" for single in alone]
    while top < bottom - 1 and is_line[top]:
        top += 1
    while bottom > top + 1 and is_line[bottom - 1] and area.right - area.left > 1:
        bottom -= 1
    yield from lines(0, top)
    yield _make_table(area._replace(top=area.top + top, bottom=area.top + bottom - 1), cells, spans)
    yield from lines(bottom, len(alone))


def _make_table(area: Area, cells: Cells, spans: Mapping[tuple[int, int], Area]) -> Piece:
    header = _header_rows(area, cells)
    table_cells: list[Cell] = []
    for row in range(area.top, area.bottom + 1):
        for column, value in sorted(cells.get(row, {}).items()):
            if area.left <= column <= area.right:
                span = spans.get((row, column), Area(row, column, row, column))
                table_cells.append(
                    Cell(
                        row=row - area.top,
                        col=column - area.left,
                        text=value.text,
                        row_span=min(span.bottom, area.bottom) - row + 1,
                        col_span=min(span.right, area.right) - column + 1,
                        header=row < area.top + header,
                    )
                )
    return Piece("table", area, "", tuple(table_cells))


def _header_rows(area: Area, cells: Cells) -> int:
    """Return how many leading rows name the columns.

    They are words, years or dates above rows with amounts, or a full row of words.
    """
    rows = range(area.top, min(area.bottom, area.top + MOST_HEADER_ROWS) + 1)
    count = next((i for i, row in enumerate(rows) if _has_amount(cells, row, area)), None)
    if count is None:
        # words for all: the first row names the columns if it has a different short text for each
        first = cells.get(area.top, {})
        texts = [first[column].text for column in range(area.left, area.right + 1) if column in first]
        all_distinct = len(set(texts)) == area.right - area.left + 1 and all(len(text) <= 40 for text in texts)
        return int(area.bottom > area.top and area.right > area.left and all_distinct)
    while count and not any(area.left < column <= area.right for column in cells.get(area.top + count - 1, {})):
        count -= 1  # a label alone on its row heads a group of rows
    labelled = sum(area.left in cells.get(area.top + i, {}) for i in range(count))
    return count if labelled <= 1 else 1  # rows with labels of their own are data, told in words


_NAME = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})(?::\$?([A-Z]{1,3})\$?(\d{1,7}))?")


def parse_area(name: str) -> Area | None:
    """Return the area that a name such as `B3:D9` means; None for any other text."""
    match = _NAME.fullmatch(name)
    if not match:
        return None
    left, top = column_number(match[1]), int(match[2]) - 1
    right, bottom = (column_number(match[3]), int(match[4]) - 1) if match[3] else (left, top)
    return Area(min(top, bottom), min(left, right), max(top, bottom), max(left, right))


_LAST_RANGE = re.compile(r"[A-Z]{1,3}\d{1,7}(?::[A-Z]{1,3}\d{1,7})?$")


def cell_name(cells: str | None, row: int, column: int) -> str | None:
    """Return the name of a cell of a table by its 0-based row and column there.

    `Sheet '예산', B3:D9` with 2 and 1 gives `Sheet '예산', C5`.
    """
    match = _LAST_RANGE.search(cells) if cells else None
    area = parse_area(match[0]) if match else None
    if not cells or not match or not area:
        return None
    return f"{cells[: match.start()]}{column_letters(area.left + column)}{area.top + row + 1}"


def column_number(name: str) -> int:
    """Return the 0-based number of a column from its name: 26 for AA."""
    number = 0
    for letter in name:
        number = number * 26 + ord(letter) - 64
    return number - 1
