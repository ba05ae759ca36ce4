"""The path of each row of a table: the headings that it belongs to, and its own label."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from tasks.documents.blocks import Cell
from tasks.rag.numbers.cell_amounts import Amount
from tasks.rag.numbers.column_headers import A_UNIT
from tasks.rag.numbers.concepts import words_of
from tasks.rag.numbers.periods import period_in

MOST_HEADS = 4
"""Headings that a row belongs to at most."""
TOTAL = re.compile(r"(?:sub)?total\b|합\s?계|소\s?계|총\s?계|계$", re.IGNORECASE)


class _Row(NamedTuple):
    number: int
    label: str
    places: tuple[tuple[int, int], ...]
    """Of its amounts."""
    heads: bool
    """Without amounts it is a heading."""


def row_paths(
    rows: Mapping[int, Sequence[Cell]], amounts: Mapping[tuple[int, int], Amount], headings: Sequence[str]
) -> Iterator[tuple[tuple[int, int], tuple[str, ...]]]:
    """The place of each amount, and its row's path: a row without amounts heads those below, up to its total."""
    heads = list(headings)
    fresh = bool(heads)
    whole = list(_whole_labels([_row(number, rows[number], amounts) for number in sorted(rows)]))
    above = _repeated_below(whole)
    for at, row in enumerate(whole):
        if not row.places:
            if row.heads:
                heads = [*heads[-MOST_HEADS + 1 :], row.label] if fresh else [row.label]
                fresh = True
            continue
        fresh = False
        path = (*(head.rstrip(":") for head in heads), *filter(None, [above.get(at, ""), row.label]))
        yield from ((place, path) for place in row.places)
        if TOTAL.match(row.label):
            heads = [head for head in heads if period_in(head) or _goes_on(head, whole[at + 1 :])]


def _repeated_below(rows: Sequence[_Row]) -> dict[int, str]:
    """Rows whose label stands there again and again → the row that they are parts of.

    "Households 30, capital 20, elsewhere 10; young households 9, capital 6, elsewhere 3" names its parts alike.
    """
    often = {label for label, count in Counter(row.label for row in rows if row.places).items() if label and count > 1}
    runs: list[tuple[int, list[int]]] = []
    for at, row in enumerate(rows):
        if row.places and row.label in often and not TOTAL.match(row.label):
            if not runs:
                return {}  # a total below its parts
            runs[-1][1].append(at)
        elif row.places and row.label:
            runs.append((at, []))
        elif row.heads and runs:
            return {}
    parts = [(head, run) for head, run in runs if run]
    alike = {tuple(rows[at].label for at in run) for _, run in parts}
    if len(parts) < 2 or len(alike) != 1:
        return {}
    return {at: rows[head].label for head, run in parts for at in run}


def _goes_on(head: str, below: Sequence[_Row]) -> bool:
    """Whether the total of a heading stands further down: "Total Marlow brand" was that of a part."""
    words = frozenset(words_of(head))
    own = takewhile(lambda row: row.places or not row.heads, below)
    return bool(words) and any(TOTAL.match(row.label) and words <= frozenset(words_of(row.label)) for row in own)


def with_spans(path: tuple[str, ...], stub: Sequence[Cell]) -> tuple[str, ...]:
    """The path of a row below the labels left of it that span rows; stub: the cells before its amounts."""
    over = [" ".join(cell.text.split()) for cell in stub if cell.row_span > 1 and cell.text.strip()]
    own = [" ".join(cell.text.split()) for cell in stub if cell.row_span == 1 and cell.text.strip()]
    if not over or not own:
        return path
    over = list(dict.fromkeys(over))
    return (*(label for label in path if label not in (*over, *own)), *over, own[-1])


def _row(number: int, row: Sequence[Cell], amounts: Mapping[tuple[int, int], Amount]) -> _Row:
    cells = sorted(row, key=lambda cell: cell.col)
    label = next((" ".join(c.text.split()) for c in cells if c.text.strip() and (number, c.col) not in amounts), "")
    heads = bool(label and not cells[0].header and cells[0].text.strip() and not A_UNIT.fullmatch(label))
    return _Row(number, label, tuple((number, c.col) for c in cells if (number, c.col) in amounts), heads)


def _whole_labels(rows: Sequence[_Row]) -> Iterator[_Row]:
    """Rows, those of one label as one: it goes on with a small letter in the row below, where its amounts may stand.

    Two rows with small letters are items of a heading.
    """
    whole: list[_Row] = []
    for at, row in enumerate(rows):
        last = whole[-1] if whole else None
        goes_on = last and row.label[:1].islower() and not last.label.endswith(":")
        if goes_on and last and not row.places and last.places:
            whole[-1] = last._replace(label=f"{last.label} {row.label}")
        elif goes_on and last and row.places and last.heads and not last.places and not _is_item(rows[at + 1 :]):
            whole[-1] = row._replace(label=f"{last.label} {row.label}")
        else:
            whole.append(row)
    yield from whole


def _is_item(below: Sequence[_Row]) -> bool:
    return bool(below and below[0].places and below[0].label[:1].islower())
