"""Any sentence-transformers cross-encoder folder: its layout is read, and our scores are the model's own logits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models.huggingface import CrossEncoderReranker, read_pair_layout
from models.model_errors import ModelUnavailable
from tests.models.cross_encoders import POSITIONS, WORDS, write_random

QUESTION = "price of the door"
TEXTS = ["the red door is low", "high", "the price is high " * 20]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random(tmp_path_factory.mktemp("random"))


def add(folder: Path, name: str, **content: object) -> None:
    path = folder / name
    known = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(known | content))


def logits(folder: Path, text: str) -> torch.Tensor:
    """Of one pair, without padding: tokens by hand, weights by transformers."""
    from transformers import BertForSequenceClassification

    asked, said = ([WORDS.index(word) for word in words.split()] for words in (QUESTION, text))
    said = said[: POSITIONS - 3 - len(asked)]
    model = BertForSequenceClassification.from_pretrained(folder).eval()
    kinds = [0] * (len(asked) + 2) + [1] * (len(said) + 1)
    with torch.inference_mode():
        return model(torch.tensor([[2, *asked, 3, *said, 3]]), token_type_ids=torch.tensor([kinds])).logits[0]


def test_a_score_is_the_logit_of_the_one_label(folder: Path) -> None:
    expected = [float(logits(folder, text)[0]) for text in TEXTS]
    scores = CrossEncoderReranker(str(folder), device="cpu").score(QUESTION, TEXTS)
    assert np.ptp(expected) > 0.01
    np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_of_two_labels_the_second_is_the_better(tmp_path: Path) -> None:
    write_random(tmp_path, labels=2)
    expected = [float(logits(tmp_path, text)[1] - logits(tmp_path, text)[0]) for text in TEXTS]
    np.testing.assert_allclose(CrossEncoderReranker(str(tmp_path)).score(QUESTION, TEXTS), expected, atol=1e-5)


def test_the_scores_are_those_of_sentence_transformers(folder: Path) -> None:
    peer = pytest.importorskip("sentence_transformers", reason="comes with the default embedder's weights")
    model = peer.CrossEncoder(str(folder), device="cpu")
    expected = model.predict([(QUESTION, text) for text in TEXTS], activation_fn=torch.nn.Identity())
    scores = CrossEncoderReranker(str(folder), device="cpu").score(QUESTION, TEXTS)
    np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_the_id_names_folder_and_weights(folder: Path, tmp_path: Path) -> None:
    ids = [CrossEncoderReranker(str(place)).id for place in (folder, folder, write_random(tmp_path, seed=1))]
    assert ids[0] == ids[1] != ids[2]
    assert ids[0].startswith(f"{folder.name}@")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("config.json", {"sentence_transformers": {"activation_fn": "torch.nn.Identity"}}, id="since 4"),
        pytest.param("config.json", {"sbert_ce_default_activation_function": "torch.nn.Sigmoid"}, id="before 4"),
        pytest.param("config_sentence_transformers.json", {"activation_fn": "torch.nn.Sigmoid"}, id="since 5"),
    ],
)
def test_an_activation_that_keeps_the_order_changes_nothing(
    folder: Path, tmp_path: Path, name: str, content: dict[str, Any]
) -> None:
    add(write_random(tmp_path), name, **content)
    plain, activated = (CrossEncoderReranker(str(place)).score(QUESTION, TEXTS) for place in (folder, tmp_path))
    assert np.array_equal(plain, activated)


def test_limits_and_case_are_read(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text(json.dumps([{"path": "", "type": "sentence_transformers.x.Transformer"}]))
    add(tmp_path, "sentence_bert_config.json", max_seq_length=16, do_lower_case=True)
    assert read_pair_layout(tmp_path)[:3] == (tmp_path, 16, True)


def test_a_roberta_is_not_asked_for_positions_that_it_lacks(tmp_path: Path) -> None:
    from transformers import RobertaConfig, RobertaForSequenceClassification

    write_random(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=POSITIONS,
        type_vocab_size=2,
        pad_token_id=1,
    )
    config.num_labels = 1
    RobertaForSequenceClassification(config).save_pretrained(tmp_path)
    assert np.isfinite(CrossEncoderReranker(str(tmp_path)).score(QUESTION, ["the door " * 100])).all()


def test_an_embedder_is_no_reranker(tmp_path: Path) -> None:
    from transformers import BertModel

    write_random(tmp_path)
    BertModel.from_pretrained(tmp_path).save_pretrained(tmp_path)
    with pytest.raises(ModelUnavailable, match="no cross-encoder: it has no weights for classifier"):
        CrossEncoderReranker(str(tmp_path))


def test_three_labels_are_no_score(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="3 labels"):
        CrossEncoderReranker(str(write_random(tmp_path, labels=3)))


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        pytest.param("modules.json", [{"type": "x.Transformer"}, {"type": "x.LogitScore"}], "LogitScore", id="module"),
        pytest.param("config_sentence_transformers.json", {"activation_fn": "my.Cosine"}, "Cosine", id="activation"),
        pytest.param("config_sentence_transformers.json", {"default_prompt_name": "query"}, "prompt", id="prompt"),
        pytest.param("config.json", "{", "not valid JSON", id="broken"),
    ],
)
def test_what_is_not_supported_is_named(tmp_path: Path, name: str, content: object, says: str) -> None:
    write_random(tmp_path)
    (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ModelUnavailable, match=says):
        CrossEncoderReranker(str(tmp_path))


def test_broken_weights_are_named(tmp_path: Path) -> None:
    write_random(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\x10" * 40)
    with pytest.raises(ModelUnavailable, match="cannot be loaded"):
        CrossEncoderReranker(str(tmp_path))


def test_scores_that_are_no_numbers_are_an_error(folder: Path) -> None:
    subject = CrossEncoderReranker(str(folder))
    torch.nn.init.constant_(subject._model.classifier.weight, float("nan"))
    with pytest.raises(ModelUnavailable, match="no numbers"):
        subject.score(QUESTION, TEXTS)
