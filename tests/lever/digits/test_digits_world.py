"""The digits' world comes in the official VQA format, the same bytes for the same seed, and its majority is right."""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from models.model_errors import RequestRefused
from storage.artifacts import Artifacts
from tasks.lever.data.candidate_pools import find_nearest, read_banks
from tasks.lever.data.datasets import open_dataset
from tasks.lever.data.embeddings import embed_dataset
from tasks.lever.digits.digits_judge import MOST_SHOWN, DigitsEncoder
from tasks.lever.digits.scenes import (
    PARTS,
    PHOTOS,
    SIZE,
    Split,
    from_png,
    lexicon,
    load_digits,
    render,
    seeded_generator,
    to_png,
    write_world,
)
from tasks.lever.judge.demonstration_task import picture_views
from tasks.lever.lever_records import Dataset
from tests.lever.digits.prompts import weights
from tests.lever.small_dataset import pictured

SIZES = {"candidates": 60, "queries": 20, "validation": 12, "test": 15}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    write_world(folder, "digits", **SIZES)
    return folder


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def answers(folder: Path, split: Split) -> list[dict[str, Any]]:
    return json.loads((folder / f"digits_{split}_annotations.json").read_bytes())["annotations"]


def test_equal_sizes_give_the_same_bytes(folder: Path, tmp_path: Path):
    write_world(tmp_path, "digits", **SIZES)
    assert digests(tmp_path) == digests(folder)


def test_it_is_read_as_any_other_dataset(folder: Path):
    found = open_dataset("digits", folder, train_queries=20, validation=12, test=15)
    assert (len(found.train), len(found.validation), len(found.test), found.left_out) == (60, 12, 15, {})
    items = pictured(found.items)
    assert len({item.id for item in items}) == len({item.image_sha256 for item in items}) == 87
    assert all(from_png(Path(item.image).read_bytes()).shape == (8, 16) for item in items)


def test_some_annotators_of_train_questions_err_and_the_majority_is_right(folder: Path):
    given = [Counter(one["answer"] for one in item["answers"]) for item in answers(folder, "train")]
    right = [item["multiple_choice_answer"] for item in answers(folder, "train")]
    assert {counts[answer] for counts, answer in zip(given, right, strict=True)} == {8, 9, 10}
    assert all(sum(counts.values()) == 10 for counts in given)
    # a slip is nobody else's, so that none counts as a right answer
    slips = [
        count for counts, answer in zip(given, right, strict=True) for one, count in counts.items() if one != answer
    ]
    assert set(slips) == {1}


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crowded")
    write_world(folder, "crowded", candidates=399, queries=30, validation=20, test=60)
    return folder


@pytest.fixture(scope="module")
def world(crowded: Path) -> Dataset:
    return open_dataset("crowded", crowded, train_queries=25, validation=20, test=60)


def annotated(crowded: Path, split: str) -> list[dict[str, Any]]:
    return json.loads((crowded / f"crowded_{split}_annotations.json").read_bytes())["annotations"]


def test_candidates_and_questions_to_learn_from_are_apart(world: Dataset) -> None:
    assert len(world.candidates) == 400, "whole scenes"
    assert (len(world.train_queries), len(world.validation), len(world.test)) == (25, 20, 60)
    assert not set(world.candidates) & set(world.train_queries)
    assert {item.id for item in world.train} == {*world.candidates, *world.train_queries}
    pictures = [item.image_sha256 for item in pictured(world.items)]
    assert len(set(pictures)) == len(pictures) == len(world.items)


def test_every_candidate_says_one_word_and_a_third_of_the_questions_wants_two(crowded: Path) -> None:
    assert {one["question_type"] for one in annotated(crowded, "train")} == {"left", "right"}
    assert all(len(one["multiple_choice_answer"].split()) == 1 for one in annotated(crowded, "train"))
    kinds = Counter(one["question_type"] for one in annotated(crowded, "test"))
    assert set(kinds) == {"left", "right", "both"}
    assert {word for one in annotated(crowded, "test") for word in one["multiple_choice_answer"].split()} <= {
        *lexicon()
    }


def test_a_scene_is_photographed_with_one_question(crowded: Path) -> None:
    asked = [(one["question_type"], one["multiple_choice_answer"]) for one in annotated(crowded, "train")]
    assert all(len(set(asked[at : at + PHOTOS])) == 1 for at in range(0, len(asked), PHOTOS))


def test_the_nearest_say_one_word_however_many_the_judge_reads(world: Dataset, tmp_path: Path) -> None:
    store = Artifacts(tmp_path)
    embedded = embed_dataset(world, picture_views(DigitsEncoder(weights())), store)
    joint, said = read_banks(embedded, store)["joint"], {item.id: item.shown_answer for item in world.train}
    wanted = {item.id: set(item.shown_answer.split()) for item in world.test}
    two = [query for query, words in wanted.items() if len(words) == 2]
    found = find_nearest(two, world.candidates, joint, count=MOST_SHOWN)
    assert len(two) > 10
    assert np.mean([wanted[query] <= {said[name] for name in names} for query, names in found.items()]) < 0.1
    photo = {name: int(name) // 1000 - 1 for name in world.candidates}
    scenes = [{photo[name] // PHOTOS for name in names[:2]} for names in found.values()]
    assert np.mean([len(one) == 1 for one in scenes]) > 0.9


def scene() -> np.ndarray:
    return render(load_digits()["test"].ink[None, :2], seeded_generator(0, "scene"))[0].numpy()


def reencoded(mode: str = "RGB", size: tuple[int, int] = SIZE, format: str = "PNG") -> bytes:
    file = io.BytesIO()
    PIL.Image.open(io.BytesIO(to_png(scene()))).convert(mode).resize(size).save(file, format)
    return file.getvalue()


@pytest.mark.parametrize(
    ("png", "why"),
    [
        pytest.param(b"", "no PNG that", id="nothing"),
        pytest.param(to_png(scene())[:200], "no PNG that", id="cut off"),
        pytest.param(reencoded(format="JPEG"), "no PNG that", id="another format"),
        pytest.param(reencoded(size=(64, 64)), "no 128 × 64 pixels in squares", id="another size"),
    ],
)
def test_what_is_no_scene_is_refused(png: bytes, why: str):
    with pytest.raises(RequestRefused, match=why):
        from_png(png)


def test_a_scaled_picture_is_refused_even_in_the_right_size():
    file = io.BytesIO()
    small = PIL.Image.open(io.BytesIO(to_png(scene()))).resize((40, 20))
    small.resize(SIZE, PIL.Image.Resampling.BICUBIC).save(file, "PNG")
    with pytest.raises(RequestRefused, match="in squares of 8 × 8"):
        from_png(file.getvalue())


def test_each_digit_is_in_one_part_and_each_part_has_all_ten():
    parts = load_digits()
    assert {part: len(digits.ink) for part, digits in parts.items()} == PARTS
    assert sum(PARTS.values()) == 1797
    assert all(digits.labels.unique().tolist() == list(range(10)) for digits in parts.values())
