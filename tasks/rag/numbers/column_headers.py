"""The headers above a place in a table, from the outermost."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from tasks.documents.blocks import Cell
from tasks.language.numbers import CURRENCIES, scales
from tasks.rag.numbers.cell_amounts import amount_in
from tasks.rag.numbers.periods import period_in

A_UNIT = re.compile(r"\(.*\)")
"""A line in brackets in place of a label: "(in millions)"; it heads no rows."""
SPAN = re.compile(r".*\bend(?:ed|ing)\b.*|(?:as of |at )?[a-z]+ \d{1,2},", re.IGNORECASE)
"""What years stand for, in place of a label: "Years ended December 31,"."""
MOST_LEVELS = 6
"""Header rows that a column belongs to at most."""


def with_header_rows(cells: Sequence[Cell]) -> Sequence[Cell]:
    """The cells of a table; a row of years or dates without amounts is marked as a header, in mid-table too.

    The rows directly above and below it that have neither label nor amount belong to it. In a table that marks no
    header the first rows are it, where they have no amount and a text for each of the columns that have.
    """
    rows: dict[int, list[Cell]] = defaultdict(list)
    for cell in cells:
        rows[cell.row].append(cell)
    named = [row for row in rows if _names_periods(rows[row]) or _spans_headers(rows, row)]
    found = {one for row in named for one in (row, *_unlabelled(rows, row, -1), *_unlabelled(rows, row, 1))}
    found |= set(_leading(rows)) if not any(cell.header for cell in cells) else set()
    return (
        [cell.model_copy(update={"header": True}) if cell.row in found else cell for cell in cells] if found else cells
    )


def _leading(rows: Mapping[int, Sequence[Cell]]) -> Sequence[int]:
    """The rows before the first amount, where their texts stand over all columns with amounts."""
    first = min((number for number, row in rows.items() if any(map(amount_in, row))), default=0)
    leading = [number for number in rows if number < first][:MOST_LEVELS]
    over = {col for number in leading for cell in rows[number] if cell.text.strip() for col in _columns(cell)}
    amounts = {cell.col for row in rows.values() for cell in row if cell.col and amount_in(cell)}
    return leading if len(amounts) > 1 and amounts <= over else []


def _columns(cell: Cell) -> range:
    return range(cell.col, cell.col + cell.col_span)


def _names_periods(row: Sequence[Cell]) -> bool:
    """Whether a row is a header with a year or a date over two columns or more."""
    return _may_head(row) and sum("%" not in c.text and period_in(c.text) is not None for c in row if c.col) > 1


def _spans_headers(rows: Mapping[int, Sequence[Cell]], row: int) -> bool:
    """Whether a row is one period that stands over a row of headers: "Year Ended December 31, 2018" over quarters."""
    texts = [cell.text for cell in rows[row] if cell.col and cell.text.strip()]
    below = rows.get(row + 1, ())
    over = sum(bool(cell.text.strip()) for cell in below if cell.col) > 1 and _may_head(below)
    found = period_in(texts[0]) if len(texts) == 1 and over and _may_head(rows[row]) else None
    return found is not None and found.end is not None


def _unlabelled(rows: Mapping[int, Sequence[Cell]], row: int, step: int) -> Iterator[int]:
    while (row := row + step) in rows and _may_head(rows[row]):
        yield row


def _may_head(row: Sequence[Cell]) -> bool:
    texts = [cell.text.strip() for cell in row if cell.col]
    labels = [cell.text.strip() for cell in row if not cell.col]
    return (
        not any(cell.header or amount_in(cell) for cell in row)
        and any(texts)
        and all(not label or scales(label) or A_UNIT.fullmatch(label) or SPAN.fullmatch(label) for label in labels)
    )


def header_levels(at: Mapping[tuple[int, int], Cell]) -> dict[int, dict[int, str]]:
    """Texts of header cells by row and column, behind the first column."""
    levels: dict[int, dict[int, str]] = defaultdict(dict)
    for (row, col), cell in sorted(at.items()):
        if cell.header and col and (text := " ".join(cell.text.split())):
            levels[row][col] = text
    return levels


def headers_of(
    at: Mapping[tuple[int, int], Cell],
    levels: Mapping[int, Mapping[int, str]],
    amounts: Collection[int],
    row: int,
    col: int,
) -> tuple[str, ...]:
    """Texts of the header above a place; amounts: rows that hold any.

    A sign's own column lends its headers to the amounts behind it. A header row that is not the last has one text
    over several columns: an empty place takes the nearest.
    """
    beside = at.get((row, col - 1))
    first = col - 1 if beside and beside.text.strip() in CURRENCIES else col
    columns = range(first, col + at[row, col].col_span)
    above = _block_above(levels, amounts, row)[-MOST_LEVELS:]
    last = max(levels[above[-1]], default=col) if above else col
    found: list[str] = []
    for level in above:
        texts = levels[level]
        own = [texts[c] for c in columns if c in texts]
        if not own and level != above[-1]:
            nearest = min(texts, key=lambda c: abs(c - col))
            own = [texts[nearest]] if len(texts) > 1 or _reaches(nearest, col, last) else []
        found += own
    return tuple(dict.fromkeys(found))


def _block_above(levels: Mapping[int, Mapping[int, str]], amounts: Collection[int], row: int) -> list[int]:
    """Header rows above a row; only the last rows of them, behind other amounts, where these name periods anew."""
    above = [level for level in levels if level < row]
    before = max((other for other in amounts if above and other < above[-1]), default=-1)
    block = [level for level in above if level > before]
    anew = any(period_in(text) for level in block for text in levels[level].values())
    return block if anew else above


def _reaches(middle: int, col: int, last: int) -> bool:
    """Whether the one text of a header row stands over a column: it is centred over those that it is for."""
    centred = abs(middle - (1 + last) / 2) <= max(1, last / 5)
    return centred or abs(col - middle) <= min(middle - 1, last - middle)
