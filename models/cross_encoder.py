"""Any sentence-transformers cross-encoder as a reranker: question and text are read together, transformers runs it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.model_errors import ModelUnavailable
from models.weight_files import digest_folder, hub_folder, read_json, require_safetensors

BATCH = 32
CHARS_PER_TOKEN = 32
"""More than any text has on average: what lies behind as many tokens of them would be cut anyway."""
MONOTONE = ("Identity", "Sigmoid", "Tanh", "Softmax", "LogSoftmax", "LogSigmoid", "Softplus")
"""Activations that leave the order of the logits as it is, so that nothing is lost without them."""
OFFSET_POSITIONS = ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "longformer")
"""Architectures that count positions from behind the padding's index: two fewer can be used than the table has."""


class Layout(NamedTuple):
    """What a sentence-transformers folder says beside its weights."""

    transformer: Path
    """Folder of the weights and the tokenizer."""
    most_tokens: int | None
    """None: as many as the tokenizer and the model take."""
    lower_case: bool


class CrossEncoderReranker:
    """A cross-encoder from the Hugging Face cache, the hub, or a folder; on the GPU if there is one, always in fp32.

    A score is the logit of the one label, or log-odds of the second of two: not a probability, but in its order.
    Pairs of one call share batches: a pair's score in another call, or beside other texts, is the same within 1e-4.
    Longer pairs than the model takes are cut, the longer side first. Threads may share one.
    Only safetensors are read and no code of the model is run. Raises ModelUnavailable.
    """

    def __init__(self, name: str, *, device: str | None = None) -> None:
        folder = _folder(name)
        layout = read_layout(folder)
        self._device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self._model, self._tokenizer = _load(layout.transformer)
        self._model.to(self._device)
        self._most_tokens = layout.most_tokens or _most_tokens(self._model.config, self._tokenizer)
        self._lower_case = layout.lower_case
        # without a padding token pairs cannot share a batch
        padded = self._tokenizer.pad_token is not None and self._model.config.pad_token_id is not None
        self._batch = BATCH if padded else 1
        self._tokenizing = threading.Lock()  # a fast tokenizer is not to be used by two threads at once
        self.id = f"{folder.resolve().name if Path(name).is_dir() else name.partition('@')[0]}@{digest_folder(folder)}"

    def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts),); higher answers better."""
        # neighbours in length share a batch, so that little of it is padding
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        scores = np.empty(len(texts), np.float32)
        for start in range(0, len(texts), self._batch):
            rows = order[start : start + self._batch]
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
        text = text[: self._most_tokens * CHARS_PER_TOKEN]
        text = text.encode("utf-8", "replace").decode()  # tokenizers refuse lone surrogates
        return text.lower() if self._lower_case else text


def read_layout(folder: Path) -> Layout:
    """The layout of a cross-encoder's folder, as sentence-transformers 2 to 6 write it, or of plain transformers.

    Raises ModelUnavailable for modules, activations and prompts that are not supported.
    """
    modules: list[dict[str, Any]] = read_json(folder / "modules.json") or []
    kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
    if kinds not in ([], ["Transformer"]):
        raise ModelUnavailable(
            f"the reranker in {folder} is made of {' + '.join(kinds)}; supported are sequence classifiers, which are "
            "one Transformer: choose another cross-encoder"
        )
    transformer = folder / (modules[0]["path"] if modules else "")
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


def _folder(name: str) -> Path:
    try:
        return hub_folder(name)
    except (ModelUnavailable, OSError) as error:
        cause = _first_line(error.__cause__ or error)
        raise ModelUnavailable(
            f"the reranker {name!r} is neither a folder nor can it be had from the Hugging Face hub ({cause}); check "
            f"the name, or fetch it once on a machine that is online (`hf download {name.partition('@')[0]}`) and give "
            "the folder"
        ) from error


def _load(folder: Path) -> tuple[Any, Any]:
    """Model and tokenizer; typed Any because transformers picks their classes from the folder."""
    require_safetensors(folder)
    from safetensors import SafetensorError
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from transformers.utils import logging as progress

    bars, level = progress.is_progress_bar_enabled(), progress.get_verbosity()
    progress.disable_progress_bar()
    progress.set_verbosity_error()  # what it would warn of, a head that is missing, is an error below
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        model, info = AutoModelForSequenceClassification.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
        )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        raise ModelUnavailable(f"the reranker in {folder} cannot be loaded: {_first_line(error)}") from error
    finally:
        progress.set_verbosity(level)
        if bars:
            progress.enable_progress_bar()
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
    return model.eval(), tokenizer


def _most_tokens(config: Any, tokenizer: Any) -> int:
    positions = getattr(config, "max_position_embeddings", None) or tokenizer.model_max_length
    if config.model_type in OFFSET_POSITIONS:
        positions -= (config.pad_token_id or 0) + 1
    return min(positions, tokenizer.model_max_length)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
