"""Any sentence-transformers folder: its layout is read, and our vectors are those of sentence-transformers itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models.huggingface import HuggingFaceEmbedder, pool, read_layout
from models.model_errors import ModelUnavailable

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "query", ":", "price", "of", "the", "red", "door", "is", "high", "low"]
TEXTS = ["price of the door", "the red door is low", "high", "the price is high " * 20]
HIDDEN = torch.arange(12, dtype=torch.float32).reshape(2, 3, 2)


def write_layout(folder: Path, *, pooling: dict[str, Any], settings: dict[str, Any], module: str = "Normalize") -> None:
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Last", module)]
    kind = "sentence_transformers.models"
    files = {
        "modules.json": [{"name": name, "path": path, "type": f"{kind}.{name}"} for path, name in modules],
        "1_Pooling/config.json": pooling,
        "sentence_bert_config.json": {"max_seq_length": 16, "do_lower_case": False},
        "config_sentence_transformers.json": settings,
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights and tokenizer of a BERT with random weights, in the sentence-transformers layout without its settings."""
    from transformers import BertConfig, BertModel, BertTokenizer

    folder = tmp_path_factory.mktemp("tiny")
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    BertModel(config).save_pretrained(folder)
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    BertTokenizer(vocab=vocabulary, model_max_length=512).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("pooling", "rows"),
    [
        pytest.param("mean", [[1, 2], [9, 10]], id="mean-of-kept-tokens"),
        pytest.param("cls", [[0, 1], [8, 9]], id="first-kept-token"),
        pytest.param("lasttoken", [[2, 3], [10, 11]], id="last-kept-token"),
    ],
)
def test_pooling_skips_padding_on_either_side(pooling: Any, rows: list[list[float]]) -> None:
    mask = torch.tensor([[1, 1, 0], [0, 1, 1]])  # right and left padding
    assert pool(HIDDEN, mask, pooling).tolist() == rows


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls", id="flags"),
        pytest.param({"pooling_mode_lasttoken": True}, "lasttoken", id="flag-last"),
        pytest.param({"pooling_mode": "cls"}, "cls", id="named"),
        pytest.param({"embedding_dimension": 32}, "mean", id="default"),
    ],
)
def test_both_ways_of_writing_the_pooling_are_read(tmp_path: Path, config: dict[str, Any], expected: str) -> None:
    write_layout(tmp_path, pooling=config, settings={})
    assert read_layout(tmp_path).pooling == expected


def test_prompts_and_limits_are_read(tmp_path: Path) -> None:
    write_layout(tmp_path, pooling={}, settings={"prompts": {"query": "query: ", "passage": "text: "}})
    layout = read_layout(tmp_path)
    assert (layout.question_prompt, layout.document_prompt, layout.most_tokens) == ("query: ", "text: ", 16)


@pytest.mark.parametrize(
    ("pooling", "module", "message"),
    [
        pytest.param({"pooling_mode": ["mean", "max"]}, "Normalize", r"pools by mean \+ max", id="two-poolings"),
        pytest.param({"pooling_mode": "max"}, "Normalize", "pools by max", id="max"),
        pytest.param({}, "Dense", "has a Dense module", id="dense-layer"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    tmp_path: Path, pooling: dict[str, Any], module: str, message: str
) -> None:
    write_layout(tmp_path, pooling=pooling, settings={}, module=module)
    with pytest.raises(ModelUnavailable, match=message):
        read_layout(tmp_path)


def test_an_unknown_name_offline_comes_with_the_remedy() -> None:
    with pytest.raises(ModelUnavailable, match=r"hf download nobody/no-such-model"):
        HuggingFaceEmbedder("nobody/no-such-model")


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ModelUnavailable, match="no safetensors"):
        HuggingFaceEmbedder(str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", "cls", "lasttoken"])
def test_vectors_equal_those_of_sentence_transformers(tiny_bert: Path, pooling: str) -> None:
    from sentence_transformers import SentenceTransformer

    prompts = {"prompts": {"query": "query : ", "document": ""}}
    write_layout(tiny_bert, pooling={"embedding_dimension": 32, "pooling_mode": pooling}, settings=prompts)
    ours, theirs = HuggingFaceEmbedder(str(tiny_bert), device="cpu"), SentenceTransformer(str(tiny_bert), device="cpu")
    assert np.allclose(ours.embed(TEXTS), theirs.encode_document(TEXTS, normalize_embeddings=True), atol=1e-6)
    assert np.allclose(ours.embed_questions(TEXTS), theirs.encode_query(TEXTS, normalize_embeddings=True), atol=1e-6)


@pytest.mark.slow
def test_other_settings_are_another_embedder(tiny_bert: Path) -> None:
    ids: list[str] = []
    for pooling in ("mean", "cls"):
        write_layout(tiny_bert, pooling={"pooling_mode": pooling}, settings={})
        ids.append(HuggingFaceEmbedder(str(tiny_bert), device="cpu").id)
    assert ids[0] != ids[1]
