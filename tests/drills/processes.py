"""Processes of this machine: what runs below another one, whether it is gone, and waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from tests.sandbox.attacking import descendants

SOON_S = 60.0
"""Far less than programs of a drill have, and far more than it takes to end them."""
POLL_S = 0.005


class Process(NamedTuple):
    """A process, told apart from a later one of the same pid."""

    pid: int
    started: str
    """Clock ticks since the machine's start."""
    command: str


def process_of(pid: int) -> Process | None:
    """None when it has ended; a zombie has."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    return None if fields[0] in "ZX" else Process(pid, fields[19], command)


def identities(pids: Iterable[int]) -> set[Process]:
    """Those that run."""
    return set(filter(None, map(process_of, pids)))


def processes_below(pid: int) -> list[Process]:
    """Children, and theirs."""
    return list(identities(descendants([pid])[1:]))


def survivors(processes: Iterable[Process], *, within_s: float = SOON_S) -> list[Process]:
    """Those that still run once they had time to end, as they are by then."""
    deadline = time.monotonic() + within_s
    while True:
        alive = [now for one in processes if (now := process_of(one.pid)) and now.started == one.started]
        if not alive or time.monotonic() > deadline:
            return alive
        time.sleep(0.02)


def wait_until(holds: Callable[[], object], *, within_s: float = SOON_S) -> None:
    """Look every few milliseconds. Raises AssertionError when it does not become so."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(POLL_S)
