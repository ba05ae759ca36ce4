"""Pieces of text and tables that fit into a chunk: text is cut at lines and sentences, a table between its rows."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from tasks.documents.blocks import Cell
from tasks.language.marks import RAISED, drop_marks
from tasks.language.sentences import Span

# a full stop after a letter, a bracket or a quote; not after a digit, where it numbers something or parts decimals
_UNIT_END = re.compile(
    rf"\n+|(?<=[^\W\d_\)\]\"'”’」%][.!?])[\"'”’)\]]*(?:[{RAISED}][{RAISED},]*)?\s+|(?<=[\)\]\"”’」%][.!?])\s+|(?<=;)\s+|(?<=[。！？])"
)
_SEARCHED_BACK = 80
"""Number of characters before the limit that are searched for a place to cut a long word."""


def split_text(text: str, *, most_chars: int, overlap_chars: int) -> list[Span]:
    """Cut a text into pieces of at most `most_chars`, which begin with whole sentences of the piece before.

    A piece repeats up to `overlap_chars`. Every character that is not a space is in some piece. Raises ValueError if
    the overlap leaves no room.
    """
    if not 0 <= overlap_chars < most_chars:
        raise ValueError(f"an overlap of {overlap_chars} does not fit into {most_chars} characters; lower it")
    ends = sorted({match.end() for match in _UNIT_END.finditer(text)} | {len(text)})
    spans: list[Span] = []
    start = _skip_space(text, 0)
    while start < len(text):
        end = _end_of_piece(text, start, ends, most_chars)
        spans.append(Span(start, start + len(text[start:end].rstrip())))
        # the next piece begins some sentences back, if it then still reaches beyond this one
        following = _skip_space(text, end)
        earliest = max(end - overlap_chars, start + 1)
        backs = (_skip_space(text, back) for back in ends[bisect_left(ends, earliest) : bisect_left(ends, end)])
        reaching = (back for back in backs if back < end and _end_of_piece(text, back, ends, most_chars) > following)
        start = next(reaching, following)
    return spans


def _end_of_piece(text: str, start: int, ends: list[int], most_chars: int) -> int:
    """Return where a piece ends: after a sentence, else between words or kinds of signs, else at the limit."""
    limit = start + most_chars
    if limit >= len(text):
        return len(text)
    # spaces after a sentence do not count
    reach = ends[bisect_right(ends, limit) - 1 : bisect_right(ends, limit) + 1]
    fitting = [end for end in reach if end > start and len(text[start:end].rstrip()) <= most_chars]
    if fitting:
        return max(fitting)
    if text[limit].isspace():
        return limit
    space = max(text.rfind(sign, start, limit) for sign in (" ", "\t", "\u3000", "\xa0"))
    if space > start:
        return space + 1
    places = range(limit, max(start + 1, limit - _SEARCHED_BACK), -1)
    return next((place for place in places if _kind_of_sign(text[place - 1]) != _kind_of_sign(text[place])), limit)


def _kind_of_sign(sign: str) -> str:
    """Return a character's kind (number, Hangul, letter or other): a word is best cut where the kind changes."""
    if sign.isdigit() or sign in ".,":
        return "number"
    if "가" <= sign <= "힣":
        return "hangul"
    return "letter" if sign.isalpha() else "other"


def _skip_space(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


MOST_HEADER_ROWS = 4
MOST_LABEL_CHARS = 40
NUMERIC_ROWS = 0.6
"""Share of the rows below that hold numbers, from which on rows without any are taken for a header."""
_NUMBER = re.compile(r"[\s$₩€£¥(△▲▽▼+\-–—]*\d[\d,.\s]*[%)원천만억배건명개월일회x\s]*|.*(?:[$₩€£¥]\s?\d|\d\s?%).*")
_DATE = re.compile(r"['’]?(?:19|20)\d\d\s*(?:년도?|\.)?|\d{1,2},|\d{1,2}\s*[월일]")
"""A year or a day, alone in a cell: it names a column."""
_BEFORE_NUMBER = {"$", "₩", "€", "£", "¥", "(", "$(", "US$"}
_AFTER_NUMBER = {"%", ")", ")%", "%)", "x"}
_UNIT = re.compile(
    r"[(\[<（［]?\s*(?:단위\s*[:：]|(?:amounts?|dollars|dollar amounts|figures|\$|US\$|in|unaudited;?)\s.{0,40}"
    r"(?:millions|thousands|billions)|unit\s*[:：]).{0,60}",
    re.IGNORECASE,
)


class Row(NamedTuple):
    """A row of a table, in the three spellings that chunks need."""

    line: str
    """The cells that begin in the row, joined by ` | `."""
    continued: str
    """The line with the cells that hang down from rows above: how a part that begins here shows it."""
    sentence: str
    """`row label — header: value; …`; empty for a row of the header."""
    number: int | None = None
    """0-based in the document's table, which may have empty rows."""


class Table(NamedTuple):
    """A table with its header told from its rows."""

    header: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    """The text of each header row over each column, (header rows, columns)."""
    rows: tuple[Row, ...]
    columns: int


class Part(NamedTuple):
    """A part of a table: some of its rows, with the lines that every part repeats."""

    text: str
    sentences: tuple[str, ...]
    rows: tuple[int, int] | None = None
    """Numbers of the part's first and last row in the document's table; None without rows."""


def is_unit_line(text: str) -> bool:
    """Return whether a line only says in what unit a table is: `(단위: 천원)`, `($ in millions)`."""
    return "\n" not in text.strip() and _UNIT.fullmatch(text.strip()) is not None


def read_table(cells: Sequence[Cell], *, above: Table | None) -> Table:
    """Return a table with its header told from its rows.

    above: a table that ends on the page before. With as many columns and no header of its own, this one continues it.
    """
    grid = _Grid(cells)
    # leading rows whose cells are all marked as header, up to a number; 0 where all rows are
    flagged = 0
    while flagged < grid.rows and all(spot.header for spot in grid.covering(flagged)):
        if flagged and _has_number(grid, flagged):
            break
        flagged += 1
    flagged = flagged if flagged < grid.rows else 0
    continues = above is not None and bool(above.header) and above.columns == grid.columns
    # a page may repeat the header: then its rows are counted as a header below
    if continues and above and not flagged and grid.line(0) != above.header[0]:
        rows = tuple(_make_row(grid, row, above.names) for row in range(grid.rows))
        return Table(above.header, above.names, rows, grid.columns)
    repeated = len(above.header) if continues and above and not flagged else 0
    # right below marked rows some go on with them: years, `(Unaudited)`, nothing in the first column
    marked = flagged
    while (
        0 < marked < min(grid.rows - 1, MOST_HEADER_ROWS) and _names_columns(grid, marked) and not grid.text(marked, 0)
    ):
        marked += 1
    count = min(marked or repeated or _likely_header_rows(grid), grid.rows)
    names = tuple(tuple(grid.text(row, column) for column in range(grid.columns)) for row in range(count))
    header = tuple(grid.line(row) for row in range(count))
    return Table(header, names, tuple(_make_row(grid, row, names) for row in range(count, grid.rows)), grid.columns)


def cut_table(table: Table, *, lead: Sequence[str], most_chars: int) -> list[Part]:
    """Cut a table between its rows into parts of at most `most_chars`, each with `lead` and the header.

    lead: headings, caption and unit; told only once where they fill half a part. A longer row is cut like text.
    """
    repeated = [*lead, *table.header]
    room = most_chars - sum(len(line) + 1 for line in repeated)
    rows = list(table.rows)
    if room < most_chars // 2:  # a head that fills the parts is told once, as if it were rows
        rows = [Row(line, line, "") for line in repeated] + rows
        repeated, room = [], most_chars
    fitting: list[Row] = []  # a row that is longer than a part comes in pieces
    for row in rows:
        if len(row.continued) <= room:
            fitting.append(row)
            continue
        for number, (start, end) in enumerate(split_text(row.line, most_chars=room, overlap_chars=0)):
            piece = row.line[start:end]
            fitting.append(Row(piece, piece, "" if number else row.sentence, row.number))
    packs: list[list[Row]] = []
    used = 0
    for row in fitting:
        if packs and used + len(packs[-1]) + len(row.line) <= room:
            packs[-1].append(row)
            used += len(row.line)
        else:
            row = row._replace(line=row.continued) if packs else row
            packs.append([row])
            used = len(row.line)
    parts: list[Part] = []
    for pack in packs:
        numbers = [row.number for row in pack if row.number is not None]
        text = "\n".join([*repeated, *(row.line for row in pack)])
        sentences = tuple(row.sentence for row in pack if row.sentence)
        parts.append(Part(text, sentences, (numbers[0], numbers[-1]) if numbers else None))
    return parts or [Part("\n".join(repeated), ())]


class _Spot(NamedTuple):
    """A cell on the grid of a table without its empty rows and columns."""

    row: int
    column: int
    last_column: int
    text: str
    header: bool


class _Grid:
    """The cells by position, merged ones at every position that they cover; empty rows and columns are left out."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        rows = sorted({cell.row for cell in cells})
        columns = sorted({cell.col for cell in cells})
        self.rows, self.columns = len(rows), len(columns)
        self.numbers = rows
        self._at: dict[tuple[int, int], _Spot] = {}
        for cell in cells:
            row, column = bisect_left(rows, cell.row), bisect_left(columns, cell.col)
            last = max(column, bisect_left(columns, cell.col + cell.col_span) - 1)
            # a table of one column is a box around text: its lines stay
            text = _join_spaces(cell.text) if self.columns > 1 else "\n".join(map(_join_spaces, cell.text.split("\n")))
            spot = _Spot(row, column, last, text, cell.header)
            for covered in range(row, max(row + 1, bisect_left(rows, cell.row + cell.row_span))):
                for across in range(column, last + 1):
                    self._at.setdefault((covered, across), spot)  # where spans overlap the first cell stands

    def text(self, row: int, column: int) -> str:
        """Return the text of the cell that covers a position; empty where none does."""
        spot = self._at.get((row, column))
        return spot.text if spot else ""

    def covering(self, row: int) -> list[_Spot]:
        """Return the cells of a row, those that hang down from above included, each once."""
        cells = (self._at.get((row, column)) for column in range(self.columns))
        return list(dict.fromkeys(spot for spot in cells if spot))

    def own(self, row: int) -> list[_Spot]:
        """Return the cells that begin in a row."""
        return [spot for spot in self.covering(row) if spot.row == row]

    def line(self, row: int) -> str:
        """Return the texts of the cells that begin in a row, joined by ` | `."""
        return " | ".join(spot.text for spot in self.own(row))


def _make_row(grid: _Grid, row: int, names: tuple[tuple[str, ...], ...]) -> Row:
    """Return a row as a line and as a sentence, in which each value follows the names of its columns."""
    spots = grid.covering(row)
    line = " | ".join(spot.text for spot in spots if spot.row == row)
    label = next((spot.text for spot in spots if spot.column == 0), "")
    # the cells right of the label, by value: filings give `$`, number and `%` a cell each
    groups: list[list[_Spot]] = []
    for spot in (spot for spot in spots if spot.column and spot.text):
        if groups and (spot.text in _AFTER_NUMBER or groups[-1][-1].text in _BEFORE_NUMBER):
            groups[-1].append(spot)
        else:
            groups.append([spot])
    cell_texts: list[str] = []
    for group in groups:
        value = "".join(spot.text for spot in group)
        # what the header says above it, top down; what stands in two rows or columns is said once
        columns = [column for spot in group for column in range(spot.column, spot.last_column + 1)]
        heads = [dict.fromkeys(head[at] for at in columns if at < len(head) and head[at]) for head in names]
        name = " ".join(dict.fromkeys(", ".join(head) for head in heads if head))
        cell_texts.append(f"{name}: {value}" if name and name != value else value)
    sentence = "; ".join(cell_texts)
    if sentence and label:
        sentence = f"{label}: {sentence}" if grid.columns == 2 and not names else f"{label} — {sentence}"
    return Row(line, " | ".join(spot.text for spot in spots), sentence, grid.numbers[row])


def _likely_header_rows(grid: _Grid) -> int:
    """Count the leading rows that name columns where no header is marked: words above rows of numbers; 0 if unsure."""
    numeric = [_has_number(grid, row) for row in range(grid.rows)]
    first = next((row for row, has in enumerate(numeric) if has), None)
    if first is None:  # its first row names columns if it is filled with short, different words
        words = [spot.text for spot in grid.own(0)]
        whole = len(words) == grid.columns >= 3 and len(set(words)) == len(words) and grid.rows >= 3
        return 1 if whole and all(0 < len(word) <= MOST_LABEL_CHARS // 2 for word in words) else 0
    below = numeric[first:]
    if len(below) < 2 or sum(below) < NUMERIC_ROWS * len(below):
        return 0
    while first and not _names_columns(grid, first - 1):
        first -= 1  # `Assets:` alone on its row heads a group, not the columns
    # more than one row with a label of its own: those are data, told in words
    labelled = sum(1 for row in range(first) if any(spot.column == 0 and spot.text for spot in grid.own(row)))
    return first if first <= MOST_HEADER_ROWS and labelled <= 1 else 0


def _names_columns(grid: _Grid, row: int) -> bool:
    """Return whether a row has words right of the first column, and no number."""
    return any(grid.text(row, column) for column in range(1, grid.columns)) and not _has_number(grid, row)


def _has_number(grid: _Grid, row: int) -> bool:
    texts = (drop_marks(grid.text(row, column)) for column in range(1, grid.columns))
    return any(_NUMBER.fullmatch(text) and not _DATE.fullmatch(text) for text in texts if text)


def _join_spaces(text: str) -> str:
    return " ".join(text.split())
