"""HWP 5 record streams: inflate them under a cap, cut them into records, stack the records into a tree."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from enum import IntEnum

from tasks.documents.document_errors import CorruptDocument, RefusedDocument
from tasks.documents.hwp.hwp_model import MAX_NESTING

MAX_STREAM_BYTES = 128 << 20
"""One inflated stream; a 1,000-page document has about 20 MiB."""
MAX_RATIO = 100
"""Inflated over packed, for streams above `_SMALL_BYTES`; real section streams stay under 30."""
_SMALL_BYTES = 16 << 20
_MAX_RECORDS = 1_000_000


class Tag(IntEnum):
    """The records that carry text or structure (hwp 5 format, revision 1.3, tables 13 and 57)."""

    DOCUMENT_PROPERTIES = 0x10
    BIN_DATA = 0x12
    NUMBERING = 0x17
    BULLET = 0x18
    PARA_SHAPE = 0x19
    DISTRIBUTE_DOC_DATA = 0x1C
    PARA_HEADER = 0x42
    PARA_TEXT = 0x43
    CTRL_HEADER = 0x47
    LIST_HEADER = 0x48
    SHAPE_COMPONENT = 0x4C
    TABLE = 0x4D
    OLE = 0x54
    PICTURE = 0x55
    CTRL_DATA = 0x57
    EQUATION = 0x58
    TEXT_ART = 0x5A
    FORM_OBJECT = 0x5B
    MEMO_LIST = 0x5D
    CHART = 0x5F
    VIDEO = 0x62


_KEPT = frozenset(int(tag) for tag in Tag)


@dataclass(slots=True)
class Record:
    """A record and those that stand under it."""

    tag: int
    level: int
    data: bytes
    children: list[Record] = field(default_factory=list["Record"])

    def u16(self, offset: int) -> int:
        return self._unpack("<H", offset)

    def u32(self, offset: int) -> int:
        return self._unpack("<I", offset)

    def text(self, offset: int) -> str:
        """The counted UTF-16 string at the offset."""
        end = offset + 2 + 2 * self.u16(offset)
        if end > len(self.data):
            raise CorruptDocument(_CUT.format(what=f"A string of record {self.tag:#x}"))
        return self.data[offset + 2 : end].decode("utf-16-le", "replace")

    def _unpack(self, layout: str, offset: int) -> int:
        try:
            return struct.unpack_from(layout, self.data, offset)[0]
        except struct.error as error:
            raise CorruptDocument(_CUT.format(what=f"Record {self.tag:#x}")) from error


_CUT = "{what} ends before its last field: the file is truncated or damaged; ask for an intact copy."


def inflate(packed: bytes, *, name: str) -> bytes:
    """A raw deflate stream, inflated; a CRC and a length behind it are checked where Hangul wrote them."""
    limit = min(MAX_STREAM_BYTES, max(_SMALL_BYTES, MAX_RATIO * len(packed)))
    inflater = zlib.decompressobj(-15)
    try:
        data = inflater.decompress(packed, limit + 1)
    except zlib.error as error:
        raise CorruptDocument(f"Stream {name} does not inflate ({error}); ask for an intact copy.") from error
    if len(data) > limit:
        raise RefusedDocument(
            f"Stream {name} inflates from {len(packed)} to more than {limit} bytes: it looks like a deflate bomb; "
            "if it is a real document, open it in Hangul and save it anew."
        )
    if not inflater.eof:
        raise CorruptDocument(f"Stream {name} ends early: the file is truncated; ask for an intact copy.")
    _check_trailer(inflater.unused_data, data, name=name)
    return data


def _check_trailer(trailer: bytes, data: bytes, *, name: str) -> None:
    """Not in the published format, but Hangul ends a stream like gzip: CRC-32, then the length."""
    if len(trailer) < 8:
        return
    crc, size = struct.unpack_from("<II", trailer)
    if size == len(data) and crc != zlib.crc32(data):
        raise CorruptDocument(f"Stream {name} fails its checksum: the file is damaged; ask for an intact copy.")


def record_tree(data: bytes, *, name: str) -> list[Record]:
    """The top records of a stream, each with its children; records without text or structure are left out."""
    top: list[Record] = []
    open_: list[Record] = []  # the last record of every level above the current one
    offset = count = 0
    while offset + 4 <= len(data):
        tag, level, start, end = _header(data, offset, name=name)
        offset, count = end, count + 1
        if count > _MAX_RECORDS:
            raise RefusedDocument(
                f"Stream {name} holds more than {_MAX_RECORDS} records, which no document that Hangul writes does: "
                "split it in Hangul into several."
            )
        if level > 2 * MAX_NESTING:
            raise CorruptDocument(
                f"Stream {name} nests deeper than {MAX_NESTING} objects, which no document that Hangul writes does: "
                "the file is damaged; ask for an intact copy."
            )
        if tag not in _KEPT:
            continue
        record = Record(tag, level, data[start:end])
        while open_ and open_[-1].level >= level:
            open_.pop()
        (open_[-1].children if open_ else top).append(record)
        open_.append(record)
    return top


def _header(data: bytes, offset: int, *, name: str) -> tuple[int, int, int, int]:
    """Tag, level, start and end of the record at the offset: 10, 10 and 12 bits, or a longer size behind them."""
    word = int.from_bytes(data[offset : offset + 4], "little")
    tag, level, size = word & 0x3FF, word >> 10 & 0x3FF, word >> 20
    start = offset + 4
    if size == 0xFFF:
        size = int.from_bytes(data[start : start + 4], "little")
        start += 4
    if start + size > len(data):
        raise CorruptDocument(
            f"Stream {name} has a record of {size} bytes at {offset}, but only {len(data) - start} are left: "
            "the file is truncated or damaged; ask for an intact copy."
        )
    return tag, level, start, start + size
