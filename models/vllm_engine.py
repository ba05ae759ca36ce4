"""The vLLM engine of this process: opened for whoever asks first, shared by all threads that ask for the same one."""

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
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from itertools import count
from multiprocessing import active_children
from multiprocessing.util import Finalize, is_exiting
from pathlib import Path
from threading import Lock, Thread
from typing import Any, NamedTuple, Self

import psutil

from models.causal_weights import progress_hidden
from models.local import ALONE, held, release_held
from models.model_errors import ModelUnavailable
from models.prompts import open_picture
from models.weight_files import read_json, require_safetensors

log = logging.getLogger(__name__)

SEEN_AT_ONCE = 64
"""Jobs with pictures that are under way: as Pillow and the model take them they need a hundred megabytes apiece."""
REMEDY = (
    "fetch them again if the weights are damaged, lower max_model_len or max_num_seqs if memory is short, or run the "
    "model with `--model hf`"
)
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
OPENER = "ENGINE_OPENER_PID"  # names, in the environment of the engine's processes, the process that opened it
LOOK_S = 1.0

picture = lru_cache(maxsize=64)(open_picture)
"""A picture as Pillow has it in memory, three bytes a pixel; kept, because demonstrations come again and again."""


class Job(NamedTuple):
    """What the engine is asked once; typed Any because vLLM is not on every machine."""

    tokens: list[int]
    pngs: tuple[bytes, ...]
    params: Any  # vLLM's SamplingParams


class EngineGone(Exception):
    """The engine ended under its jobs; `cause` is None where another model took its place: then ask again."""

    def __init__(self, cause: Exception | None) -> None:
        super().__init__(str(cause))
        self.cause = cause


class JobRefused(Exception):
    """vLLM refuses this prompt; the engine goes on with the others. The message is vLLM's own."""


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


_queue = Lock()


@contextmanager
def _in_turn() -> Generator[None]:
    """Holds ALONE; whoever waits for it comes next, and not the thread that has just let go of it."""
    with _queue:
        ALONE.acquire()
    try:
        yield
    finally:
        ALONE.release()


def engine_of(setup: Setup) -> Engine:
    """The engine with this setup; the model that was held before goes first. Raises ModelUnavailable, EngineGone."""
    with _in_turn():
        if is_exiting():
            raise EngineGone(RuntimeError("this process is about to end"))
        if held(("vllm", setup), lambda: Engine(setup)).is_over:
            release_held()
        return held(("vllm", setup), lambda: Engine(setup))


Outbox = deque[tuple[int, Any]]


class Engine:
    """A vLLM engine. Whoever waits for an output runs the engine's next step, for all threads that have jobs in it."""

    def __init__(self, setup: Setup) -> None:
        _end_at_exit()
        self.llm, self._lora = load_llm(setup)
        core = self.llm.llm_engine.engine_core
        self.close = Finalize(self, core.shutdown, exitpriority=1)
        """Ends the engine and frees its memory; whoever still waits for it gets an EngineGone without a cause."""
        self._at_once: int = 2 * self.llm.llm_engine.vllm_config.scheduler_config.max_num_seqs
        """Most requests of one caller in the engine: its next batch waits there, the rest here."""
        self._failure: Exception | None = None
        self._names = count()
        self._running: dict[str, tuple[int, Outbox]] = {}  # by request: the number of its job, and who waits for it
        Thread(target=_tell_of_death, args=(core,), name="vllm-watch", daemon=True).start()

    @property
    def is_over(self) -> bool:
        """True once it has ended."""
        return not self.close.still_active()

    def run(self, jobs: Sequence[Job]) -> Generator[tuple[int, Any]]:
        """RequestOutputs with the number of their job, as they come; a job that vLLM refuses gives a JobRefused.

        Jobs begin in their order, the next ones as answers are taken. Closing it abandons the rest. Raises EngineGone.
        """
        outbox: Outbox = deque()
        room = min(self._at_once, SEEN_AT_ONCE) if any(job.pngs for job in jobs) else self._at_once
        begun = done = 0
        try:
            while done < len(jobs):
                with _in_turn():
                    if not outbox and self.is_over:  # what has been answered is given first
                        raise EngineGone(self._failure)
                    while not self.is_over and begun < min(done + room, len(jobs)):
                        self._begin(begun, jobs[begun], outbox)
                        begun += 1
                    if not outbox:
                        self._step()
                while outbox:
                    number, output = outbox.popleft()
                    done += isinstance(output, JobRefused) or output.finished
                    yield number, output
        finally:
            if done < begun and not self.is_over:
                with _in_turn():
                    gone = [name for name, (_, owner) in self._running.items() if owner is outbox]
                    for name in gone:
                        del self._running[name]
                    if not self.is_over:
                        self.llm.llm_engine.abort_request(gone)

    def _begin(self, number: int, job: Job, outbox: Outbox) -> None:
        from vllm.exceptions import VLLMClientError  # pyright: ignore[reportMissingImports]

        name = str(next(self._names))
        try:
            (rendered,) = self.llm.renderer.render_cmpl([vllm_prompt(job.tokens, job.pngs)])
            self.llm.llm_engine.add_request(name, rendered, job.params, lora_request=self._lora)
        except (VLLMClientError, ValueError) as error:
            outbox.append((number, JobRefused(str(error))))
        except Exception as error:  # whatever it is, nobody may wait for ever
            raise self._gone(error) from error
        else:
            self._running[name] = number, outbox

    def _step(self) -> None:
        try:
            outputs = self.llm.llm_engine.step()
        except Exception as error:  # as above
            raise self._gone(error) from error
        for output in outputs:
            if output.request_id in self._running:
                number, outbox = self._running[output.request_id]
                if output.finished:
                    del self._running[output.request_id]
                outbox.append((number, output))

    def _gone(self, error: Exception) -> EngineGone:
        log.warning("engine ended jobs=%d error=%r", len(self._running), error)
        self._failure = error
        self.close()
        return EngineGone(error)


def _tell_of_death(client: Any) -> None:
    """Wakes whoever waits for outputs when the engine's process ends: one that is killed says nothing itself."""
    from vllm.v1.engine.exceptions import EngineDeadError  # pyright: ignore[reportMissingImports]

    client.resources.engine_manager.monitor_engine_liveness()
    client.outputs_queue.put(EngineDeadError())


@cache
def _end_at_exit() -> None:
    """At exit multiprocessing waits for the processes of engines; its own finalizers, the highest first, come before.

    What is no Engine yet has to go as well: one that is being opened, or whose opening was interrupted.
    """
    Finalize(None, _kill_engines, exitpriority=0)


def _kill_engines() -> None:
    for process in active_children():
        if process.name.startswith("EngineCore"):
            process.kill()


def vllm_prompt(tokens: list[int], pngs: tuple[bytes, ...]) -> dict[str, Any]:
    """vLLM's TokensPrompt; pictures are told apart by their files, so that each is prepared once."""
    if not pngs:
        return {"prompt_token_ids": tokens}
    return {
        "prompt_token_ids": tokens,
        "multi_modal_data": {"image": [picture(png) for png in pngs]},
        "multi_modal_uuids": {"image": [hashlib.sha256(png).hexdigest() for png in pngs]},
    }


def load_llm(setup: Setup) -> tuple[Any, Any]:
    """The engine, and the adapter that each of its jobs names. Only safetensors are read. Raises ModelUnavailable."""
    require_safetensors(setup.folder)
    file = _log_file()
    begun = file.stat().st_size if file.exists() else 0
    os.environ[OPENER] = str(os.getpid())
    try:
        from vllm.entrypoints.llm import LLM  # pyright: ignore[reportMissingImports]
        from vllm.lora.request import LoRARequest  # pyright: ignore[reportMissingImports]

        with progress_hidden():
            llm = LLM(**arguments(setup))
    except Exception as error:  # whatever another's engine raises, the run ends in one sentence
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        if FAILED in said and file.exists():  # the cause stands in the log where the engine's own process failed
            logged = CAUSE.findall(file.read_bytes()[begun:].decode("utf-8", "replace"))
            said = next((f"{kind}: {text}" for kind, text in reversed(logged) if FAILED not in text), said)
        raise ModelUnavailable(f"vLLM cannot open the model in {setup.folder}: {said[:400]}; {REMEDY}") from error
    return llm, LoRARequest("adapter", 1, str(setup.adapter)) if setup.adapter else None


def arguments(setup: Setup) -> dict[str, Any]:
    """Keyword arguments of vLLM's `LLM`: those of the user, and those that always hold."""
    own = ("folder", "adapter", "sees", "pixels")
    chosen = {name: value for name, value in setup._asdict().items() if name not in own and value is not None}
    fixed: dict[str, Any] = {
        "model": str(setup.folder),
        "load_format": "safetensors",
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        "worker_extension_cls": f"{EndsWithItsOpener.__module__}.{EndsWithItsOpener.__qualname__}",
    }
    if setup.sees:
        fixed["limit_mm_per_prompt"] = {"video": 0}
    if setup.pixels:
        fixed["mm_processor_kwargs"] = dict(setup.pixels)
    if setup.adapter:
        rank = read_json(setup.adapter / "adapter_config.json").get("r", RANKS[0])
        room = next((known for known in RANKS if known >= rank), RANKS[-1])
        fixed |= {"enable_lora": True, "max_loras": 1, "max_lora_rank": room}
    return fixed | chosen


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


class EndsWithItsOpener:
    """vLLM makes its workers of this class too, by `worker_extension_cls`.

    Its engine outlives an opener that is killed (vllm-project/vllm#55510); its workers end with the engine by a pipe.
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
