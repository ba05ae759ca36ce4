"""The digits' world comes in the official VQA format, the same bytes for the same seed, and its majority is right."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tasks.lever.data.datasets import open_dataset
from tasks.lever.digits.scenes import (
    Split,
    from_png,
    write_world,
)
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
