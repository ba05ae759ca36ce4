"""`trivet doctor --gpu`: what a machine has for GPU work, piece by piece, each tried; imports nothing heavy.

A piece is tried in a process of its own (flows.service.gpu_trials): CUDA and FAISS call abort() when something is
off.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from pydantic import TypeAdapter

from flows.service.doctor import Check, Report

TRIALS = (sys.executable, "-P", "-m", "flows.service.gpu_trials")
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


def examine_gpu(model: Path | None = None) -> Report:
    """Look at driver, torch, memory, engine and FAISS; where there is a GPU, generate and build an index on it.

    model: a folder with a model that is to generate; None: a tiny one is made.
    """
    checks, (torch, *rest) = [_driver()], _tried("torch")
    checks += [torch, *rest, *_engine(), *_tried("faiss")]
    if torch.status != "ok":
        unseen = "not run: torch sees no GPU"
        return _report([*checks, *(_lacking(name, unseen, torch.remedy) for name in ("generation", "index build"))])
    for kind in ("hf", "vllm") if find_spec("vllm") else ("hf",):
        checks += _tried("generation", kind, *([str(model.absolute())] if model else []))
    return _report([*checks, *_tried("index build")])


def _report(checks: Sequence[Check]) -> Report:
    return Report(ok=all(check.status != "missing" for check in checks), checks=tuple(checks))


def _lacking(name: str, detail: str, remedy: str | None = None) -> Check:
    return Check(name=name, status="missing", detail=detail, remedy=remedy or REMEDIES[name])


def _driver() -> Check:
    """As the kernel module tells it; under WSL only nvidia-smi knows."""
    told = DRIVER.read_text() if DRIVER.is_file() else _asked_of_the_tool()
    if found := re.search(r"\b(\d{3,}(?:\.\d+)+)\b", told):
        return Check(name="driver", status="ok", detail=f"NVIDIA {found[1]}")
    return _lacking("driver", "no NVIDIA driver")


def _asked_of_the_tool() -> str:
    if not (program := shutil.which("nvidia-smi")):
        return ""
    command = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _engine() -> list[Check]:
    if not find_spec("vllm"):
        return [_lacking("engine", "vllm is not installed: models in this process run with transformers")]
    return _tried("engine")


def _tried(name: str, *arguments: str) -> list[Check]:
    """What the trial of this name finds; a trial that ends in any other way is a check that failed."""
    with tempfile.TemporaryFile("w+") as told, tempfile.TemporaryFile("w+") as noise:
        child = subprocess.Popen(
            [*TRIALS, name, *arguments], stdout=told, stderr=noise, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            code = child.wait(MOST_TRIAL_S)
        except subprocess.TimeoutExpired:
            return [_lacking(name, f"not done after {MOST_TRIAL_S} s")]
        finally:
            _end(child)
        for file in (told, noise):
            file.seek(0)
        if code == 0:
            return TypeAdapter(list[Check]).validate_json(told.read())
        last = next((line for line in reversed(noise.read().splitlines()) if line.strip()), "it said nothing")
    ended = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return [_lacking(name, f"{last.strip()} ({ended})")]


def _end(child: subprocess.Popen[bytes]) -> None:
    """With all that it started: an engine has processes of its own."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
