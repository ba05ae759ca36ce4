"""A selector is asked in the pools that it was trained in; other pools and missing files are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.data.candidate_pools import draw_pools
from tasks.lever.data.embeddings import of_modality
from tasks.lever.learning.checkpoints import Opened
from tasks.lever.learning.predicting import Predicted, predict_files
from tasks.lever.learning.training_inputs import likeliest
from tasks.lever.lever_errors import FileUnusable
from tasks.lever.lever_records import PoolRecipe
from tests.lever.small_dataset import bank

IDS = [f"c{number}" for number in range(12)]
RETRIEVED = PoolRecipe(sampler="RetrievalSampler", size=4, others=0.25, modalities=("joint", "images"))
RANDOM = PoolRecipe(sampler="RandSampler", size=4)


def vectors(names: list[str], *, seed: int) -> dict[str, list[float]]:
    drawn = np.random.default_rng(seed).normal(size=(len(names), 3))
    return dict(zip(names, (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).tolist(), strict=True))


BANKS = {
    "joint": (bank(vectors(["q", "r"], seed=0)), bank(vectors(IDS, seed=1))),
    "images": (bank(vectors(["q", "r"], seed=2)), bank(vectors(IDS, seed=3))),
}
SELECTOR = PointerSelector(PointerConfig(embedding_dim=3, hidden=8, layers=1)).eval()


def ask(folder: Path, recipe: PoolRecipe, *, alone: bool = True, **how: Any) -> Predicted:
    places = folder / "query_embeddings.pt", folder / "candidate_embeddings.pt"
    for modality in ("joint", "images") if alone else ("joint",):
        for place, one in zip(places, BANKS[modality], strict=True):
            one.export_pt(of_modality(place, modality))
    given: dict[str, Any] = {"ids": None, "candidate_ids": None, "sampler": None, "pool_size": None}
    given |= {"shots": 2, "seed": 0} | how
    opened = Opened(SELECTOR, (), None, recipe)
    return predict_files(opened, Path("w.safetensors"), queries=places[0], candidates=places[1], **given)


@pytest.mark.parametrize("recipe", [RETRIEVED, RANDOM], ids=lambda one: one.sampler)
def test_pools_are_those_of_the_training(tmp_path: Path, recipe: PoolRecipe) -> None:
    found = ask(tmp_path, recipe)
    pools = draw_pools(["q", "r"], IDS, BANKS, recipe=recipe, seed=0).pools
    assert found.chosen == likeliest(SELECTOR, *BANKS["joint"], pools, shots=2)
    assert found.warnings == ()


def test_other_pools_are_named(tmp_path: Path) -> None:
    [warning] = ask(tmp_path, RETRIEVED, sampler="RandSampler", pool_size=6).warnings
    assert warning == (
        "w.safetensors was trained in pools of 4 by RetrievalSampler (joint + images, 25% others); "
        "it chooses from pools of 6 by RandSampler"
    )
    [warning] = ask(tmp_path, RANDOM, sampler="RetrievalSampler").warnings
    assert "it chooses from pools of 4 by RetrievalSampler (joint, 0% others)" in warning


def test_embeddings_that_the_pools_need_are_asked_for_by_name(tmp_path: Path) -> None:
    with pytest.raises(FileUnusable, match=r"query_embeddings\.images\.pt .*not both there; export them"):
        ask(tmp_path, RETRIEVED, alone=False)
    [warning] = ask(tmp_path, RETRIEVED, alone=False, sampler="RetrievalSampler").warnings
    assert "it chooses from pools of 4 by RetrievalSampler (joint, 25% others)" in warning


def test_a_pool_of_unknown_size_is_one_of_64_or_of_all_there_are(tmp_path: Path) -> None:
    found = ask(tmp_path, RANDOM.model_copy(update={"size": 0}), shots=12)
    assert set(found.chosen["q"].demonstrations) == set(IDS)
    assert found.warnings == ()
