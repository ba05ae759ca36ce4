"""The trials of `trivet doctor --gpu`, one a process: python -m flows.service.gpu_trials NAME [ARGUMENT …].

Prints what it found as a JSON list of checks; whatever goes wrong is left to the traceback, whose last line is shown.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import TypeAdapter

from flows.service.doctor import Check
from flows.service.gpu_doctor import REMEDIES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PROMPT = "one two three"
NEW_TOKENS = 16
SHOWN_CHARS = 60
INDEX_ROWS, INDEX_DIMENSION = 50_000, 384
RECALL_TOLERANCE = 0.01
"""That lists made by a GPU may find less of the ten nearest than lists made by a CPU."""


class Built(NamedTuple):
    """Lists of vectors that were made."""

    took_s: float
    recall: float
    """Share of the true ten nearest that an eighth of the lists holds."""


def main(arguments: Sequence[str]) -> None:
    """Run a trial; libraries that print get stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    name, *rest = arguments
    checks = {
        "torch": try_torch,
        "engine": try_engine,
        "faiss": try_faiss,
        "generation": try_generation,
        "index build": try_index,
    }[name](*rest)
    with out:
        out.write(TypeAdapter(list[Check]).dump_json(checks).decode())


def try_torch() -> list[Check]:
    """torch with its CUDA, and the memory of each GPU."""
    import torch

    built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
    if not torch.cuda.is_available():
        detail = f"{torch.__version__}, {built}: sees no GPU"
        remedy = REMEDIES["driver" if torch.version.cuda else "torch"]
        return [
            Check(name="torch", status="missing", detail=detail, remedy=remedy),
            Check(name="memory", status="missing", detail="no GPU", remedy=remedy),
        ]
    memory = [
        f"{torch.cuda.get_device_name(number)}: {free / 1e9:.1f} of {total / 1e9:.1f} GB free"
        for number in range(torch.cuda.device_count())
        for free, total in [torch.cuda.mem_get_info(number)]
    ]
    return [
        Check(name="torch", status="ok", detail=f"{torch.__version__}, {built}"),
        Check(name="memory", status="ok", detail=", ".join(memory)),
    ]


def try_engine() -> list[Check]:
    """vLLM, imported; by the name of what was installed: a build for the CPU is called otherwise."""
    from importlib.metadata import packages_distributions

    import vllm  # pyright: ignore[reportMissingImports]

    installed = ", ".join(dict.fromkeys(packages_distributions().get("vllm", ["vllm"])))
    return [Check(name="engine", status="ok", detail=f"{installed} {vllm.__version__}")]


def try_faiss() -> list[Check]:
    """Which build of FAISS there is, and how many GPUs it sees."""
    import faiss

    from storage.vectors import gpus

    built = "GPU" in faiss.get_compile_options()
    detail = f"{faiss.__version__}, {f'built for GPUs, sees {gpus()}' if built else 'built without GPUs'}"
    if gpus():
        return [Check(name="faiss", status="ok", detail=detail)]
    detail += ": large indexes are grouped by one CPU thread"
    return [Check(name="faiss", status="missing", detail=detail, remedy=REMEDIES["driver" if built else "faiss"])]


def try_generation(kind: str, model: str | None = None, device: str = "cuda") -> list[Check]:
    """A few tokens by a backend of this process, `hf` or `vllm`."""
    from models.backends import open_backend
    from models.local import release_held
    from models.protocols import ChatRequest, Message, Text

    with tempfile.TemporaryDirectory() as folder:
        path = model or make_model(Path(folder))
        backend = open_backend(kind, name=str(path), args={"device": device} if kind == "hf" else _vllm_arguments())
        words = Message(role="user", content=(Text(text=PROMPT),))
        request = ChatRequest(messages=(words,), max_tokens=NEW_TOKENS, template=False)
        backend.complete(request)  # loads and compiles
        started = time.perf_counter()
        answer = backend.complete(request)
        took = time.perf_counter() - started
        release_held()
    said = f"{model} says {answer.text[:SHOWN_CHARS]!r}" if model else "a tiny model of random weights"
    detail = f"{kind} on {device}: {answer.completion_tokens} tokens in {took:.2f} s; {said}"
    return [Check(name="generation", status="ok", detail=detail)]


def _vllm_arguments() -> dict[str, Any]:
    """Nine tenths of what is free, as a share of all: vLLM refuses to start when it cannot have its share."""
    import torch

    free, total = torch.cuda.mem_get_info()
    return {"gpu_memory_utilization": round(0.9 * free / total, 2), "max_model_len": 256}


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


def try_index() -> list[Check]:
    """Lists of vectors, made by the GPU and by a CPU thread: they must find the same."""
    vectors = make_vectors(INDEX_ROWS, INDEX_DIMENSION)
    gpu, cpu = build(vectors, gpu=True), build(vectors, gpu=False)
    detail = (
        f"{INDEX_ROWS:,} vectors: {gpu.took_s:.1f} s, recall {gpu.recall:.3f}; "
        f"one CPU thread {cpu.took_s:.1f} s, {cpu.recall:.3f}"
    )
    if gpu.recall < cpu.recall - RECALL_TOLERANCE:
        return [Check(name="index build", status="missing", detail=detail, remedy=REMEDIES["index build"])]
    return [Check(name="index build", status="ok", detail=detail)]


def make_vectors(rows: int, dimension: int) -> NDArray[np.float16]:
    """Unit vectors around topics, at random."""
    import numpy as np

    random = np.random.default_rng(0)
    topics = random.standard_normal((rows // 200 + 1, dimension), dtype=np.float32)
    vectors = topics[random.integers(0, len(topics), rows)]
    vectors += random.standard_normal((rows, dimension), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float16)


def build(vectors: NDArray[np.float16], *, gpu: bool) -> Built:
    """Time the making of lists, and ask them. Raises RuntimeError where FAISS sees no GPU that it is to use."""
    import numpy as np

    from storage.vectors import build_lists

    started = time.perf_counter()
    index = build_lists(vectors, gpu=gpu)
    took_s = time.perf_counter() - started
    asked = vectors[:: len(vectors) // 100].astype(np.float32)
    truth = np.argpartition(-(asked @ vectors.astype(np.float32).T), 10, axis=1)[:, :10]
    index.nprobe = max(1, index.nlist // 8)
    found = index.search(asked, 10)[1]
    return Built(took_s, float(np.mean([np.isin(*both).mean() for both in zip(truth, found, strict=True)])))


if __name__ == "__main__":
    main(sys.argv[1:])
