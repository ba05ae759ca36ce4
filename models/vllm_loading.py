"""How an engine of vLLM is opened, and what to change where it cannot be."""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, Self

import psutil

from models.causal_weights import progress_hidden
from models.model_errors import ModelUnavailable
from models.weight_files import read_json, require_safetensors

ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # this process has threads
    "VLLM_HOST_IP": "127.0.0.1",  # without it vLLM looks for an address of this machine that others see
    "SPT_NOENV": "1",  # else a process that takes a title hides its environment, by which a service finds its own
}
"""For vLLM, unless it is set."""
CAUSE = re.compile(r"((?:[\w.]+)?(?:Error|Exception)): (.+)")
FAILED = "initialization failed"  # what vLLM's processes log when another one failed, below its own words
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # LoRA ranks that vLLM can reserve memory for


class Setup(NamedTuple):
    """What an engine is opened with; another setup is another engine."""

    folder: Path
    adapter: Path | None
    dtype: str
    sees: bool
    pixels: tuple[tuple[str, int], ...]
    quantization: str | None = None
    tensor_parallel_size: int = 1
    gpu_memory_utilization: float = 0.9
    """Share of the device's memory that the engine takes; of the machine's, on a CPU."""
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    enable_prefix_caching: bool = True
    enforce_eager: bool = False
    trust_remote_code: bool = False


def load_llm(setup: Setup) -> tuple[Any, Any]:
    """The engine, and the adapter that each of its jobs names. Only safetensors are read. Raises ModelUnavailable."""
    require_safetensors(setup.folder)
    said = _log_file()
    begun = said.stat().st_size if said.exists() else 0
    os.environ[OPENER] = str(os.getpid())
    try:
        from vllm.entrypoints.llm import LLM  # pyright: ignore[reportMissingImports]
        from vllm.lora.request import LoRARequest  # pyright: ignore[reportMissingImports]

        with progress_hidden():
            llm = LLM(**arguments(setup))
    except Exception as error:  # whatever another's engine raises, the run ends in one sentence
        end_orphans()
        logged = said.read_bytes()[begun:].decode("utf-8", "replace") if said.exists() else ""
        raise ModelUnavailable(_why(error, setup, logged=logged)) from error
    return llm, LoRARequest("adapter", 1, str(setup.adapter)) if setup.adapter else None


def arguments(setup: Setup) -> dict[str, Any]:
    """Keyword arguments of vLLM's `LLM`: those of the user, and those that always hold."""
    given = setup._asdict()
    folder, adapter = given.pop("folder"), given.pop("adapter")
    sees, pixels = given.pop("sees"), given.pop("pixels")
    chosen = {name: value for name, value in given.items() if value is not None}
    fixed: dict[str, Any] = {
        "model": str(folder),
        "load_format": "safetensors",
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        "worker_extension_cls": f"{EndsWithItsOpener.__module__}.{EndsWithItsOpener.__qualname__}",
    }
    if sees:
        fixed["limit_mm_per_prompt"] = {"video": 0}
    if pixels:
        fixed["mm_processor_kwargs"] = dict(pixels)
    if adapter:
        rank = read_json(adapter / "adapter_config.json").get("r", RANKS[0])
        room = next((known for known in RANKS if known >= rank), RANKS[-1])
        fixed |= {"enable_lora": True, "max_loras": 1, "max_lora_rank": room}
    return fixed | chosen


def remedy_of(said: str) -> str:
    """The remedy for an error message of vLLM, from vllm_remedies.yaml; another backend where none fits."""
    import yaml

    known = yaml.safe_load(Path(__file__).with_name("vllm_remedies.yaml").read_text("utf-8"))
    found = (one["remedy"] for one in known if re.search(one["match"], said, re.IGNORECASE))
    return next(found, "run it with `--model hf`, or serve it and give `--model openai`")


def _why(error: Exception, setup: Setup, *, logged: str) -> str:
    """The cause stands in the log where the engine's own process failed."""
    own = " ".join(str(error).split())
    causes = [f"{kind}: {text}" for kind, text in CAUSE.findall(logged) if FAILED not in text]
    said = causes[-1] if causes and FAILED in own else f"{type(error).__name__}: {own}"
    return f"vLLM cannot open the model in {setup.folder}: {said[:400]}; {remedy_of(said)}"


@cache
def _log_file() -> Path:
    """Where vLLM and its processes log from now on; else they would write between the lines of a command's answer."""
    folder = Path(tempfile.mkdtemp(prefix="trivet-vllm-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / "engine.log"
    handler = {"class": "logging.FileHandler", "filename": str(file), "formatter": "plain", "delay": True}
    config = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(asctime)s %(process)d %(levelname)s %(message)s"}},
        "handlers": {"file": handler},
        "loggers": {"vllm": {"handlers": ["file"], "level": "INFO", "propagate": False}},
    }
    (folder / "logging.json").write_text(json.dumps(config), "utf-8")
    for name, value in {**ENVIRONMENT, "VLLM_LOGGING_CONFIG_PATH": str(folder / "logging.json")}.items():
        os.environ.setdefault(name, value)
    return file


OPENER = "TRIVET_VLLM_OPENER"  # names, in the environment of the engine's processes, the process that opened it
LOOK_S = 1.0


class EndsWithItsOpener:
    """vLLM makes its workers of this class too, by `worker_extension_cls`.

    They stand in the engine's own process, or, where there are more than one, in processes whose end ends the engine.
    """

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Before the worker has read any weights, which may take minutes."""
        Thread(target=_end_with, args=(int(os.environ[OPENER]),), name="opener-watch", daemon=True).start()
        return super().__new__(cls)


def _end_with(opener: int) -> None:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(opener)
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(LOOK_S)
    os._exit(1)


def end_orphans() -> None:
    """End workers whose engine was killed before they had begun: they would look for what it ends with, and complain.

    Only processes that multiprocessing has started for this one, and that none of its own children owns any more.
    """
    own = str(os.getpid())
    family = {child.pid for child in psutil.Process().children(recursive=True)}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid not in family and process.environ().get(OPENER) == own and _is_spawned(process.cmdline()):
                process.kill()


def _is_spawned(command: list[str]) -> bool:
    return "--multiprocessing-fork" in command or command[:1] == ["VLLM::Worker"]
