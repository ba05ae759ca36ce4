"""In the world `crowded` near-duplicates crowd the neighbourhood, and no single demonstration tells both digits."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.artifacts import Artifacts
from tasks.lever.data.candidate_pools import banks_of, nearest
from tasks.lever.data.datasets import open_dataset
from tasks.lever.data.embeddings import embed_dataset
from tasks.lever.digits.digits_judge import MOST_SHOWN, DigitsEncoder
from tasks.lever.digits.scenes import PHOTOS, lexicon, write_world
from tasks.lever.judge.demonstration_task import views_of
from tasks.lever.lever_records import Dataset
from tests.lever.digits.prompts import weights
from tests.lever.small_dataset import pictured


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crowded")
    write_world(folder, "crowded", candidates=399, queries=30, validation=20, test=60)
    return folder


@pytest.fixture(scope="module")
def world(folder: Path) -> Dataset:
    return open_dataset("crowded", folder, train_queries=25, validation=20, test=60)


def annotated(folder: Path, split: str) -> list[dict[str, Any]]:
    return json.loads((folder / f"crowded_{split}_annotations.json").read_bytes())["annotations"]


def test_candidates_and_questions_to_learn_from_are_apart(world: Dataset) -> None:
    assert len(world.candidates) == 400, "whole scenes"
    assert (len(world.train_queries), len(world.validation), len(world.test)) == (25, 20, 60)
    assert not set(world.candidates) & set(world.train_queries)
    assert {item.id for item in world.train} == {*world.candidates, *world.train_queries}
    pictures = [item.image_sha256 for item in pictured(world.items)]
    assert len(set(pictures)) == len(pictures) == len(world.items)


def test_every_candidate_says_one_word_and_a_third_of_the_questions_wants_two(folder: Path) -> None:
    assert {one["question_type"] for one in annotated(folder, "train")} == {"left", "right"}
    assert all(len(one["multiple_choice_answer"].split()) == 1 for one in annotated(folder, "train"))
    kinds = Counter(one["question_type"] for one in annotated(folder, "test"))
    assert set(kinds) == {"left", "right", "both"}
    assert {word for one in annotated(folder, "test") for word in one["multiple_choice_answer"].split()} <= {*lexicon()}


def test_a_scene_is_photographed_with_one_question(folder: Path) -> None:
    asked = [(one["question_type"], one["multiple_choice_answer"]) for one in annotated(folder, "train")]
    assert all(len(set(asked[at : at + PHOTOS])) == 1 for at in range(0, len(asked), PHOTOS))


def test_the_nearest_say_one_word_however_many_the_judge_reads(world: Dataset, tmp_path: Path) -> None:
    store = Artifacts(tmp_path)
    embedded = embed_dataset(world, views_of(DigitsEncoder(weights())), store)
    joint, said = banks_of(embedded, store)["joint"], {item.id: item.shown_answer for item in world.train}
    wanted = {item.id: set(item.shown_answer.split()) for item in world.test}
    two = [query for query, words in wanted.items() if len(words) == 2]
    found = nearest(two, world.candidates, joint, count=MOST_SHOWN)
    assert len(two) > 10
    assert np.mean([wanted[query] <= {said[name] for name in names} for query, names in found.items()]) < 0.1
    photo = {name: int(name) // 1000 - 1 for name in world.candidates}
    scenes = [{photo[name] // PHOTOS for name in names[:2]} for names in found.values()]
    assert np.mean([len(one) == 1 for one in scenes]) > 0.9
