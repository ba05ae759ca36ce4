"""Facts in the cells of a table: values beside or below their labels, points of criteria, requirements by their ids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tasks.rag.documents.blocks import Cell
from tasks.rag.facts.values import Stated, points, read_value, tax_of
from tasks.rag.facts.words import (
    ANY_ID,
    CRITERION_HEADER,
    DESCRIPTION_HEADER,
    ID_HEADER,
    ID_LABEL,
    POINTS_HEADER,
    REQUIREMENT_HEADER,
    REQUIREMENT_ID,
    REQUIREMENT_NAME,
    SUBTOTAL,
    TOTAL,
    VAT,
    bare,
    fact_name,
)

HEADER_ROWS = 3
MOST_LABEL_CHARS = 60
MOST_REQUIREMENT_CHARS = 200
MOST_GRID_CELLS = 100_000
_GROUP = re.compile(
    r"(?P<name>[^()\n]{1,60}?)\s?\(\s?(?P<points>[0-9]{1,4}\s?(?:점|%|points?|pts?))\s?\)\s*", re.IGNORECASE
)

Grid = dict[tuple[int, int], Cell]
"""Row and column → the cell that covers it."""


def read_table_facts(cells: Sequence[Cell], *, in_evaluation: bool) -> Iterator[Stated]:
    """Facts of a table, row by row; first the labelled, then points, then requirements."""
    grid = _grid(cells)
    if not grid:
        return
    yield from _labelled(cells, grid)
    yield from _points(grid, in_evaluation=in_evaluation)
    yield from _requirements(cells, grid)


def _grid(cells: Sequence[Cell]) -> Grid:
    if sum(cell.row_span * cell.col_span for cell in cells) > MOST_GRID_CELLS:
        return {(cell.row, cell.col): cell for cell in cells}
    return {
        (cell.row + down, cell.col + right): cell
        for cell in cells
        for down in range(cell.row_span)
        for right in range(cell.col_span)
    }


def _labelled(cells: Sequence[Cell], grid: Grid) -> Iterator[Stated]:
    rows = 1 + max(row for row, _ in grid)
    for cell in cells:
        name = fact_name(cell.text) if len(cell.text) <= MOST_LABEL_CHARS else None
        if name is None:
            continue
        beside = grid.get((cell.row, cell.col + cell.col_span))
        text = beside.text if beside else ""
        if name == "contact" and beside:
            text = " ".join(_row_after(grid, beside))
        found = read_value(name, cell.text, text) if not fact_name(text) else []
        if name == "amount" and beside and len(found) == 1 and (tax := VAT.search(" ".join(_row_after(grid, beside)))):
            found.append(tax_of(cell.text, tax))
        # one row below its header; in a longer table every row is another project
        if not found and name != "contact" and cell.row == 0 and rows == cell.row_span + 1:
            below = grid.get((cell.row + cell.row_span, cell.col))
            found = read_value(name, cell.text, below.text) if below else []
        yield from found


def _row_after(grid: Grid, cell: Cell) -> Iterator[str]:
    col = cell.col
    while other := grid.get((cell.row, col)):
        yield other.text
        col = other.col + other.col_span


def _points(grid: Grid, *, in_evaluation: bool) -> Iterator[Stated]:
    header = _header(grid, POINTS_HEADER)
    if header is None:
        return
    headers = {col: bare(cell.text) for (row, col), cell in grid.items() if row == header.row}
    is_criteria = any(CRITERION_HEADER.fullmatch(text) or "평가" in text for text in headers.values())
    if not (in_evaluation or is_criteria):
        return
    columns = [col for col in sorted(headers) if POINTS_HEADER.fullmatch(headers[col])]
    for row in range(header.row + header.row_span, 1 + max(row for row, _ in grid)):
        for before, col in zip([-1, *columns], columns, strict=False):
            cell = grid.get((row, col))
            if cell and (cell.row, cell.col) == (row, col):
                column = _criterion_column({one: text for one, text in headers.items() if one > before}, col)
                yield from _row_points(grid, row, column=column, cell=cell)


def _criterion_column(headers: dict[int, str], points_column: int) -> int:
    """The column that names what gets points: the last that is called so, else the nearest that does not describe."""
    left = [col for col in sorted(headers) if col < points_column]
    named = [col for col in left if CRITERION_HEADER.fullmatch(headers[col])]
    plain = [col for col in left if not DESCRIPTION_HEADER.fullmatch(headers[col])]
    return (named or plain or left or [0])[-1]


def _row_points(grid: Grid, row: int, *, column: int, cell: Cell) -> Iterator[Stated]:
    for col in range(cell.col):
        group = grid.get((row, col))
        if group and group.row == row and (match := _GROUP.fullmatch(group.text)) and group is not cell:
            yield from _some(points(match["name"], match["points"]))
    name = grid.get((row, column))
    first = grid.get((row, 0))
    if first and TOTAL.fullmatch(bare(first.text)):
        name = first
    while name and name.row_span > cell.row_span and name.col + name.col_span < cell.col:
        name = grid.get((row, name.col + name.col_span))  # the group's name; the criterion stands beside it
    if column == 0 and cell.row_span > 1 and first and first.row_span == cell.row_span:
        name = first
    if name and name is not cell and not _GROUP.fullmatch(name.text) and not SUBTOTAL.fullmatch(bare(name.text)):
        yield from _some(points(name.text, cell.text))


def _requirements(cells: Sequence[Cell], grid: Grid) -> Iterator[Stated]:
    headers = {col: bare(cell.text) for (row, col), cell in grid.items() if row == 0}
    listed = any(REQUIREMENT_HEADER.fullmatch(text) or REQUIREMENT_NAME.fullmatch(text) for text in headers.values())
    numbered = {col for col, text in headers.items() if listed and ID_HEADER.fullmatch(text)}
    labelled = {(cell.row, cell.col + cell.col_span) for cell in cells if ID_LABEL.fullmatch(bare(cell.text))}
    ids = [
        cell
        for cell in cells
        if _is_id(
            cell.text.strip(),
            is_numbered=(cell.row, cell.col) in labelled or (cell.row > 0 and cell.col in numbered),
        )
    ]
    own = _requirement_name(cells, grid) if len(ids) == 1 else ""
    columns = [col for col, text in headers.items() if REQUIREMENT_NAME.fullmatch(text)]
    for cell in ids:
        named = grid.get((cell.row, columns[0])) if columns and cell.row else None
        beside = named or grid.get((cell.row, cell.col + cell.col_span))
        name = own or (beside.text if beside and beside is not cell else "")
        number = re.sub("[_‐–]", "-", cell.text.strip())
        value = " ".join(name.split())[:MOST_REQUIREMENT_CHARS] or number
        yield Stated("requirement", number, value, number)


def _is_id(text: str, *, is_numbered: bool) -> bool:
    return bool(REQUIREMENT_ID.fullmatch(text) or (is_numbered and ANY_ID.fullmatch(text)))


def _requirement_name(cells: Sequence[Cell], grid: Grid) -> str:
    for cell in cells:
        beside = grid.get((cell.row, cell.col + cell.col_span))
        if beside and REQUIREMENT_NAME.fullmatch(bare(cell.text)):
            return beside.text
    return ""


def _header(grid: Grid, pattern: re.Pattern[str]) -> Cell | None:
    found = (cell for (row, _), cell in sorted(grid.items(), key=lambda item: item[0]) if row < HEADER_ROWS)
    return next((cell for cell in found if pattern.fullmatch(bare(cell.text))), None)


def _some(stated: Stated | None) -> Iterator[Stated]:
    if stated:
        yield stated
