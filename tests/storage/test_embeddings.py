"""The embedding cache keeps what it was given, whoever writes beside it and however a writer ends."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from numpy.typing import NDArray

from storage import embeddings
from storage.embeddings import EmbeddingCache, cache_key
from storage.storage_errors import StoreUnreachable

WRITER = """
import sys, numpy as np
from pathlib import Path
from storage.embeddings import EmbeddingCache
cache = EmbeddingCache(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    cache.put_many("m", [f"{sys.argv[2]} {number}"], np.full((1, 4), number, np.float32))
    print(number, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new folder" / "embeddings.sqlite"


def rows(*numbers: float) -> NDArray[np.float32]:
    return np.array([[number] * 4 for number in numbers], np.float32)


def write_beside(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def test_what_was_put_is_found_after_reopening(path: Path) -> None:
    cache = EmbeddingCache(path)
    cache.put_many("m", ["a", "b"], rows(1, 2))
    cache.close()
    found = EmbeddingCache(path).get_many("m", ["b", "c", "a"])
    assert {text: vector.tolist() for text, vector in found.items()} == {"a": [1] * 4, "b": [2] * 4}


def test_rows_are_rounded_to_fp16_once(path: Path) -> None:
    cache, third = EmbeddingCache(path), rows(1 / 3)
    cache.put_many("m", ["single"], third)
    cache.put_many("m", ["half"], third.astype(np.float16))
    found = cache.get_many("m", ["single", "half"])
    assert found["single"].tobytes() == found["half"].tobytes() == third.astype(np.float16).tobytes()


def test_the_key_is_the_sha256_of_embedder_nul_text() -> None:
    # printf 'm\0a' | sha256sum
    assert cache_key("m", "a").hex() == "3495f49bd0e64e1ce4282ded10d2568d9488a305fa2465de6e5d827140f1a410"


def test_a_killed_writer_loses_nothing_that_it_reported(path: Path) -> None:
    writer = write_beside(path, "w", 100_000)
    assert writer.stdout is not None
    reported = [int(writer.stdout.readline()) for _ in range(20)]
    os.kill(writer.pid, signal.SIGKILL)
    writer.communicate()
    found = EmbeddingCache(path).get_many("m", [f"w {number}" for number in reported])
    assert [found[f"w {number}"][0] for number in reported] == reported


def test_writers_at_the_same_time_all_succeed(path: Path) -> None:
    writers = [write_beside(path, name, 100) for name in "abc"]
    for writer in writers:
        writer.communicate()
    found = EmbeddingCache(path).get_many("m", [f"{name} {number}" for name in "abc" for number in range(100)])
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert len(found) == 300


def test_a_damaged_file_is_refused_with_the_remedy(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"not a database at all" * 300)
    with pytest.raises(StoreUnreachable, match="delete the file: it is only a cache"):
        EmbeddingCache(path).get_many("m", ["a"])


def test_a_flipped_bit_in_a_vector_counts_as_absent(path: Path) -> None:
    cache = EmbeddingCache(path)
    cache.put_many("m", ["a", "b"], rows(1, 2))
    cache.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE vectors SET vector = zeroblob(12) WHERE key = ?", (cache_key("m", "a"),))
    connection.close()
    assert list(cache.get_many("m", ["a", "b"])) == ["b"]


def test_pruning_forgets_what_was_not_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, today = EmbeddingCache(path), embeddings._today()
    cache.put_many("m", ["used", "unused"], rows(1, 2))
    monkeypatch.setattr(embeddings, "_today", lambda: today + 20)
    cache.get_many("m", ["used"])
    monkeypatch.setattr(embeddings, "_today", lambda: today + 31)
    assert cache.prune(older_than_days=30, dry_run=True) == 1
    assert cache.prune(older_than_days=30) == 1
    assert list(cache.get_many("m", ["used", "unused"])) == ["used"]


def test_two_that_open_a_new_file_at_the_same_moment_both_succeed(tmp_path: Path) -> None:
    def look(cache: EmbeddingCache, barrier: Barrier) -> dict[str, object]:
        barrier.wait()
        return dict(cache.get_many("e", ["text"]))

    with ThreadPoolExecutor(max_workers=2) as pool:
        for attempt in range(60):  # the moment is short: one try in four hits it
            caches = [EmbeddingCache(tmp_path / f"{attempt}.sqlite") for _ in range(2)]
            assert list(pool.map(look, caches, [barrier := Barrier(2), barrier])) == [{}, {}]
            for cache in caches:
                cache.close()
