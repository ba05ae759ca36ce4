"""What is executed, within which limits, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Status = Literal["ok", "failed", "unfinished", "timeout", "memory", "output", "broken"]
"""ok: ended with exit code 0, behind the last line of its tests. failed: another exit code, or a signal. unfinished:
ended with exit code 0 before its tests were through. timeout, memory, output: a limit was passed. broken: the sandbox
could not run it, twice; nothing is known about the program."""

MIB = 1024**2


class Limits(NamedTuple):
    """What a program may use. Each process has its own cpu_s and memory_bytes; the rest is for all of them."""

    cpu_s: float = 10.0
    """Processor seconds of a process; the kernel counts whole ones, so 2.5 is 3."""
    wall_s: float = 30.0
    """Seconds on the clock; generous, since a program on a busy machine waits for its turn."""
    memory_bytes: int = 2048 * MIB
    """Address space of a process (of Node.js and Java its data); where a cgroup can be made, memory of all together."""
    file_bytes: int = 64 * MIB
    """Everything that it writes, in its own folder: in memory."""
    inodes: int = 4096
    """Files and folders in it."""
    processes: int = 64
    """And threads, at one time."""
    open_files: int = 256
    """Open files per process."""
    output_bytes: int = 4 * MIB
    """Bytes of stdout, and of stderr."""


class Program(NamedTuple):
    """Source text to execute, and what it meets."""

    source: str
    language: str = "python"
    """A name or an alias in `languages`: python, javascript (js), bash (sh), …"""
    tests: str | None = None
    """Python: executed behind the source, in a copy of its names with fresh builtins; the module is then `__test__`, as
    a test harness imports it, and not `__main__`. Other languages: appended to the source. With tests the status is
    `ok` only when their last line was passed: `exit(0)` before is `unfinished`."""
    stdin: bytes = b""
    files: Mapping[str, bytes] = {}
    """Relative path → content, in the folder in which it starts."""
    limits: Limits = Limits()


class Execution(NamedTuple):
    """What came of a program."""

    status: Status
    exit_code: int | None
    """None when it was killed; as a shell has it, 128 + number, when it died of a signal of its own."""
    stdout: str
    """As UTF-8, with U+FFFD for what is none; cut at the limit."""
    stderr: str
    wall_s: float
    cpu_s: float
    """CPU seconds of all its processes."""
    peak_memory_bytes: int
    """Resident, of its largest process; with a cgroup of all together."""
    reason: str = ""
    """Why the status is not ok, in a few words: `AssertionError`, `exit code 3`, `killed after 30 s`, …"""

    @property
    def passed(self) -> bool:
        """Whether it ended as it should."""
        return self.status == "ok"
