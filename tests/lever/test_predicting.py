"""A selector is asked in the pools that it was trained in; other pools and missing files are named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.data.candidate_pools import draw_pools
from tasks.lever.data.embeddings import modality_file
from tasks.lever.learning.checkpoints import OpenedSelector, save_selector
from tasks.lever.learning.predicting import Texts, choose_examples, find_anchors, predict_files
from tasks.lever.learning.training_inputs import Prediction, predict_greedily
from tasks.lever.lever_errors import FileUnusable
from tasks.lever.lever_records import PoolRecipe
from tests.lever.small_dataset import bank, dataset, item

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


def ask(
    folder: Path, recipe: PoolRecipe, *, alone: bool = True, **how: Any
) -> tuple[dict[str, Prediction], tuple[str, ...]]:
    places = folder / "query_embeddings.pt", folder / "candidate_embeddings.pt"
    for modality in ("joint", "images") if alone else ("joint",):
        for place, one in zip(places, BANKS[modality], strict=True):
            one.export_pt(modality_file(place, modality))
    given: dict[str, Any] = {"ids": None, "candidate_ids": None, "sampler": None, "pool_size": None}
    given |= {"shots": 2} | how
    opened = OpenedSelector(SELECTOR, (), None, recipe)
    return predict_files(opened, Path("w.safetensors"), queries=places[0], candidates=places[1], **given)


@pytest.mark.parametrize("recipe", [RETRIEVED, RANDOM], ids=lambda one: one.sampler)
def test_pools_are_those_of_the_training(tmp_path: Path, recipe: PoolRecipe) -> None:
    choices, warnings = ask(tmp_path, recipe)
    pools = draw_pools(["q", "r"], IDS, BANKS, recipe=recipe, seed=0).pools
    assert choices == predict_greedily(SELECTOR, *BANKS["joint"], pools, shots=2)
    assert warnings == ()


def test_other_pools_are_named(tmp_path: Path) -> None:
    [warning] = ask(tmp_path, RETRIEVED, sampler="RandSampler", pool_size=6)[1]
    assert warning == (
        "w.safetensors was trained in pools of 4 by RetrievalSampler (joint + images, 25% others); "
        "it chooses from pools of 6 by RandSampler"
    )
    [warning] = ask(tmp_path, RANDOM, sampler="RetrievalSampler")[1]
    assert "it chooses from pools of 4 by RetrievalSampler (joint, 0% others)" in warning


def test_embeddings_that_the_pools_need_are_asked_for_by_name(tmp_path: Path) -> None:
    with pytest.raises(FileUnusable, match=r"query_embeddings\.images\.pt .*not both there; export them"):
        ask(tmp_path, RETRIEVED, alone=False)
    [warning] = ask(tmp_path, RETRIEVED, alone=False, sampler="RetrievalSampler")[1]
    assert "it chooses from pools of 4 by RetrievalSampler (joint, 25% others)" in warning
    with pytest.raises(FileUnusable, match="no embedding by which candidates are near is here"):
        ask(tmp_path, RETRIEVED.model_copy(update={"modalities": ("images",)}), alone=False, sampler="RetrievalSampler")


def test_a_pool_of_unknown_size_is_one_of_64_or_of_all_there_are(tmp_path: Path) -> None:
    choices, warnings = ask(tmp_path, RANDOM.model_copy(update={"size": 0}), shots=12)
    assert set(choices["q"].demonstrations) == set(IDS)
    assert warnings == ()


@pytest.mark.parametrize(("kinds", "anchors"), [(12, ["q", "r"]), (2, []), (1, [])])
def test_no_anchor_has_equally_good_choices(tmp_path: Path, kinds: int, anchors: list[str]) -> None:
    drawn = list(vectors(IDS, seed=1).values())
    pair = BANKS["joint"][0], bank({name: drawn[number % kinds] for number, name in enumerate(IDS)})
    *train, q, r = (item(name, folder=tmp_path) for name in [*IDS, "q", "r"])
    asked, banks = dataset(train, validation=[q, r]), {"joint": pair, "visible": pair}
    opened = OpenedSelector(SELECTOR, (), None, RANDOM)
    assert list(find_anchors(asked, opened, banks, {"q": IDS, "r": IDS}, shots=2)["choices"]) == anchors


DIRECTIONS = {"red": (1.0, 0.0), "pink": (0.8, 0.6), "blue": (0.0, 1.0), "grey": (0.6, 0.8)}
TEXTS = Texts(
    questions={"0": "red", "1": "blue"},
    examples={f"example {name}": name for name in DIRECTIONS},
    answers={f"example {name}": name for name in DIRECTIONS},
)


def embed(texts: Sequence[str]) -> NDArray[np.float16]:
    return np.array([DIRECTIONS[text] for text in texts], np.float16)


def chosen(
    by: str, count: int, selector: Path | None = None, seed: int = 0, texts: Texts = TEXTS
) -> dict[str, tuple[str, ...]]:
    hand: Any = {"open_encoder": lambda: ("hand@1", embed), "seed": seed}
    return dict(choose_examples(texts, by=by, count=count, selector=selector, **hand))


def test_the_nearest_stand_last() -> None:
    assert chosen("similarity", 3) == {
        "0": ("example grey", "example pink", "example red"),
        "1": ("example pink", "example grey", "example blue"),
    }


def test_random_ones_are_distinct_the_same_for_one_seed_and_open_no_embedder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{__name__}.embed", None)  # using it fails
    once = chosen("random", 3)
    assert once == chosen("random", 3)
    assert all(len(set(shown)) == 3 for shown in once.values())
    assert any(chosen("random", 3, seed=seed) != once for seed in range(1, 4))


def saved(folder: Path, *, encoder: str, recipe: PoolRecipe) -> Path:
    torch.manual_seed(0)
    made = PointerSelector(PointerConfig(embedding_dim=2, heads=1))
    path = folder / "selector.safetensors"
    path.write_bytes(save_selector(made.eval(), meta={"encoder": encoder, "pools": recipe.model_dump(mode="json")}))
    return path


def test_a_selector_chooses_from_pools_like_those_of_its_training(tmp_path: Path) -> None:
    recipe = PoolRecipe(sampler="TextSimSampler", size=2)
    found = chosen("selector", 2, saved(tmp_path, encoder="hand@1", recipe=recipe))
    assert {question: {*shown} for question, shown in found.items()} == {
        "0": {"example red", "example pink"},  # of the two nearest both
        "1": {"example blue", "example grey"},
    }


def test_a_selector_that_saw_answers_sees_those_of_the_examples(tmp_path: Path) -> None:
    recipe = PoolRecipe(sampler="TextSimSampler", size=4)
    plain = saved(tmp_path, encoder="hand@1", recipe=recipe)
    before = chosen("selector", 4, plain)
    # all answers are those of the texts, so that both see the same directions
    assert chosen("selector", 4, saved(tmp_path, encoder="hand@1+answers", recipe=recipe)) == before
    # red with blue stands at 45 degrees, pink with red at 18: pink is nearer to red now
    others = {"red": "blue", "pink": "red", "blue": "red", "grey": "blue"}
    turned = TEXTS.model_copy(update={"answers": {f"example {name}": answer for name, answer in others.items()}})
    path = saved(tmp_path, encoder="hand@1+answers", recipe=recipe)
    one, other = (chosen("selector", 4, path, texts=texts) for texts in (TEXTS, turned))
    assert (one["0"][0], other["0"][0]) == ("example red", "example pink")
