"""Any sentence-transformers model as an embedder: its folder says how tokens become a vector, transformers runs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  torch's own convention

from models.causal_weights import failures_named, progress_hidden, require_whole
from models.model_errors import ModelUnavailable
from models.weight_files import digest_folder, hub_folder, read_json, require_safetensors

Pooling = Literal["mean", "cls", "lasttoken"]

KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
GPU_BATCH = 32


class Layout(NamedTuple):
    """What a sentence-transformers folder says beside its weights."""

    transformer: Path
    """Folder of the weights and the tokenizer."""
    pooling: Pooling
    most_tokens: int | None
    """None: as many as the model has positions."""
    lower_case: bool
    document_prompt: str
    question_prompt: str


class HuggingFaceEmbedder:
    """A sentence-transformers model from the Hugging Face cache, the hub, or a folder; on the GPU if there is one.

    On a CPU each text is embedded alone in fp32, so its vector is a pure function of the text (for a fixed number of
    torch threads). On a GPU it is bf16 and up to 32 texts of a call share a batch: vectors of equal texts in
    different calls may differ by rounding.
    Only safetensors are read and no code of the model is run. Raises ModelUnavailable.
    """

    def __init__(self, name: str, *, device: str | None = None) -> None:
        folder = hub_folder(name)
        self._layout = read_layout(folder)
        self._device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        on_gpu = self._device.startswith("cuda")
        self._batch = GPU_BATCH if on_gpu else 1
        self.precision: Literal["fp32", "bf16"] = "bf16" if on_gpu else "fp32"
        self._model, self._tokenizer = _load(self._layout.transformer, torch.bfloat16 if on_gpu else torch.float32)
        self._model.to(self._device)
        self.dimension: int = self._model.config.hidden_size
        self.id = f"{_label(name, folder)}@{digest_folder(folder)}/{self.precision}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), dimension), L2-normalised; with the model's document prompt, if it has one."""
        return self._embed([self._layout.document_prompt + text for text in texts])

    def embed_questions(self, questions: Sequence[str]) -> NDArray[np.float32]:
        """(len(questions), dimension), L2-normalised; with the model's query prompt, if it has one."""
        return self._embed([self._layout.question_prompt + question for question in questions])

    def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        # neighbours in length share a batch, so that little of it is padding
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), self._batch):
            rows = order[start : start + self._batch]
            vectors[rows] = self._forward([texts[row] for row in rows]).cpu().numpy()
        return vectors

    @torch.inference_mode()
    def _forward(self, texts: list[str]) -> Tensor:
        clean = [text.encode("utf-8", "replace").decode() for text in texts]  # tokenizers refuse lone surrogates
        tokens = self._tokenizer(
            [text.lower() for text in clean] if self._layout.lower_case else clean,
            padding=True,
            truncation=True,
            max_length=self._layout.most_tokens or self._positions(),
            return_tensors="pt",
        ).to(self._device)
        hidden: Tensor = self._model(**tokens).last_hidden_state.float()  # (texts, tokens, dimension)
        return F.normalize(pool(hidden, tokens["attention_mask"], self._layout.pooling), dim=-1)

    def _positions(self) -> int:
        known = getattr(self._model.config, "max_position_embeddings", None)
        return min(known or self._tokenizer.model_max_length, self._tokenizer.model_max_length)


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
    """The layout of a sentence-transformers folder; a plain transformers folder is read with mean pooling.

    Raises ModelUnavailable for modules and poolings that are not supported.
    """
    paths = _module_paths(folder)
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


def _module_paths(folder: Path) -> dict[str, str]:
    """Module → its folder, relative; empty for a plain transformers model."""
    if not (folder / "modules.json").is_file():
        return {}
    modules = cast(list[dict[str, Any]], read_json(folder / "modules.json"))
    paths = {str(module["type"]).rpartition(".")[2]: str(module["path"]) for module in modules}
    if unknown := [name for name in paths if name not in KNOWN_MODULES]:
        raise ModelUnavailable(
            f"the model in {folder} has a {unknown[0]} module; supported are {', '.join(KNOWN_MODULES)}: "
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


def _load(folder: Path, dtype: torch.dtype) -> tuple[Any, Any]:
    """Model and tokenizer; typed Any because transformers picks their classes from the folder."""
    require_safetensors(folder)
    from transformers import AutoModel, AutoTokenizer

    source: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    with progress_hidden(), failures_named(folder):
        tokenizer = AutoTokenizer.from_pretrained(folder, **source)
        model, info = AutoModel.from_pretrained(
            folder, use_safetensors=True, dtype=dtype, output_loading_info=True, **source
        )
        require_whole(info, tokenizer, folder, unused="pooler.")  # vectors are made of the last states
    return model.eval(), tokenizer


def _label(name: str, folder: Path) -> str:
    return folder.resolve().name if Path(name).is_dir() else name.partition("@")[0]
