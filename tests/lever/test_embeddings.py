"""Vectors of a dataset, and that none is made twice."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from storage.artifacts import Artifacts
from storage.records import Ref
from tasks.lever.data import embeddings
from tasks.lever.data.embeddings import EmbeddingBank, embed_dataset, ids_file, read_embeddings
from tasks.lever.judge.demonstration_task import picture_views
from tasks.lever.lever_errors import FileUnusable
from tasks.lever.lever_records import Dataset, Embedded
from tests.lever.seed_files import repack
from tests.lever.small_dataset import ColourEncoder, dataset, item, png

RED, GREEN = png(255), png(0, 255)


@pytest.fixture
def store(tmp_path: Path) -> Artifacts:
    return Artifacts(tmp_path / "store")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    return folder


def embed(found: Dataset, encoder: ColourEncoder, store: Artifacts, **chosen: Any) -> Embedded:
    return embed_dataset(found, picture_views(encoder), store, **chosen)


def small(pictures: Path) -> Dataset:
    return dataset(
        [
            item("t1", picture=RED, question="aaaa", folder=pictures),
            item("t2", picture=RED, question="bbbb", folder=pictures),
            item("t3", picture=GREEN, question="aaaa", folder=pictures),
        ],
        train_queries=["t2"],
        validation=[item("v1", picture=GREEN, question="cc", folder=pictures)],
        test=[item("x1", picture=RED, question="ee", folder=pictures)],
    )


def many(pictures: Path, count: int) -> Dataset:
    return dataset(
        [item(f"{at:02d}", picture=png(at, 9), question="a" * at, folder=pictures) for at in range(1, count)]
    )


def opened(store: Artifacts, ref: Ref | None) -> EmbeddingBank:
    assert ref
    return EmbeddingBank.from_bytes(store.get(ref))


def test_image_and_question_are_normalised_averaged_and_normalised_again(store: Artifacts, pictures: Path) -> None:
    embedded = embed(small(pictures), ColourEncoder(), store)
    candidates = opened(store, embedded.candidates)
    # t2: the picture [255, 0, 0, 0] and the question [0, 0, 0, 4] are unit vectors after the first step
    half = 0.5**0.5
    assert candidates.rows(["t2"])[0].tolist() == pytest.approx([half, 0, 0, half])
    assert opened(store, embedded.texts).rows(["t1"])[0].tolist() == pytest.approx([0, 0, half, half])
    assert opened(store, embedded.images).rows(["t3"])[0].tolist() == pytest.approx([0, 1, 0, 0])


def test_equal_pictures_and_equal_questions_are_embedded_once(store: Artifacts, pictures: Path) -> None:
    encoder = ColourEncoder()
    embed(small(pictures), encoder, store)
    assert encoder.pictures == [RED, GREEN]
    assert encoder.texts == ["aaaa", "bbbb", "cc", "ee"]


def test_an_export_that_was_interrupted_goes_on_where_it_stopped(
    store: Artifacts, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embeddings, "PER_SHARD", 4)
    with pytest.raises(KeyboardInterrupt):
        embed(many(pictures, 11), ColourEncoder(dies_after=8), store)
    resumed = ColourEncoder()
    embedded = embed(many(pictures, 11), resumed, store)
    assert resumed.pictures == [png(9, 9), png(10, 9)]
    assert embedded == embed(many(pictures, 11), ColourEncoder(), Artifacts(tmp_path / "undisturbed"))


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
    bank = read_embeddings(saved(tmp_path, content, ids))
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
    assert read.pools == {"100": ("7", "8"), "101": ("8", "9")}
    assert torch.equal(read.rows(["7", "8", "9"]), ROWS)


@pytest.mark.parametrize(
    ("content", "ids", "said"),
    [
        pytest.param(ROWS, None, r"\[3, 2\] without ids.*--ids FILE", id="no ids"),
        pytest.param(ROWS, [7, 8, 7], r"candidate_embeddings.pt.*id 7 stands there twice", id="an id twice"),
        pytest.param(ROWS.log() * 0, [7, 8, 9], "embedding of 7 is not finite", id="NaN"),
        pytest.param(ROWS.long(), [7, 8, 9], "torch.int64 are no embeddings", id="integers"),
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


BANK = EmbeddingBank(("7", "a b", "9"), ROWS, "clip-vit@abc")


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


def test_an_export_is_a_plain_tensor_with_its_ids_beside(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "query_embeddings.pt"
    BANK.export_pt(path)
    assert torch.equal(torch.load(path, weights_only=True), ROWS)
    assert json.loads(ids_file(path).read_bytes()) == {
        "ids": ["7", "a b", "9"],
        "encoder": "clip-vit",
        "revision": "abc",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }


def test_vectors_of_other_lengths_are_scaled_and_a_zero_one_is_refused(tmp_path: Path) -> None:
    vectors = torch.tensor([[3.0, 4.0], [0.6, 0.8], [1e-3, 0.0]])
    read = read_embeddings(saved(tmp_path, {str(row): vector for row, vector in enumerate(vectors)}, None))
    torch.testing.assert_close(read.vectors, torch.tensor([[0.6, 0.8], [0.6, 0.8], [1.0, 0.0]]))
    assert read.vectors[1].equal(vectors[1]), "one of length one stays as it is"
    with pytest.raises(FileUnusable, match=r"the embedding of b is zero; embed it again"):
        read_embeddings(saved(tmp_path, {"a": vectors[0], "b": 0 * vectors[0]}, None))
