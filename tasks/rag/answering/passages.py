"""Chunks become passages: single sentences and table rows, each with the words around it that say what it is about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tasks.rag.indexing.chunk_tables import is_unit_line
from tasks.rag.indexing.chunks import Chunk
from tasks.rag.language.sentences import split_sentences
from tasks.rag.retrieval.search import Hit

MOST_CHUNK_CHARS = 20_000
"""Of a chunk, from its beginning, that is read for an answer."""
MOST_PASSAGES = 400
"""Of one chunk."""
MOST_UNIT_CHARS = 60
MOST_NAME_CHARS = 20
"""Of a cell that names a column."""
MOST_LABEL_CHARS = 60
_DOTTED = re.compile(r"[.·…‥]{5,}\s*\d*\s*$|(?:\s\.){5,}")
_UNIT_WITHIN = re.compile(
    r"[(\[<（［]\s*((?:단위\s*[:：]|unit\s*[:：]|(?:amounts?|dollars|figures|\$|US\$|€|in|expressed)\b[^)\]]{0,40}?"
    r"\b(?:millions|thousands|billions))[^)\]>）］]{0,40})\s*[)\]>）］]",
    re.IGNORECASE,
)
"""A unit in brackets behind a caption: `Table 3. Net sales ($ in millions)`."""
_CELL = " | "


class Passage(NamedTuple):
    """A sentence or a table row that may answer."""

    hit: int
    """Position of its chunk in the hits."""
    place: int
    """Position within the chunk."""
    text: str
    """Verbatim: a part of the chunk's text, or one of its rows as a sentence."""
    is_row: bool
    before: str
    """The sentence before, or the lines above the table."""
    above: str
    """Headings."""
    unit: str
    """What the numbers of its table count, as the document says: `단위: 천원`, `dollars in thousands`."""
    names: tuple[str, ...]
    """Of the columns of a row, where its table has no header that was known as such: the cells of its first row."""
    is_label: bool
    """A heading, caption, unit line or entry of a table of contents: it names a thing and says nothing of it."""


def read_passages(hits: Sequence[Hit]) -> list[Passage]:
    """All passages of the hits, in their order."""
    return [passage for number, hit in enumerate(hits) for passage in _of_chunk(hit.chunk, number)]


def _of_chunk(chunk: Chunk, number: int) -> list[Passage]:
    text = chunk.text[:MOST_CHUNK_CHARS]
    above = " › ".join(chunk.heading_path)
    told = list(_rows(chunk, text)) if chunk.sentences else list(_sentences(chunk, text))
    return [
        Passage(number, place, one.text, one.is_row, one.before, above, one.unit, one.names, one.is_label)
        for place, one in enumerate(told[:MOST_PASSAGES])
        if one.text.strip()
    ]


class _Told(NamedTuple):
    text: str
    is_row: bool
    before: str
    unit: str
    is_label: bool
    names: tuple[str, ...] = ()


def _rows(chunk: Chunk, text: str) -> Iterator[_Told]:
    """The lines that lead to a table or stand beside it, then its rows."""
    lines = text.splitlines()
    lead = [line for line in lines if _CELL not in line]
    unit = _unit_of(lead)
    header = next((line for line in lines if _CELL in line), "")
    for line in lead:
        for start, end in split_sentences(line):
            yield _Told(line[start:end], False, "", "", _names_only(line, chunk))
    around = "\n".join((*(line for line in lead if len(line) <= 200), header))
    names = _names(chunk.sentences)
    for place, sentence in enumerate(chunk.sentences):
        is_label = (bool(names) and place == 0) or _without_words(sentence)
        yield _Told(sentence, True, around, unit, is_label, names)


def _names(rows: Sequence[str]) -> tuple[str, ...]:
    """The cells of the first row if it names columns and no row says those names itself."""
    if len(rows) < 2 or any(": " in row for row in rows) or re.search(r"\d", rows[0]):
        return ()
    cells = cells_of(rows[0])
    same = [row for row in rows[1:] if len(cells_of(row)) == len(cells)]
    short = all(0 < len(cell) <= MOST_NAME_CHARS for cell in cells)
    return cells if short and len(cells) > 2 and 2 * len(same) > len(rows) - 1 else ()


def cells_of(row: str) -> tuple[str, ...]:
    """The cells of a row that was said without names: `label — value; value`."""
    label, dash, rest = row.partition(" — ")
    return (label, *rest.split("; ")) if dash else (label,)


def _sentences(chunk: Chunk, text: str) -> Iterator[_Told]:
    before, unit = "", ""
    for start, end in split_sentences(text):
        sentence = text[start:end]
        unit = _unit_of([sentence]) or unit
        yield _Told(sentence, False, before, unit if _holds_columns(sentence) else "", _names_only(sentence, chunk))
        before = sentence


def _unit_of(lines: Sequence[str]) -> str:
    """What the unit line among `lines` says, without its brackets."""
    for line in reversed(lines):
        if within := _UNIT_WITHIN.search(line):
            return within[1].strip()
        if is_unit_line(line) and len(line) <= MOST_UNIT_CHARS:
            return line.strip().strip("()[]<>（）［］ ").strip()
    return ""


def _holds_columns(line: str) -> bool:
    """Whether a line of text reads as a row of a table that has lost its lines: a label, then bare numbers."""
    return bool(re.fullmatch(r"\D.*?(?:\s+[$₩€(△-]*\d[\d,.]*[)%]*){1,}", line, re.DOTALL)) and len(line) <= 160


def _names_only(line: str, chunk: Chunk) -> bool:
    flat = " ".join(line.split())
    if flat in {" ".join(heading.split()) for heading in chunk.heading_path} or is_unit_line(line):
        return True
    if _without_words(flat) or (flat.endswith((",", ":")) and len(flat) <= MOST_LABEL_CHARS):
        return True
    return bool(_DOTTED.search(flat)) or bool(re.match(r"[<\[(〈]\s*(?:표|그림|별표|서식)\s", flat))


def _without_words(line: str) -> bool:
    """Numbers alone, or a row of years and dates: the scale of a chart, a header, the numbers of a page."""
    return not re.search(r"[^\W\d_]{2,}", re.sub(r"\d\s?(?:년|월|일|기|분기|%|Q|FY)", "", line))
