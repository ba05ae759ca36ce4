"""Named arrays in one file, mapped when it is opened: the safetensors format, with the arrays in the order given."""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TYPES = {"U8": "u1", "U16": "<u2", "U32": "<u4", "U64": "<u8", "I32": "<i4", "I64": "<i8", "F16": "<f2", "F32": "<f4"}
_NAMES = {np.dtype(kind): name for name, kind in TYPES.items()}
ALIGNED = 64
"""Bytes that the header is a multiple of, so that the first array lies well in memory."""


def pack_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the bytes of a safetensors file; equal arrays give equal bytes. Raises KeyError: a dtype not in TYPES."""
    fields: dict[str, Any] = {}
    offset = 0
    for name, values in arrays.items():
        fields[name] = {
            "dtype": _NAMES[values.dtype],
            "shape": values.shape,
            "data_offsets": [offset, offset + values.nbytes],
        }
        offset += values.nbytes
    header = json.dumps(fields, separators=(",", ":")).encode()
    header += b" " * (-(len(header) + 8) % ALIGNED)  # its length stands before it in 8 bytes
    data = (np.ascontiguousarray(values).view(np.uint8).data for values in arrays.values() if values.size)
    return b"".join([len(header).to_bytes(8, "little"), header, *data])


def map_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return a file's arrays by name, mapped read-only. Raises OSError; ValueError or KeyError for another format."""
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    size = int.from_bytes(mapped[:8], "little")
    start = 8 + size
    arrays: dict[str, NDArray[Any]] = {}
    for name, field in json.loads(mapped[8:start]).items():
        kind, (begin, _) = np.dtype(TYPES[field["dtype"]]), field["data_offsets"]
        count = int(np.prod(field["shape"], dtype=np.int64))
        arrays[name] = np.frombuffer(mapped, kind, count, start + begin).reshape(field["shape"])
    return arrays


def start_of_arrays(path: Path) -> int:
    """Return the offset in bytes of the first array of a file that `pack_arrays` made. Raises OSError."""
    with path.open("rb") as file:
        return 8 + int.from_bytes(file.read(8), "little")


def narrow_integers(values: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers from 0 on, in the narrowest type that holds them."""
    largest = int(values.max(initial=0))
    kind = next(kind for kind in (np.uint8, np.uint16, np.uint32, np.uint64) if largest <= np.iinfo(kind).max)
    return values.astype(kind)
