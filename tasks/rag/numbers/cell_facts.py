"""Every numeric cell of a document's tables, with what its row, its column and the lines around the table say of it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Literal, NamedTuple

from storage.records import Record
from tasks.documents.blocks import BBox, Block, Cell, Page
from tasks.documents.sheets.grid import cell_name
from tasks.language.numbers import CURRENCIES, scales
from tasks.rag.numbers.periods import YEAR, Period, fiscal_year, period_in
from tasks.rag.numbers.row_paths import (
    A_NOTE,
    COUNTS,
    NIL,
    Amount,
    amount_in,
    header_levels,
    headers_of,
    row_paths,
    scale_of,
    with_header_rows,
    with_spans,
)

LINES_ABOVE = 3
"""Blocks before a table that may state its unit or its period."""
ENDS_WITH_DAY = re.compile(r"\b[A-Z][a-z]+\.? \d{1,2},?$")
"""A day without its year, which stands over each column."""
ALIGNED = 6.0
"""Points that the right edges of a column may differ between the parts of a table."""
INTRODUCES = re.compile(r"\b(?:following|below|tables?)\b|다음|아래", re.IGNORECASE)
"""In a line above a table: it begins anew."""
IN_YEARS = re.compile(r"\byears\b", re.IGNORECASE)
"""A row of lives or terms, in a column of percentages too."""
TITLE_CHARS = 100
"""A longer block above a table is a paragraph."""
CELL_DIGITS = 16
"""Of a document's digest, in the name of a cell."""


IdentityKind = Literal["total", "balance sheet", "cash", "columns"]


class Identity(Record):
    """What a number must be the sum or difference of, and whether it is."""

    kind: IdentityKind
    holds: bool
    """Within the rounding of what is shown."""
    rows: tuple[int, ...]
    """Of the numbers that give it."""
    cols: tuple[int, ...] = ()
    """Of these, where they stand in the number's row."""
    table: int | None = None
    """Of these rows, where it is another than the number's."""
    expected: Decimal | None = None
    """What these numbers give, in whole units, where the number is another."""


class CellFact(Record):
    """A number of a table, in whole units."""

    document: str
    """SHA-256 of the document's bytes, hex."""
    value: Decimal
    """4,822 of a table in millions is 4822000000; (868) is negative; a dash is 0."""
    shown: str
    """As it stands there."""
    scale: Decimal
    """What the shown number was multiplied by."""
    unit: str
    """`USD`, `KRW`, `%`, `shares` …; empty where nothing tells."""
    sign: Literal["parentheses", "minus", "none"]
    period: Period | None
    row_path: tuple[str, ...]
    """Labels above the row that it belongs to, and its own."""
    column_path: tuple[str, ...]
    """Headers above it, from the outermost."""
    page: int | None
    bbox: BBox | None = None
    """Of the cell."""
    cells: str | None = None
    """Name of the cell in a spreadsheet: `Sheet '예산', C5`."""
    table: int
    """0-based among the tables of the document."""
    row: int
    col: int
    identities: tuple[Identity, ...] = ()
    doubt: str = ""
    """How the first identity that it breaks contradicts it: `the rows above give 530`."""
    statement: Literal["income", "balance", "cash_flow", "equity", "budget", "other"] = "other"
    """What the table is, by the lines that it holds."""


def name_of_cell(document: str, *, table: int, row: int, col: int) -> str:
    """`DIGEST:TABLE:ROW:COLUMN`, as `trivet why` takes it. document: its digest."""
    return f"{document[:CELL_DIGITS]}:{table}:{row}:{col}"


class _Table(NamedTuple):
    """A table that may go on with the next page."""

    block: Block
    above: Sequence[str]
    """The lines above it."""
    page: int
    """Its last."""
    part: Block
    """What of it stands there."""


def cell_facts(pages: Iterable[Page], *, document: str) -> Iterator[CellFact]:
    """The numbers of all tables in reading order; years, dates, counters and footnote marks are none."""
    table = 0
    above: list[str] = []
    last: _Table | None = None
    for page in pages:
        for block in page.blocks:
            if block.cells:
                goes_on = last is not None and _goes_on(block, above, page.number or 0, last)
                heads = [line for line in above if len(line) < TITLE_CHARS] if goes_on else []
                last = last if goes_on and last else _Table(block, above[-LINES_ABOVE:], page.number or 0, block)
                begun = last.block if goes_on else None
                facts = list(_of_table(block, document, table, last.above, page.number, begun, heads))
                yield from facts
                last = last._replace(page=page.number or 0, part=block)
                table += 1
                above = [] if facts else above  # a table of words alone is a header that was read apart
            elif block.kind == "header":
                # a line that is repeated on pages may say of when, or in what unit, the figures below are
                period = period_in(block.text)
                above += [block.text] if (period and period.end) or scales(block.text) else []
            elif block.kind != "footer":
                above.append(block.text)


def _goes_on(block: Block, between: Sequence[str], page: int, last: _Table) -> bool:
    """Whether a table without a header is more of the one before: at the top of the next page, or below headings.

    It has as many columns, and on the same page they end where those of the table above do.
    """
    if any(cell.header for cell in block.cells) or _width(block) != _width(last.part):
        return False
    # the right edges of the columns behind the first, in points; none where a column has no box
    edges: list[list[float]] = []
    for part in (block, last.part):
        rights: dict[int, float] = {}
        for cell in part.cells:
            if cell.bbox and cell.col and cell.text.strip() and not cell.header:
                col = cell.col + cell.col_span - 1
                rights[col] = max(rights.get(col, 0), cell.bbox[2])
        edges.append([rights[col] for col in sorted(rights)] if len(rights) == _width(part) - 1 else [])
    aligned = all(edges) and all(abs(one - other) <= ALIGNED for one, other in zip(*edges, strict=True))
    if not between:
        return last.page + 1 == page or (last.page == page and aligned)
    return aligned and last.page == page and len(between) <= LINES_ABOVE and not any(map(INTRODUCES.search, between))


def _width(block: Block) -> int:
    return max(cell.col + cell.col_span for cell in block.cells)


def _of_table(
    block: Block,
    document: str,
    table: int,
    above: Sequence[str],
    page: int | None,
    begun: Block | None,
    headings: Sequence[str],
) -> Iterator[CellFact]:
    """begun: the table that this one goes on with; its header is this one's too. headings: the lines between them."""
    cells, before = _with_header(block, begun)
    at = {
        (row, col): cell
        for cell in cells
        for row in range(cell.row, cell.row + cell.row_span)
        for col in range(cell.col, cell.col + cell.col_span)
    }
    rows: dict[int, list[Cell]] = defaultdict(list)
    for cell in cells:
        rows[cell.row].append(cell)
    amounts = _amounts(cells, at)
    first, last = min((row for row, _ in amounts), default=0), max((row for row, _ in amounts), default=0)
    titles = [cell.text for cell in cells if (cell.header and cell.row <= last) or cell.row < first]
    stated = [scale for text in (*above, *titles) for scale in scales(text)]
    stubs = [cell.text for cell in cells if cell.header and not cell.col and cell.text.strip()]
    days = [line for line in above if len(line) < TITLE_CHARS and ENDS_WITH_DAY.search(line)]
    currencies, levels = _currencies(at, amounts), header_levels(at)
    filled = {row for row, _ in amounts}
    over = {(row, col): headers_of(at, levels, filled, row, col) for row, col in amounts}
    dated = any(period_in(" ".join(headers)) for headers in over.values())
    of_all = None if dated else _period_of_all(stubs, above)
    paths = list(row_paths(rows, amounts, headings))
    between = periods_between({row: path for (row, _), path in paths})
    groups = {} if dated else _group_periods(above, {col for _, col in amounts})
    first_col = min((col for _, col in amounts), default=0)
    for (row, col), path in paths:
        path = with_spans(path, [at[row, c] for c in range(first_col) if (row, c) in at])
        amount = amounts[row, col]
        headers = over[row, col]
        scale = scale_of(path, headers, amount, stated)
        yield CellFact(
            document=document,
            value=amount.value * scale.factor,
            shown=" ".join(at[row, col].text.split()),
            scale=scale.factor,
            unit=scale.unit or ("" if COUNTS.search(path[-1] if path else "") else currencies.get(col, "")),
            sign=amount.sign,
            period=_period(headers, (*stubs, *days), path) or groups.get(col) or between.get(row) or of_all,
            row_path=path,
            column_path=headers,
            page=page,
            bbox=at[row, col].bbox,
            cells=cell_name(block.place.cells, row - before, col),
            table=table,
            row=row - before,
            col=col,
        )


def _with_header(block: Block, begun: Block | None) -> tuple[Sequence[Cell], int]:
    """The cells of a table below the header of the one that it goes on with, and how many rows that header has."""
    heads = [cell for cell in begun.cells if cell.header and cell.col] if begun else []
    if not heads:
        return with_header_rows(block.cells), 0
    before = 1 + max(cell.row for cell in heads)
    moved = (cell.model_copy(update={"row": cell.row + before}) for cell in block.cells)
    return with_header_rows([*heads, *moved]), before


def _amounts(cells: Sequence[Cell], at: Mapping[tuple[int, int], Cell]) -> dict[tuple[int, int], Amount]:
    """The amounts of a table by row and column."""
    amounts = {(cell.row, cell.col): amount for cell in cells if (amount := amount_in(cell))}
    columns: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for place in sorted(amounts):
        columns[place[1]].append(place)
    of_years = {row for (row, col), cell in at.items() if not col and IN_YEARS.search(cell.text)}
    for places in columns.values():
        texts = [at[place].text.strip() for place in places]
        units = [amounts[place].unit for place in places]
        # a column that holds nothing but footnote marks such as (3), or dashes, is none of amounts
        if all(A_NOTE.fullmatch(text) or text in NIL for text in texts):
            for place in places:
                del amounts[place]
        # all of a column is in percent whose first and last amount, and no other unit, are percentages
        elif units[0] == units[-1] == "%" and set(units) == {"%", ""}:
            for place in places:
                if not amounts[place].unit and place[0] not in of_years:
                    amounts[place] = amounts[place]._replace(unit="%")
    return amounts


def _currencies(at: Mapping[tuple[int, int], Cell], amounts: Mapping[tuple[int, int], Amount]) -> dict[int, str]:
    """The currency of each column: its first sign holds for the amounts below; a sign may have a column of its own."""
    found: dict[int, str] = {}
    for (row, col), amount in sorted(amounts.items()):
        before = at.get((row, col - 1))
        sign = amount.unit or (CURRENCIES.get(before.text.strip(), "") if before else "")
        if sign in CURRENCIES.values():
            found.setdefault(col, sign)
    return found


def _period(headers: Sequence[str], stubs: Sequence[str], path: Sequence[str]) -> Period | None:
    """Of the column's header, or a year in the row's labels.

    "Year Ended December 31," may stand over the years, left of them, or above the table.
    """
    said = " ".join(headers)
    found = period_in(said)
    if found and not found.end:
        spans = (f"{span} {found.year}" for span in headers if ENDS_WITH_DAY.search(span))
        whole = map(period_in, (*spans, *(f"{' '.join(stub.split())} {said}" for stub in stubs)))
        return next((period for period in whole if period and period.end), found)
    if found:
        return found
    of_row = next(filter(None, map(period_in, reversed(path))), None)
    if of_row and of_row.kind == "none":
        whole = period_in(f"{said} {of_row.year}")
        return whole if whole and whole.kind == "duration" else of_row
    return of_row


def _period_of_all(stubs: Sequence[str], above: Sequence[str]) -> Period | None:
    """The period of a text that speaks of one year: of the stubs, else of the lines above a table, the nearest first,
    up to and with the first paragraph."""
    nearest = list(reversed(above))
    paragraph = next((at for at, text in enumerate(nearest) if len(text) > TITLE_CHARS), len(nearest))
    for text in (*stubs, *nearest[: paragraph + 1]):
        years = {match["year"] for match in YEAR.finditer(text)}
        if len(years) == 1 and (period := period_in(text)):
            return period
    return None


def _group_periods(above: Sequence[str], columns: Collection[int]) -> dict[int, Period]:
    """Periods of columns by the line above a table that names some for as many groups of columns, all of one width."""
    line = above[-1] if above else ""
    ends = [match.end() for match in YEAR.finditer(line)]
    periods = [period_in(line[start:end]) for start, end in zip([0, *ends], ends, strict=False)]
    if len(line) > TITLE_CHARS or len(periods) < 2 or line[ends[-1] :].strip() or len(columns) % len(periods):
        return {}
    width = len(columns) // len(periods)
    found = {col: periods[at // width] for at, col in enumerate(sorted(columns))}
    return {col: period for col, period in found.items() if period and period.end}


BALANCE = re.compile(r"\b(?:balances?|outstanding|(?:un|non)vested|beginning|ending)\b|잔액|기초|기말", re.IGNORECASE)
WHOLE_YEAR = range(350, 380)
"""Days of a fiscal year of 52 or 53 weeks, or of 12 months."""


def periods_between(labels: Mapping[int, Sequence[str]]) -> dict[int, Period]:
    """The period of each row that stands between two dated balances. labels: the path of each row, by its number."""
    dated = [
        (row, period)
        for row, path in sorted(labels.items())
        if BALANCE.search(said := " ".join(path[-2:]))
        and (period := period_in(said))
        and period.kind == "instant"
        and period.end
    ]
    found: dict[int, Period] = {}
    for (first, opening), (last, closing) in pairwise(dated):
        begin, end = opening.end, closing.end
        if begin and end and begin < end:
            year, days = fiscal_year(end), (end - begin).days
            label = f"FY{year}" if days in WHOLE_YEAR else f"{round(days / 30.4)} months to {end.isoformat()}"
            span = Period(kind="duration", start=begin + timedelta(days=1), end=end, year=year, label=label)
            found |= {row: span for row in labels if first < row < last}
    return found
