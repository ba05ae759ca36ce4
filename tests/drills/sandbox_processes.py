"""What drills of the sandbox look at: processes of this machine, and whether they are gone."""

from __future__ import annotations

import time
from pathlib import Path

from tests.sandbox.attacking import command

SOON_S = 20.0
"""Far less than the programs have, and far more than it takes."""


def identities(pids: list[int]) -> set[tuple[int, str]]:
    """Number and start: another process may get the number."""
    return {(pid, started) for pid in pids if (started := start_of(pid))}


def start_of(pid: int) -> str:
    """Empty when it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if stat[0] in "ZX" else stat[19]


def still(processes: set[tuple[int, str]]) -> list[tuple[int, str, list[int]]]:
    return [(pid, command(pid), places(pid)) for pid, started in processes if start_of(pid) == started]


def gone(processes: set[tuple[int, str]]) -> bool:
    """Within seconds."""
    end = time.monotonic() + SOON_S
    while still(processes) and time.monotonic() < end:
        time.sleep(0.02)
    return not still(processes)


def places(pid: int) -> list[int]:
    """Its numbers, in this namespace and those below."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").split("\n")
    except OSError:
        return []
    return [int(each) for line in lines if line.startswith("NSpid:") for each in line.split()[1:]]
