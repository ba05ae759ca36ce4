"""Reads the amounts of a table with scale and unit, and the path of each row: its headings and its own label."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import takewhile
from statistics import pstdev
from typing import Literal, NamedTuple

from tasks.documents.blocks import Cell
from tasks.language.marks import drop_marks
from tasks.language.number_words import CURRENCY, OTHER_DOLLARS, PLAIN_SIGNS, SCALE_WORDS
from tasks.language.numbers import CALENDAR, CURRENCIES, Number, read_numbers, written_value
from tasks.language.scales import SHARES as OF_SHARES
from tasks.language.scales import Scale, currency_of, is_scale, name_unit, read_scales
from tasks.rag.numbers.concepts import words_of
from tasks.rag.numbers.periods import YEAR, find_period

NIL = re.compile(
    rf"(?P<before>{CURRENCY})?\s?(?:[-–—−―─]{{1,3}}|nil)\s?(?P<percent>%)?(?P<after>{CURRENCY})?", re.IGNORECASE
)
"""Signs and the word that stand for no amount, with its currency."""
AMOUNTS = frozenset(CURRENCIES.values())
DURATION = re.compile(r"(?:in )?\(?(?:in )?(?P<unit>years|months|days)\)?", re.IGNORECASE)
"""Header of a column of lives or terms."""
_SCALED = "|".join(sorted(SCALE_WORDS, key=len, reverse=True))
BRACKETED = re.compile(
    rf"(?:{CURRENCY})?\s?\(\s?(?:{CURRENCY})?\s?[\d,.' ]+\s?(?:{_SCALED}|)\s?%?\s?\)?\s?"
    rf"(?:%|{_SCALED}|{CURRENCY})?",
    re.IGNORECASE,
)
"""A negative amount; its closing bracket may stand in a column of its own."""
NOTES = re.compile(r"(?<=[\d%)])\s?(?:\(\d{1,2}\)|\([a-z]\)|[*†‡])+$")
"""Footnote marks behind an amount."""
OF_A_NOTICE = re.compile(r"^(?:일\s?)?금\s?(?=\d)|\s?\((?:부가(?:가치)?세|VAT)[^()]*\)$", re.IGNORECASE)
"""Words that a request for proposals writes around an amount: 금 728,000,000원 (부가가치세 포함)."""
A_NOTE = re.compile(r"\((\d{1,2})\)")  # a footnote mark, or -3: the whole column decides (`_find_amounts`)
PART_OF_DATE = re.compile(r"\d{1,2},")
"""A day whose month stands above it and whose year below."""
PER_SHARE = re.compile(r"\bper\b[^|]{0,40}\bshare|\bper unit\b|주당", re.IGNORECASE)
A_RATE = re.compile(r"\(\D?\d[^)]*\)")
"""A rate that a label adds in brackets: "Dividends declared ($1.82 per share)"."""
SHARES = re.compile(
    r"(?:(?:weighted|average|number|of|diluted|basic|common|ordinary|total)[\s-]+)*shares\b|.*주식\s?수", re.IGNORECASE
)
BASIC = re.compile(r"(?:basic|diluted)\b|기본|희석", re.IGNORECASE)
"""Labels below a heading that says what they are of: earnings per share, or shares."""
CENTS = -2
"""Exponent of an amount that is shown with two decimals."""
SHARE_OF = re.compile(r"%|\bpercent|(?<!환)[률율](?!\s?[^\s(])", re.IGNORECASE)
LISTED_SHARE = re.compile(r"비중|구성비|\b(?:share|margin)\b", re.IGNORECASE)
"""Labels of shares where a list of units names one for them."""
SHARES_IN = frozenset({"%", "배"})
LARGEST_SHARE = 1_000
"""A number from here on is no percentage, whatever a header near it says."""
COUNTED = re.compile(
    r"(?:number of|no\. of) .*|(?:(?:total|average|full-time) )*(?:employees|headcount|staff)"
    r"|(?:(?:total|company|owned|leased|retail|open)[\s-]+)*"
    r"(?:stores|shops|restaurants|locations|outlets|plants|warehouses|branches)"
    r"|(?:.*\s)?(?:인원|(?:임?직원|종업원|고객|회원)\s?수|건수)|(?:매장|점포|지점)(?:\s?수)?",
    re.IGNORECASE,
)
"""Labels of people and places, which are counted one by one, whatever a table says of its amounts."""
COUNTS = re.compile(r"\b(?:number of|employees|stores|customers|units|people|days)\b|인원|건수|\(명\)", re.IGNORECASE)
"""Labels of counts, which have no currency."""
LARGEST = 10**24
"""A longer number is an identifier; storage keeps 26 digits before the point."""


class Amount(NamedTuple):
    """A number as a cell shows it, before its scale."""

    value: Decimal
    unit: str
    sign: Literal["parentheses", "minus", "none"]
    scaled: bool = False
    """Whether the cell names its own scale: 1조, $5.2m."""


def read_amount(cell: Cell) -> Amount | None:
    """Read the one number of a cell behind the first column, a dash as 0; None for headers, words, years and dates."""
    text = NOTES.sub("", OF_A_NOTICE.sub("", " ".join(drop_marks(cell.text).translate(PLAIN_SIGNS).split())))
    if cell.header or not cell.col or YEAR.fullmatch(text) or PART_OF_DATE.fullmatch(text):
        return None
    if nil := NIL.fullmatch(text):
        return Amount(Decimal(0), nil["percent"] or currency_of(nil["before"] or nil["after"]), "none")
    bracketed = BRACKETED.fullmatch(text)
    number = _read_single(text.translate({ord("("): None, ord(")"): None}) if bracketed else text)
    if number is None or is_scale(text):
        return None
    scaled = abs(number.value) != (written_value(number) or 0)
    if bracketed:
        return Amount(-abs(number.value), number.unit, "parentheses", scaled)
    return Amount(number.value, number.unit, "minus" if number.value < 0 else "none", scaled)


def _read_single(text: str) -> Number | None:
    """Read the number that is all of a text, also in groups of digits ("13 951"); None for dates and other texts."""
    joined = re.sub(r"(?<=\d) (?=\d{3}(?!\d))", ",", text)
    numbers = read_numbers(joined)
    if len(numbers) != 1 or numbers[0].unit in (*CALENDAR, "year") or abs(numbers[0].value) >= LARGEST:
        return None
    rest = joined[: numbers[0].start] + joined[numbers[0].end :]
    return None if any(char.isalnum() for char in rest) else numbers[0]


def find_scale(
    path: Sequence[str], headers: Sequence[str], amount: Amount, stated: Sequence[Scale], unit: Sequence[Scale] = ()
) -> Scale:
    """Return factor and unit of an amount from the nearest text that states them; 1 and no unit where none does.

    The order is: the cell itself, its row with the unit that stands there (`unit`), its column, the lines around the
    table (`stated`). Percentages, amounts per share and those that name their own scale have factor 1 in any table.
    """
    if amount.unit and amount.unit not in (*AMOUNTS, *SCALE_WORDS):  # 5 % of a table in thousands is 5 %
        return Scale(Decimal(1), amount.unit)
    label = path[-1] if path else ""
    own = [*unit, *(scale for text in (" | ".join(path), " | ".join(headers)) for scale in read_scales(text))]
    if headers and not amount.unit and (duration := DURATION.fullmatch(headers[-1])):
        return Scale(Decimal(1), duration["unit"].lower())
    if own and own[0].unit not in ("", *AMOUNTS) and not amount.unit:
        return own[0]
    if amount.unit in SCALE_WORDS and (
        money := next((scale.unit for scale in (*own, *stated) if scale.unit in AMOUNTS), "")
    ):
        return Scale(SCALE_WORDS[amount.unit], money)  # 5.2m is of metres without a currency
    of_money = [scale for scale in (*own, *stated) if scale.unit in ("", *AMOUNTS)]
    nearest = next(iter(of_money or (() if amount.unit else (*own, *stated))), Scale(Decimal(1), ""))
    # whether the row or the column counts shares; "Basic" does below "Weighted-average shares"
    basic = len(path) > 1 and BASIC.match(path[-1]) and SHARES.match(path[-2])
    if (basic or any(map(SHARES.match, (*path[-1:], *headers[-1:])))) and not amount.unit:
        factor = next((scale.factor for scale in (*own, *stated) if scale.unit == OF_SHARES), nearest.factor)
        return Scale(Decimal(1) if amount.scaled else factor, OF_SHARES)
    # what is counted: in the unit of the list that is no currency, else one by one
    if not own and not amount.unit and any(map(COUNTED.fullmatch, map(str.strip, (label, *headers[-1:])))):
        no_counts = "", OF_SHARES, *SHARES_IN, *AMOUNTS
        return next((scale for scale in stated if scale.unit not in no_counts), Scale(Decimal(1), ""))
    # a heading or a header may say "per share" of "Basic", and of what is shown to the cent;
    # net income stands under "Earnings per share" too, where it is worked out
    exponent = amount.value.as_tuple().exponent  # a letter for NaN, else an int
    may_be_per_share = (isinstance(exponent, int) and exponent <= CENTS) or any(map(BASIC.match, path[-1:]))
    is_per_share = may_be_per_share and any(map(PER_SHARE.search, (*path[-2:-1], *headers)))
    if PER_SHARE.search(A_RATE.sub("", label)) or is_per_share:
        return Scale(Decimal(1), amount.unit or next((scale.unit for scale in of_money if scale.unit), ""))
    share = next((scale for scale in stated if scale.unit in SHARES_IN), None)
    is_share = any(SHARE_OF.search(text) or (share and LISTED_SHARE.search(text)) for text in (label, *headers))
    if (is_share or any(map(SHARE_OF.fullmatch, path))) and not amount.unit and abs(amount.value) < LARGEST_SHARE:
        return share or Scale(Decimal(1), "%")
    # a mere $ of a table in Canadian dollars is one of Canada
    named = nearest.unit if amount.unit == "USD" and nearest.unit in OTHER_DOLLARS else amount.unit or nearest.unit
    return Scale(Decimal(1) if amount.scaled else nearest.factor, named)


UNIT_HEADER = re.compile(r"(?:measuring |reporting )?units?(?: of .*)?|단\s?위", re.IGNORECASE)


def sign_of(cell: Cell) -> str:
    """Return the currency whose sign a cell holds, and nothing else; empty for a label such as `Mexican peso`."""
    return currency_of(cell.text) if re.fullmatch(CURRENCY, cell.text.strip()) else ""


def read_unit(text: str) -> tuple[Scale, ...]:
    """Return the unit that a cell of a column of units states: `백만원`, `$m`, `%`, `tonnes`."""
    word = text.strip()
    named = (Scale(Decimal(1), name_unit(word) or word),) if word and len(word) < MOST_UNIT_CHARS else ()
    return read_scales(text) or named


MOST_UNIT_CHARS = 16
MOST_HEADS = 4
"""Most headings that a row belongs to."""
TOTAL = re.compile(r"(?:sub)?total\b|합\s?계|소\s?계|총\s?계|계$", re.IGNORECASE)


Depth = tuple[int, float]
"""Column of a label among those of labels, and how far it is set in there; a row belongs to the last less deep one."""


class _Row(NamedTuple):
    number: int
    label: str
    depth: Depth
    leads: tuple[tuple[Depth, str], ...]
    """Depth and text of the labels to the left of `label`, where several columns hold labels."""
    has_amounts: bool
    heads: bool
    """Whether it is a heading of the rows below: it has no amounts, and no other texts."""
    has_parts: bool = True
    """Whether rows below that are set in further belong to it."""


def row_paths(
    rows: Mapping[int, Sequence[Cell]], amounts: Mapping[tuple[int, int], Decimal], headings: Sequence[str]
) -> dict[int, tuple[str, ...]]:
    """Return the path of each row that is no header: the last four of `headings` and rows above it, and its label.

    It belongs to the row above that is set in less; a row without amounts heads those below it that are not, too.
    """
    stub = find_stub(rows, amounts)
    read = _read_rows(rows, amounts, stub)
    return dict(_nest(_join_labels(read) if len(stub) == 1 else read, headings))


def _read_rows(
    rows: Mapping[int, Sequence[Cell]], amounts: Mapping[tuple[int, int], Decimal], stub: Sequence[int]
) -> list[_Row]:
    """Return the rows of a table without those that name columns."""
    sorted_rows = {number: sorted(rows[number], key=lambda cell: cell.col) for number in sorted(rows)}
    body = {number: cells for number, cells in sorted_rows.items() if not cells[0].header}
    labels = [cell for cells in body.values() for cell in cells if cell.col in stub and cell.text.strip()]
    insets = _find_insets(labels) if len(stub) == 1 else {}
    read: list[_Row] = []
    for number, cells in body.items():
        texts = [cell for cell in cells if (number, cell.col) not in amounts and cell.text.strip()]
        own = [cell for cell in texts if cell.col in stub] or texts[:1]
        placed = [((cell.col, insets.get((number, cell.col), 0.0)), " ".join(cell.text.split())) for cell in own]
        depth, label = placed[-1] if placed else ((0, 0.0), "")
        if depth[0] not in stub:  # a label beside its column; over several columns it is of all rows below
            spans = len(texts) == 1 and texts[0].col_span > 1
            depth = (-1 if spans else stub[0], 0.0)
        others = [cell for cell in texts if cell not in own and any(map(str.isalnum, cell.text))]
        others = [cell for cell in others if not (sign_of(cell) or A_UNIT.fullmatch(cell.text.strip()))]
        has_amounts = len(texts) < sum(bool(cell.text.strip()) for cell in cells)
        is_named = depth[0] < 0 or bool(label and cells[0].text.strip() and not A_UNIT.fullmatch(label))
        heads = is_named and len(placed) == 1 and not (has_amounts or others)
        # what is dated to the day is a balance, whose changes may be set in below it
        is_balance = has_amounts and (period := find_period(label)) is not None and period.end is not None
        read.append(_Row(number, label, depth, tuple(placed[:-1]), has_amounts, heads, not is_balance))
    if any(cell.bbox for cell in labels):  # a page also sets in sums, and changes of what stands above
        of_row: dict[int, dict[int, Decimal]] = defaultdict(dict)
        for (number, col), value in amounts.items():
            of_row[number][col] = value
        for at, row in enumerate(read):
            below = list(takewhile(lambda other, row=row: other.depth > row.depth, read[at + 1 :]))
            parts = [of_row[other.number] for other in below if other.depth == min(part.depth for part in below)]
            if row.has_amounts and not _sum_up(parts, of_row[row.number]):
                read[at] = row._replace(has_parts=False)
    return read


def _sum_up(parts: Sequence[Mapping[int, Decimal]], whole: Mapping[int, Decimal]) -> bool:
    """Return whether two rows or more add up to a row in each of its columns, but for rounding."""
    if len(parts) < 2:
        return False
    for col, value in whole.items():
        exponent = value.as_tuple().exponent
        unit = Decimal(1).scaleb(exponent) if isinstance(exponent, int) else Decimal(1)
        if abs(sum((part.get(col, Decimal(0)) for part in parts), Decimal(0)) - value) > unit * len(parts) / 2:
            return False
    return True


A_LABEL = re.compile(r"[^\W\d_]|\d{4}")
"""Text that names a row and is no rank: words, or a year."""
MOST_STUB_COLUMNS = 4
"""Most columns of labels."""
NAMES = 0.9
"""Share of the rows that labels have to tell apart to be their names."""


def find_stub(rows: Mapping[int, Sequence[Cell]], amounts: Collection[tuple[int, int]]) -> tuple[int, ...]:
    """Return the columns whose labels together name a row: the first (but ranks), and as many as tell rows apart."""
    filled = {number for number, _ in amounts} or {n for n, cells in rows.items() if not all(c.header for c in cells)}
    texts: dict[int, dict[int, Cell]] = defaultdict(dict)
    units = {cell.col for cells in rows.values() for cell in cells if cell.header and UNIT_HEADER.fullmatch(cell.text)}
    for number, cells in rows.items():
        for cell in cells:
            if cell.text.strip() and not cell.header and (number, cell.col) not in amounts:
                texts[cell.col] |= {row: cell for row in range(number, number + cell.row_span) if row in filled}
    counts = Counter(col for _, col in amounts)
    first = min((col for col, count in counts.items() if 2 * count >= len(texts[col])), default=MOST_STUB_COLUMNS)
    columns = [0]
    for col in range(1, min(first, MOST_STUB_COLUMNS)):
        words = sum(bool(A_LABEL.search(cell.text)) and not sign_of(cell) for cell in texts[col].values())
        if 2 * words >= max(len(filled), 1) and col not in units:
            columns.append(col)
    # a column of ranks names nothing where names stand beside it
    if len(columns) > 1 and not any(A_LABEL.search(cell.text) for cell in texts[0].values()):
        columns.pop(0)
    names, heading = dict[int, tuple[str, ...]](), ""
    for number, cells in sorted(rows.items()):
        own = [cell.text for cell in cells if cell.text.strip()]
        heading = own[0] if number not in filled and len(own) == 1 else heading
        names |= {number: (heading,)} if number in filled else {}
    apart: list[int] = []
    for col in columns:
        last = ""
        for number in names:
            last = texts[col][number].text.strip() if number in texts[col] else last
            names[number] = (*names[number], last)
        apart.append(min(len(set(names.values())), int(NAMES * len(names))))
    return tuple(columns[: apart.index(max(apart)) + 1])


def _find_insets(labels: Sequence[Cell]) -> dict[tuple[int, int], float]:
    """Return how far labels, by (row, column), are set in: by format and spaces, else by place; {} where unclear."""
    insets = {(cell.row, cell.col): cell.indent + len(cell.text) - len(cell.text.lstrip()) for cell in labels}
    if len(set(insets.values())) > 1:
        return insets
    edges = {(cell.row, cell.col): cell.bbox[0] for cell in labels if cell.bbox}
    levels: list[list[float]] = []
    for edge in sorted(edges.values()):
        if levels and edge - levels[-1][-1] <= SAME_EDGE:
            levels[-1].append(edge)
        else:
            levels.append([edge])
    centres = [(cell.bbox[0] + cell.bbox[2]) / 2 for cell in labels if cell.bbox]
    is_ragged = any(len(level) < 2 for level in levels) or any(level[-1] - level[0] > SAME_EDGE for level in levels)
    if not 1 < len(levels) <= MOST_LEVELS or is_ragged or pstdev(centres) <= pstdev(edges.values()):
        return {}
    return {place: next(level[0] for level in levels if edge in level) for place, edge in edges.items()}


SAME_EDGE = 1.5
"""Most points between the left edges of labels of one level."""


class _Head(NamedTuple):
    """A row that rows below may belong to."""

    depth: Depth
    text: str
    number: int
    heads: bool
    """Whether it heads rows: it has no amounts."""
    is_open: bool
    """Whether it heads rows that are no deeper, too: no deeper row stood below it."""
    has_parts: bool = True
    """Whether rows below that are set in further belong to it."""
    has_sibling: bool = False
    """Whether a row with amounts of the same depth stands above it."""


def _nest(rows: Sequence[_Row], headings: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield each row's number and path: the last four of `headings` and of the rows it belongs to, and its label."""
    lowest = min((row.depth for row in rows if row.label), default=(0, 0.0))
    above = [_Head(lowest, heading, -1, heads=True, is_open=True) for heading in headings]
    repeated = _find_repeated(rows)
    previous = -1
    for at, row in enumerate(rows):
        if row.label:
            for depth, text in (*row.leads, (row.depth, row.label)):
                above, has_sibling = _leave_heads(above, depth, text, row, previous=previous)
                above.append(_Head(depth, text, row.number, row.heads, row.heads, row.has_parts, has_sibling))
            heads = above[:-1]
            own = ("" if heads else repeated.get(at, ""), row.label)
        else:
            heads, own = [head for head in above if head.heads], ("",)
        yield row.number, (*(head.text.rstrip(":") for head in heads[-MOST_HEADS:]), *filter(None, own))
        previous = row.number
        # a total ends its headings, but no year that heads several groups and none whose own total is still to come
        if row.has_amounts and TOTAL.match(row.label):
            below = rows[at + 1 :]
            *heads, own_head = above
            ended = heads[-1:] if heads and _names(heads[-1].text, row.label) else []
            ended += [head for head in heads if head.depth >= row.depth]
            above = [h for h in heads if h not in ended or find_period(h.text) or _total_follows(h.text, below)]
            above.append(own_head)


def _leave_heads(
    above: Sequence[_Head], depth: Depth, text: str, row: _Row, *, previous: int
) -> tuple[list[_Head], bool]:
    """Return the rows that a label belongs to, and whether it follows a row with amounts of its depth there."""
    above, has_sibling, is_beside = list(above), False, False
    is_total = TOTAL.match(text) is not None
    while above:
        head = above[-1]
        if head.depth < depth:
            # a sum may be set in further than what it sums up
            sums_up = is_total and head.has_sibling and head.number == previous and head.depth[0] == depth[0]
            if head.heads or head.depth[0] < depth[0] or (head.has_parts and not sums_up):
                break
        elif (head.depth == depth and head.is_open and (not row.heads or head.number == previous)) or (
            is_total and head.heads and _names(head.text, text)
        ):
            break
        has_sibling = has_sibling or (head.depth == depth and not head.heads)
        is_beside = is_beside or head.depth < depth
        above.pop()
    if above and above[-1].depth < depth and not is_beside:
        above[-1] = above[-1]._replace(is_open=False)
    return above, has_sibling


def _names(head: str, total: str) -> bool:
    """Return whether the label of a total names what a heading names."""
    words = frozenset(words_of(head))
    return bool(words) and words <= frozenset(words_of(total))


def _find_repeated(rows: Sequence[_Row]) -> dict[int, str]:
    """Return the label of the row that repeated rows are parts of, by their position in `rows`; {} if groups differ.

    "Households 30, capital 20, elsewhere 10; young households 9, capital 6, elsewhere 3" names its parts alike.
    """
    often = {
        label for label, count in Counter(row.label for row in rows if row.has_amounts).items() if label and count > 1
    }
    runs: list[tuple[int, list[int]]] = []
    for at, row in enumerate(rows):
        if row.has_amounts and row.label in often and not TOTAL.match(row.label):
            if not runs:
                return {}  # a total below its parts
            runs[-1][1].append(at)
        elif row.has_amounts and row.label:
            runs.append((at, []))
        elif row.heads and runs:
            return {}
    parts = [(head, run) for head, run in runs if run]
    alike = {tuple(rows[at].label for at in run) for _, run in parts}
    if len(parts) < 2 or len(alike) != 1:
        return {}
    return {at: rows[head].label for head, run in parts for at in run}


def _total_follows(head: str, below: Sequence[_Row]) -> bool:
    """Return whether the total of a heading stands further down: "Total Marlow brand" was that of a part."""
    own = takewhile(lambda row: not row.heads, below)
    return any(TOTAL.match(row.label) and _names(head, row.label) for row in own)


def _join_labels(rows: Sequence[_Row]) -> list[_Row]:
    """Join rows over which one label runs: it continues with a small letter, and its amounts may stand in either row.

    Two rows with small letters are items of a heading.
    """
    if 2 * sum(row.label[:1].islower() for row in rows) > len(rows):
        return list(rows)  # all labels are written small
    joined: list[_Row] = []
    for at, row in enumerate(rows):
        last = joined[-1] if joined else None
        goes_on = last and row.depth[0] >= 0 and row.label[:1].islower() and not last.label.endswith(":")
        is_item = any(below.has_amounts and below.label[:1].islower() for below in rows[at + 1 : at + 2])
        if goes_on and last and not row.has_amounts and last.has_amounts:
            joined[-1] = last._replace(label=f"{last.label} {row.label}")
        elif goes_on and last and row.has_amounts and last.heads and not last.has_amounts and not is_item:
            joined[-1] = row._replace(label=f"{last.label} {row.label}")
        else:
            joined.append(row)
    return joined


A_UNIT = re.compile(r"\(.*\)")
"""A text in brackets in place of a label, such as "(in millions)": it is no heading."""
SPAN = re.compile(r".*\bend(?:ed|ing)\b.*|(?:as of |at )?[a-z]+ \d{1,2},", re.IGNORECASE)
"""A text in place of a label that says what the years are: "Years ended December 31,"."""
MOST_LEVELS = 6
"""Most header rows that a column belongs to."""


def mark_header_rows(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Return the cells of a table; rows of years or dates without amounts are marked as headers, in mid-table too.

    The rows directly above and below it that have neither label nor amount belong to it. In a table that marks no
    header the first rows are it, where they have no amount and a text for each of the columns that have.
    """
    rows: dict[int, list[Cell]] = defaultdict(list)
    for cell in cells:
        rows[cell.row].append(cell)
    period_rows: list[int] = []
    for number, row in rows.items():
        if not _may_head(row):
            continue
        # a year or a date over two columns or more …
        texts = [cell.text for cell in row if cell.col and cell.text.strip()]
        periods = sum("%" not in text and find_period(text) is not None for text in texts)
        # … or one period over a row of headers: "Year Ended December 31, 2018" over quarters
        below = rows.get(number + 1, ())
        over = sum(bool(cell.text.strip()) for cell in below if cell.col) > 1 and _may_head(below)
        period = find_period(texts[0]) if len(texts) == 1 and over else None
        if periods > 1 or (period and period.end):
            period_rows.append(number)
    header_rows = {
        near_row
        for row in period_rows
        for near_row in (row, *_unlabelled_rows(rows, row, -1), *_unlabelled_rows(rows, row, 1))
    }
    if not any(cell.header for cell in cells):
        first = min((number for number, row in rows.items() if any(map(read_amount, row))), default=0)
        leading = [number for number in rows if number < first][:MOST_LEVELS]
        texts = [cell for number in leading for cell in rows[number] if cell.text.strip()]
        over = {col for cell in texts for col in range(cell.col, cell.col + cell.col_span)}
        amounts = {cell.col for row in rows.values() for cell in row if cell.col and read_amount(cell)}
        header_rows |= set(leading) if len(amounts) > 1 and amounts <= over else set()
    return (
        [cell.model_copy(update={"header": True}) if cell.row in header_rows else cell for cell in cells]
        if header_rows
        else cells
    )


def _unlabelled_rows(rows: Mapping[int, Sequence[Cell]], row: int, step: int) -> Iterator[int]:
    row += step
    while row in rows and _may_head(rows[row]):
        yield row
        row += step


def _may_head(row: Sequence[Cell]) -> bool:
    """Return whether a row may name columns: texts without amounts, beside no label but a unit or a span of time."""
    texts = [cell.text.strip() for cell in row if cell.col]
    labels = [cell.text.strip() for cell in row if not cell.col]
    return (
        not any(cell.header or read_amount(cell) for cell in row)
        and any(texts)
        and all(not label or read_scales(label) or A_UNIT.fullmatch(label) or SPAN.fullmatch(label) for label in labels)
    )


def collect_headers(grid: Mapping[tuple[int, int], Cell]) -> dict[int, dict[int, str]]:
    """Return the texts of header cells behind the first column, by row and column."""
    levels: dict[int, dict[int, str]] = defaultdict(dict)
    for (row, col), cell in sorted(grid.items()):
        if cell.header and col and (text := " ".join(cell.text.split())):
            levels[row][col] = text
    return levels


def find_headers(
    grid: Mapping[tuple[int, int], Cell],
    levels: Mapping[int, Mapping[int, str]],
    amounts: Collection[int],
    row: int,
    col: int,
) -> tuple[str, ...]:
    """Return the texts of the headers above a place, from the outermost; amounts: rows that hold amounts.

    A sign's own column lends its headers to the amounts behind it. A header row that is not the last has one text
    over several columns: an empty place takes the nearest.
    """
    cell_left = grid.get((row, col - 1))
    first = col - 1 if cell_left and sign_of(cell_left) else col
    columns = range(first, col + grid[row, col].col_span)
    above = [level for level in levels if level < row]
    # of header rows behind other amounts only the last ones, where these name periods anew
    before = max((amount_row for amount_row in amounts if above and amount_row < above[-1]), default=-1)
    block = [level for level in above if level > before]
    anew = any(find_period(text) for level in block for text in levels[level].values())
    above = (block if anew else above)[-MOST_LEVELS:]
    last = max(levels[above[-1]], default=col) if above else col
    headers: list[str] = []
    for level in above:
        texts = levels[level]
        own = [texts[c] for c in columns if c in texts]
        if not own and level != above[-1]:
            nearest = min(texts, key=lambda c: abs(c - col))
            # the one text of a row is centred over the columns that it is for
            centred = abs(nearest - (1 + last) / 2) <= max(1, last / 5)
            reaches = centred or abs(col - nearest) <= min(nearest - 1, last - nearest)
            own = [texts[nearest]] if len(texts) > 1 or reaches else []
        headers += own
    return tuple(dict.fromkeys(headers))
