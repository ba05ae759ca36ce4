"""Texts become rows: each text once, known ones from the cache, the same bits either way."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from storage.embeddings import EmbeddingCache
from tasks.resources import embed_texts

TEXTS = [f"text {number}" for number in range(80)]


class HashEmbedder:
    """Three numbers from a text's hash; remembers what it was asked and fails after `patience` calls."""

    id = "hash/fp32"
    dimension = 3

    def __init__(self, patience: int = 1_000) -> None:
        self.asked: list[list[str]] = []
        self._patience = patience

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if len(self.asked) == self._patience:
            raise ConnectionError("the model is gone")
        self.asked.append(list(texts))
        rows = [[byte / 255 for byte in sha256(text.encode()).digest()[:3]] for text in texts]
        return np.array(rows, np.float32).reshape(-1, 3)


@pytest.fixture
def cache(tmp_path: Path) -> EmbeddingCache:
    return EmbeddingCache(tmp_path / "embeddings.sqlite")


def test_equal_texts_are_computed_once(cache: EmbeddingCache) -> None:
    embedder = HashEmbedder()
    rows = embed_texts(embedder, cache, ["a", "b", "a"])
    assert embedder.asked == [["a", "b"]]
    assert np.array_equal(rows[0], rows[2])


def test_a_second_run_computes_nothing_and_gives_the_same_bits(cache: EmbeddingCache) -> None:
    first, embedder = embed_texts(HashEmbedder(), cache, TEXTS), HashEmbedder()
    assert embed_texts(embedder, cache, TEXTS).tobytes() == first.tobytes()
    assert embedder.asked == []


def test_a_failure_keeps_what_was_finished_and_a_new_run_asks_the_same_batches(cache: EmbeddingCache) -> None:
    with pytest.raises(ConnectionError):
        embed_texts(HashEmbedder(patience=2), cache, TEXTS)
    embedder = HashEmbedder()
    embed_texts(embedder, cache, TEXTS)
    assert embedder.asked == [TEXTS[64:]]
