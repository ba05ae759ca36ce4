"""Every numeric cell of a document's tables, with what its row, its column and the lines around the table say of it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import chain, pairwise
from typing import Literal, NamedTuple
from unicodedata import normalize

from storage.records import Record
from tasks.documents.blocks import BBox, Block, Cell, Page
from tasks.documents.sheets.grid import cell_name
from tasks.language.marks import drop_marks, mark_of_note
from tasks.language.number_words import CURRENCY
from tasks.language.scales import Scale, currency_of, read_scales
from tasks.rag.numbers.cell_spelling import NOTES_HEADER, Decimals, find_decimals, spell_cells
from tasks.rag.numbers.periods import YEAR, Period, find_period, fiscal_year
from tasks.rag.numbers.row_paths import (
    A_NOTE,
    AMOUNTS,
    COUNTS,
    NIL,
    OF_SHARES,
    SHARES,
    SHARES_IN,
    UNIT_HEADER,
    Amount,
    collect_headers,
    find_headers,
    find_scale,
    mark_header_rows,
    read_amount,
    read_unit,
    row_paths,
    sign_of,
)

LINES_ABOVE = 3
"""Number of blocks before a table that may state its unit or its period."""
ENDS_WITH_DAY = re.compile(r"\b[A-Z][a-z]+\.? \d{1,2},?$")
"""A day without its year ("Year ended December 31,"), whose year stands over each column."""
ALIGNED = 6.0
"""Most points by which the right edges of a column differ between the parts of a table."""
INTRODUCES = re.compile(r"\b(?:following|below|tables?)\b|다음|아래", re.IGNORECASE)
"""Words of a line above a table that say that a new table begins."""
IN_YEARS = re.compile(r"\byears\b", re.IGNORECASE)
"""Label of a row of lives or terms, whose amounts are years even in a column of percentages."""
A_TEN = re.compile(r"10[⁰²³⁴-⁹]{1,2}")
TITLE_CHARS = 100
"""A longer block above a table is a paragraph."""
CELL_DIGITS = 16
"""Number of digits of a document's digest in the name of a cell."""


IdentityKind = Literal["total", "balance sheet", "cash", "columns", "spelling"]
"""`spelling`: nothing says whether a point or a comma parts thousands or decimals, as in 1.234."""


class Identity(Record):
    """The numbers that a number must be the sum or difference of, and whether it is."""

    kind: IdentityKind
    holds: bool
    """Whether they give the number, within the rounding of what the table shows."""
    rows: tuple[int, ...]
    """Rows of the numbers that give it."""
    cols: tuple[int, ...] = ()
    """Columns of these numbers where they stand in the number's own row."""
    table: int | None = None
    """The table of these rows where it is not the number's own."""
    expected: Decimal | None = None
    """What these numbers give, in whole units, where the number is another."""


class CellFact(Record):
    """A number of a table with what its row, its column and its table say of it."""

    document: str
    """SHA-256 of the document's bytes, hex."""
    value: Decimal
    """The number in whole units: 4,822 of a table in millions is 4822000000, (868) is negative, a dash is 0."""
    shown: str
    """The number as it is printed in the cell."""
    scale: Decimal
    """The factor between `shown` and `value`."""
    unit: str
    """`USD`, `KRW`, `%`, `shares` …; empty where nothing tells."""
    sign: Literal["parentheses", "minus", "none"]
    period: Period | None
    row_path: tuple[str, ...]
    """The headings above that the row belongs to, from the outermost, and its own label."""
    column_path: tuple[str, ...]
    """The headers above the cell, from the outermost."""
    page: int | None
    bbox: BBox | None = None
    """The rectangle of the cell on its page."""
    cells: str | None = None
    """Name of the cell in a spreadsheet: `Sheet '예산', C5`."""
    table: int
    """0-based among the tables of the document."""
    row: int
    col: int
    identities: tuple[Identity, ...] = ()
    doubt: str = ""
    """What the first identity that it breaks says against it: `the rows above give 530`."""
    statement: Literal["income", "balance", "cash_flow", "equity", "budget", "other"] = "other"
    """The statement that the table is, by the lines that it holds."""


class TextCell(Record):
    """A cell of a table that holds no number: a label, a name, a year, a date …; readers of questions need them."""

    document: str
    """SHA-256 of the document's bytes, hex."""
    shown: str
    """The text of the cell."""
    period: Period | None
    row_path: tuple[str, ...]
    """The headings above that the row belongs to, from the outermost, and its own label."""
    column_path: tuple[str, ...]
    """The headers above the cell, from the outermost."""
    page: int | None
    bbox: BBox | None = None
    """The rectangle of the cell on its page."""
    cells: str | None = None
    """Name of the cell in a spreadsheet."""
    table: int
    """0-based among the tables of the document."""
    row: int
    col: int


def name_of_cell(document: str, *, table: int, row: int, col: int) -> str:
    """Return the name of a cell as `trivet why` takes it, `DIGEST:TABLE:ROW:COLUMN`; document: its digest."""
    return f"{document[:CELL_DIGITS]}:{table}:{row}:{col}"


class _Table(NamedTuple):
    """A table that may go on with the next page."""

    block: Block
    above: Sequence[str]
    """The lines above its first part."""
    page: int
    """The last page that it stands on."""
    part: Block
    """Part of the table on its last page."""


def cell_facts(pages: Iterable[Page], *, document: str) -> Iterator[CellFact]:
    """Yield the numbers of all tables in reading order, without years, dates, counters and footnote marks."""
    return (cell for cell in read_cells(pages, document=document) if isinstance(cell, CellFact))


def read_cells(pages: Iterable[Page], *, document: str) -> Iterator[CellFact | TextCell]:
    """Yield, table by table, the cells that hold a text and head no column: the numbers, then all others."""
    table = 0
    above: list[str] = []
    last: _Table | None = None
    pages = list(map(drop_page_marks, pages))
    decimals = find_decimals(block for page in pages for block in page.blocks)
    for page in pages:
        for at, block in enumerate(page.blocks):
            if block.cells:
                goes_on = last is not None and _continues_table(block, above, page.number or 0, last)
                heads = [line for line in above if len(line) < TITLE_CHARS] if goes_on else []
                last = last if goes_on and last else _Table(block, above[-LINES_ABOVE:], page.number or 0, block)
                continued = last.block if goes_on else None
                below = _find_scales_below(page.blocks[at + 1 :])
                part = _Part(block, continued, last.above, heads, below, decimals)
                facts = list(_read_table(part, document, table, page.number))
                yield from facts
                yield from _read_texts(part, facts, document, table, page.number)
                last = last._replace(page=page.number or 0, part=block)
                table += 1
                above = [] if facts else above  # a table of words alone is a header that was read apart
            elif block.kind == "header":
                # a line that is repeated on pages may say of when, or in what unit, the values below are
                period = find_period(block.text)
                above += [block.text] if (period and period.end) or read_scales(block.text) else []
            elif block.kind != "footer":
                above.append(block.text)


def drop_page_marks(page: Page) -> Page:
    """Return a page without the marks of its notes; 10³ is a 10 with a mark where the page has a note 3."""
    blocks: list[Block] = []
    notes = {mark_of_note(line) for block in page.blocks if not block.cells for line in block.text.splitlines()}
    for block in page.blocks:
        texts = [drop_marks(cell.text) for cell in block.cells]
        texts = ["10" if A_TEN.fullmatch(text) and normalize("NFKC", text[2:]) in notes else text for text in texts]
        plain = (cell.model_copy(update={"text": text}) for cell, text in zip(block.cells, texts, strict=True))
        blocks.append(block.model_copy(update={"text": drop_marks(block.text), "cells": tuple(plain)}))
    return page.model_copy(update={"blocks": tuple(blocks)})


def _continues_table(block: Block, between: Sequence[str], page: int, last: _Table) -> bool:
    """Return whether a table without a header continues the last one: at the top of the next page, or below headings.

    It must have as many columns, and on the same page they must end where those of the table above do.
    """
    if any(cell.header for cell in block.cells) or _count_columns(block) != _count_columns(last.part):
        return False
    # the right edges of the columns behind the first, in points (amounts are set flush right); none without boxes
    edges: list[list[float]] = []
    for part in (block, last.part):
        rights: dict[int, float] = {}
        for cell in part.cells:
            if cell.bbox and cell.col and cell.text.strip() and not cell.header:
                col = cell.col + cell.col_span - 1
                rights[col] = max(rights.get(col, 0), cell.bbox[2])
        edges.append([rights[col] for col in sorted(rights)] if len(rights) == _count_columns(part) - 1 else [])
    aligned = all(edges) and all(abs(edge - edge_above) <= ALIGNED for edge, edge_above in zip(*edges, strict=True))
    if not between:
        return last.page + 1 == page or (last.page == page and aligned)
    return aligned and last.page == page and len(between) <= LINES_ABOVE and not any(map(INTRODUCES.search, between))


def _count_columns(block: Block) -> int:
    return max(cell.col + cell.col_span for cell in block.cells)


ABOVE = re.compile(
    r"\b(?:tables?|amounts|figures)\s(?:\w+\s)?above\b|\b(?:above|preceding)\s(?:tables?|amounts|figures)\b"
    r"|(?:상기|위)\s?(?:의\s)?(?:표|금액)",
    re.IGNORECASE,
)
"""Words of a line behind a table that say that it is about that table."""
LINES_BELOW = 2


def _find_scales_below(blocks: Sequence[Block]) -> tuple[Scale, ...]:
    """Return the units of the first of two lines below a table that states any, unless it leads to the next table."""
    below = [block for block in blocks if block.kind not in ("header", "footer")]
    for at, block in enumerate(below[:LINES_BELOW]):
        if block.cells or block.kind == "heading":
            break
        leads = any(next_block.cells for next_block in below[at + 1 : at + 2])
        if (scales := read_scales(block.text)) and (ABOVE.search(block.text) or not leads):
            return scales
    return ()


class _Part(NamedTuple):
    """A table or a part of one, with what else says something of its numbers."""

    block: Block
    continued: Block | None
    """The table that this one continues, and whose header is this one's too."""
    above: Sequence[str]
    headings: Sequence[str]
    """The lines between that table and this one."""
    below: Sequence[Scale]
    """Units that the lines below it state."""
    decimals: Decimals
    """The sign before the decimals in all of the document."""


def _read_table(part: _Part, document: str, table: int, page: int | None) -> Iterator[CellFact]:
    """Yield the numbers of one table, by row and column; table: its 0-based number in the document."""
    block, above = part.block, part.above
    spelt = spell_cells(block.cells, part.decimals)
    cells, before = _prepend_header(spelt.cells, part.continued)
    shown = {(cell.row + before, cell.col): cell.text for cell in block.cells}
    grid, rows = _lay_out(cells)
    amounts = _find_amounts(cells, grid)
    first, last = min((row for row, _ in amounts), default=0), max((row for row, _ in amounts), default=0)
    # a unit that stands below the last amount is not that of this table
    heads = [cell for cell in cells if (cell.header and cell.row <= last) or cell.row < first]
    titles = [cell.text for cell in heads if not _is_of_one_column(cell, heads)]
    # the nearest first: the rows of the table's head, the lines above it, those below it
    lines_above = (line for line in reversed(above) if part.continued or not ABOVE.search(line))
    texts = (*reversed(titles), *lines_above)
    scales = [read for text in texts if (read := read_scales(text))]
    stated = [*chain.from_iterable(scales), *part.below]
    stubs = [cell.text for cell in cells if cell.header and not cell.col and cell.text.strip()]
    days = [line for line in above if len(line) < TITLE_CHARS and ENDS_WITH_DAY.search(line)]
    levels = collect_headers(grid)
    filled = {row for row, _ in amounts}
    headers_of = {(row, col): find_headers(grid, levels, filled, row, col) for row, col in amounts}
    currencies = _find_currencies(grid, amounts, headers_of)
    dated = any(find_period(" ".join(headers)) for headers in headers_of.values())
    table_period = None if dated else _find_table_period(stubs, above)
    paths = row_paths(rows, {place: amount.value for place, amount in amounts.items()}, part.headings)
    # "shares in thousands" above a table is for all of it, in a note in millions too, unless a row says that it counts
    is_said = bool(scales) and all(scale.unit == OF_SHARES and scale.factor > 1 for scale in scales[0])
    of_shares = is_said and not any(SHARES.match(path[-1]) for path in paths.values() if path)
    between = periods_between({row: paths[row] for row, _ in amounts})
    groups = {} if dated else _find_group_periods(above, {col for _, col in amounts})
    unit_cols = {cell.col for cell in cells if cell.header and cell.col and UNIT_HEADER.fullmatch(cell.text.strip())}
    # a list of as many units as there are columns, none of them of shares, names that of each
    columns = [] if dated else sorted({col for _, col in amounts})
    lists = (read for read in (*scales, part.below) if SHARES_IN.isdisjoint(scale.unit for scale in read))
    by_column = dict(zip(columns, next((read for read in lists if len(read) == len(columns) > 1), ()), strict=False))
    for (row, col), amount in sorted(amounts.items()):
        path = paths[row]
        headers = headers_of[row, col]
        units = [
            scale
            for c in unit_cols
            if (row, c) in grid and (row, c) not in amounts
            for scale in read_unit(grid[row, c].text)
        ] or [unit for c, unit in by_column.items() if c == col]
        scale = find_scale(path, headers, amount, scales[0] if of_shares and col not in currencies else stated, units)
        value, other = amount.value * scale.factor, spelt.other_values.get((row - before, col))
        doubt = (other or 0) * (-scale.factor if value < 0 else scale.factor)
        yield CellFact(
            document=document,
            value=value,
            shown=" ".join(shown.get((row, col), grid[row, col].text).split()),
            scale=scale.factor,
            unit=scale.unit or ("" if COUNTS.search(path[-1] if path else "") else currencies.get(col, "")),
            sign=amount.sign,
            # what stands nearest wins: header or label, group of columns, dated balances around, the whole table
            period=_find_period(headers, (*stubs, *days), path) or groups.get(col) or between.get(row) or table_period,
            row_path=path,
            column_path=headers,
            page=page,
            bbox=grid[row, col].bbox,
            cells=cell_name(block.place.cells, row - before, col),
            table=table,
            row=row - before,  # in the document's own count, without the header that was put above
            col=col,
            identities=(Identity(kind="spelling", holds=False, rows=(row - before,), expected=doubt),) if other else (),
        )


def _read_texts(
    part: _Part, facts: Sequence[CellFact], document: str, table: int, page: int | None
) -> Iterator[TextCell]:
    """Yield the cells of a table that hold words, years or dates, by row and column, without headers of columns.

    Numbers (`facts`) are left out too; a row without any is named by its first text.
    """
    cells, before = _prepend_header(part.block.cells, part.continued)
    grid, rows = _lay_out(cells)
    by_row = {fact.row + before: fact for fact in reversed(facts)}
    taken = {(fact.row + before, fact.col): fact.value / fact.scale for fact in facts}
    paths = row_paths(rows, taken, part.headings)
    levels = collect_headers(grid)
    stub = tuple(dict.fromkeys(" ".join(cell.text.split()) for cell in cells if cell.header and not cell.col))
    for cell in sorted(cells, key=lambda cell: (cell.row, cell.col)):
        text = " ".join(cell.text.split())
        if not text or (cell.row, cell.col) in taken or (cell.header and cell.col) or cell.row in levels:
            continue
        fact = by_row.get(cell.row)
        yield TextCell(
            document=document,
            shown=text,
            period=find_period(text) or (fact.period if fact and not cell.col else None),
            row_path=paths.get(cell.row, ()),
            column_path=find_headers(grid, levels, set(by_row), cell.row, cell.col) if cell.col else stub,
            page=page,
            bbox=cell.bbox,
            cells=cell_name(part.block.place.cells, cell.row - before, cell.col),
            table=table,
            row=cell.row - before,
            col=cell.col,
        )


def _lay_out(cells: Sequence[Cell]) -> tuple[dict[tuple[int, int], Cell], dict[int, list[Cell]]]:
    """Return the cell that covers each (row, column), and the cells that begin in each row."""
    grid, rows = dict[tuple[int, int], Cell](), defaultdict[int, list[Cell]](list)
    for cell in cells:
        rows[cell.row].append(cell)
        for row in range(cell.row, cell.row + cell.row_span):
            grid |= {(row, col): cell for col in range(cell.col, cell.col + cell.col_span)}
    return grid, rows


def _is_of_one_column(cell: Cell, heads: Sequence[Cell]) -> bool:
    """Return whether a header is of its own column alone: "Shares (in 000's)" beside "Price", and not beside a year."""
    row = [head for head in heads if head.row == cell.row and head.col and head.text.strip()]
    return bool(cell.col) and cell.col_span == 1 and len(row) > 1 and not any(find_period(head.text) for head in row)


def _prepend_header(cells: Sequence[Cell], continued: Block | None) -> tuple[Sequence[Cell], int]:
    """Put the header of the table that a table continues above its cells; also return how many rows it has, or 0."""
    heads = [cell for cell in continued.cells if cell.header and cell.col] if continued else []
    if not heads:
        return mark_header_rows(cells), 0
    before = 1 + max(cell.row for cell in heads)
    moved = (cell.model_copy(update={"row": cell.row + before}) for cell in cells)
    return mark_header_rows([*heads, *moved]), before


def _find_amounts(cells: Sequence[Cell], grid: Mapping[tuple[int, int], Cell]) -> dict[tuple[int, int], Amount]:
    """Return the amounts by row and column, without columns of notes or dashes; a column's percent is each cell's."""
    notes = {cell.col for cell in cells if cell.header and NOTES_HEADER.fullmatch(cell.text.strip())}
    amounts = {
        (cell.row, cell.col): amount for cell in cells if cell.col not in notes and (amount := read_amount(cell))
    }
    columns: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for place in sorted(amounts):
        columns[place[1]].append(place)
    of_years = {row for (row, col), cell in grid.items() if not col and IN_YEARS.search(cell.text)}
    for places in columns.values():
        texts = [grid[place].text.strip() for place in places]
        units = [amounts[place].unit for place in places]
        # a column that holds nothing but footnote marks such as (3), or dashes, is none of amounts
        if all(A_NOTE.fullmatch(text) or ((nil := NIL.fullmatch(text)) and not nil["before"]) for text in texts):
            for place in places:
                del amounts[place]
        # all of a column is in percent whose first and last amount, and no other unit, are percentages
        elif units[0] == units[-1] == "%" and set(units) == {"%", ""}:
            for place in places:
                if not amounts[place].unit and place[0] not in of_years:
                    amounts[place] = amounts[place]._replace(unit="%")
    return amounts


HEADER_CURRENCY = re.compile(rf"(?:.*[(\s])?(?P<mark>{CURRENCY})\)?")


def _find_currencies(
    grid: Mapping[tuple[int, int], Cell],
    amounts: Mapping[tuple[int, int], Amount],
    headers_of: Mapping[tuple[int, int], Sequence[str]],
) -> dict[int, str]:
    """Return each column's currency, if any: of its first sign, in a cell or left of it, else that of its headers."""
    currencies: dict[int, str] = {}
    for (row, col), amount in sorted(amounts.items()):
        before = grid.get((row, col - 1))
        sign = amount.unit or (sign_of(before) if before else "")
        if sign in AMOUNTS:
            currencies.setdefault(col, sign)
    for place, headers in headers_of.items():
        if mark := next(filter(None, map(HEADER_CURRENCY.fullmatch, headers)), None):
            currencies.setdefault(place[1], currency_of(mark["mark"]))
    return currencies


def _find_period(headers: Sequence[str], stubs: Sequence[str], path: Sequence[str]) -> Period | None:
    """Return the period of a number: that of its column's header, else a year in its row's labels, else None.

    "Year Ended December 31," may stand over the years, left of them, or above the table.
    """
    header = " ".join(headers)
    of_header = find_period(header)
    if of_header and not of_header.end:
        spans = (f"{span} {of_header.year}" for span in headers if ENDS_WITH_DAY.search(span))
        whole = map(find_period, (*spans, *(f"{' '.join(stub.split())} {header}" for stub in stubs)))
        return next((period for period in whole if period and period.end), of_header)
    if of_header:
        return of_header
    of_row = next(filter(None, map(find_period, reversed(path))), None)
    if of_row and of_row.kind == "none":
        whole = find_period(f"{header} {of_row.year}")
        return whole if whole and whole.kind == "duration" else of_row
    return of_row


def _find_table_period(stubs: Sequence[str], above: Sequence[str]) -> Period | None:
    """Return the period of a whole table: that of the first text that names one year alone; None without one.

    The stubs come first, then the lines above the table, the nearest first, up to and with the first paragraph.
    """
    nearest = list(reversed(above))
    paragraph = next((at for at, text in enumerate(nearest) if len(text) > TITLE_CHARS), len(nearest))
    for text in (*stubs, *nearest[: paragraph + 1]):
        years = {match["year"] for match in YEAR.finditer(text)}
        if len(years) == 1 and (period := find_period(text)):
            return period
    return None


def _find_group_periods(above: Sequence[str], columns: Collection[int]) -> dict[int, Period]:
    """Return each column's period, from a line above the table with one for each of its equal groups; else {}."""
    line = above[-1] if above else ""
    ends = [match.end() for match in YEAR.finditer(line)]
    periods = [find_period(line[start:end]) for start, end in zip([0, *ends], ends, strict=False)]
    if len(line) > TITLE_CHARS or len(periods) < 2 or line[ends[-1] :].strip() or len(columns) % len(periods):
        return {}
    width = len(columns) // len(periods)
    by_column = {col: periods[at // width] for at, col in enumerate(sorted(columns))}
    return {col: period for col, period in by_column.items() if period and period.end}


BALANCE = re.compile(r"\b(?:balances?|outstanding|(?:un|non)vested|beginning|ending)\b|잔액|기초|기말", re.IGNORECASE)
WHOLE_YEAR = range(350, 380)
"""Lengths in days of a fiscal year of 52 or 53 weeks, or of 12 months."""


def periods_between(labels: Mapping[int, Sequence[str]]) -> dict[int, Period]:
    """Return the period of each row that stands between two dated balances; labels: the path of each row."""
    dated: list[tuple[int, Period]] = []
    for row, path in sorted(labels.items()):
        row_label = " ".join(path[-2:])
        period = find_period(row_label) if BALANCE.search(row_label) else None
        if period and period.kind == "instant" and period.end:
            dated.append((row, period))
    by_row: dict[int, Period] = {}
    for (first, opening), (last, closing) in pairwise(dated):
        begin, end = opening.end, closing.end
        if begin and end and begin < end:
            year, days = fiscal_year(end), (end - begin).days
            label = f"FY{year}" if days in WHOLE_YEAR else f"{round(days / 30.4)} months to {end.isoformat()}"
            span = Period(kind="duration", start=begin + timedelta(days=1), end=end, year=year, label=label)
            by_row |= {row: span for row in labels if first < row < last}
    return by_row
