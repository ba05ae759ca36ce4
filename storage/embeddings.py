"""Vectors of texts that were embedded before, in one SQLite file that any number of processes share.

A vector is kept as fp16, which is also what an index stores: a row from here has the same bits as a fresh one.
"""

from __future__ import annotations

import hashlib
import struct
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from storage.connections import SqliteFile

KEYS_PER_QUERY = 500  # SQLite before 3.32 takes 999 parameters at most
SECONDS_PER_DAY = 86_400
SCHEMA = sa.text(
    "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL, used_day INTEGER NOT NULL)"
)
INSERT = "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)"
REMEDY = "free disk space, check the permissions of its folder, or delete the file: it is only a cache"
# fresh and cached rows are equal only as long as both are rounded here
ROW = np.dtype("<f2")


class EmbeddingCache:
    """A cache of vectors by embedder and text that survives kill -9 and is shared by processes and threads.

    A damaged row counts as absent. Raises StoreUnreachable if the file is damaged, or cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(path, [SCHEMA], remedy=REMEDY)

    @classmethod
    def below(cls, home: Path) -> EmbeddingCache:
        """Return the cache of a home, in `cache/embeddings.sqlite` below it; made when it is first used."""
        return cls(home / "cache" / "embeddings.sqlite")

    def get_many(self, embedder_id: str, texts: Sequence[str]) -> dict[str, NDArray[np.float16]]:
        """Return the vectors (dimension,) of those texts that are known, by text, and note that they were used."""
        by_key = {cache_key(embedder_id, text): text for text in texts}
        keys, today = list(by_key), _today()

        def read(connection: sa.Connection) -> dict[str, NDArray[np.float16]]:
            """Return the undamaged vectors of `keys`, by text, and mark them as used today."""
            vectors, stale = dict[str, NDArray[np.float16]](), list[tuple[int, bytes]]()
            for start in range(0, len(keys), KEYS_PER_QUERY):
                batch = keys[start : start + KEYS_PER_QUERY]
                holes = ",".join("?" * len(batch))
                query = f"SELECT key, vector, used_day FROM vectors WHERE key IN ({holes})"
                for key, stored, used_day in connection.exec_driver_sql(query, tuple(batch)):
                    data = stored[4:]
                    if len(stored) > 4 and struct.unpack_from("<I", stored)[0] == zlib.crc32(data):
                        vectors[by_key[key]] = np.frombuffer(data, ROW)
                    if used_day < today:
                        stale.append((today, key))
            if stale:
                connection.exec_driver_sql("UPDATE vectors SET used_day = ? WHERE key = ?", stale)
            return vectors

        return self._file.run(read)

    def put_many(
        self, embedder_id: str, texts: Sequence[str], vectors: NDArray[np.float32] | NDArray[np.float16]
    ) -> None:
        """Keep `vectors` (len(texts), dimension) as fp16 in place of older ones; durable against kill -9 on return."""
        rows = list[tuple[bytes, bytes, int]]()
        for text, vector in zip(texts, vectors, strict=True):
            data = vector.astype(ROW).tobytes()
            checksum = struct.pack("<I", zlib.crc32(data))  # SQLite does not notice a flipped bit in a value
            rows.append((cache_key(embedder_id, text), checksum + data, _today()))
        if rows:
            self._file.run(lambda connection: connection.exec_driver_sql(INSERT, rows))

    def prune(self, *, older_than_days: int, dry_run: bool = False) -> int:
        """Remove vectors last used more than `older_than_days` ago, with `dry_run` none; return their number."""
        if not self._file.path.exists():
            return 0
        stale, days = "FROM vectors WHERE used_day < ?", (_today() - older_than_days,)
        if dry_run:
            query = f"SELECT count(*) {stale}"
            return self._file.run(lambda connection: connection.exec_driver_sql(query, days).scalar_one())
        removed = self._file.run(lambda connection: connection.exec_driver_sql(f"DELETE {stale}", days).rowcount)
        if removed:
            self._file.run(lambda connection: connection.exec_driver_sql("VACUUM"))  # gives the space back
        return removed

    def close(self) -> None:
        """Close the connections to the file; the next call opens it again."""
        self._file.close()


def cache_key(embedder_id: str, text: str) -> bytes:
    """Return 32 bytes that name a text under an embedder; lone surrogates are keyed as they are."""
    return hashlib.sha256(f"{embedder_id}\0{text}".encode("utf-8", "surrogatepass")).digest()


def _today() -> int:
    return int(time.time() // SECONDS_PER_DAY)
