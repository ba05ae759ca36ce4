"""The DocInfo stream of HWP 5: which paragraph shapes are numbered, and how their numbers look."""

from __future__ import annotations

from typing import NamedTuple

from tasks.rag.documents.hwp_model import MAX_LEVEL, ListHead, ListStyles, NumberingLevel
from tasks.rag.documents.hwp_numbering import STYLES
from tasks.rag.documents.hwp_records import Record, Tag

_HEAD_BYTES = 12
"""Attributes, width, distance and character shape that stand before each number pattern."""
_KINDS = {1: "outline", 2: "number", 3: "bullet"}


class DocInfo(NamedTuple):
    heads: tuple[ListHead | None, ...]
    """By paragraph shape id."""
    styles: ListStyles


def read_docinfo(records: list[Record]) -> DocInfo:
    """Heads, numberings and bullets; ids of lists count from 1, those of shapes from 0."""
    flat = [record for top in records for record in (top, *top.children)]
    numberings = [record for record in flat if record.tag == Tag.NUMBERING]
    bullets = [record for record in flat if record.tag == Tag.BULLET]
    return DocInfo(
        heads=tuple(_head(record) for record in flat if record.tag == Tag.PARA_SHAPE),
        styles=ListStyles(
            numberings={index: _levels(record) for index, record in enumerate(numberings, 1)},
            bullets={index: _bullet(record) for index, record in enumerate(bullets, 1)},
        ),
    )


def _head(record: Record) -> ListHead | None:
    attributes = record.u32(0)
    list_id = record.u16(30)
    # three bits hold levels 0–6; files since 5.0.2.5 repeat the level at the end, up to 9
    level = min(record.u32(54), MAX_LEVEL) if len(record.data) >= 58 else attributes >> 25 & 7
    match _KINDS.get(attributes >> 23 & 3):
        case "outline":
            return ListHead("outline", list_id, level)
        case "number":
            return ListHead("number", list_id, level)
        case "bullet":
            return ListHead("bullet", list_id, level)
        case _:
            return None


def _levels(record: Record) -> tuple[NumberingLevel, ...]:
    """Seven levels, and three more since 5.1.0.0; their starts since 5.0.2.5."""
    heads, offset = _patterns(record, 0, count=7)
    offset += 2  # whether the list goes on from the one before
    starts, offset = _starts(record, offset, count=7)
    if offset < len(record.data):
        more, offset = _patterns(record, offset, count=3)
        heads += more
        starts += _starts(record, offset, count=3)[0]
    return tuple(NumberingLevel(pattern, style, start) for (pattern, style), start in zip(heads, starts, strict=True))


def _patterns(record: Record, offset: int, *, count: int) -> tuple[list[tuple[str, str]], int]:
    found: list[tuple[str, str]] = []
    for _ in range(count):
        style = record.u32(offset) >> 5 & 0x1F
        pattern = record.text(offset + _HEAD_BYTES)
        found.append((pattern, STYLES[style] if style < len(STYLES) else "DIGIT"))
        offset += _HEAD_BYTES + 2 + 2 * record.u16(offset + _HEAD_BYTES)
    return found, offset


def _starts(record: Record, offset: int, *, count: int) -> tuple[list[int], int]:
    if offset + 4 * count > len(record.data):
        return [1] * count, offset
    return [record.u32(offset + 4 * index) for index in range(count)], offset + 4 * count


def _bullet(record: Record) -> str:
    """The bullet's sign; "" for a picture."""
    sign = record.u16(_HEAD_BYTES)
    return chr(sign) if sign and not 0xD800 <= sign < 0xE000 and sign != 0xFFFF else ""
