"""Tables of an index in LanceDB, and segments as rows of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from storage.arrays import map_arrays

ALL = 1 << 30
"""LanceDB gives ten rows unless it is told how many."""


def schemas() -> dict[str, Any]:
    """Every table but the vectors, which have one for each dimension."""
    lists = pa.list_(pa.int32())
    return {
        "segments": pa.schema([("segment", pa.int64()), ("digest", pa.string())]),
        "owners": pa.schema([("segment", pa.int64()), ("documents", pa.list_(pa.string())), ("rows", lists)]),
        "chunks": pa.schema([("segment", pa.int64()), ("row", pa.int32()), ("chunk", pa.large_binary())]),
        "postings": pa.schema(
            [
                *(("term", pa.int64()), ("segment", pa.int64()), ("held", pa.int32())),
                *(("rows", lists), ("frequencies", lists), ("lengths", lists)),
            ]
        ),
        "blobs": pa.schema([("segment", pa.int64()), ("data", pa.large_binary())]),
        "generations": pa.schema(
            [("number", pa.int64()), ("id", pa.string()), ("digest", pa.string()), ("manifest", pa.string())]
        ),
    }


def vectors_name(dimension: int) -> str:
    """The table of vectors of so many numbers."""
    return f"vectors_{dimension}"


def vectors_schema(dimension: int) -> Any:
    """Its columns."""
    vector = pa.list_(pa.float16(), dimension)
    return pa.schema([("segment", pa.int64()), ("row", pa.int32()), ("list", pa.int32()), ("vector", vector)])


def number_of(digest: str) -> int:
    """The number of a segment: of a million, two share one with a chance of 3 in 100 million."""
    return int.from_bytes(bytes.fromhex(digest[:16]), signed=True)


def rows(table: Any, *, where: str | None = None, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of a table, as dicts."""
    return found(table, where=where, columns=columns).to_pylist()


def found(table: Any, *, where: str | None = None, columns: Sequence[str]) -> Any:
    """Rows of a table, as Arrow."""
    query = table.search().select(list(columns)).limit(ALL)
    return (query if where is None else query.where(where)).to_arrow()


def add(table: Any, **row: Any) -> None:
    """Put one row."""
    table.add(pa.Table.from_pylist([row], schema=table.schema))


def index(table: Any, *, postings: bool) -> None:
    """Index a table's segments and terms where it is not, and what came since."""
    from lancedb.index import Bitmap, BTree

    if table.list_indices():
        table.optimize()
    elif table.count_rows():
        table.create_index("segment", config=Bitmap())
        if postings:
            table.create_index("term", config=BTree())


def of_text(path: Path, segment: int) -> list[tuple[str, Any]]:
    """Rows of a `segment-text`, by table."""
    arrays, known = map_arrays(path), schemas()
    documents = arrays["documents"].tobytes().decode().split("\0") if arrays["documents"].size else []
    counts = np.bincount(arrays["owners"], minlength=len(documents)).tolist()
    owners = {"segment": [segment], "documents": [documents], "rows": [counts]}
    texts = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(),
        len(arrays["owners"]),
        [None, pa.array(np.array(arrays["offsets"])).buffers()[1], pa.py_buffer(arrays["chunks"].tobytes())],
    )
    chunks = {"segment": _same(segment, len(texts)), "row": np.arange(len(texts), dtype=np.int32), "chunk": texts}
    starts, listed = arrays["starts"][:-1].astype(np.int32), arrays["rows"].astype(np.int32)
    postings = {
        "term": np.array(arrays["hashes"][:-1]).view(np.int64),  # a copy: LanceDB wants aligned memory
        "segment": _same(segment, len(starts) - 1),
        "held": np.diff(starts),
        "rows": _lists(starts, listed),
        "frequencies": _lists(starts, arrays["frequencies"].astype(np.int32)),
        "lengths": _lists(starts, arrays["lengths"][listed].astype(np.int32)),
    }
    made = {"owners": owners, "chunks": chunks, "postings": postings}
    return [(name, pa.Table.from_pydict(columns, schema=known[name])) for name, columns in made.items()]


def of_vectors(path: Path, segment: int) -> list[tuple[str, Any]]:
    """Rows of a `segment-vectors`, in the order of its lists; none of one without rows, which has no dimension."""
    arrays = map_arrays(path)
    vectors: NDArray[np.float16] = arrays["vectors"]
    if not len(vectors):
        return []
    starts = arrays.get("starts")
    lists = np.zeros(len(vectors)) if starts is None else np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    dimension = vectors.shape[1]
    columns = {
        "segment": _same(segment, len(vectors)),
        "row": arrays.get("order", arrays["ids"]).astype(np.int32),
        "list": lists.astype(np.int32),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(np.array(vectors).ravel()), dimension),
    }
    return [(vectors_name(dimension), pa.Table.from_pydict(columns, schema=vectors_schema(dimension)))]


def of_blob(path: Path, segment: int) -> list[tuple[str, Any]]:
    """The row of a file that is read whole."""
    columns = {"segment": [segment], "data": [path.read_bytes()]}
    return [("blobs", pa.Table.from_pydict(columns, schema=schemas()["blobs"]))]


def _same(value: int, count: int) -> NDArray[np.int64]:
    return np.full(count, value, np.int64)


def _lists(starts: NDArray[np.int32], values: NDArray[np.int32]) -> Any:
    return pa.ListArray.from_arrays(pa.array(starts), pa.array(values))
