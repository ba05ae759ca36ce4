"""Vectors of texts that were embedded before, in one SQLite file that any number of processes share.

A vector is kept as fp16, which is also what an index stores: a row from here has the same bits as a fresh one.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from storage.files import make_folder
from storage.storage_errors import StoreUnreachable

Value = TypeVar("Value")

WAIT_FOR_WRITERS_S = 30.0
KEYS_PER_QUERY = 500  # SQLite before 3.32 takes 999 parameters at most
SECONDS_PER_DAY = 86_400
SCHEMA = "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL, used_day INTEGER NOT NULL)"
# fresh and cached rows are equal only as long as both are rounded here
ROW = np.dtype("<f2")


class EmbeddingCache:
    """A cache of vectors by embedder and text that survives kill -9 and is shared by processes and threads.

    A damaged row counts as absent. Raises StoreUnreachable if the file is damaged, or cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    @classmethod
    def below(cls, home: Path) -> EmbeddingCache:
        """Return the cache of a home, in `cache/embeddings.sqlite` below it; made when it is first used."""
        return cls(home / "cache" / "embeddings.sqlite")

    def get_many(self, embedder_id: str, texts: Sequence[str]) -> dict[str, NDArray[np.float16]]:
        """Return the vectors (dimension,) of those texts that are known, by text, and note that they were used."""
        by_key = {cache_key(embedder_id, text): text for text in texts}
        keys, today = list(by_key), _today()

        def read(connection: sqlite3.Connection) -> dict[str, NDArray[np.float16]]:
            """Return the undamaged vectors of `keys`, by text, and mark them as used today."""
            vectors, stale = dict[str, NDArray[np.float16]](), list[tuple[int, bytes]]()
            for start in range(0, len(keys), KEYS_PER_QUERY):
                batch = keys[start : start + KEYS_PER_QUERY]
                holes = ",".join("?" * len(batch))
                query = f"SELECT key, vector, used_day FROM vectors WHERE key IN ({holes})"
                for key, stored, used_day in connection.execute(query, batch):
                    data = stored[4:]
                    if len(stored) > 4 and struct.unpack_from("<I", stored)[0] == zlib.crc32(data):
                        vectors[by_key[key]] = np.frombuffer(data, ROW)
                    if used_day < today:
                        stale.append((today, key))
            connection.executemany("UPDATE vectors SET used_day = ? WHERE key = ?", stale)
            return vectors

        return self._run(read)

    def put_many(
        self, embedder_id: str, texts: Sequence[str], vectors: NDArray[np.float32] | NDArray[np.float16]
    ) -> None:
        """Keep `vectors` (len(texts), dimension) as fp16 in place of older ones; durable against kill -9 on return."""
        rows = list[tuple[bytes, bytes, int]]()
        for text, vector in zip(texts, vectors, strict=True):
            data = vector.astype(ROW).tobytes()
            checksum = struct.pack("<I", zlib.crc32(data))  # SQLite does not notice a flipped bit in a value
            rows.append((cache_key(embedder_id, text), checksum + data, _today()))
        self._run(lambda connection: connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows))

    def prune(self, *, older_than_days: int, dry_run: bool = False) -> int:
        """Remove vectors last used more than `older_than_days` ago, with `dry_run` none; return their number."""
        if not self._path.exists():
            return 0
        stale, values = "FROM vectors WHERE used_day < ?", (_today() - older_than_days,)
        if dry_run:
            return self._run(lambda connection: connection.execute(f"SELECT count(*) {stale}", values).fetchone())[0]
        removed = self._run(lambda connection: connection.execute(f"DELETE {stale}", values).rowcount)

        def give_space_back(connection: sqlite3.Connection) -> None:
            connection.commit()  # VACUUM refuses to run inside a transaction
            connection.execute("VACUUM")

        if removed:
            self._run(give_space_back)
        return removed

    def close(self) -> None:
        """Close the connection to the file; the next call opens it again."""
        with self._lock:
            self._disconnect()

    def _run(self, work: Callable[[sqlite3.Connection], Value]) -> Value:
        """Return what `work` gives in one transaction. Raises StoreUnreachable."""
        with self._lock:
            try:
                return self._transaction(work)
            except (sqlite3.DatabaseError, OSError) as error:
                self._disconnect()
                raise StoreUnreachable(
                    f"the embedding cache {self._path} cannot be used ({error}); "
                    "free disk space, check the permissions of its folder, or delete the file: it is only a cache"
                ) from error

    def _transaction(self, work: Callable[[sqlite3.Connection], Value]) -> Value:
        """Return what `work` gives in one transaction; the first use makes and opens the file. Raises sqlite3.Error."""
        if self._connection is None:
            make_folder(self._path.parent)
            connection = sqlite3.connect(self._path, timeout=WAIT_FOR_WRITERS_S, check_same_thread=False)
            try:
                switch_to_wal(connection)
                # NORMAL: kill -9 loses nothing, a power cut perhaps the last rows, which are computed again
                connection.execute("PRAGMA synchronous=NORMAL")
                connection.execute(SCHEMA)
            except sqlite3.Error:
                connection.close()
                raise
            self._connection = connection
        with self._connection:
            return work(self._connection)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def cache_key(embedder_id: str, text: str) -> bytes:
    """Return 32 bytes that name a text under an embedder; lone surrogates are keyed as they are."""
    return hashlib.sha256(f"{embedder_id}\0{text}".encode("utf-8", "surrogatepass")).digest()


def switch_to_wal(connection: sqlite3.Connection) -> None:
    """Switch a file to the write-ahead log; tries again while others do, for 30 s. Raises sqlite3.OperationalError."""
    deadline = time.monotonic() + WAIT_FOR_WRITERS_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _today() -> int:
    return int(time.time() // SECONDS_PER_DAY)
