"""Opens an embedder by its name, the one that users write after `--embedder`, and says which embedders agree."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import SecretStr

from models.endpoint import Endpoint
from models.model_errors import ModelUnavailable, RequestRefused
from models.prompts import replace_surrogates
from models.protocols import Embedder, Reranker
from models.weight_files import digest_folder, hub_folder

PRECISIONS = ("fp32", "bf16")
EMBEDDING_BATCH = 64


def open_embedder(name: str, *, base_url: str | None = None, api_key: SecretStr | None = None) -> Embedder:
    """Return the embedder called `name`. Raises ModelUnavailable if there is none of that name.

    name: `minilm` or `e5` (`e5:fp32` and `e5:bf16` fix the precision), `openai:MODEL`, or a sentence-transformers name
    (`BAAI/bge-m3`, `BAAI/bge-m3@REVISION`) or folder, with or without `hf:` before it.
    base_url, api_key: for `openai:MODEL`; None is OpenAI's own endpoint, without a key.
    """
    backend, _, rest = name.partition(":")
    if backend in ("minilm", "e5"):
        if rest not in ("fp32", "bf16") and name != backend:
            raise ModelUnavailable(
                f"there is no embedder called {name!r}; give `{backend}`, `{backend}:fp32` or `{backend}:bf16`"
            )
        precision = rest if rest == "fp32" or rest == "bf16" else None  # spelled out, for its type
        if backend == "e5":
            from models.e5 import E5

            return E5(precision)
        from models.minilm import MiniLM

        return MiniLM(precision)
    if backend == "openai" and rest:
        # its dimension is a property, learnt from the endpoint with the first call
        return OpenAIEmbedder(rest, base_url=base_url, api_key=api_key)  # pyright: ignore[reportReturnType]
    from models.huggingface import HuggingFaceEmbedder

    return HuggingFaceEmbedder(name.removeprefix("hf:"))


class OpenAIEmbedder:
    """An embedder behind an embeddings endpoint, asked in batches of 64. endpoint: keyword arguments of Endpoint."""

    def __init__(self, model: str, **endpoint: Any) -> None:
        self.id = f"openai:{model}"
        self._model = model
        self._endpoint = Endpoint(model, **endpoint)

    @cached_property
    def dimension(self) -> int:
        """Length of a vector, learnt from one short text. Raises ModelError."""
        return self._batch(["dimension"]).shape[1]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the L2-normalised vectors of texts, (len(texts), dimension), in their order. Raises ModelError."""
        starts = range(0, len(texts), EMBEDDING_BATCH)
        batches = [self._batch(texts[start : start + EMBEDDING_BATCH]) for start in starts]
        vectors = np.concatenate(batches) if batches else np.zeros((0, self.dimension), np.float32)
        if vectors.shape[1] != self.dimension:
            raise RequestRefused(
                f"{self.id} gave vectors of {vectors.shape[1]} numbers, {self.dimension} were expected; "
                "see that the endpoint serves one model under this name."
            )
        return vectors

    def _batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the unit vectors of one batch of texts, (len(texts), dimension), in order. Raises ModelError."""
        clean = [replace_surrogates(text) for text in texts]
        # floats, not the SDK's base64: many compatible servers know only floats
        body: dict[str, Any] = {"model": self._model, "input": clean, "encoding_format": "float"}
        with self._endpoint.name_failures():
            (answer,) = self._endpoint.events("/embeddings", body)
            # a few servers leave the numbers out, and give the vectors in the order of the texts
            by_text = {row.get("index", number): row["embedding"] for number, row in enumerate(answer["data"])}
            if sorted(by_text) != list(range(len(texts))):
                raise ValueError(f"vectors with the numbers {sorted(by_text)[:5]} … for {len(texts)} texts")
            vectors = np.array([by_text[number] for number in range(len(texts))], np.float32)  # (texts, dimension)
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            if not np.isfinite(vectors).all() or not lengths.all():
                raise ValueError("a vector of zeros, or with a number that is not finite")
            return vectors / lengths


def embed_questions(embedder: Embedder, questions: Sequence[str]) -> NDArray[np.float32]:
    """Return L2-normalised vectors of questions, (len(questions), dimension), with the model's query prompt, if any."""
    return getattr(embedder, "embed_questions", embedder.embed)(questions)


def family_of(embedder_id: str) -> str:
    """Return the id without its precision: vectors of one family agree to cosine .999 and may be searched together."""
    stem, _, precision = embedder_id.rpartition("/")
    return stem if precision in PRECISIONS else embedder_id


def reads_script(embedder_id: str, text: str) -> bool:
    """Return whether the embedder's vocabulary has the script of `text`; without it, the vector means nothing."""
    return spans_languages(embedder_id) or not _EAST_ASIAN.search(text)


def spans_languages(embedder_id: str) -> bool:
    """Return whether a question lies near its answer in another language; MiniLM, which learnt English only, fails."""
    return not embedder_id.startswith("minilm@")


_EAST_ASIAN = re.compile("[\u1100-\u11ff\u3040-\u30ff\u3131-\u318e\u3400-\u9fff\uac00-\ud7a3]")


NAMES = "a sentence-transformers cross-encoder (`BAAI/bge-reranker-v2-m3`, `NAME@REVISION`), its folder, or `scripted`"


def open_reranker(name: str) -> Reranker:
    """Return the reranker called `name`. Raises ModelUnavailable if there is none of that name.

    name: a cross-encoder of the Hugging Face hub (`NAME` or `NAME@REVISION`) or a folder, with or without `hf:` before
    it; `scripted` counts words in common, for tests and dry runs.
    """
    if not name.strip():
        raise ModelUnavailable(f"the name of the reranker is empty; give {NAMES}")
    if name == "scripted":
        from models.scripted import ScriptedReranker

        return ScriptedReranker()
    from models.huggingface import CrossEncoderReranker

    return CrossEncoderReranker(name.removeprefix("hf:"))


def fingerprint_of(name: str) -> str:
    """Return a fingerprint of a reranker's weights; empty for `scripted`, which has none. Raises ModelUnavailable."""
    return "" if name == "scripted" else digest_folder(hub_folder(name.removeprefix("hf:"), kind="reranker"))
