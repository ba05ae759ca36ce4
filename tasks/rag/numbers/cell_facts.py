"""Every numeric cell of a document's tables, with what its row, its column and the lines around the table say of it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

from storage.records import Record
from tasks.documents.blocks import BBox, Block, Cell, Page
from tasks.documents.sheets.grid import cell_name
from tasks.language.numbers import CALENDAR, CURRENCIES, Number, Scale, read_numbers, scales
from tasks.rag.numbers.periods import YEAR, Period, period_in

LINES_ABOVE = 3
"""Blocks before a table that may state its unit or its period."""
TITLE_CHARS = 100
"""A longer block above a table is a paragraph."""
MOST_HEADS = 4
"""Headings that a row, and header rows that a column, belongs to at most."""
NIL = frozenset("-–—")
"""What stands for no amount."""
BRACKETED = re.compile(r"[$€£¥₩]?\s?\(\s?[$€£¥₩]?\s?[\d,.]+\s?%?\s?\)?\s?%?")
"""A negative amount; its closing bracket may stand in a column of its own."""
NOTES = re.compile(r"(?<=[\d%)])\s?(?:\(\d{1,2}\)|\([a-z]\)|[*†‡])+$")
"""Footnote marks behind an amount."""
A_NOTE = re.compile(r"\((\d{1,2})\)")
A_UNIT = re.compile(r"\(.*\)")
"""A line in brackets in place of a label: "(in millions)"; it heads no rows."""
PER_SHARE = re.compile(r"\bper\b[^|]{0,40}\bshare|\bper unit\b|주당", re.IGNORECASE)
SHARES = re.compile(
    r"(?:weighted[\s-]average|number of|average|diluted|basic|common)?\s*shares\b|.*주식\s?수", re.IGNORECASE
)
SHARE_OF = re.compile(r"%|\bpercent|비율|률$", re.IGNORECASE)
LARGEST_SHARE = 1_000
"""What is larger stands in a column of amounts, whatever a header near it says of percent."""
COUNTS = re.compile(r"\b(?:number of|employees|stores|customers|units|people|days)\b|인원|건수|\(명\)", re.IGNORECASE)
"""Labels of what is counted and not paid."""
TOTAL = re.compile(r"(?:sub)?total\b|합\s?계|소\s?계|총\s?계|계$", re.IGNORECASE)


LARGEST = 10**24
"""A longer number is an identifier; storage keeps 26 digits before the point."""


class Identity(Record):
    """What a number must be the sum or difference of, and whether it is."""

    kind: Literal["total", "balance sheet", "cash"]
    holds: bool
    """Within the rounding of what is shown."""
    rows: tuple[int, ...]
    """Of the same table."""


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
    statement: Literal["income", "balance", "cash_flow", "equity", "budget", "other"] = "other"
    """What the table is, by the lines that it holds."""


class _Table(NamedTuple):
    """A table that may go on with the next page."""

    block: Block
    above: Sequence[str]
    """The lines above it."""
    page: int
    """Its last."""


class _Amount(NamedTuple):
    value: Decimal
    unit: str
    sign: Literal["parentheses", "minus", "none"]


def cell_facts(pages: Iterable[Page], *, document: str) -> Iterator[CellFact]:
    """The numbers of all tables in reading order; years, dates, counters and footnote marks are none."""
    table = 0
    above: list[str] = []
    last: _Table | None = None
    for page in pages:
        for block in page.blocks:
            if block.cells:
                goes_on = (
                    last is not None and not above and last.page + 1 == page.number and _goes_on(block, last.block)
                )
                last = last if goes_on and last else _Table(block, above[-LINES_ABOVE:], page.number or 0)
                yield from _of_table(block, document, table, last.above, page.number, last.block if goes_on else None)
                last = last._replace(page=page.number or 0)
                table += 1
                above = []
            elif block.kind != "footer" and (block.kind != "header" or _titles_a_statement(block.text)):
                above.append(block.text)


def _titles_a_statement(header: str) -> bool:
    """Whether a line that is repeated on pages says of when, or in what unit, the figures below are."""
    period = period_in(header)
    return bool((period and period.end) or list(scales(header)))


def _goes_on(block: Block, before: Block) -> bool:
    """Whether a table has no header and as many columns as the one that ends the page before."""
    wide = [max(cell.col + cell.col_span for cell in one.cells) for one in (block, before)]
    return wide[0] == wide[1] and not any(cell.header for cell in block.cells)


def _of_table(
    block: Block, document: str, table: int, above: Sequence[str], page: int | None, begun: Block | None
) -> Iterator[CellFact]:
    """begun: the table on an earlier page that this one goes on with; its header is this one's too."""
    heads = [cell for cell in begun.cells if cell.header and cell.col] if begun else []
    before = 1 + max((cell.row for cell in heads), default=-1)
    cells = (
        [*heads, *(cell.model_copy(update={"row": cell.row + before}) for cell in block.cells)]
        if heads
        else block.cells
    )
    at = {
        (row, col): cell
        for cell in cells
        for row in range(cell.row, cell.row + cell.row_span)
        for col in range(cell.col, cell.col + cell.col_span)
    }
    rows: dict[int, list[Cell]] = defaultdict(list)
    for cell in cells:
        rows[cell.row].append(cell)
    amounts = {(cell.row, cell.col): amount for cell in cells if (amount := _amount_in(cell))}
    for place in _no_figures(amounts, at):
        del amounts[place]
    first = min((row for row, _ in amounts), default=0)
    titles = [cell.text for cell in cells if cell.header or cell.row < first]
    stated = [scale for text in (*above, *titles) for scale in scales(text)]
    stubs = [cell.text for cell in cells if cell.header and not cell.col and cell.text.strip()]
    currencies, levels = _currencies(at, amounts), _header_levels(at)
    headers_of = {(row, col): _headers(at, levels, row, col) for row, col in amounts}
    of_all = None
    if not any(period_in(" ".join(headers)) for headers in headers_of.values()):
        of_all = next(filter(None, map(_one_period, (*stubs, *_introduction(above)))), None)
    for (row, col), path in _row_paths(rows, amounts):
        amount = amounts[row, col]
        headers = headers_of[row, col]
        scale = _scale_of(path, headers, amount, stated)
        yield CellFact(
            document=document,
            value=amount.value * scale.factor,
            shown=" ".join(at[row, col].text.split()),
            scale=scale.factor,
            unit=scale.unit or ("" if COUNTS.search(path[-1] if path else "") else currencies.get(col, "")),
            sign=amount.sign,
            period=_period(headers, stubs, path) or of_all,
            row_path=path,
            column_path=headers,
            page=page,
            bbox=at[row, col].bbox,
            cells=cell_name(block.place.cells, row - before, col),
            table=table,
            row=row - before,
            col=col,
        )


def _amount_in(cell: Cell) -> _Amount | None:
    """The one number that a cell behind the first column is; None for words, years and dates."""
    text = NOTES.sub("", " ".join(cell.text.split()))
    if cell.header or not cell.col or YEAR.fullmatch(text):
        return None
    if text.lstrip("$€£¥₩ ") in NIL:
        return _Amount(Decimal(0), CURRENCIES.get(text[0], ""), "none")
    if BRACKETED.fullmatch(text):
        found = _single(text.translate({ord("("): None, ord(")"): None}))
        return found and _Amount(-abs(found.value), found.unit, "parentheses")
    found = _single(text)
    return found and _Amount(found.value, found.unit, "minus" if found.value < 0 else "none")


def _single(text: str) -> Number | None:
    """The number that is all of a text; digits in groups ("13 951") are one."""
    joined = re.sub(r"(?<=\d) (?=\d{3}(?!\d))", ",", text)
    numbers = read_numbers(joined)
    if len(numbers) != 1 or numbers[0].unit in (*CALENDAR, "year") or abs(numbers[0].value) >= LARGEST:
        return None
    rest = joined[: numbers[0].start] + joined[numbers[0].end :]
    return None if any(char.isalnum() for char in rest) else numbers[0]


def _no_figures(
    amounts: Mapping[tuple[int, int], _Amount], at: Mapping[tuple[int, int], Cell]
) -> list[tuple[int, int]]:
    """Places in columns that hold nothing but footnote marks such as (3), or dashes."""
    columns: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for place in amounts:
        columns[place[1]].append(place)
    texts = {place: at[place].text.strip() for place in amounts}
    return [
        place
        for places in columns.values()
        if all(A_NOTE.fullmatch(texts[one]) or texts[one] in NIL for one in places)
        for place in places
    ]


def _currencies(at: Mapping[tuple[int, int], Cell], amounts: Mapping[tuple[int, int], _Amount]) -> dict[int, str]:
    """The currency of each column: its first sign holds for the amounts below; a sign may have a column of its own."""
    found: dict[int, str] = {}
    for (row, col), amount in sorted(amounts.items()):
        before = at.get((row, col - 1))
        sign = amount.unit or (CURRENCIES.get(before.text.strip(), "") if before else "")
        if sign in CURRENCIES.values():
            found.setdefault(col, sign)
    return found


def _row_paths(
    rows: Mapping[int, Sequence[Cell]], amounts: Mapping[tuple[int, int], _Amount]
) -> Iterator[tuple[tuple[int, int], tuple[str, ...]]]:
    """The place of each amount, and its row's path: a row without amounts heads those below, up to its total."""
    heads: list[str] = []
    fresh = False
    for row in sorted(rows):
        cells = sorted(rows[row], key=lambda cell: cell.col)
        label = next((" ".join(c.text.split()) for c in cells if c.text.strip() and (row, c.col) not in amounts), "")
        places = [(row, cell.col) for cell in cells if (row, cell.col) in amounts]
        if not places:
            if label and not cells[0].header and cells[0].text.strip() and not A_UNIT.fullmatch(label):
                heads = [*heads[-MOST_HEADS + 1 :], label] if fresh else [label]
                fresh = True
            continue
        fresh = False
        path = (*(head.rstrip(":") for head in heads), *filter(None, [label]))
        yield from ((place, path) for place in places)
        if TOTAL.match(label):
            heads = []


def _header_levels(at: Mapping[tuple[int, int], Cell]) -> dict[int, dict[int, str]]:
    """Texts of header cells by row and column, behind the first column."""
    levels: dict[int, dict[int, str]] = defaultdict(dict)
    for (row, col), cell in sorted(at.items()):
        if cell.header and col and (text := " ".join(cell.text.split())):
            levels[row][col] = text
    return levels


def _headers(
    at: Mapping[tuple[int, int], Cell], levels: Mapping[int, Mapping[int, str]], row: int, col: int
) -> tuple[str, ...]:
    """Texts of the header above a place; a sign's own column lends its headers to the amounts behind it.

    A header row has one text over several columns where it is not the last: an empty place takes the nearest.
    """
    beside = at.get((row, col - 1))
    first = col - 1 if beside and beside.text.strip() in CURRENCIES else col
    columns = range(first, col + at[row, col].col_span)
    above = [level for level in levels if level < row][-MOST_HEADS:]
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


def _reaches(middle: int, col: int, last: int) -> bool:
    """Whether the one text of a header row stands over a column: it is centred over those that it is for."""
    centred = abs(middle - (1 + last) / 2) <= max(1, last / 5)
    return centred or abs(col - middle) <= min(middle - 1, last - middle)


def _period(headers: Sequence[str], stubs: Sequence[str], path: Sequence[str]) -> Period | None:
    """Of the column's header; "Year Ended December 31," may stand left of the years, and a year in the row's labels."""
    said = " ".join(headers)
    found = period_in(said)
    if found and not found.end:
        whole = (period_in(f"{' '.join(stub.split())} {said}") for stub in stubs)
        return next((period for period in whole if period and period.end), found)
    return found or next(filter(None, map(period_in, reversed(path))), None)


def _introduction(above: Sequence[str]) -> Iterator[str]:
    """The lines directly above a table, the nearest first, up to and with the first paragraph."""
    for text in reversed(above):
        yield text
        if len(text) > TITLE_CHARS:
            return


def _one_period(text: str) -> Period | None:
    """The period that a text speaks of, if it speaks of one year."""
    years = {match["year"] for match in YEAR.finditer(text)}
    return period_in(text) if len(years) == 1 else None


def _scale_of(path: Sequence[str], headers: Sequence[str], amount: _Amount, stated: Sequence[Scale]) -> Scale:
    """The factor and the unit of an amount, from what stands nearest: itself, its row, its column, above the table."""
    if amount.unit and amount.unit not in CURRENCIES.values():
        return Scale(Decimal(1), amount.unit)
    label = path[-1] if path else ""
    own = [scale for text in (" | ".join(path), " | ".join(headers)) for scale in scales(text)]
    nearest = next(iter((*own, *stated)), Scale(Decimal(1), ""))
    if SHARES.match(label) and not amount.unit:
        return Scale(nearest.factor, "shares")
    if PER_SHARE.search(label):
        return Scale(Decimal(1), amount.unit or next((scale.unit for scale in stated if scale.unit), ""))
    if SHARE_OF.search(" | ".join((label, *headers))) and not amount.unit and abs(amount.value) < LARGEST_SHARE:
        return Scale(Decimal(1), "%")
    return Scale(nearest.factor, amount.unit or nearest.unit)
