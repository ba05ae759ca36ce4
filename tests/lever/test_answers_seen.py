"""A selector of texts sees candidates with their answers, while nearest neighbours are sought by the texts alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from models.pointer import PointerConfig, PointerSelector
from storage.artifacts import Artifacts
from tasks.lever.data.candidate_pools import read_banks
from tasks.lever.data.earlier_files import SOLVED, banks_by_file, import_embeddings
from tasks.lever.data.embeddings import EmbeddingBank, embed_dataset
from tasks.lever.judge.demonstration_task import text_views
from tasks.lever.learning.checkpoints import OpenedSelector
from tasks.lever.learning.predicting import predict_files
from tasks.lever.learning.training_inputs import predict_greedily
from tasks.lever.lever_errors import FileUnusable
from tasks.lever.lever_records import Dataset, Embedded, PoolRecipe, TextItem
from tests.lever.small_dataset import dataset

DIRECTIONS = {"Who ?": (1, 0), "When ?": (0.6, 0.8), "How many ?": (0, 1), "Person": (1, 0), "Number": (0, 2)}
WHO, WHEN, MANY = (
    TextItem(id=name, text=text, label=label)
    for name, text, label in (
        ("who", "Who ?", "Person"),
        ("when", "When ?", "Number"),
        ("many", "How many ?", "Number"),
    )
)
SELECTOR = PointerSelector(PointerConfig(embedding_dim=2, hidden=8, layers=1, heads=1)).eval()


class ByHand:
    id, dimension = "hand@1", 2

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([DIRECTIONS[text] for text in texts], np.float32)


@pytest.fixture
def store(tmp_path: Path) -> Artifacts:
    return Artifacts(tmp_path / "store")


def asked() -> Dataset:
    return dataset([WHO, MANY], train_queries=["who"], test=[WHEN])


def embedded(store: Artifacts) -> Embedded:
    return embed_dataset(asked(), text_views(ByHand()), store)  # pyright: ignore[reportArgumentType]


def rows(store: Artifacts, ref: Any, *names: str) -> list[list[float]]:
    return [row.tolist() for row in EmbeddingBank.from_bytes(store.get(ref)).rows(names)]


def test_text_and_answer_are_normalised_averaged_and_normalised_again(store: Artifacts) -> None:
    found = embedded(store)
    # who: (1, 0) + (1, 0); many: (0, 1) + (0, 1)
    assert rows(store, found.solved, "who", "many") == [[1, 0], [0, 1]]
    other = dataset([WHEN], test=[WHO])
    solved = embed_dataset(other, text_views(ByHand()), store).solved  # pyright: ignore[reportArgumentType]
    # when: (.6, .8) + (0, 1) = (.6, 1.8), of length 3.6 ** .5
    assert rows(store, solved, "when")[0] == pytest.approx([0.6 / 3.6**0.5, 1.8 / 3.6**0.5])


def test_queries_and_neighbours_have_no_answers(store: Artifacts) -> None:
    found = embedded(store)
    assert rows(store, found.queries, "when")[0] == pytest.approx([0.6, 0.8])
    assert found.visible_banks == (found.queries, found.solved)
    assert found.visible_encoder == "hand@1+answers"
    of_queries, of_candidates = read_banks(found, store)["joint"]
    assert of_candidates.rows(["who"])[0].tolist() == of_queries.rows(["who"])[0].tolist() == [1, 0]


def test_they_are_kept_in_a_file_and_read_again(store: Artifacts, tmp_path: Path) -> None:
    found = embedded(store)
    for name, bank in banks_by_file(found, asked(), store).items():
        bank.export_pt(tmp_path / name)
    again = import_embeddings(tmp_path / "query_embeddings.pt", tmp_path / "candidate_embeddings.pt", store)
    assert rows(store, again.solved, "who", "many") == rows(store, found.solved, "who", "many")
    (tmp_path / SOLVED).unlink()
    alone = import_embeddings(tmp_path / "query_embeddings.pt", tmp_path / "candidate_embeddings.pt", store)
    assert alone.solved is None


def predicted(folder: Path, opened: OpenedSelector) -> Any:
    where: dict[str, Any] = {"queries": folder / "test_embeddings.pt", "candidates": folder / "candidate_embeddings.pt"}
    how: dict[str, Any] = {"ids": None, "candidate_ids": None, "sampler": None, "pool_size": None}
    return predict_files(opened, Path("w.safetensors"), shots=2, **where, **how)[0]


def test_predictions_see_them_too_and_ask_for_their_file_by_name(store: Artifacts, tmp_path: Path) -> None:
    found = embedded(store)
    files = banks_by_file(found, asked(), store)
    for name, bank in files.items():
        bank.export_pt(tmp_path / name)
    opened = OpenedSelector(SELECTOR, (), "hand@1+answers", PoolRecipe(sampler="RandSampler", size=2))
    pools = {"when": ("who", "many")}
    chosen = predicted(tmp_path, opened)["when"]
    by_hand = predict_greedily(SELECTOR, files["test_embeddings.pt"], files[SOLVED], pools, shots=2)["when"]
    assert chosen.demonstrations == by_hand.demonstrations
    assert chosen.log_prob == pytest.approx(by_hand.log_prob)
    (tmp_path / SOLVED).unlink()
    with pytest.raises(FileUnusable, match=r"with their answers, and .*candidate_embeddings\.solved\.pt is not there"):
        predicted(tmp_path, opened)


@pytest.mark.parametrize(("encoder", "here"), [("hand@1", True), ("hand@1+answers", False)])
def test_a_checkpoint_that_saw_something_else_is_refused(encoder: str, here: bool) -> None:
    opened = OpenedSelector(SELECTOR, (), encoder, PoolRecipe(sampler="RandSampler", size=2))
    how: dict[str, Any] = {"dimension": 2, "path": Path("w.safetensors")}
    opened.require_encoder("hand@1", **how)
    opened.require_encoder("hand@1", with_answers=not here, **how)
    with pytest.raises(FileUnusable, match="train it anew"):
        opened.require_encoder("hand@1", with_answers=here, **how)
