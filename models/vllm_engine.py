"""The vLLM engine of this process: opened for whoever asks first, one caller at a time, gone with its opener."""

from __future__ import annotations

import atexit
import hashlib
import json
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, lru_cache
from multiprocessing import active_children
from multiprocessing.util import Finalize, is_exiting
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, Self

import psutil

from models.causal_weights import hide_progress
from models.local import ALONE, load_once, release_model
from models.model_errors import ModelUnavailable, TransientModelError
from models.prompts import open_picture
from models.weight_files import read_json, require_safetensors

log = logging.getLogger(__name__)

REMEDY = (
    "fetch them again if the weights are damaged, lower gpu_memory_utilization, max_model_len or max_num_seqs if "
    "memory is short, or run the model with `--model hf`"
)
ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # this process has threads
    "VLLM_HOST_IP": "127.0.0.1",  # without it vLLM looks for an address of this machine that others see
    "SPT_NOENV": "1",  # else a process that takes a title hides its environment, by which a service finds its own
}
"""Environment variables for vLLM; one that is set already keeps its value."""
CAUSE = re.compile(r"((?:[\w.]+)?(?:Error|Exception)): (.+)")
FAILED = "initialization failed"  # what vLLM's processes log when another one failed, below its own words
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # LoRA ranks that vLLM can reserve memory for
OPENER = "ENGINE_OPENER_PID"  # names, in the environment of the engine's processes, the process that opened it
CHECK_INTERVAL_S = 1.0

load_picture = lru_cache(maxsize=64)(open_picture)
"""A picture as Pillow has it in memory, three bytes a pixel; kept, because demonstrations come again and again."""


class Setup(NamedTuple):
    """The files and options of an engine; another setup opens another engine."""

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


class Job(NamedTuple):
    """The tokens, pictures and sampling parameters of one request; `params` is Any: vLLM is not on every machine."""

    tokens: list[int]
    pngs: tuple[bytes, ...]
    params: Any  # vLLM's SamplingParams


class JobRefused(Exception):
    """vLLM refused this prompt and answered the others; the message is vLLM's own."""


def ask_engine(setup: Setup, jobs: Sequence[Job]) -> list[Any]:
    """Return vLLM's RequestOutput of each job in order, or the JobRefused of one that vLLM does not take.

    Other threads wait meanwhile; a model that was held before is let go of. Raises ModelUnavailable, and
    TransientModelError where the engine ends: the next call opens another one.
    """
    with ALONE:
        if is_exiting():  # an engine opened now would miss the finalizers that end it
            raise TransientModelError("This process is about to end, and opens no engine; run it again.")
        engine = load_once(("vllm", setup), lambda: Engine(setup))
        try:
            return engine.generate(jobs)
        except BaseException as error:
            release_model()  # it may still work on requests that nobody waits for
            if not isinstance(error, Exception):
                raise
            log.warning("engine ended jobs=%d error=%r", len(jobs), error)
            raise TransientModelError(
                f"The engine of {setup.folder.name} ended with {len(jobs)} requests unanswered "
                f"({type(error).__name__}: {' '.join(str(error).split())[:300]}). Run it again: what was answered is "
                f"kept, and another engine is opened. If it ends again, {REMEDY}."
            ) from error


class Engine:
    """vLLM's `LLM` and its processes, which end when this process does."""

    def __init__(self, setup: Setup) -> None:
        _kill_engines_at_exit()
        self._llm, self._lora = load_llm(setup)
        core = self._llm.llm_engine.engine_core
        self.close = Finalize(self, core.shutdown, exitpriority=1)
        """End the engine and free its memory."""

        def report_death() -> None:
            """Put an EngineDeadError into the engine's queue once a process of it has ended."""
            # an engine's process that is killed says nothing itself, and `generate` would wait for ever
            from vllm.v1.engine.exceptions import EngineDeadError  # pyright: ignore[reportMissingImports]

            core.resources.engine_manager.monitor_engine_liveness()
            core.outputs_queue.put(EngineDeadError())

        Thread(target=report_death, name="vllm-watch", daemon=True).start()

    def generate(self, jobs: Sequence[Job]) -> list[Any]:
        """Return vLLM's answer to each job, in order, or a JobRefused. Raises whatever vLLM raises when it ends."""
        from vllm.exceptions import VLLMClientError  # pyright: ignore[reportMissingImports]

        prompts, params = [vllm_prompt(job.tokens, job.pngs) for job in jobs], [job.params for job in jobs]
        try:
            return self._llm.generate(prompts, params, use_tqdm=False, lora_request=self._lora)
        except (VLLMClientError, ValueError) as error:
            if self._llm.llm_engine.has_unfinished_requests():  # no refusal: vLLM takes its batch out again
                raise
            if len(jobs) == 1:
                return [JobRefused(str(error))]
        middle = len(jobs) // 2  # one refused prompt costs a batch; halves find it
        return [*self.generate(jobs[:middle]), *self.generate(jobs[middle:])]


@cache
def _kill_engines_at_exit() -> None:
    """Kill engines at exit, before multiprocessing waits for them: its finalizers run first, by falling priority.

    What is no Engine yet has to go as well: one that is being opened, or whose opening was interrupted.
    """

    def kill_engines() -> None:
        for process in active_children():
            if process.name.startswith("EngineCore"):
                process.kill()

    Finalize(None, kill_engines, exitpriority=0)


def vllm_prompt(tokens: list[int], pngs: tuple[bytes, ...]) -> dict[str, Any]:
    """Return vLLM's TokensPrompt; pictures are identified by their digests, so that each is prepared once."""
    if not pngs:
        return {"prompt_token_ids": tokens}
    return {
        "prompt_token_ids": tokens,
        "multi_modal_data": {"image": [load_picture(png) for png in pngs]},
        "multi_modal_uuids": {"image": [hashlib.sha256(png).hexdigest() for png in pngs]},
    }


def load_llm(setup: Setup) -> tuple[Any, Any]:
    """Open vLLM's `LLM` from safetensors; return it with each job's adapter, None without. Raises ModelUnavailable."""
    require_safetensors(setup.folder)
    file = _log_to_file()
    log_start = file.stat().st_size if file.exists() else 0
    os.environ[OPENER] = str(os.getpid())
    try:
        from vllm.entrypoints.llm import LLM  # pyright: ignore[reportMissingImports]
        from vllm.lora.request import LoRARequest  # pyright: ignore[reportMissingImports]

        with hide_progress():
            llm = LLM(**llm_arguments(setup))
    except Exception as error:  # whatever another's engine raises, the run ends in one sentence
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        if FAILED in reason and file.exists():  # the cause stands in the log where the engine's own process failed
            logged = CAUSE.findall(file.read_bytes()[log_start:].decode("utf-8", "replace"))
            reason = next((f"{kind}: {text}" for kind, text in reversed(logged) if FAILED not in text), reason)
        raise ModelUnavailable(f"vLLM cannot open the model in {setup.folder}: {reason[:400]}; {REMEDY}") from error
    return llm, LoRARequest("adapter", 1, str(setup.adapter)) if setup.adapter else None


def llm_arguments(setup: Setup) -> dict[str, Any]:
    """Return the keyword arguments of vLLM's `LLM`: those of the user, and those that always hold."""
    internal_fields = ("folder", "adapter", "sees", "pixels")
    arguments: dict[str, Any] = {
        "model": str(setup.folder),
        "load_format": "safetensors",
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        "worker_extension_cls": f"{EndsWithItsOpener.__module__}.{EndsWithItsOpener.__qualname__}",
    }
    arguments |= {
        name: value for name, value in setup._asdict().items() if name not in internal_fields and value is not None
    }
    if setup.sees:
        arguments["limit_mm_per_prompt"] = {"video": 0}  # else memory is reserved for videos, which nothing sends
    if setup.pixels:
        arguments["mm_processor_kwargs"] = dict(setup.pixels)
    if setup.adapter:
        rank = read_json(setup.adapter / "adapter_config.json").get("r", RANKS[0])
        room = next((size for size in RANKS if size >= rank), RANKS[-1])
        arguments |= {"enable_lora": True, "max_loras": 1, "max_lora_rank": room}
    return arguments


@cache
def _log_to_file() -> Path:
    """Return the file that vLLM and its processes log to from now on: a command's answer stays free of their lines."""
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


class EndsWithItsOpener:
    """A mixin of vLLM's workers (`worker_extension_cls`) that ends them with the process that opened the engine.

    Its engine outlives an opener that is killed (vllm-project/vllm#55510); its workers end with the engine by a pipe.
    They stand in the engine's own process, or, where there are more than one, in processes whose end ends the engine.
    """

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Start the watch before the worker reads its weights, which may take minutes."""
        opener = int(os.environ[OPENER])

        def end_with_opener() -> None:
            """End this process as soon as the one that opened it has ended."""
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(opener)
                while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    time.sleep(CHECK_INTERVAL_S)
            os._exit(1)  # sys.exit would end this thread alone

        Thread(target=end_with_opener, name="opener-watch", daemon=True).start()
        return super().__new__(cls)
