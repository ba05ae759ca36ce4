"""All processes of a service, found by the mark in their environment.

psutil compares the start time before it sends a signal, since a pid may be reused.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import psutil

MARK = "TRIVET_SERVICE"
RUN = "PREFECT__FLOW_RUN_ID"
WORKER = "PREFECT__WORKER_NAME"
KILLED_S = 10.0
"""Longest wait until a killed process is gone."""


class Found(NamedTuple):
    """A process of the service."""

    process: psutil.Process
    command: str
    run: str | None
    """ID of its flow run."""
    worker: str | None
    """Name of the worker that it is, or that started it."""


def of_service(mark: str) -> list[Found]:
    """All living processes of the service with this mark except this one, and those of other accounts."""
    found = (_look(process, mark) for process in psutil.process_iter())
    return [each for each in found if each is not None]


def _look(process: psutil.Process, mark: str) -> Found | None:
    try:
        environment = process.environ()
        if environment.get(MARK) != mark or process == psutil.Process() or is_gone(process):
            return None
        return Found(process, " ".join(process.cmdline()), environment.get(RUN), environment.get(WORKER))
    except (psutil.Error, OSError):
        return None


def is_gone(process: psutil.Process) -> bool:
    """Whether it has ended; a zombie has, though its parent may never ask."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def end(found: Iterable[Found], *, grace_s: float) -> None:
    """Ask processes to end, and kill those that have not within the grace."""
    processes = [each.process for each in found]
    for process in processes:
        with suppress(psutil.Error):
            process.terminate()
    kill(_left(processes, grace_s))


def kill(processes: Iterable[psutil.Process]) -> None:
    killed = list(processes)
    for process in killed:
        with suppress(psutil.Error):
            process.kill()
    _left(killed, KILLED_S)


def _left(processes: list[psutil.Process], patience_s: float) -> list[psutil.Process]:
    deadline = time.monotonic() + patience_s
    while (left := [each for each in processes if not is_gone(each)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left
