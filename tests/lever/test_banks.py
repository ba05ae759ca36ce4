"""Embeddings stay with their ids, whatever order they are asked for in."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch

from tasks.lever.data.embeddings import EmbeddingBank, bank_of, beside
from tasks.lever.lever_errors import FileUnusable

VECTORS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
BANK = EmbeddingBank(("7", "a b", "9"), VECTORS, "clip-vit@abc")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        BANK.to_bytes()[:40],
        BANK.to_bytes()[:-1],
        (1 << 40).to_bytes(8, "little") + b"{}",
    ],
    ids=["empty", "cut in the header", "cut in the numbers", "huge header"],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(FileUnusable, match="no embeddings of ours"):
        EmbeddingBank.from_bytes(data)


@pytest.mark.parametrize(
    ("ids", "vectors", "said"),
    [
        pytest.param(["1", "2", "1"], VECTORS, "id 1 stands there twice", id="an id twice"),
        pytest.param(["1", "2", "3"], VECTORS.log() * 0, "embedding of 1 is not finite", id="NaN"),
        pytest.param(["1", "2", "3"], VECTORS.long(), "torch.int64 are no embeddings", id="integers"),
    ],
)
def test_what_is_no_bank_is_refused_by_name(ids: list[str], vectors: torch.Tensor, said: str) -> None:
    with pytest.raises(FileUnusable, match=f"file.pt.*{said}"):
        bank_of(ids, vectors, encoder="", where="file.pt")


def test_an_export_is_a_plain_tensor_with_its_ids_beside(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "query_embeddings.pt"
    BANK.export_pt(path)
    assert torch.equal(torch.load(path, weights_only=True), VECTORS)
    assert json.loads(beside(path).read_bytes()) == {
        "ids": ["7", "a b", "9"],
        "encoder": "clip-vit",
        "revision": "abc",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
