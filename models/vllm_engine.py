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
import weakref
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from itertools import count
from multiprocessing import active_children
from multiprocessing.util import Finalize, is_exiting
from pathlib import Path
from queue import Empty, SimpleQueue
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


class _Batch(NamedTuple):
    first: int  # number of its first job
    jobs: Sequence[Job]
    outbox: SimpleQueue[tuple[int, Any]]


class _Abandon(NamedTuple):
    """Nobody waits for these any more."""

    outbox: SimpleQueue[tuple[int, Any]]


class Driver:
    """Runs an engine in a thread of its own, so that jobs of all threads share its batches.

    While there are jobs it holds models.local.ALONE: another model is loaded when they are done, not between them.
    """

    def __init__(self, llm: Any, lora: Any) -> None:
        self.context_tokens: int = llm.model_config.max_model_len  # most tokens of prompt and answer together
        self.is_over = False
        self._at_once: int = 2 * llm.llm_engine.vllm_config.scheduler_config.max_num_seqs
        """Most requests of one caller in the engine: its next batch waits there, the rest here."""
        self._llm: Any = llm
        self._lora = lora
        self._inbox: SimpleQueue[_Batch | _Abandon | None] = SimpleQueue()
        self._gate = Lock()
        self._names = count()
        self._running: dict[str, tuple[int, SimpleQueue[tuple[int, Any]]]] = {}
        Thread(target=self._drive, name="vllm-driver", daemon=True).start()
        Thread(target=_tell_of_death, args=(llm.llm_engine.engine_core,), name="vllm-watch", daemon=True).start()

    def run(self, jobs: Sequence[Job]) -> Generator[tuple[int, Any]]:
        """RequestOutputs with the number of their job, as they come; a job that vLLM refuses gives a JobRefused.

        Jobs begin in their order, the next ones as answers are taken. Closing it abandons the rest. Raises EngineGone.
        """
        outbox: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        room = min(self._at_once, SEEN_AT_ONCE) if any(job.pngs for job in jobs) else self._at_once
        begun = done = 0
        try:
            while done < len(jobs):
                coming = jobs[begun : done + room]
                if coming and not (self.is_over and done < begun):  # what has been answered is given first
                    self._send(_Batch(begun, coming, outbox))
                    begun += len(coming)
                number, output = outbox.get()
                if isinstance(output, EngineGone):
                    raise output
                done += isinstance(output, JobRefused) or output.finished
                yield number, output
        finally:
            if done < begun and not self.is_over:
                self._inbox.put(_Abandon(outbox))

    def close(self) -> None:
        """End the engine and free its memory; whoever still waits for it gets an EngineGone without a cause."""
        with self._gate:
            if self.is_over:
                return
            self.is_over = True
            self._inbox.put(None)
        self._shut_down()

    def _send(self, batch: _Batch) -> None:
        with self._gate:
            if self.is_over:
                raise EngineGone(None)
            self._inbox.put(batch)

    def _drive(self) -> None:
        while (command := self._inbox.get()) is not None:
            with ALONE:
                self._obey(command)
                while self._running:
                    for waiting in self._waiting():
                        self._obey(waiting)
                    self._step()

    def _waiting(self) -> Iterator[_Batch | _Abandon]:
        try:
            while (command := self._inbox.get_nowait()) is not None:
                yield command
            self._inbox.put(None)
        except Empty:
            return

    def _obey(self, command: _Batch | _Abandon) -> None:
        if self.is_over:
            if isinstance(command, _Batch):
                command.outbox.put((0, EngineGone(None)))
        elif isinstance(command, _Batch):
            self._begin(command)
        else:
            gone = [name for name, (_, outbox) in self._running.items() if outbox is command.outbox]
            for name in gone:
                del self._running[name]
            self._llm.llm_engine.abort_request(gone)

    def _begin(self, batch: _Batch) -> None:
        from vllm.exceptions import VLLMClientError  # pyright: ignore[reportMissingImports]

        for number, job in enumerate(batch.jobs, batch.first):
            name = str(next(self._names))
            try:
                (rendered,) = self._llm.renderer.render_cmpl([vllm_prompt(job.tokens, job.pngs)])
                self._llm.llm_engine.add_request(name, rendered, job.params, lora_request=self._lora)
            except (VLLMClientError, ValueError) as error:
                batch.outbox.put((number, JobRefused(str(error))))
            except Exception as error:  # noqa: BLE001 whatever it is, nobody may wait for ever
                batch.outbox.put((number, EngineGone(error)))
                self._fail(error)
                return
            else:
                self._running[name] = number, batch.outbox

    def _step(self) -> None:
        try:
            outputs = self._llm.llm_engine.step()
        except Exception as error:  # noqa: BLE001 as above
            self._fail(error)
            return
        for output in outputs:
            if output.request_id in self._running:
                number, outbox = self._running[output.request_id]
                if output.finished:
                    del self._running[output.request_id]
                outbox.put((number, output))

    def _fail(self, error: Exception) -> None:
        log.warning("engine ended jobs=%d error=%r", len(self._running), error)
        with self._gate:
            self.is_over = True
            self._inbox.put(None)
        for outbox in {id(outbox): outbox for _, outbox in self._running.values()}.values():
            outbox.put((0, EngineGone(error)))
        self._running.clear()
        self._shut_down()

    def _shut_down(self) -> None:
        llm, self._llm = self._llm, None
        if llm is not None:
            llm.llm_engine.engine_core.shutdown()


def _tell_of_death(client: Any) -> None:
    """Wakes whoever waits for outputs when the engine's process ends: one that is killed says nothing itself."""
    from vllm.v1.engine.exceptions import EngineDeadError  # pyright: ignore[reportMissingImports]

    client.resources.engine_manager.monitor_engine_liveness()
    client.outputs_queue.put(EngineDeadError())


class _Engine:
    """What models.local holds: when it lets go, or this process ends, the driver is closed."""

    def __init__(self, setup: Setup) -> None:
        _end_at_exit()
        self.driver = Driver(*load_llm(setup))
        Finalize(self, self.driver.close, exitpriority=1)


@cache
def _end_at_exit() -> None:
    """At exit multiprocessing waits for the processes of engines; its own finalizers, the highest first, come before.

    What is no driver's yet has to go as well: an engine that is being opened, or whose opening was interrupted.
    """
    Finalize(None, _kill_engines, exitpriority=0)


def _kill_engines() -> None:
    for process in active_children():
        if process.name.startswith("EngineCore"):
            process.kill()


_open: weakref.WeakValueDictionary[Setup, Driver] = weakref.WeakValueDictionary()


def driver_of(setup: Setup) -> Driver:
    """The engine with this setup; the model that was held before goes first. Raises ModelUnavailable, EngineGone."""
    # not by way of `held`: that waits until the engine is idle
    if (driver := _open.get(setup)) is not None and not driver.is_over:
        return driver
    with ALONE:
        if is_exiting():
            raise EngineGone(RuntimeError("this process is about to end"))
        key = ("vllm", setup)
        if held(key, lambda: _Engine(setup)).driver.is_over:
            release_held()
        driver = held(key, lambda: _Engine(setup)).driver
        _open[setup] = driver
        return driver


def vllm_prompt(tokens: list[int], pngs: tuple[bytes, ...]) -> dict[str, Any]:
    """vLLM's TokensPrompt; pictures are told apart by their files, so that each is prepared once."""
    if not pngs:
        return {"prompt_token_ids": tokens}
    return {
        "prompt_token_ids": tokens,
        "multi_modal_data": {"image": [picture(png) for png in pngs]},
        "multi_modal_uuids": {"image": [_name(png) for png in pngs]},
    }


@lru_cache(maxsize=1024)
def _name(png: bytes) -> str:
    return hashlib.sha256(png).hexdigest()


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


REMEDY = (
    "fetch them again if the weights are damaged, lower max_model_len or max_num_seqs if memory is short, or run the "
    "model with `--model hf`"
)


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


def _why(error: Exception, setup: Setup, *, logged: str) -> str:
    """The cause stands in the log where the engine's own process failed."""
    own = " ".join(str(error).split())
    causes = [f"{kind}: {text}" for kind, text in CAUSE.findall(logged) if FAILED not in text]
    said = causes[-1] if causes and FAILED in own else f"{type(error).__name__}: {own}"
    return f"vLLM cannot open the model in {setup.folder}: {said[:400]}; {REMEDY}"


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
            command = process.cmdline()
            is_spawned = "--multiprocessing-fork" in command or command[:1] == ["VLLM::Worker"]
            if is_spawned and process.pid not in family and process.environ().get(OPENER) == own:
                process.kill()
