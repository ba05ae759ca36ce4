"""Models of random weights, vectors around topics, and the speed and quality of an index of them."""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

PROMPT = "one two three"


class Built(NamedTuple):
    """Speed and quality of an index."""

    took_s: float
    recall: float
    """Share of the true ten nearest that an eighth of the lists holds."""


def driver() -> str:
    """The version that the kernel module reports."""
    told = Path("/proc/driver/nvidia/version").read_text()
    found = re.search(r"\b(\d{3,}(?:\.\d+)+)\b", told)
    return f"NVIDIA {found[1]}" if found else "no NVIDIA driver"


def make_model(folder: Path, *, dtype: str = "float32", **sizes: Any) -> Path:
    """A Qwen2 of random weights and a tokenizer of a few words, saved in `folder`; tiny where no size is given."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen2Config

    from models.causal_weights import progress_hidden

    words = ["<unk>", "</s>", *PROMPT.split(), *(f"word{number}" for number in range(59))]
    words_alone = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    words_alone.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words_alone, unk_token="<unk>", eos_token="</s>")
    tiny: dict[str, Any] = {
        "vocab_size": len(words),
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,  # 32 wide: vLLM knows no narrower ones
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(Qwen2Config(**(tiny | sizes), eos_token_id=1), dtype=dtype)
    with progress_hidden():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_vectors(rows: int, dimension: int) -> NDArray[np.float16]:
    """Unit vectors around topics, at random."""
    random = np.random.default_rng(0)
    topics = random.standard_normal((rows // 200 + 1, dimension), dtype=np.float32)
    vectors = topics[random.integers(0, len(topics), rows)]
    vectors += random.standard_normal((rows, dimension), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float16)


def build(vectors: NDArray[np.float16], *, gpu: bool) -> Built:
    """Time the making of lists, and ask them. Raises RuntimeError where FAISS sees no GPU that it is to use."""
    from storage.vectors import Centres, Vectors, lists_for, pack_vectors, train_lists

    lists = lists_for(len(vectors))
    started = time.perf_counter()
    centres = Centres(train_lists(vectors.astype(np.float32), lists, gpu=gpu), max(1, lists // 8), len(vectors))
    packed = pack_vectors(vectors, centres)
    took_s = time.perf_counter() - started
    asked = vectors[:: len(vectors) // 100].astype(np.float32)
    truth = np.argpartition(-(asked @ vectors.astype(np.float32).T), 10, axis=1)[:, :10]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors"
        path.write_bytes(packed)
        index = Vectors([path], dimension=vectors.shape[1], centres=centres)
        found = [index.search(query, 10).rows for query in asked]
    return Built(took_s, float(np.mean([np.isin(*both).mean() for both in zip(truth, found, strict=True)])))
