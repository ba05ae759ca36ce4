"""Spells the numbers of a table as English does, whichever signs part their thousands and decimals.

`1.234` is 1234 in one country and 1.234 in another. A table has one spelling: that of its cells which can be read in
one way only, else that of the document. A cell that nothing decides is read as English, and says so.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

from tasks.documents.blocks import Block, Cell
from tasks.language.number_words import PLAIN_SIGNS

Decimals = Literal[".", ",", ""]
"""The sign before the decimals; empty where nothing tells."""
_RUN = re.compile(r"(?<![\d.,'])\d(?:[\d.,' ]*\d)?")
_OTHER_WORDS = re.compile(r"[^\W\d_]{4,}")
_GROUPS: tuple[tuple[Decimals, str], ...] = ((".", ","), (",", "."))
_SHAPES: Mapping[Decimals, tuple[re.Pattern[str], re.Pattern[str]]] = {
    decimals: (
        re.compile(
            rf"\d{{1,3}}(?:[{group} ']\d{{3}})+[{decimals}]\d+|\d{{1,3}}(?:[{group}]\d{{3}}){{2,}}|0[{decimals}]\d+"
            rf"|\d{{3,}}[{decimals}](?:\d\d?|\d{{4,}})"
        ),
        re.compile(rf"\d+[{decimals}](?:\d\d?|\d{{4,}})"),
    )
    for decimals, group in _GROUPS
}
"""For each sign of decimals, the numbers that only this spelling has: surely and likely."""
_EITHER = re.compile(r"[1-9]\d{0,2}(?P<sign>[.,])\d{3}")
_WITH_COMMA = re.compile(r"\d{1,3}(?:[. ']\d{3})+(?:,\d+)?|\d+,\d+")
_IN_PROSE = re.compile(r"(?<![\d.,])\d{1,3}(?:\.\d{3})+(?P<comma>,)\d{1,2}(?![\d.,])|(?<![\d.,])\d+,\d{3}\.\d")
NOTES_HEADER = re.compile(r"notes?|refs?\.?|주\s?석", re.IGNORECASE)
"""Header of a column of the numbers of notes, which are no amounts."""
_TRAILING_MINUS = re.compile(r"(?!(?:19|20)\d\d\b)(.*\d\s?%?)\s?[-–]")
_CUT_MYRIAD = re.compile(r"(\d\s?)([조억])(\s?\d[\d,]{0,4})$")
_RISE, _FALL = re.compile(r"[▲△]\s?(?=[\d$€£¥₩])"), re.compile(r"[▼▽]")


class Spelling(NamedTuple):
    """The cells of a table in English spelling, and those that may mean another number."""

    cells: Sequence[Cell]
    other_values: Mapping[tuple[int, int], Decimal]
    """The other reading of each cell that nothing decides, by row and column, without its sign."""


def find_decimals(blocks: Iterable[Block]) -> Decimals:
    """Return the sign before decimals in a document; empty where it has none, or both."""
    votes: Counter[str] = Counter()
    for block in blocks:
        if block.cells:
            table, _ = _count_shapes(block.cells)
            votes.update({decimals: table[f"surely {decimals}"] for decimals in _SHAPES})
        else:
            votes.update("," if match["comma"] else "." for match in _IN_PROSE.finditer(block.text))
    return _only(votes["."], votes[","])


def spell_cells(cells: Sequence[Cell], document: Decimals) -> Spelling:
    """Return the cells of a table with their numbers in English spelling; document: the decimal sign of all of it."""
    table, columns = _count_shapes(cells)
    mixed = bool(table["surely ."] and table["surely ,"])
    arrows = any(cell.col and not cell.header and _FALL.search(cell.text) for cell in cells)
    spelt: list[Cell] = []
    others: dict[tuple[int, int], Decimal] = {}
    for cell in cells:
        text = _plain(cell)
        if cell.header or not cell.col or not any(map(str.isdigit, text)):
            spelt.append(cell)
            continue
        counts = columns[cell.col] if mixed else table
        sure = _only(counts["surely ."], counts["surely ,"])
        # a list of two notes, 5,8, is no decimal beside 1,234
        likely = _only(counts["likely ."] + counts["either ,"], counts["likely ,"])
        decimals = sure or ("" if mixed else document) or likely
        either = _EITHER.fullmatch(_number_in(text) or "")
        # 1,234 is doubtful only beside numbers with a decimal comma
        if either and not decimals and (mixed or either["sign"] == "."):
            digits = either[0].replace(",", ".")
            others[cell.row, cell.col] = Decimal(digits if either["sign"] == "," else digits.replace(".", ""))
        english = _RUN.sub(lambda run: _without_groups(run[0]), text) if decimals == "," else text
        english = _TRAILING_MINUS.sub(r"-\1", english) if _TRAILING_MINUS.fullmatch(english) else english
        # in a table with ▼ the other arrow says that a number rose, else it is a minus
        english = _RISE.sub("", english) if arrows else english
        # 3조 4,120 lacks its 억
        english = _CUT_MYRIAD.sub(lambda cut: f"{cut[0]}{'억' if cut[2] == '조' else '만'}", english)
        spelt.append(cell.model_copy(update={"text": english}) if english != text else cell)
    return Spelling(spelt, others)


def _plain(cell: Cell) -> str:
    return " ".join(cell.text.translate(PLAIN_SIGNS).replace("−", "-").split())


def _number_in(text: str) -> str | None:
    """Return the one run of digits, with the signs within it, of a cell that holds little else; else None."""
    runs = _RUN.findall(text)
    return runs[0] if len(runs) == 1 and not _OTHER_WORDS.search(text) else None


def _without_groups(run: str) -> str:
    return re.sub(r"[. ']", "", run).replace(",", ".") if _WITH_COMMA.fullmatch(run) else run


def _count_shapes(cells: Sequence[Cell]) -> tuple[Counter[str], Mapping[int, Counter[str]]]:
    """Return how many numbers of a table, and of each column, are `surely .`, `likely ,`, `either .`, `long` …"""
    columns: dict[int, Counter[str]] = defaultdict(Counter)
    notes = {cell.col for cell in cells if NOTES_HEADER.fullmatch(cell.text.strip())}
    for cell in cells:
        number = None if cell.header or not cell.col or cell.col in notes else _number_in(_plain(cell))
        if number is None:
            continue
        counts = columns[cell.col]
        for decimals, (surely, likely) in _SHAPES.items():
            # a share with decimals is no list of two notes
            if surely.fullmatch(number) or (likely.fullmatch(number) and "%" in cell.text):
                counts[f"surely {decimals}"] += 1
            elif likely.fullmatch(number):
                counts[f"likely {decimals}"] += 1
        if either := _EITHER.fullmatch(number):
            counts[f"either {either['sign']}"] += 1
        elif number.isdigit():
            counts["small" if len(number) < 4 else "long"] += not re.fullmatch(r"(?:19|20)\d\d", number)
    table = sum(columns.values(), Counter[str]())
    for counts in (table, *columns.values()):
        # where some numbers have three digits behind a point and the others none, the point parts thousands
        if counts["either ."] and not counts["likely ."]:
            counts["likely ,"] += bool(counts["small"] and not counts["long"])
            counts["likely ."] += bool(counts["long"])
    return table, columns


def _only(points: int, commas: int) -> Decimals:
    return "" if bool(points) == bool(commas) else "." if points else ","
