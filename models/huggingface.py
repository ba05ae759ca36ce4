"""Any sentence-transformers model as an embedder, any of its cross-encoders as a reranker.

The folder says how tokens become a vector or a score; transformers runs the model.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  torch's own convention

from models.causal_weights import device_for, failures_named, progress_hidden, require_whole
from models.model_errors import ModelUnavailable
from models.prompts import sendable
from models.weight_files import digest_folder, hub_folder, label_of, read_json, require_safetensors

Pooling = Literal["mean", "cls", "lasttoken"]

KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
BATCH = 32
CHARS_PER_TOKEN = 32  # more than any text has on average: what lies behind as many tokens of them would be cut anyway
MONOTONE = ("Identity", "Sigmoid", "Tanh", "Softmax", "LogSoftmax", "LogSigmoid", "Softplus")
"""Activations that leave the order of the logits as it is, so that nothing is lost without them."""
OFFSET_POSITIONS = ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "longformer")
"""Architectures that count positions from behind the padding's index: two fewer can be used than the table has."""
READ_SAFELY: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


class Layout(NamedTuple):
    """What a sentence-transformers folder says beside its weights."""

    transformer: Path  # folder of the weights and the tokenizer
    most_tokens: int | None  # None: as many as the tokenizer and the model take
    lower_case: bool
    pooling: Pooling = "mean"
    document_prompt: str = ""
    question_prompt: str = ""


class HuggingFaceEmbedder:
    """A sentence-transformers model from the Hugging Face cache, the hub, or a folder; on the GPU if there is one.

    On a CPU each text is embedded alone in fp32, so its vector is a pure function of the text (for a fixed number of
    torch threads). On a GPU it is bf16 in batches of up to 32: vectors of equal texts may differ by rounding.
    Only safetensors are read and no code of the model is run. Raises ModelUnavailable.
    """

    def __init__(self, name: str, *, device: str | None = None) -> None:
        folder = hub_folder(name)
        self._layout = read_layout(folder)
        self._device = device_for(device)
        on_gpu = self._device.startswith("cuda")
        self._batch = BATCH if on_gpu else 1
        self.precision: Literal["fp32", "bf16"] = "bf16" if on_gpu else "fp32"
        self._model, self._tokenizer = _load_encoder(
            self._layout.transformer, torch.bfloat16 if on_gpu else torch.float32
        )
        self._model.to(self._device)
        self.dimension: int = self._model.config.hidden_size
        self.id = f"{label_of(name, folder)}@{digest_folder(folder)}/{self.precision}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), dimension), L2-normalised; with the model's document prompt, if it has one."""
        return self._embed([self._layout.document_prompt + text for text in texts])

    def embed_questions(self, questions: Sequence[str]) -> NDArray[np.float32]:
        """(len(questions), dimension), L2-normalised; with the model's query prompt, if it has one."""
        return self._embed([self._layout.question_prompt + question for question in questions])

    def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for rows in _batches(texts, self._batch):
            vectors[rows] = self._forward([texts[row] for row in rows]).cpu().numpy()
        return vectors

    @torch.inference_mode()
    def _forward(self, texts: list[str]) -> Tensor:
        clean = [sendable(text) for text in texts]
        known = getattr(self._model.config, "max_position_embeddings", None)
        positions = min(known or self._tokenizer.model_max_length, self._tokenizer.model_max_length)
        tokens = self._tokenizer(
            [text.lower() for text in clean] if self._layout.lower_case else clean,
            padding=True,
            truncation=True,
            max_length=self._layout.most_tokens or positions,
            return_tensors="pt",
        ).to(self._device)
        hidden: Tensor = self._model(**tokens).last_hidden_state.float()  # (texts, tokens, dimension)
        return F.normalize(pool(hidden, tokens["attention_mask"], self._layout.pooling), dim=-1)


class CrossEncoderReranker:
    """A cross-encoder from the Hugging Face cache, the hub, or a folder; on the GPU if there is one, always in fp32.

    A score is the logit of the one label, or log-odds of the second of two. Pairs of one call share batches: a pair's
    score in another call is the same within 1e-4. Pairs that are too long lose tokens of the longer side. Thread-safe.
    Only safetensors are read and no code of the model is run. Raises ModelUnavailable.
    """

    def __init__(self, name: str, *, device: str | None = None) -> None:
        folder = hub_folder(name, what="reranker")
        layout = read_pair_layout(folder)
        self._device = device_for(device)
        self._model, self._tokenizer = _load_classifier(layout.transformer)
        self._model.to(self._device)
        self._most_tokens = layout.most_tokens or _most_tokens(self._model.config, self._tokenizer)
        self._lower_case = layout.lower_case
        # without a padding token pairs cannot share a batch
        padded = self._tokenizer.pad_token is not None and self._model.config.pad_token_id is not None
        self._batch = BATCH if padded else 1
        self._tokenizing = threading.Lock()  # a fast tokenizer is not to be used by two threads at once
        self.id = f"{label_of(name, folder)}@{digest_folder(folder)}"

    def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts),) logits; higher answers better. Of a pair that is too long, the beginning is read.

        Raises ModelUnavailable for weights that give no finite scores.
        """
        scores = np.empty(len(texts), np.float32)
        for rows in _batches(texts, self._batch):
            scores[rows] = self._forward(question, [texts[row] for row in rows]).cpu().numpy()
        if not np.isfinite(scores).all():
            raise ModelUnavailable(f"the reranker {self.id} gives scores that are no numbers; fetch its weights again")
        return scores

    @torch.inference_mode()
    def _forward(self, question: str, texts: list[str]) -> Tensor:
        with self._tokenizing:
            tokens = self._tokenizer(
                [self._clean(question)] * len(texts),
                [self._clean(text) for text in texts],
                padding=self._batch > 1,
                truncation=True,
                max_length=self._most_tokens,
                return_tensors="pt",
            )
        logits: Tensor = self._model(**tokens.to(self._device)).logits.float()  # (texts, labels)
        return logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]

    def _clean(self, text: str) -> str:
        # two long sides take the tokenizer the product of their lengths
        text = sendable(text[: self._most_tokens * CHARS_PER_TOKEN])
        return text.lower() if self._lower_case else text


def _batches(texts: Sequence[str], rows: int) -> Iterator[list[int]]:
    """The rows of each batch: neighbours in length share one, so that little of it is padding."""
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    yield from (order[start : start + rows] for start in range(0, len(order), rows))


def pool(hidden: Tensor, mask: Tensor, pooling: Pooling) -> Tensor:
    """(texts, dimension) from hidden (texts, tokens, dimension) and mask (texts, tokens), 1 where a token stands."""
    match pooling:
        case "mean":
            kept = mask.unsqueeze(-1).to(hidden.dtype)
            return (hidden * kept).sum(1) / kept.sum(1)
        case "cls":
            return hidden[torch.arange(len(mask)), mask.argmax(1)]  # the first token, also under left padding
        case "lasttoken":
            last = mask.shape[1] - 1 - mask.flip(1).argmax(1)
            return hidden[torch.arange(len(mask)), last]


def read_layout(folder: Path) -> Layout:
    """The layout of a sentence-transformers folder, or of a plain one with mean pooling. Raises ModelUnavailable."""
    paths = _module_paths(folder, KNOWN_MODULES)
    transformer = folder / paths.get("Transformer", "")
    pooling = read_json(folder / paths["Pooling"] / "config.json") if "Pooling" in paths else {}
    limits = read_json(transformer / "sentence_bert_config.json")
    settings = read_json(folder / "config_sentence_transformers.json")
    prompts: dict[str, str] = settings.get("prompts") or {}
    default = prompts.get(settings.get("default_prompt_name") or "", "")
    layout = Layout(
        transformer=transformer,
        pooling=_pooling(pooling, folder),
        most_tokens=limits.get("max_seq_length"),
        lower_case=bool(limits.get("do_lower_case")),
        document_prompt=next((prompts[name] for name in ("document", "passage", "corpus") if name in prompts), default),
        question_prompt=prompts.get("query", default),
    )
    if not pooling.get("include_prompt", True) and (layout.document_prompt or layout.question_prompt):
        raise ModelUnavailable(f"the model in {folder} leaves its prompt out of pooling; such models are not supported")
    return layout


def read_pair_layout(folder: Path) -> Layout:
    """The layout of a cross-encoder of sentence-transformers 2 to 6, or of a plain one. Raises ModelUnavailable."""
    transformer = folder / _module_paths(folder, ["Transformer"]).get("Transformer", "")
    config, settings = read_json(transformer / "config.json"), read_json(folder / "config_sentence_transformers.json")
    limits = read_json(transformer / "sentence_bert_config.json")
    activation = (
        (config.get("sentence_transformers") or {}).get("activation_fn")
        or config.get("sbert_ce_default_activation_function")  # before sentence-transformers 4
        or settings.get("activation_fn")
        or "Identity"
    ).rpartition(".")[2]
    if activation not in MONOTONE:
        raise ModelUnavailable(
            f"the reranker in {folder} puts its scores through {activation}, which may change their order; supported "
            f"are {', '.join(MONOTONE)}"
        )
    if settings.get("default_prompt_name"):
        raise ModelUnavailable(f"the reranker in {folder} wants a prompt; such models are not supported")
    return Layout(transformer, limits.get("max_seq_length"), bool(limits.get("do_lower_case")))


def _module_paths(folder: Path, known: Sequence[str]) -> dict[str, str]:
    """Module → its folder, relative; empty for a plain transformers model."""
    modules: list[dict[str, Any]] = read_json(folder / "modules.json") or []
    paths = {str(module["type"]).rpartition(".")[2]: str(module.get("path", "")) for module in modules}
    if unknown := [name for name in paths if name not in known]:
        raise ModelUnavailable(
            f"the model in {folder} has a {unknown[0]} module; supported are {', '.join(known)}: "
            "choose another model, or serve this one behind an OpenAI-compatible endpoint"
        )
    return paths


def _pooling(config: dict[str, Any], folder: Path) -> Pooling:
    """Reads both forms: `pooling_mode: mean`, and one flag per mode as written before sentence-transformers 6."""
    named = config.get("pooling_mode")
    old = {"mean_tokens": "mean", "cls_token": "cls", "lasttoken": "lasttoken"}
    flagged = [flag.removeprefix("pooling_mode_") for flag, on in config.items() if on is True and "_mode_" in flag]
    modes = [old.get(flag, flag) for flag in flagged] or ["mean"]
    if named:
        modes = [named] if isinstance(named, str) else named
    match modes:
        case ["mean" | "cls" | "lasttoken" as mode]:
            return mode
        case _:
            raise ModelUnavailable(
                f"the model in {folder} pools by {' + '.join(modes)}; supported are mean, cls and lasttoken"
            )


def _load_encoder(folder: Path, dtype: torch.dtype) -> tuple[Any, Any]:
    """Model and tokenizer."""
    from transformers import AutoModel

    with progress_hidden(), failures_named(folder):
        model, tokenizer, info = _load(AutoModel, folder, dtype)
        require_whole(info, tokenizer, folder, unused="pooler.")  # vectors are made of the last states
    return model, tokenizer


def _load_classifier(folder: Path) -> tuple[Any, Any]:
    """Model and tokenizer of a cross-encoder."""
    from transformers import AutoModelForSequenceClassification
    from transformers.utils import logging as progress

    level = progress.get_verbosity()
    progress.set_verbosity_error()  # what it would warn of, a head that is missing, is an error below
    try:
        with progress_hidden(), failures_named(folder):
            model, tokenizer, info = _load(AutoModelForSequenceClassification, folder, torch.float32)
    finally:
        progress.set_verbosity(level)
    if missing := sorted(info["missing_keys"]):
        raise ModelUnavailable(
            f"the model in {folder} is no cross-encoder: it has no weights for {', '.join(missing[:3])}; an embedder "
            "cannot rerank, name a model that scores pairs (`cross-encoder/…`, `BAAI/bge-reranker-…`)"
        )
    if model.config.num_labels not in (1, 2):
        raise ModelUnavailable(
            f"the model in {folder} tells {model.config.num_labels} labels apart; a reranker has one, or two of which "
            "the second is the better"
        )
    return model, tokenizer


def _load(kind: Any, folder: Path, dtype: torch.dtype) -> tuple[Any, Any, Any]:
    """Model, tokenizer and loading info; typed Any because transformers picks their classes from the folder."""
    require_safetensors(folder)
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, **READ_SAFELY)
    given = {"use_safetensors": True, "dtype": dtype, "output_loading_info": True, **READ_SAFELY}
    model, info = kind.from_pretrained(folder, **given)
    return model.eval(), tokenizer, info


def _most_tokens(config: Any, tokenizer: Any) -> int:
    positions = getattr(config, "max_position_embeddings", None) or tokenizer.model_max_length
    if config.model_type in OFFSET_POSITIONS:
        positions -= (config.pad_token_id or 0) + 1
    return min(positions, tokenizer.model_max_length)
