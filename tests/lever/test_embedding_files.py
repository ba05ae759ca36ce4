"""Embeddings of others are read in every shape, and never without knowing whose they are."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from tasks.lever.data.embeddings import EmbeddingBank, QueryPools, read_bank, read_embeddings
from tasks.lever.lever_errors import FileUnusable
from tests.lever.seed_files import repack

ROWS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])


def saved(folder: Path, content: object, ids: object = None) -> Path:
    path = folder / "candidate_embeddings.pt"
    torch.save(content, path)
    if ids is not None:
        path.with_suffix(".json").write_text(json.dumps(ids))
    return path


@pytest.mark.parametrize(
    ("content", "ids"),
    [
        pytest.param(ROWS, [7, 8, 9], id="[N, d] with a list beside it"),
        pytest.param({7: ROWS[0], 8: ROWS[1], 9: ROWS[2]}, None, id="dict by number"),
    ],
)
def test_embeddings_are_found_by_id(tmp_path: Path, content: object, ids: object) -> None:
    bank = read_bank(saved(tmp_path, content, ids))
    assert torch.equal(bank.rows(["9", "7"]), ROWS[[2, 0]])
    assert bank.vectors.dtype == torch.float32
    assert not bank.vectors.requires_grad


POOLS = torch.stack([ROWS[[0, 1]], ROWS[[1, 2]]])  # (2, 2, d)
NAMED = {"ids": [100, 101], "candidates": [[7, 8], [8, 9]]}


@pytest.mark.parametrize(
    ("content", "ids"),
    [
        pytest.param(POOLS, NAMED, id="[Q, K, d]"),
        pytest.param({101: POOLS[1], 100: POOLS[0]}, NAMED, id="dict of [K, d], in another order"),
    ],
)
def test_pools_of_queries_keep_their_candidates(tmp_path: Path, content: object, ids: object) -> None:
    read = read_embeddings(saved(tmp_path, content, ids))
    assert isinstance(read, QueryPools)
    assert read.pools == {"100": ("7", "8"), "101": ("8", "9")}
    assert torch.equal(read.bank.rows(["7", "8", "9"]), ROWS)


@pytest.mark.parametrize(
    ("content", "ids", "said"),
    [
        pytest.param(ROWS, None, r"\[3, 2\] without ids.*--ids FILE", id="no ids"),
        pytest.param(ROWS * float("inf"), [7, 8, 9], "embedding of 7 is not finite", id="infinity"),
        pytest.param(ROWS[:1].expand(9, 2), list(range(9)), "repeat the same numbers", id="one row many times"),
        pytest.param({7: ROWS[0], "meta": "x"}, None, "'meta' is none", id="text in a dict"),
    ],
)
def test_what_is_unclear_is_refused(tmp_path: Path, content: object, ids: object, said: str) -> None:
    with pytest.raises(FileUnusable, match=said):
        read_embeddings(saved(tmp_path, content, ids))


def test_ids_of_another_content_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "q.pt"
    EmbeddingBank(("1", "2", "3"), ROWS, "clip").export_pt(path)
    torch.save(ROWS.flip(0), path)
    with pytest.raises(FileUnusable, match="written for another content"):
        read_embeddings(path)


class Touch:
    """What a hostile pickle does when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_a_file_that_would_run_something_runs_nothing(tmp_path: Path) -> None:
    path = saved(tmp_path, {"7": ROWS[0], "8": Touch(tmp_path / "ran")})
    with pytest.raises(FileUnusable, match="holds more than tensors"):
        read_embeddings(path)
    assert not (tmp_path / "ran").exists()


def test_a_packed_file_is_refused_before_it_unfolds(tmp_path: Path) -> None:
    path = repack(saved(tmp_path, torch.zeros(1 << 20), [1]), lambda _, data: data, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(FileUnusable, match="is packed"):
        read_embeddings(path)
