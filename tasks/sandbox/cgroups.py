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
from functools import partial
from pathlib import Path, PurePosixPath

PROC = Path("/proc/self")  # cgroups(7) and proc(5) describe the two files read here
CONTROLLERS = {"memory", "pids"}
PATIENCE_S = 2.0
"""To wait for memory and processes that are being released."""
RETRY_S = 0.01
GROUP_NAME = re.compile(r"trivet-(\d+)-")


class Cgroup:
    """A group that is empty until a process writes `0` to each of `procs`. Methods raise OSError where it is gone."""

    def __init__(self, memory: Path, pids: Path, *, is_v2: bool) -> None:
        self.procs = tuple(folder / "cgroup.procs" for folder in dict.fromkeys((memory, pids)))
        self._memory, self._pids, self._is_v2 = memory, pids, is_v2

    def set_limits(self, memory_bytes: int, processes: int) -> None:
        """Limit all processes of the group together: memory without swap, and processes and threads at a time."""
        most = str(memory_bytes)
        if self._is_v2:
            limits = [("memory.max", most), ("memory.swap.max", "0")]
        else:  # `memsw`, of memory and swap together, is never less than that of memory alone
            swap = "memory.memsw.limit_in_bytes"
            limits = [(swap, "-1"), ("memory.limit_in_bytes", most), (swap, most)]
        for name, value in limits:
            file = self._memory / name
            with suppress(FileNotFoundError):  # of swap, where the kernel counts none
                _retry_while_busy(partial(_write, file, value))
        _write(self._pids / "pids.max", str(processes))

    def oom_kills(self) -> int:
        """Return how many processes of the group the kernel has killed for memory."""
        events = self._memory / ("memory.events" if self._is_v2 else "memory.oom_control")
        counts = dict(line.split(" ", 1) for line in events.read_text().splitlines())
        return int(counts.get("oom_kill", 0))

    def remove(self) -> None:
        """Remove the group once its processes are gone; a second call is no error. Raises OSError while it has any."""
        for file in self.procs:
            with suppress(FileNotFoundError):
                _retry_while_busy(file.parent.rmdir)


class NoCgroup(Exception):
    """No group can be made here; the message says why."""


def make_group(name: str, *, memory_bytes: int, processes: int) -> Cgroup:
    """Make a group `trivet-PID-…` with these limits, and remove those of dead processes. Raises NoCgroup."""
    why: list[str] = []
    for memory, pids, is_v2 in _parents():
        group = Cgroup(memory / name, pids / name, is_v2=is_v2)
        try:
            if is_v2 and (missing := CONTROLLERS - set(_read(memory / "cgroup.subtree_control").split())):
                # to groups below; the kernel refuses it to a group that holds processes
                _write(memory / "cgroup.subtree_control", " ".join(f"+{name}" for name in sorted(missing)))
            for parent in {memory, pids}:
                for leftover in parent.iterdir():  # of processes that were killed before they could remove it
                    owner = GROUP_NAME.match(leftover.name)
                    if owner and not Path("/proc", owner[1]).exists():
                        with suppress(OSError):  # somebody is still in it
                            leftover.rmdir()
                (parent / name).mkdir()
            group.set_limits(memory_bytes, processes)
        except OSError as error:
            why.append(f"{memory}: {os.strerror(error.errno or 0)}")
            with suppress(OSError):
                group.remove()
        else:
            return group
    raise NoCgroup("; ".join(why) or "no group that is ours bounds memory and processes")


def _parents() -> Iterator[tuple[Path, Path, bool]]:
    """Yield where groups may be made: folder of memory, folder of pids, whether of version 2. Raises NoCgroup."""
    paths: dict[str, str] = {}
    for line in _read(PROC / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(","), path)
    own_folders: dict[str, Path] = {}  # controller → the folder of our own group; of version 2, without a name
    for line in _read(PROC / "mountinfo").splitlines():
        mount, _, kind = line.partition(" - ")
        root, point = (field.replace("\\040", " ") for field in mount.split()[3:5])  # mountinfo writes a space in octal
        kind, _, options = kind.split()[:3]
        names = {"cgroup": options.split(","), "cgroup2": [""]}.get(kind, [])
        for name in set(names) & set(paths):
            with suppress(ValueError):  # our group is not below what is mounted there
                own_folders[name] = Path(point) / PurePosixPath(paths[name]).relative_to(root)
    if not own_folders:
        raise NoCgroup("no cgroups are mounted")
    if "memory" in own_folders and "pids" in own_folders:
        yield own_folders["memory"], own_folders["pids"], False
    elif folder := own_folders.get(""):  # where both exist, as in a hybrid set-up, version 1 has the controllers
        for group in (folder, *(() if os.geteuid() == 0 else folder.parents)):
            enabled = set(_read(group / "cgroup.controllers").split())
            if enabled >= CONTROLLERS and os.access(group / "cgroup.procs", os.W_OK):
                yield group, group, True


def _retry_while_busy(act: Callable[[], None]) -> None:
    """Retry while the group is busy. Raises OSError when that takes too long, and any other error at once."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return act()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_S)


def _write(path: Path, text: str) -> None:
    """Write to an existing file with one call."""
    with path.open("r+b", buffering=0) as file:
        file.write(text.encode())


def _read(path: Path) -> str:
    """Return the content of a file; empty where it cannot be read."""
    with suppress(OSError):
        return path.read_text()
    return ""
