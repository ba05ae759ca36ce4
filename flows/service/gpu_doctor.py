"""`trivet doctor --gpu`: torch with its memory, vLLM, FAISS, a generation and an index build, tried in a child process.

CUDA and FAISS may call abort(): `python -m flows.service.gpu_doctor [MODEL]` prints each check as it is done.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from flows.service.doctor import Check, Report, check_missing, check_ok

MOST_S = 900  # reading the weights of a large model takes minutes
COMMAND = (sys.executable, "-P", "-m", "flows.service.gpu_doctor")
REMEDIES = {
    "torch": "install NVIDIA's driver and a torch with CUDA, or send GPU steps elsewhere: TRIVET_GPU_DEPLOYMENT",
    "vllm": "in a fresh environment: pip install --constraint deployments/constraints-gpu.txt 'trivet[gpu]'",
    "faiss": "pip uninstall faiss-cpu faiss-gpu, then pip install 'faiss-gpu>=1.15,<1.16'",
    "generation": "nvidia-smi shows what holds the memory; --model PATH tries another model",
    "index build": "CUDA_VISIBLE_DEVICES='' builds indexes on the CPU",
}


def examine_gpu(model: Path | None = None) -> Report:
    """Run all checks in a child process; those that it did not come to are missing, with its last line of output."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        command = [*COMMAND, *([str(model.absolute())] if model else [])]
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, process_group=0)
        try:
            code = child.wait(MOST_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # an engine has processes of its own
            code = child.wait()
        output.seek(0)
        errors.seek(0)
        checks = [Check.model_validate_json(line) for line in output if line.startswith("{")]
        last = ["it said nothing", *filter(None, map(str.strip, errors))][-1]
    ended = f" (ended by {signal.Signals(-code).name})" if code < 0 else ""
    why = f"{last}{ended}" if code else "not run: torch sees no GPU"
    checks += [check_missing(name, why, REMEDIES[name]) for name in [*REMEDIES][len(checks) :]]
    return Report(checks=tuple(checks))


def try_all(model: str | None = None, device: str = "cuda") -> Iterator[Check]:
    """Yield the checks in the order of REMEDIES; only that of torch where it sees no GPU. Raises what a trial does."""
    import faiss
    import torch
    from transformers import AutoModelForCausalLM, Qwen2Config

    from storage.vectors import count_gpus, train_lists

    if device == "cuda" and not torch.cuda.is_available():
        yield check_missing("torch", f"{torch.__version__}, CUDA {torch.version.cuda}: sees no GPU", REMEDIES["torch"])
        return
    free = [f"{torch.cuda.mem_get_info(number)[0] / 1e9:.1f} GB free" for number in range(torch.cuda.device_count())]
    yield check_ok("torch", f"{torch.__version__}, CUDA {torch.version.cuda}: {', '.join(free)}")
    for name, works in (("vllm", find_spec("vllm") is not None), ("faiss", count_gpus() > 0)):
        yield check_ok(name, "uses it") if works else check_missing(name, "not installed for the GPU", REMEDIES[name])
    tiny: Any = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
    weights: Any = AutoModelForCausalLM.from_config(Qwen2Config(vocab_size=64, num_key_value_heads=2, **tiny))
    if model:
        weights = AutoModelForCausalLM.from_pretrained(model, dtype="auto")
    weights.to(device)
    tokens = weights.generate(torch.arange(4, device=device)[None], min_new_tokens=16, max_new_tokens=16)
    yield check_ok("generation", f"{tokens.shape[1] - 4} tokens by {model or 'a tiny model of random weights'}")
    vectors = torch.nn.functional.normalize(torch.randn(20_000, 64), dim=1).numpy()
    train_lists(vectors, 100, gpu=count_gpus() > 0)
    yield check_ok("index build", f"20,000 vectors in 100 lists, faiss {faiss.__version__}")


if __name__ == "__main__":
    for each in try_all(*sys.argv[1:2]):
        print(each.model_dump_json(), flush=True)
