"""What an HWP 5 file says of itself: title, author, dates, from its OLE property set (MS-OLEPS, section 2)."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta

_NAMES = {2: "title", 3: "subject", 4: "author", 5: "keywords", 6: "comments", 8: "last_author", 12: "created"}
_STRING, _FILE_TIME = 0x1F, 0x40
_SET_OFFSET_AT = 44
"""The one property set's place stands behind the 28-byte header and the set's 16-byte id."""
_MAX_PROPERTIES = 256
_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)


def read_summary(data: bytes) -> dict[str, str]:
    """The properties that a reader may want, by name; a damaged summary costs only itself.

    Not by olefile: it reads strings past their end, and allocates for as many values as the file claims.
    """
    try:
        (start,) = struct.unpack_from("<I", data, _SET_OFFSET_AT)
        (count,) = struct.unpack_from("<I", data, start + 4)
        entries = [
            struct.unpack_from("<II", data, start + 8 + 8 * index) for index in range(min(count, _MAX_PROPERTIES))
        ]
        found = {_NAMES[key]: _value(data, start + offset) for key, offset in entries if key in _NAMES}
    except (struct.error, OverflowError):
        return {}
    return {name: text for name, text in found.items() if text}


def _value(data: bytes, offset: int) -> str:
    (kind,) = struct.unpack_from("<I", data, offset)
    if kind == _STRING:
        (units,) = struct.unpack_from("<I", data, offset + 4)
        text = data[offset + 8 : offset + 8 + 2 * units].decode("utf-16-le", "replace")
        return text.partition("\0")[0].strip()
    if kind == _FILE_TIME:
        (ticks,) = struct.unpack_from("<Q", data, offset + 4)
        return (_EPOCH + timedelta(microseconds=ticks // 10)).strftime("%Y-%m-%dT%H:%M:%SZ") if ticks else ""
    return ""
