"""Models of sentence-transformers: our vectors and scores are those of the library, or of the bare model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models.huggingface import CrossEncoderReranker, HuggingFaceEmbedder
from models.model_errors import ModelUnavailable
from tests.models.cross_encoders import POSITIONS, WORDS, write_random
from tests.models.tiny import make_tiny_embedder

QUESTION = "price of the door"
TEXTS = ["the red door is low", "high", "the price is high " * 20]
KIND = "sentence_transformers.models"


def write_layout(folder: Path, *, pooling: dict[str, Any], prompts: dict[str, str], kind: str = KIND) -> Path:
    make_tiny_embedder(folder)
    (folder / "1_Pooling").mkdir()
    modules = [{"name": name, "path": path, "type": f"{kind}.{name}"} for path, name in MODULES.items()]
    files = {
        "modules.json": modules,
        "1_Pooling/config.json": {"word_embedding_dimension": 32} | pooling,
        "config_sentence_transformers.json": {"prompts": prompts},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    return folder


MODULES = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}


@pytest.mark.parametrize("pooling", [{"pooling_mode_cls_token": True}, {"pooling_mode_mean_tokens": True}])
def test_pooling_and_prompts_of_the_folder_hold(tmp_path: Path, pooling: dict[str, Any]) -> None:
    from transformers import AutoModel, AutoTokenizer

    folder = write_layout(tmp_path, pooling=pooling, prompts={"query": "ask: ", "document": ""})
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        states = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0] for text in ("ask: a", "a")]
    pooled = [state[0] if "pooling_mode_cls_token" in pooling else state.mean(0) for state in states]
    expected = [torch.nn.functional.normalize(one, dim=0).numpy() for one in pooled]
    embedder = HuggingFaceEmbedder(str(folder), device="cpu")
    np.testing.assert_allclose(embedder.embed_questions(["a"])[0], expected[0], atol=1e-6)
    np.testing.assert_allclose(embedder.embed(["a"])[0], expected[1], atol=1e-6)


def test_other_settings_are_another_embedder(tmp_path: Path) -> None:
    modes = ("pooling_mode_cls_token", "pooling_mode_mean_tokens")
    folders = [write_layout(tmp_path / mode, pooling={mode: True}, prompts={}) for mode in modes]
    assert len({HuggingFaceEmbedder(str(folder), device="cpu").id.partition("@")[2] for folder in folders}) == 2


def test_an_unknown_name_offline_comes_with_the_remedy() -> None:
    with pytest.raises(ModelUnavailable, match=r"hf download nobody/no-such-model"):
        HuggingFaceEmbedder("nobody/no-such-model")


def test_code_of_the_folder_is_not_run(tmp_path: Path) -> None:
    folder = write_layout(tmp_path, pooling={}, prompts={}, kind="evil")
    (folder / "evil.py").write_text("raise SystemExit('it was run')")
    with pytest.raises(ModelUnavailable, match="cannot be loaded"):
        HuggingFaceEmbedder(str(folder))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random(tmp_path_factory.mktemp("random"))


def logits(folder: Path, text: str) -> torch.Tensor:
    """Of one pair, without padding: tokens by hand, weights by transformers."""
    from transformers import BertForSequenceClassification

    question, passage = ([WORDS.index(word) for word in words.split()] for words in (QUESTION, text))
    passage = passage[: POSITIONS - 3 - len(question)]
    model = BertForSequenceClassification.from_pretrained(folder).eval()
    kinds = [0] * (len(question) + 2) + [1] * (len(passage) + 1)
    with torch.inference_mode():
        return model(torch.tensor([[2, *question, 3, *passage, 3]]), token_type_ids=torch.tensor([kinds])).logits[0]


def test_a_score_is_the_logit_of_the_one_label(folder: Path) -> None:
    expected = [float(logits(folder, text)[0]) for text in TEXTS]
    scores = CrossEncoderReranker(str(folder), device="cpu").score(QUESTION, TEXTS)
    assert np.ptp(expected) > 0.01
    np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_of_two_labels_the_second_is_the_better(tmp_path: Path) -> None:
    write_random(tmp_path, labels=2)
    expected = [float(logits(tmp_path, text)[1] - logits(tmp_path, text)[0]) for text in TEXTS]
    np.testing.assert_allclose(CrossEncoderReranker(str(tmp_path)).score(QUESTION, TEXTS), expected, atol=1e-5)


def test_an_activation_that_keeps_the_order_changes_nothing(folder: Path, tmp_path: Path) -> None:
    config = json.loads((write_random(tmp_path) / "config.json").read_text())
    activation = {"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}}
    (tmp_path / "config.json").write_text(json.dumps(config | activation))
    plain, activated = (CrossEncoderReranker(str(place)).score(QUESTION, TEXTS) for place in (folder, tmp_path))
    assert np.array_equal(plain, activated)


def test_the_id_names_folder_and_weights(folder: Path, tmp_path: Path) -> None:
    ids = [CrossEncoderReranker(str(place)).id for place in (folder, folder, write_random(tmp_path, seed=1))]
    assert ids[0] == ids[1] != ids[2]
    assert ids[0].startswith(f"{folder.name}@")


def test_an_embedder_is_no_reranker(tmp_path: Path) -> None:
    from transformers import BertModel

    write_random(tmp_path)
    BertModel.from_pretrained(tmp_path).save_pretrained(tmp_path)
    with pytest.raises(ModelUnavailable, match=r"classifier\.\w+ is missing.*an embedder is no reranker"):
        CrossEncoderReranker(str(tmp_path))


def test_three_labels_are_no_score(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="3 labels"):
        CrossEncoderReranker(str(write_random(tmp_path, labels=3)))


def test_scores_that_are_no_numbers_are_an_error(folder: Path) -> None:
    subject = CrossEncoderReranker(str(folder))
    torch.nn.init.constant_(next(iter(subject._model.parameters())), float("nan"))
    with pytest.raises(ModelUnavailable, match="no numbers"):
        subject.score(QUESTION, TEXTS)
