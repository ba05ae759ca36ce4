"""`trivet doctor --gpu`: test what a machine has for GPU work; imports nothing heavy.

Each test runs in a process of its own, because CUDA and FAISS may call abort(): `python -m flows.service.gpu_doctor
NAME [ARGUMENT …]` prints a JSON list of checks.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import TypeAdapter

from flows.service.doctor import Check, Report, missing, ok, report

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


TRIALS = (sys.executable, "-P", "-m", "flows.service.gpu_doctor")
MOST_TRIAL_S = 900
"""Reading the weights of a large model and compiling its kernels takes minutes."""
DRIVER = Path("/proc/driver/nvidia/version")
INSTALL = "in a fresh environment: pip install --constraint deployments/constraints-gpu.txt 'trivet[gpu]'"
REMEDIES = {
    "driver": "install NVIDIA's driver, or send GPU steps to a pool that has one: TRIVET_GPU_DEPLOYMENT=gpu-step/gpu",
    "torch": INSTALL,
    "engine": INSTALL,
    "faiss": "pip uninstall faiss-cpu faiss-gpu, then pip install 'faiss-gpu>=1.15,<1.16'",
    "generation": "nvidia-smi shows what holds the memory; --model PATH tries another model",
    "index build": "CUDA_VISIBLE_DEVICES='' builds indexes on the CPU",
}
NO_ENGINE = "vllm is not installed: models in this process run with transformers"
PROMPT = "one two three"
NEW_TOKENS = 16
SHOWN_CHARS = 60
INDEX_ROWS, INDEX_DIMENSION = 50_000, 384
RECALL_TOLERANCE = 0.01
"""That lists made by a GPU may find less of the ten nearest than lists made by a CPU."""


def examine_gpu(model: Path | None = None) -> Report:
    """Test driver, torch, memory, engine and FAISS, and generate with `model` (None: a tiny one) if there is a GPU."""
    checks, (torch, *rest) = [_driver()], _tried("torch")
    engine = _tried("engine") if find_spec("vllm") else [missing("engine", NO_ENGINE, INSTALL)]
    checks += [torch, *rest, *engine, *_tried("faiss")]
    if torch.status != "ok":
        unseen = "not run: torch sees no GPU"
        return report([*checks, *(missing(name, unseen, torch.remedy) for name in ("generation", "index build"))])
    for kind in ("hf", "vllm") if find_spec("vllm") else ("hf",):
        checks += _tried("generation", kind, *([str(model.absolute())] if model else []))
    return report([*checks, *_tried("index build")])


def _driver() -> Check:
    """The version that the kernel module reports; under WSL, only nvidia-smi knows it."""
    told = DRIVER.read_text() if DRIVER.is_file() else ""
    if not told and (program := shutil.which("nvidia-smi")):
        command = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
        with suppress(OSError, subprocess.SubprocessError):
            told = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout
    if found := re.search(r"\b(\d{3,}(?:\.\d+)+)\b", told):
        return ok("driver", f"NVIDIA {found[1]}")
    return missing("driver", "no NVIDIA driver", REMEDIES["driver"])


def _tried(name: str, *arguments: str) -> list[Check]:
    """The checks of a trial; one that does not exit normally is a failed check."""
    with tempfile.TemporaryFile("w+") as told, tempfile.TemporaryFile("w+") as noise:
        child = subprocess.Popen(
            [*TRIALS, name, *arguments], stdout=told, stderr=noise, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            code = child.wait(MOST_TRIAL_S)
        except subprocess.TimeoutExpired:
            return [missing(name, f"not done after {MOST_TRIAL_S} s", REMEDIES[name])]
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # an engine has processes of its own
            child.wait()
        for file in (told, noise):
            file.seek(0)
        if code == 0:
            return TypeAdapter(list[Check]).validate_json(told.read())
        last = next((line for line in reversed(noise.read().splitlines()) if line.strip()), "it said nothing")
    ended = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return [missing(name, f"{last.strip()} ({ended})", REMEDIES[name])]


class Built(NamedTuple):
    """Speed and quality of an index."""

    took_s: float
    recall: float
    """Share of the true ten nearest that an eighth of the lists holds."""


def main(arguments: Sequence[str]) -> None:
    """Run a trial; libraries that print get stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    name, *rest = arguments
    trials = {"torch": try_torch, "engine": try_engine, "faiss": try_faiss, "generation": try_generation}
    checks = (trials | {"index build": try_index})[name](*rest)
    with out:
        out.write(TypeAdapter(list[Check]).dump_json(checks).decode())


def try_torch() -> list[Check]:
    """torch with its CUDA, and the memory of each GPU."""
    import torch

    built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
    if not torch.cuda.is_available():
        detail = f"{torch.__version__}, {built}: sees no GPU"
        remedy = REMEDIES["driver" if torch.version.cuda else "torch"]
        return [missing("torch", detail, remedy), missing("memory", "no GPU", remedy)]
    memory = [
        f"{torch.cuda.get_device_name(number)}: {free / 1e9:.1f} of {total / 1e9:.1f} GB free"
        for number in range(torch.cuda.device_count())
        for free, total in [torch.cuda.mem_get_info(number)]
    ]
    return [ok("torch", f"{torch.__version__}, {built}"), ok("memory", ", ".join(memory))]


def try_engine() -> list[Check]:
    """vLLM, imported; by the name of what was installed: a build for the CPU is called otherwise."""
    from importlib.metadata import packages_distributions

    import vllm  # pyright: ignore[reportMissingImports]

    installed = ", ".join(dict.fromkeys(packages_distributions().get("vllm", ["vllm"])))
    return [ok("engine", f"{installed} {vllm.__version__}")]


def try_faiss() -> list[Check]:
    """Which build of FAISS there is, and how many GPUs it sees."""
    import faiss

    from storage.centres import gpus

    built = "GPU" in faiss.get_compile_options()
    detail = f"{faiss.__version__}, {f'built for GPUs, sees {gpus()}' if built else 'built without GPUs'}"
    if gpus():
        return [ok("faiss", detail)]
    detail += ": large indexes are grouped by one CPU thread"
    return [missing("faiss", detail, REMEDIES["driver" if built else "faiss"])]


def try_generation(kind: str, model: str | None = None, device: str = "cuda") -> list[Check]:
    """A few tokens by a backend of this process, `hf` or `vllm`."""
    import torch

    from models.backends import open_backend
    from models.local import release_held
    from models.protocols import ChatRequest, Message, Text

    with tempfile.TemporaryDirectory() as folder:
        path = model or make_model(Path(folder))
        args: dict[str, Any] = {"device": device}
        if kind == "vllm":  # which refuses to start if it cannot have its share of all memory: 0.9 of what is free
            free, total = torch.cuda.mem_get_info()
            args = {"gpu_memory_utilization": round(0.9 * free / total, 2), "max_model_len": 256}
        backend = open_backend(kind, name=str(path), args=args)
        words = Message(role="user", content=(Text(text=PROMPT),))
        request = ChatRequest(messages=(words,), max_tokens=NEW_TOKENS, template=False)
        backend.complete(request)  # loads and compiles
        started = time.perf_counter()
        answer = backend.complete(request)
        took = time.perf_counter() - started
        release_held()
    said = f"{model} says {answer.text[:SHOWN_CHARS]!r}" if model else "a tiny model of random weights"
    detail = f"{kind} on {device}: {answer.completion_tokens} tokens in {took:.2f} s; {said}"
    return [ok("generation", detail)]


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
        return [missing("index build", detail, REMEDIES["index build"])]
    return [ok("index build", detail)]


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

    from storage.centres import Centres, lists_for, train_lists
    from storage.vectors import Vectors, pack_vectors

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


if __name__ == "__main__":
    main(sys.argv[1:])
