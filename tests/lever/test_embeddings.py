"""Vectors of a dataset, and that none is made twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storage.artifacts import Artifacts
from storage.records import Ref
from tasks.lever.data import embeddings
from tasks.lever.data.embeddings import EmbeddingBank, embed_dataset
from tasks.lever.judge.demonstration_task import views_of
from tasks.lever.lever_records import Dataset, Embedded
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
    return embed_dataset(found, views_of(encoder), store, **chosen)


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


def test_classes_are_kept_where_the_encoder_names_them(store: Artifacts, pictures: Path) -> None:
    with_classes = embed(small(pictures), ColourEncoder(), store)
    assert opened(store, with_classes.classes).rows(["t1", "t3"]).tolist() == [[1, 0], [0, 1]]
    other = ColourEncoder(classes=False)
    other.id = "colours:2"
    assert embed(small(pictures), other, store).classes is None


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
