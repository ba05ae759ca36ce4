"""Cgroups: the kernel limits memory and number of their processes together, where we may make some.

Version 1: below our own group, in the hierarchies of memory and of pids. Version 2: below our own group or, for other
users than root, below the nearest group above it that we may write to, as in a systemd session; a group that holds
processes, such as our own, gives no controllers to those below it, and we move no process. Root's groups above belong
to systemd, which removes what it has not made. A group is also charged for files in memory that its processes write,
and for reclaimable pages of files that they read first.

Sources: the kernel's Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v1/pids.rst and cgroup-v2.rst.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

PROC = Path("/proc/self")
CONTROLLERS = {"memory", "pids"}
PATIENCE_S = 2.0
"""To wait for memory and processes that are being released."""
STEP_S = 0.01
READ_BYTES = 1 << 16
OURS = re.compile(r"trivet-(\d+)-")


class _Files(NamedTuple):
    memory: str
    swap: str
    peak: str
    events: str


V1 = _Files("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control")
V2 = _Files("memory.max", "memory.swap.max", "memory.peak", "memory.events")


class Cgroup:
    """A group, empty until a process writes `0` to each of `procs`. Its methods raise OSError where it is gone."""

    def __init__(self, memory: Path, pids: Path, files: _Files) -> None:
        self.procs = tuple(folder / "cgroup.procs" for folder in dict.fromkeys((memory, pids)))
        self._memory, self._pids, self._files = memory, pids, files
        self._events = str(memory / files.events)
        self._peak_file = str(memory / files.peak)
        self._peak: int | None = None

    def set_limits(self, memory_bytes: int, processes: int) -> None:
        """Limit all processes in it together: memory without swap, and processes and threads that ever enter."""
        files, swap = self._files, self._memory / self._files.swap
        has_swap = swap.exists()
        if files is V1 and has_swap:  # its limit is of memory and swap, and never less than that of memory alone
            _write(swap, "-1")
        _until_it_works(lambda: _write(self._memory / files.memory, str(memory_bytes)))
        if has_swap:
            _until_it_works(lambda: _write(swap, str(memory_bytes) if files is V1 else "0"))
        _write(self._pids / "pids.max", str(processes))

    def reset_peak(self) -> None:
        """Measure `peak_bytes` from now on, where the kernel can (version 2: from Linux 6.12 on)."""
        if self._files is V1:
            _write(self._peak_file, "0")
            return
        with suppress(OSError):  # no such file, or only to be read
            self._peak = os.open(self._peak_file, os.O_RDWR | os.O_CLOEXEC) if self._peak is None else self._peak
            os.write(self._peak, b"reset")

    def peak_bytes(self) -> int:
        """The most memory that all in it used together since `reset_peak`; 0 where that is unknown."""
        if self._files is V1:
            return int(read(self._peak_file))
        return int(os.pread(self._peak, 64, 0)) if self._peak is not None else 0

    def oom_kills(self) -> int:
        """Processes in it that the kernel killed for memory, since it was made."""
        counts = dict(line.split(" ", 1) for line in read(self._events).splitlines())
        return int(counts.get("oom_kill", 0))

    def remove(self) -> None:
        """Remove it once its processes are gone; twice is no error. Raises OSError while it holds any."""
        if self._peak is not None:
            os.close(self._peak)
            self._peak = None
        for file in self.procs:
            _until_it_works(lambda folder=file.parent: _remove(folder))


class NoCgroup(Exception):
    """No group can be made; its text says why."""


def processor_share() -> float | None:
    """Processors that our own group may use; None: all."""
    own = dict(_own_groups())
    shares: list[float] = []
    for folder in [folder for name in ("cpu", "") if (group := own.get(name)) for folder in (group, *group.parents)]:
        quota, _, period = _read(folder / "cpu.max").partition(" ")
        quota, period = quota or _read(folder / "cpu.cfs_quota_us"), period or _read(folder / "cpu.cfs_period_us")
        if quota.strip().isdecimal() and period.strip().isdecimal():
            shares.append(int(quota) / int(period))
    return min(shares, default=None)


def make(name: str, *, memory_bytes: int, processes: int) -> Cgroup:
    """A group with these limits; `trivet-PID-…` names it after this process, for removal once that is dead.

    Raises NoCgroup.
    """
    why: list[str] = []
    for memory, pids, files in _parents():
        group = Cgroup(memory / name, pids / name, files)
        try:
            if files is V2:
                _hand_down(memory)
            for parent in {memory, pids}:
                _remove_leftovers(parent)
                (parent / name).mkdir()
            group.set_limits(memory_bytes, processes)
        except OSError as error:
            why.append(f"{memory}: {os.strerror(error.errno or 0)}")
            with suppress(OSError):
                group.remove()
        else:
            return group
    raise NoCgroup("; ".join(why) or "no group that is ours bounds memory and processes")


def _parents() -> Iterator[tuple[Path, Path, _Files]]:
    """Where groups may be made: folder of memory, folder of pids. Raises NoCgroup."""
    own = dict(_own_groups())
    if not own:
        raise NoCgroup("no cgroups are mounted")
    memory, pids = own.get("memory"), own.get("pids")
    if memory and pids:
        yield memory, pids, V1
    elif "" in own:
        folder = own[""]
        above = () if os.geteuid() == 0 else folder.parents
        for one in (folder, *above):
            if set(_read(one / "cgroup.controllers").split()) >= CONTROLLERS and os.access(
                one / "cgroup.procs", os.W_OK
            ):
                yield one, one, V2


def _own_groups() -> Iterator[tuple[str, Path]]:
    """Controller → the folder of our own group; of version 2, without a name."""
    paths: dict[str, str] = {}
    for line in _read(PROC / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(","), path)
    for line in _read(PROC / "mountinfo").splitlines():
        mount, _, kind = line.partition(" - ")
        root, point = (_unescaped(field) for field in mount.split()[3:5])
        kind, _, options = kind.split()[:3]
        names = {"cgroup": options.split(","), "cgroup2": [""]}.get(kind, [])
        for name in set(names) & set(paths):
            with suppress(ValueError):  # our group is not below what is mounted there
                yield name, Path(point) / PurePosixPath(paths[name]).relative_to(root)


def _hand_down(folder: Path) -> None:
    """Enable the controllers for groups below one of version 2. Raises OSError when it holds processes."""
    if missing := sorted(CONTROLLERS - set(_read(folder / "cgroup.subtree_control").split())):
        _write(folder / "cgroup.subtree_control", " ".join(f"+{name}" for name in missing))


def _remove_leftovers(folder: Path) -> None:
    """Remove groups of processes that were killed before they could."""
    for one in folder.iterdir():
        named = OURS.match(one.name)
        if named and not Path("/proc", named[1]).exists():
            with suppress(OSError):  # somebody is still in it
                one.rmdir()


def _remove(folder: Path) -> None:
    with suppress(FileNotFoundError):
        folder.rmdir()


def _until_it_works(then: Callable[[], None]) -> None:
    """Retry while the group is busy. Raises OSError when that takes too long, and any other at once."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return then()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
        time.sleep(STEP_S)


def read(path: str) -> str:
    """Content of a kernel file, without the overhead of pathlib and io. Raises OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return b"".join(iter(lambda: os.read(file, READ_BYTES), b"")).decode()
    finally:
        os.close(file)


def _write(path: Path | str, text: str) -> None:
    """Write to an existing file with one call."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _read(path: Path) -> str:
    """Content of a file; empty where it cannot be read."""
    with suppress(OSError):
        return path.read_text()
    return ""


def _unescaped(field: str) -> str:
    r"""A path as mountinfo has it: `\040` is a space."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)
