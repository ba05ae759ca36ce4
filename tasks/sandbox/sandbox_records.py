"""Programs, their limits, and the results of executing them; and the errors of the sandbox.

SandboxError
├── SandboxUnavailable     generated code cannot be executed here: says what to install
│   └── UnsafeCodeRefused  execution without a sandbox was asked for where that is never allowed
└── LanguageUnavailable    a language that is not known, or that this machine cannot run
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from tasks.sandbox.inside import Frame

Status = Literal["ok", "failed", "unfinished", "timeout", "memory", "output", "broken"]
"""ok: exit code 0 after the last line of its tests. failed: another exit code, or a signal. unfinished: exit code 0
before its tests were through. timeout, memory, output: a limit was exceeded. broken: the sandbox failed twice; nothing
is known about the program."""

MIB = 1024**2
REASON_CHARS = 200
ENDING_CHARS = 20_000
ERROR = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt)\b.*", re.M)
MACHINE_FULL = "the kernel killed it since this machine had no memory left"
NOT_STARTED = "the sandbox could not set it up"


class Limits(NamedTuple):
    """The limits of a program: cpu_s and memory_bytes hold for each process, the rest for all of them together."""

    cpu_s: float = 10.0
    """CPU seconds of a process; the kernel counts whole ones, so 2.5 is 3."""
    wall_s: float = 30.0
    """Seconds on the clock, without those in which it waited for a processor (30 at most)."""
    memory_bytes: int = 2048 * MIB
    """Address space of a process (of Node.js and Java its data); where a cgroup can be made, memory of all together."""
    file_bytes: int = 64 * MIB
    """All that it writes, in its own folder, which is in memory."""
    inodes: int = 4096
    """Number of files and folders in the folder of the program."""
    processes: int = 64
    """Processes and threads at a time."""
    open_files: int = 256
    output_bytes: int = 4 * MIB


class Program(NamedTuple):
    """Source text to execute, with its tests, input, files and limits."""

    source: str
    language: str = "python"
    """A name or an alias in `languages`: python, javascript (js), bash (sh), …"""
    tests: str | None = None
    """Python: executed after the source, in a copy of its names with fresh builtins; the module is then `__test__`, not
    `__main__`. Other languages: appended to the source. The status is `ok` only if their last line was passed."""
    stdin: bytes = b""
    files: Mapping[str, bytes] = {}
    """Relative path → content, in the folder it starts in."""
    limits: Limits = Limits()


class Execution(NamedTuple):
    """The result of executing a program."""

    status: Status
    exit_code: int | None = None
    """None when it was killed; 128 + number, as in a shell, when it died of a signal of its own."""
    stdout: str = ""
    """Decoded as UTF-8, with U+FFFD for invalid bytes; cut at the limit."""
    stderr: str = ""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    reason: str = ""
    """Why the status is not ok, in a few words: `AssertionError`, `exit code 3`, `killed after 30 s`, …"""

    @property
    def passed(self) -> bool:
        """Whether the program ended by itself with all its tests passed: the status `ok`."""
        return self.status == "ok"


def read_outcome(
    program: Program, reply: Frame, *, marks_end: bool, killed_for_memory: int, machine_was_full: bool
) -> Execution:
    """Return the result of a program, read from its zygote's reply.

    marks_end: the language tells when its tests are through. killed_for_memory: processes of the program that the
    kernel killed for its cgroup's limit. machine_was_full: it meanwhile killed another process here for memory.
    """
    fields = reply.fields
    stdout, stderr = (blob.decode("utf-8", "replace") for blob in reply.blobs)
    status, reason, code = _classify_end(
        fields, stderr, program.limits, killed_for_memory=killed_for_memory, machine_was_full=machine_was_full
    )
    if status == "ok" and program.tests is not None and marks_end and not fields["finished"]:
        status, reason = "unfinished", "it ended before its tests were through"
    return Execution(status, code, stdout, stderr, fields["wall_s"], fields["cpu_s"], reason)


def _classify_end(
    fields: dict[str, Any], stderr: str, limits: Limits, *, killed_for_memory: int, machine_was_full: bool
) -> tuple[Status, str, int | None]:
    """Return status, reason ("" for `ok`) and exit code of a program; None where this sandbox killed it."""
    if fields["failed"]:
        return "broken", f"{NOT_STARTED}: {fields['failed']}", None
    match fields["killed_for"]:
        case "":
            pass
        case "wall":
            return "timeout", f"killed after {limits.wall_s:g} s", None
        case "stdout" | "stderr" as stream:
            return "output", f"it wrote more than {limits.output_bytes / MIB:g} MiB to {stream}", None
        case _:
            return "failed", "it wrote where only its harness writes", None
    code = os.waitstatus_to_exitcode(fields["waited"])  # below 0: died of that signal
    was_killed = code == -signal.SIGKILL
    if not fields["compiled"]:
        if was_killed and machine_was_full and not killed_for_memory:
            return "broken", MACHINE_FULL, None
        first = next((line.strip()[:REASON_CHARS] for line in stderr.splitlines() if line.strip()), "")
        return "failed", f"it does not compile: {first}", code if code >= 0 else 128 - code
    if was_killed and killed_for_memory:
        return "memory", f"it used more than {limits.memory_bytes / MIB:g} MiB", None
    if code == -signal.SIGXCPU or (was_killed and fields["cpu_s"] >= limits.cpu_s):
        return "timeout", f"it used more than {limits.cpu_s:g} s of processor time", None
    if was_killed and machine_was_full:
        return "broken", MACHINE_FULL, None
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return "failed", f"it died of {name}", 128 - code
    if code > 0:
        # the last line of the last traceback that begins with an error's name (Python, Node.js); else the last line
        end = stderr[-ENDING_CHARS:].rstrip().rpartition("Traceback (most recent call last):")[2]
        errors = ERROR.findall(end)
        last = (errors[-1] if errors else end.rpartition("\n")[2]).strip()[:REASON_CHARS]
        return "memory" if last.startswith("MemoryError") else "failed", last or f"exit code {code}", code
    return "ok", "", 0


class SandboxError(Exception):
    """The root of the errors of the sandbox; its message is a full sentence with the remedy."""


class SandboxUnavailable(SandboxError):
    """Generated code cannot be executed here without trusting it."""


class UnsafeCodeRefused(SandboxUnavailable):
    """Execution without a sandbox was asked for as root or in a test."""


class LanguageUnavailable(SandboxError):
    """A language is unknown, or this machine cannot run it."""
