"""Training items that are examined again are found by bytes, by sight, by words and by vectors, and left out."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from tasks.lever.data.candidate_pools import describe_leaks, find_leaks, without_leaks
from tasks.lever.lever_errors import DatasetUnusable
from tasks.lever.lever_records import Dataset, TextItem, VqaItem
from tests.lever.small_dataset import bank, dataset

NEAR = {"t0": [1.0, 0.0], "v0": [0.0, 1.0]}


def pictured(folder: Path, id: str, picture: Image.Image, kind: str = "PNG") -> VqaItem:
    file = io.BytesIO()
    picture.save(file, kind, quality=80)
    path = folder / f"{id}.{kind.lower()}"
    path.write_bytes(file.getvalue())
    digest = hashlib.sha256(file.getvalue()).hexdigest()
    return VqaItem(id=id, image_id=id, image=str(path), image_sha256=digest, question="?", answers=("yes",))


def noise(seed: int) -> Image.Image:
    drawn = np.random.default_rng(seed).integers(0, 255, (6, 8, 3), np.uint8)
    return Image.fromarray(drawn).resize((160, 120), Image.Resampling.BICUBIC)


def of_pictures(folder: Path) -> Dataset:
    examined, other = noise(0), noise(1)
    train = [
        pictured(folder, "copy", examined),
        pictured(folder, "saved anew", examined.resize((128, 96)), "JPEG"),
        pictured(folder, "near to the encoder alone", noise(2)),
        pictured(folder, "the same to the encoder", noise(3)),
        pictured(folder, "far", examined.resize((150, 110)), "JPEG"),
    ]
    return dataset(
        train,
        train_queries=[item.id for item in train],
        validation=[pictured(folder, "v0", other)],
        test=[pictured(folder, "t0", examined)],
    )


def test_pictures_are_the_same_by_bytes_by_sight_and_by_vectors(tmp_path: Path) -> None:
    vectors = NEAR | {
        "copy": [1.0, 0.0],
        "saved anew": [0.98, 0.199],
        "near to the encoder alone": [0.98, -0.199],
        "the same to the encoder": [0.0, 1.0],
        "far": [-1.0, 0.0],
    }
    images, items = bank(vectors), of_pictures(tmp_path)
    leaks = find_leaks(items, {"images": (images, images)})
    assert {name: tuple(leak) for name, leak in leaks.items()} == {
        "copy": ("t0", "picture"),
        "saved anew": ("t0", "look"),
        "the same to the encoder": ("v0", "embedding"),
    }
    parted = without_leaks(items, leaks)
    assert parted.candidates == parted.train_queries == ("near to the encoder alone", "far")
    assert parted.train == items.train, "files of earlier runs may name them"
    assert parted.left_out["copy"] == "it is t0 of validation or test again, by picture"
    named = "(copy is t0, saved anew is t0, the same to the encoder is v0)"
    assert describe_leaks(leaks) == f"1 by picture, 1 by look, 1 by embedding {named}"


def test_drawings_on_one_ground_are_the_same_only_by_place_and_colour(tmp_path: Path) -> None:
    def drawn(colour: str, at: int, ground: str = "#e0e0e0") -> Image.Image:
        picture = Image.new("RGB", (64, 64), ground)
        ImageDraw.Draw(picture).ellipse([at, at, at + 24, at + 24], fill=colour)
        return picture

    pictures = {"brighter": drawn("#ff4040", 8, "#ffffff"), "blue": drawn("#0000e0", 8), "aside": drawn("#e03838", 20)}
    train = [pictured(tmp_path, name, picture, "JPEG") for name, picture in pictures.items()]
    items = dataset(train, test=[pictured(tmp_path, "t0", drawn("#e03838", 8))])
    images = bank({name: [0.6, 0.8] for name in pictures} | {"t0": [0.8, 0.6]})
    assert find_leaks(items, {"images": (images, images)}) == {"brighter": ("t0", "look")}


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("Where, is Aspen", "text"),
        ("where is aspen in the state of colorado and how far is it, please", "text"),
        ("where is denver", None),
    ],
)
def test_texts_are_the_same_by_their_words(text: str, by: str | None) -> None:
    test = [TextItem(id="t0", text="Where is Aspen?", label="a")]
    validation = [TextItem(id="v0", text="Where is Aspen in the state of Colorado and how far is it?", label="a")]
    train = [TextItem(id="c", text=text, label="a"), TextItem(id="d", text="else", label="a")]
    texts = bank(NEAR | {"v0": [1.0, 0.0], "c": [0.98, 0.199], "d": [0.0, -1.0]})
    items = dataset(train, train_queries=["c", "d"], validation=validation, test=test)
    leaks = find_leaks(items, {"texts": (texts, texts)})
    assert [leak.by for leak in leaks.values()] == ([by] if by else [])


def test_a_dataset_of_leaks_alone_is_refused(tmp_path: Path) -> None:
    items = of_pictures(tmp_path).model_copy(update={"shown": ("copy",), "train_queries": ("copy",)})
    with pytest.raises(
        DatasetUnusable,
        match=r"^all training items \(1\) are validation or test items again: 1 by \w+ \([^()]*\); give others$",
    ):
        without_leaks(items, find_leaks(items, {}))
