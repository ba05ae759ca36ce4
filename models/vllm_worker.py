"""Ends an engine of vLLM with the process that opened it, however that ends: one that is killed says nothing."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from threading import Thread
from typing import Any, Self

import psutil

OPENER = "TRIVET_VLLM_OPENER"
"""Names, in the environment of the engine's processes, the process that opened it."""
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
