"""Segments on their way into PostgreSQL, in the binary form of COPY: arrays go as they are, without becoming texts."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from storage.arrays import map_arrays, smallest

if TYPE_CHECKING:
    from psycopg import Cursor

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
PIECE = 1 << 20
"""Bytes that are sent at once."""


def put_text(cursor: Cursor[Any], path: Path, *, digest: str) -> None:
    """Chunks and postings of a `segment-text`, and a row of `segments`."""
    arrays = map_arrays(path)
    documents = arrays["documents"].tobytes().decode().split("\0") if arrays["documents"].size else []
    rows = np.bincount(arrays["owners"], minlength=len(documents)).tolist()
    segment = _register(cursor, digest, documents, rows)
    _copy(cursor, "chunks (segment, row, chunk)", _chunk_rows(segment, arrays))
    _copy(cursor, "postings (term, segment, held, rows, frequencies, lengths)", _posting_rows(segment, arrays))


def put_vectors(cursor: Cursor[Any], path: Path, *, digest: str) -> None:
    """Rows of `vectors` of a `segment-vectors`, in the order of its lists, and a row of `segments`."""
    arrays = map_arrays(path)
    vectors: NDArray[np.float16] = arrays["vectors"]
    segment = _register(cursor, digest, [], [])
    starts = arrays.get("starts")
    lists = 0 if starts is None else np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    fields = [("fields", ">i2"), ("s", ">i4"), ("segment", ">i8"), ("r", ">i4"), ("row", ">i4"), ("l", ">i4")]
    fields += [("list", ">i4"), ("v", ">i4"), ("dimension", ">i2"), ("unused", ">i2")]
    packed = np.zeros(len(vectors), np.dtype([*fields, ("vector", ">f2", (vectors.shape[1],))]))
    packed["fields"], packed["s"], packed["r"], packed["l"] = 4, 8, 4, 4
    packed["segment"], packed["row"], packed["list"] = segment, arrays.get("order", arrays["ids"]), lists
    packed["v"], packed["dimension"], packed["vector"] = 4 + 2 * vectors.shape[1], vectors.shape[1], vectors
    _copy(cursor, "vectors (segment, row, list, vector)", iter([packed.tobytes()]))


def put_blob(cursor: Cursor[Any], path: Path, *, digest: str) -> None:
    """A file that is read whole."""
    cursor.execute("INSERT INTO blobs VALUES (%s, %s)", [digest, path.read_bytes()])


def numbers_of(sent: bytes, count: int) -> NDArray[Any]:
    """So many whole numbers from 0 on, of as few bytes each as the largest of their segment needs."""
    return np.frombuffer(sent, np.dtype(f"<u{len(sent) // count}"))


def _register(cursor: Cursor[Any], digest: str, documents: list[str], rows: list[int]) -> int:
    into = "INSERT INTO segments (digest, documents, rows) VALUES (%s, %s::text[], %s::integer[]) RETURNING segment"
    [segment] = cursor.execute(into, [digest, documents, rows]).fetchone() or (0,)
    return segment


def _copy(cursor: Cursor[Any], into: str, rows: Iterator[bytes]) -> None:
    with cursor.copy(f"COPY {into} FROM STDIN (FORMAT BINARY)".encode()) as copy:
        waiting = [HEADER]
        size = 0
        for row in rows:
            waiting.append(row)
            size += len(row)
            if size > PIECE:
                copy.write(b"".join(waiting))
                waiting, size = [], 0
        copy.write(b"".join([*waiting, TRAILER]))


def _chunk_rows(segment: int, arrays: dict[str, NDArray[Any]]) -> Iterator[bytes]:
    offsets = arrays["offsets"].tolist()
    text = arrays["chunks"].tobytes()
    head = struct.Struct(">hiqiii")
    for row, (begin, end) in enumerate(pairwise(offsets)):
        yield head.pack(3, 8, segment, 4, row, end - begin) + text[begin:end]


def _posting_rows(segment: int, arrays: dict[str, NDArray[Any]]) -> Iterator[bytes]:
    rows, lengths = arrays["rows"], smallest(arrays["lengths"][arrays["rows"]])
    columns = [(each.tobytes(), each.itemsize) for each in (rows, arrays["frequencies"], lengths)]
    starts = arrays["starts"].tolist()
    head, size = struct.Struct(">hiqiqii"), struct.Struct(">i")
    for at, term in enumerate(arrays["hashes"][:-1].view(np.int64).tolist()):
        begin, end = starts[at], starts[at + 1]
        yield head.pack(6, 8, term, 8, segment, 4, end - begin) + b"".join(
            size.pack(width * (end - begin)) + column[width * begin : width * end] for column, width in columns
        )
