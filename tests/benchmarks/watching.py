"""What a process and everything below it use: processor time of this one, memory of another one from outside."""

from __future__ import annotations

import resource
from pathlib import Path

from tests.sandbox.attacking import descendants


def processor_s() -> float:
    """Of this process and of its children that have ended, with theirs."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def resident_bytes(pid: int) -> int:
    """Of a process with all below it; what several share counts once."""
    return sum(map(_share, descendants([pid])))


def _share(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it ended meanwhile
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
