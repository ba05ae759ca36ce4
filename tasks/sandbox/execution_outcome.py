"""What a zygote tells, as an Execution: which limit it was, or what the program did."""

from __future__ import annotations

import os
import re
import signal
from typing import Any, NamedTuple

from tasks.sandbox.inside.frames import Frame
from tasks.sandbox.sandbox_records import MIB, Execution, Limits, Program, Status

REASON_CHARS = 200
ENDING_CHARS = 20_000
ERROR = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt)\b.*", re.M)
MACHINE_FULL = "the kernel killed it since this machine had no memory left"
NOT_STARTED = "the sandbox could not set it up"


class _Ending(NamedTuple):
    status: Status
    reason: str
    exit_code: int | None = None


def outcome(
    program: Program, reply: Frame, *, marks_end: bool, killed_for_memory: int, machine_was_full: bool
) -> Execution:
    """marks_end: the language tells when its tests are through.

    killed_for_memory: processes of the program that the kernel killed since its group had too much.
    machine_was_full: the kernel killed another one for memory on this machine meanwhile.
    """
    told = reply.fields
    stdout, stderr = (blob.decode("utf-8", "replace") for blob in reply.blobs)
    ending = _ending(program, told, stderr, killed_for_memory=killed_for_memory, machine_was_full=machine_was_full)
    if ending.status == "ok" and program.tests is not None and marks_end and not told["finished"]:
        ending = _Ending("unfinished", "it ended before its tests were through", 0)
    return Execution(
        status=ending.status,
        exit_code=ending.exit_code,
        stdout=stdout,
        stderr=stderr,
        wall_s=told.get("wall_s", 0.0),
        cpu_s=told.get("cpu_s", 0.0),
        peak_memory_bytes=told.get("peak_memory_bytes", 0),
        reason=ending.reason,
    )


def too_long(program: Program) -> Execution | None:
    """The result for a source too large for its folder, which is no fault of the sandbox; None: it fits."""
    most = program.limits.file_bytes // 2
    if len(program.source) <= most:
        return None
    why = f"its source has {len(program.source):,} characters; {most:,} are allowed, half of the files of a program"
    return Execution("failed", None, "", "", 0.0, 0.0, 0, why)


def broken(why: str) -> Execution:
    """The result for a program about which nothing is known."""
    return Execution("broken", None, "", "", 0.0, 0.0, 0, why)


def _ending(
    program: Program, told: dict[str, Any], stderr: str, *, killed_for_memory: int, machine_was_full: bool
) -> _Ending:
    limits = program.limits
    if told.get("status") == "broken":
        return _Ending("broken", f"{NOT_STARTED}: {told['reason']}")
    if told["killed_for"] == "wall" and told.get("starved"):
        return _Ending("broken", f"this machine was too busy: it hardly ran within {limits.wall_s:g} s")
    if told["killed_for"]:
        return _killed_by_us(told["killed_for"], limits)
    code = os.waitstatus_to_exitcode(told["waited"])
    if not told["compiled"]:
        if code == -signal.SIGKILL and machine_was_full and not killed_for_memory:
            return _Ending("broken", MACHINE_FULL)
        return _Ending("failed", f"it does not compile: {_first_line(stderr)}", code if code >= 0 else 128 - code)
    if code < 0:
        return _died(-code, told, limits, killed_for_memory=killed_for_memory, machine_was_full=machine_was_full)
    if code > 0:
        last = _last_error(stderr)
        return _Ending("memory" if last.startswith("MemoryError") else "failed", last or f"exit code {code}", code)
    return _Ending("ok", "", 0)


def _killed_by_us(what: str, limits: Limits) -> _Ending:
    match what:
        case "wall":
            return _Ending("timeout", f"killed after {limits.wall_s:g} s")
        case "stdout" | "stderr":
            return _Ending("output", f"it wrote more than {limits.output_bytes / MIB:g} MiB to {what}")
        case "setup":
            return _Ending("broken", f"{NOT_STARTED} in time")
        case _:
            return _Ending("failed", "it wrote where only its harness writes")


def _died(
    number: int, told: dict[str, Any], limits: Limits, *, killed_for_memory: int, machine_was_full: bool
) -> _Ending:
    """How a program ended that died of a signal we did not send."""
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    if number == signal.SIGKILL and killed_for_memory:
        return _Ending("memory", f"it used more than {limits.memory_bytes / MIB:g} MiB")
    if number == signal.SIGXCPU or (number == signal.SIGKILL and told["cpu_s"] >= limits.cpu_s):
        return _Ending("timeout", f"it used more than {limits.cpu_s:g} s of processor time")
    if number == signal.SIGKILL and machine_was_full:
        return _Ending("broken", MACHINE_FULL)
    return _Ending("failed", f"it died of {name}", 128 + number)


def _first_line(text: str) -> str:
    return next((line.strip()[:REASON_CHARS] for line in text.splitlines() if line.strip()), "")


def _last_error(text: str) -> str:
    """The last line that begins with the name of an error, as Python and Node.js write them; else the last line.

    Of errors that follow from one another, it is of the last traceback.
    """
    end = text[-ENDING_CHARS:].rstrip().rpartition("Traceback (most recent call last):")[2]
    errors = ERROR.findall(end)
    return (errors[-1] if errors else end.rpartition("\n")[2]).strip()[:REASON_CHARS]
