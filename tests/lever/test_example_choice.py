"""Which examples a question is shown, over vectors that are worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.learning.checkpoints import save_selector
from tasks.lever.learning.predicting import Encoder, Texts, choose_examples
from tasks.lever.lever_records import PoolRecipe

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
    found = choose_examples(
        texts, by=by, count=count, selector=selector, opened=lambda: Encoder("hand@1", embed), seed=seed
    )
    return dict(found)


def test_the_nearest_stand_last() -> None:
    assert chosen("similarity", 3) == {
        "0": ("example grey", "example pink", "example red"),
        "1": ("example pink", "example grey", "example blue"),
    }


def test_random_ones_are_distinct_the_same_for_one_seed_and_open_no_embedder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{__name__}.Encoder", None)  # opening it fails
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
