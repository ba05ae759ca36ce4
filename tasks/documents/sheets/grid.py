"""A sheet as its cells, and the tables and texts that stand on it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    indent: float = 0
    """How far it is set in, in widths of a space."""


class Area(NamedTuple):
    """A rectangle of cells: 0-based rows and columns, both ends included."""

    top: int
    left: int
    bottom: int
    right: int

    @property
    def size(self) -> tuple[int, int]:
        """Return its numbers of rows and columns."""
        return self.bottom - self.top + 1, self.right - self.left + 1

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
        self._shown_before = [number - i for i, number in enumerate(self._hidden)]

    def shown_number(self, number: int) -> int:
        """Return the number of a line among those that are shown; of a hidden line, that of the next shown one."""
        return number - bisect_left(self._hidden, number)

    def stored_number(self, shown: int) -> int:
        """Return the number on the sheet of a line that is shown."""
        return shown + bisect_right(self._shown_before, shown)


class VisibleGrid(NamedTuple):
    """The rows and the columns of a sheet."""

    rows: Lines = Lines()
    columns: Lines = Lines()

    def explain_hidden(self, row: int, column: int) -> str | None:
        """Return which line hides a cell; None if it is shown."""
        if row in self.rows.hidden:
            return f"hidden row {row + 1}"
        return f"hidden column {column_letters(column)}" if column in self.columns.hidden else None

    def stored_area(self, area: Area) -> Area:
        """Return the area on the sheet of what is shown."""
        rows, columns = self.rows.stored_number, self.columns.stored_number
        return Area(rows(area.top), columns(area.left), rows(area.bottom), columns(area.right))


def find_pieces(
    cells: Cells, merged: Sequence[Area] = (), grid: VisibleGrid | None = None
) -> tuple[list[Piece], dict[str, list[str]]]:
    """Return the tables and texts that a sheet shows, and the texts of its hidden rows and columns by which it is.

    merged: areas whose cell at the top left shows its text in what is shown of them.
    """
    grid = grid or VisibleGrid()
    row_of, column_of, areas = grid.rows.shown_number, grid.columns.shown_number, dict[tuple[int, int], Area]()
    for area in merged:
        ends = row_of(area.bottom + 1) - 1, column_of(area.right + 1) - 1
        visible = Area(row_of(area.top), column_of(area.left), *ends)
        areas |= {(area.top, area.left): visible} if min(visible.size) > 0 else {}  # all of its lines may be hidden
    shown_cells, hidden = dict[int, dict[int, Value]](), dict[str, list[str]]()
    for row, values in sorted(cells.items()):
        for column, value in sorted(values.items()):
            if (row, column) not in areas and (reason := grid.explain_hidden(row, column)):
                hidden.setdefault(reason, []).append(value.text)
            else:
                shown_cells.setdefault(row_of(row), {}).setdefault(column_of(column), value)
    return list(_find_shown_pieces(shown_cells, list(areas.values()), grid)), hidden


def column_letters(column: int) -> str:
    """Return the name of a column: A for 0, AA for 26."""
    name = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        name = chr(65 + rest) + name
    return name


def _find_shown_pieces(cells: Cells, merged: Sequence[Area], grid: VisibleGrid) -> Iterator[Piece]:
    """Yield the pieces of a sheet from the top left; empty rows and columns separate them."""
    spans = {(area.top, area.left): area for area in merged}
    # areas that one empty row or column parts are one table if the second names no rows or columns itself
    joined: list[Area] = []
    for area in _find_areas(_filled_columns(cells, merged)):
        for i in range(len(joined) - 1, max(len(joined) - NEAR_AREAS, 0) - 1, -1):
            if _continues(joined[i], area, cells):
                joined[i] = Area(joined[i].top, joined[i].left, area.bottom, area.right)
                break
        else:
            joined.append(area)
    parts = [part for area in joined for part in _parts_of(area, cells)]
    for i, (area, line) in enumerate(parts):
        if line is None:
            yield _make_table(area, cells, spans, grid)
            continue
        below = parts[i + 1] if i + 1 < len(parts) else None
        is_near = below is not None and below[1] is None and below[0].top - area.bottom <= 2
        # a short line right above a table is its caption
        is_caption = is_near and len(line) <= MOST_CAPTION_CHARS and "\n" not in line
        yield Piece("caption" if is_caption else "paragraph", grid.stored_area(area), line)


def _filled_columns(cells: Cells, merged: Sequence[Area]) -> dict[int, set[int]]:
    """Return the columns of each row that hold something, or stand under merged cells with content (MOST_COVERED)."""
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
    """Yield rectangles that no empty row or column crosses, in the order in which they are read."""
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
    """Yield runs of consecutive numbers, in order."""
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


def _parts_of(area: Area, cells: Cells) -> Iterator[tuple[Area, str | None]]:
    """Yield (area, text) of each line above a table, (area, None) of the table, then the lines below it."""
    # the column and value of the only cell of each row that has one
    alone: list[tuple[int, Value] | None] = []
    for row in range(area.top, area.bottom + 1):
        within = [(column, cell) for column, cell in cells.get(row, {}).items() if area.left <= column <= area.right]
        alone.append(within[0] if len(within) == 1 else None)
    lines = [
        single and (Area(area.top + i, single[0], area.top + i, single[0]), single[1].text)
        for i, single in enumerate(alone)
    ]
    top, bottom = 0, len(alone)
    if all(alone) and (area.left == area.right or all(len(single[1].text) > 1 for single in alone if single)):
        has_amounts = area.left == area.right and any(single and _is_amount(single[1]) for single in alone)
        yield from [(area, None)] if has_amounts else filter(None, lines)
        return
    # a label above a row with amounts heads a group of rows, and is no title
    if area.right - area.left == 1 and _has_amount(cells, area.top + 1, area):
        alone[0] = None
    is_line = [single is not None and single[1].kind == "text" for single in alone]
    while top < bottom - 1 and is_line[top]:
        top += 1
    while bottom > top + 1 and is_line[bottom - 1] and area.right - area.left > 1:
        bottom -= 1
    yield from filter(None, lines[:top])
    yield area._replace(top=area.top + top, bottom=area.top + bottom - 1), None
    yield from filter(None, lines[bottom:])


def _make_table(area: Area, cells: Cells, spans: Mapping[tuple[int, int], Area], grid: VisibleGrid) -> Piece:
    """Return the table of an area of what is shown; its rows, columns and spans count hidden lines too."""
    header, whole, table_cells = _header_rows(area, cells), grid.stored_area(area), list[Cell]()
    for row in range(area.top, area.bottom + 1):
        for column, value in sorted(cells.get(row, {}).items()):
            if area.left <= column <= area.right:
                span = spans.get((row, column), Area(row, column, row, column))
                ends = min(span.bottom, area.bottom), min(span.right, area.right)
                place = grid.stored_area(Area(row, column, *ends))
                rows, columns = place.size
                table_cells.append(
                    Cell(
                        row=place.top - whole.top,
                        col=place.left - whole.left,
                        text=value.text,
                        row_span=rows,
                        col_span=columns,
                        header=row < area.top + header,
                        indent=value.indent,
                    )
                )
    return Piece("table", whole, "", tuple(table_cells))


def _header_rows(area: Area, cells: Cells) -> int:
    """Return how many rows head an area: up to four above its first amount; without amounts a first row of names."""
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
    """Return the name of a cell of a table by its 0-based row and column there; None if `cells` names no area.

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
