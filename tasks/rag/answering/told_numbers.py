"""The numbers that sentences state, as cells: what stands beside a number is its label, the sentence its heading."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from tasks.language.numbers import CALENDAR, read_numbers
from tasks.rag.answering.passages import Passage, read_passages
from tasks.rag.numbers.line_lookup import UNDATED, Number
from tasks.rag.numbers.periods import period_in
from tasks.rag.retrieval.search import Hit

MOST_CHARS = 400
"""A longer passage states too much for its numbers to be told apart."""
DIGITS = re.compile(r"\d[\d,.]*")
RANGE = re.compile(r"\d\s?[~∼–-]\s?\d")
BARE = re.compile(r"\d|10|(?:19|20)\d\d|.*[A-Za-z]")
"""Marks of lists and years, where nothing stands behind that is counted."""
WORD = re.compile(r"[^\W\d_]{2,}")


def told_numbers(hits: Sequence[Hit], question: str, cells: Sequence[Number]) -> list[Number]:
    """Those of the sentences and rows that were found, in their order; the table of each is a number below 0.

    What the question says itself is none, nor the ends of a range, nor in a row of a table what is a cell of its page.
    """
    said = set(DIGITS.findall(question))
    known = {(one.document, one.page, one.value) for one in cells}
    passages = (one for one in read_passages(hits) if not one.is_list and len(one.text) <= MOST_CHARS)
    return [
        number
        for at, one in enumerate(passages)
        for number in _numbers(one, hits[one.hit], table=-1 - one.hit, row=at)
        if not said.intersection(DIGITS.findall(number.shown))
        and not (one.is_row and (number.document, number.page, number.value) in known)
    ]


def _numbers(passage: Passage, hit: Hit, *, table: int, row: int) -> Iterator[Number]:
    text = passage.text
    found = [one for one in read_numbers(text) if one.unit not in (*CALENDAR, "year")]
    found = [one for one in found if one.unit or not BARE.fullmatch(one.text.strip("() "))]
    within = [match.span() for match in RANGE.finditer(text)]
    found = [one for one in found if not any(one.start < end and start < one.end for start, end in within)]
    ends = [0, *(one.end for one in found)]
    starts = [*(one.start for one in found[1:]), len(text)]
    period = period_in(text) or UNDATED
    for col, number in enumerate(found):
        before, after = text[ends[col] : number.start], text[number.end : starts[col]]
        label = before if WORD.search(before) else after
        path = (*hit.chunk.heading_path[-1:], text, " ".join(label.split()))
        yield Number(
            name=hit.document_name,
            document=hit.chunk.document,
            value=number.value,
            shown=number.text,
            scale=Decimal(1),
            unit=number.unit,
            period=period,
            row_path=path,
            column_path=(),
            page=hit.chunk.page,
            bbox=hit.chunk.bbox,
            table=table,
            row=row,
            col=col,
            statement="other",
            broken=None,
        )
