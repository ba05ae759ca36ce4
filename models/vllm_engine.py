"""The vLLM engine of this process: opened for whoever asks first, shared by all threads that ask for the same one."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Generator, Iterator, Sequence
from functools import cache
from itertools import count
from multiprocessing import active_children
from multiprocessing.util import Finalize, is_exiting
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple

from models.local import ALONE, held, release_held
from models.vllm_loading import Setup, load_llm
from models.vllm_prompts import vllm_prompt

log = logging.getLogger(__name__)

SEEN_AT_ONCE = 64
"""Jobs with pictures that are under way: as Pillow and the model take them they need a hundred megabytes apiece."""


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
