"""Any model of the sentence-transformers library as an embedder, any of its cross-encoders as a reranker."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from models.causal_weights import device_for, name_failures, require_vocabulary
from models.model_errors import ModelUnavailable
from models.prompts import replace_surrogates
from models.weight_files import digest_folder, hub_folder, label_of, read_json, require_safetensors

BATCH = 32
CHARS_PER_TOKEN = 32  # more than any text has on average: what lies behind as many tokens of them would be cut anyway
MISSING = re.compile(r"([\w.]+)[\s|]+(?:\x1b\[\d+m)?MISSING")  # a line of transformers' report


class HuggingFaceEmbedder:
    """A sentence-transformers model from the Hugging Face cache, the hub, or a folder; on the GPU if there is one.

    On a CPU each text is embedded alone in fp32, so its vector is a pure function of the text (for a fixed number of
    torch threads). On a GPU it is bf16 in batches of up to 32: vectors of equal texts may differ by rounding.
    Only safetensors are read and no code of the model is run. Raises ModelUnavailable.
    """

    def __init__(self, name: str, *, device: str | None = None) -> None:
        folder, device = hub_folder(name), device_for(device)
        on_gpu = device.startswith("cuda")
        self._batch = BATCH if on_gpu else 1
        self.precision: Literal["fp32", "bf16"] = "bf16" if on_gpu else "fp32"
        with _require_whole_weights(folder, unused="pooler."):  # vectors are made of the last states
            from sentence_transformers import SentenceTransformer

            dtype = torch.bfloat16 if on_gpu else torch.float32
            self._model = SentenceTransformer(str(folder), device=device, **_loading_options(dtype))
            require_vocabulary(self._model.tokenizer, folder)
        self._normalize = type(self._model[-1]).__name__ != "Normalize"  # twice would be other bits
        self._using = threading.Lock()  # a fast tokenizer is not to be used by two threads at once
        self.dimension: int = self._model.get_embedding_dimension() or 0
        self.id = f"{label_of(name, folder)}@{digest_folder(folder)}/{self.precision}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the L2-normalised vectors of texts, (len(texts), dimension), with the model's document prompt."""
        return self._embed(self._model.encode_document, texts)

    def embed_questions(self, questions: Sequence[str]) -> NDArray[np.float32]:
        """Return the L2-normalised vectors of questions, (len(questions), dimension), with the model's query prompt."""
        return self._embed(self._model.encode_query, questions)

    def _embed(self, encode: Callable[..., Any], texts: Sequence[str]) -> NDArray[np.float32]:
        """Return what `encode` makes of texts without lone surrogates, (len(texts), dimension); texts may be empty."""
        clean = [replace_surrogates(text) for text in texts]
        if not clean:
            return np.empty((0, self.dimension), np.float32)
        with self._using:
            options = {"batch_size": self._batch, "normalize_embeddings": self._normalize, "show_progress_bar": False}
            return encode(clean, **options)


class CrossEncoderReranker:
    """A cross-encoder from the Hugging Face cache, the hub, or a folder; on the GPU if there is one, always in fp32.

    A score is the logit of the one label, or log-odds of the second of two. Pairs of one call share batches: a pair's
    score in another call is the same within 1e-4. Pairs that are too long lose tokens of the longer side. Thread-safe.
    Only safetensors are read and no code of the model is run. Raises ModelUnavailable.
    """

    def __init__(self, name: str, *, device: str | None = None) -> None:
        folder = hub_folder(name, kind="reranker")
        with _require_whole_weights(folder):
            from sentence_transformers import CrossEncoder

            self._model = CrossEncoder(str(folder), device=device_for(device), **_loading_options(torch.float32))
            require_vocabulary(self._model.tokenizer, folder)
        if self._model.num_labels not in (1, 2):
            raise ModelUnavailable(
                f"the model in {folder} tells {self._model.num_labels} labels apart; a reranker has one, or two of "
                "which the second is the better"
            )
        # without a padding token pairs cannot share a batch
        self._batch = BATCH if self._model.tokenizer.pad_token is not None else 1
        self._most_chars = CHARS_PER_TOKEN * (self._model.max_seq_length or self._model.tokenizer.model_max_length)
        self._using = threading.Lock()
        self.id = f"{label_of(name, folder)}@{digest_folder(folder)}"

    def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the logits of the texts, (len(texts),): higher answers better.

        Of a pair that is too long, the beginning is read. Raises ModelUnavailable for weights that give no finite
        scores.
        """
        if not texts:
            return np.empty(0, np.float32)
        # cut first: two long sides take the tokenizer time in the product of their lengths
        query = replace_surrogates(question[: self._most_chars])
        pairs = [(query, replace_surrogates(text[: self._most_chars])) for text in texts]
        with self._using:
            logits: NDArray[np.float32] = self._model.predict(
                pairs, batch_size=self._batch, activation_fn=torch.nn.Identity(), show_progress_bar=False
            )
        if not np.isfinite(logits).all():
            raise ModelUnavailable(f"the reranker {self.id} gives scores that are no numbers; fetch its weights again")
        return logits[:, 1] - logits[:, 0] if logits.ndim == 2 else logits


def _loading_options(dtype: torch.dtype) -> dict[str, Any]:
    """Return the arguments with which a model is loaded from files alone, and none of its code is run."""
    weights = {"use_safetensors": True, "dtype": dtype}
    return {"local_files_only": True, "trust_remote_code": False, "model_kwargs": weights}


@contextmanager
def _require_whole_weights(folder: Path, *, unused: str | None = None) -> Generator[None]:
    """Raise ModelUnavailable where the block loads a model whose weights are missing, or not safetensors.

    transformers makes missing weights up, and only reports them. unused: prefix of the names of those that may be.
    """
    parts = [folder / part["path"] for part in read_json(folder / "modules.json") or [{"path": ""}]]
    for part in parts:
        if part == parts[0] or (part / "pytorch_model.bin").is_file():
            require_safetensors(part)

    class Report(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            """Raises ModelUnavailable where the record names missing weights that are used."""
            names = MISSING.findall(record.getMessage())
            if missing := [name for name in names if unused is None or not name.startswith(unused)]:
                raise ModelUnavailable(
                    f"the weights in {folder} are not whole: {missing[0]} is missing; fetch them again, or name a "
                    "model of the kind that is asked for (an embedder is no reranker)"
                )

    report, log = Report(logging.WARNING), logging.getLogger("transformers.modeling_utils")
    log.addHandler(report)
    try:
        with name_failures(folder):
            yield
    finally:
        log.removeHandler(report)
