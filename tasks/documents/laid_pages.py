"""Pages as a layout engine draws them, and the process of its own in which an engine runs."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tasks.documents.blocks import BBox

CPU_S = 10
"""A layout takes some 10 ms a page; one that takes longer is stuck."""
WALL_S = 60.0
_PR_SET_PDEATHSIG = 1


class LaidPage(NamedTuple):
    """What stands on a page, in the order in which it is drawn."""

    width: float
    """Points."""
    height: float
    signs: str
    """Without white space."""
    zones: str
    """One letter for each sign: b for the body, h for what stands above it, f for what stands below."""
    boxes: tuple[BBox, ...]
    """One for each sign."""
    images: tuple[tuple[int, BBox], ...] = ()
    """Each with the number of signs that are drawn before it."""


class LayoutFailed(Exception):
    """There is no layout; the message says why."""


def in_own_process(work: Callable[[], Any]) -> Any:
    """The JSON value that `work` returns in a forked process with limits. Raises LayoutFailed.

    An engine that crashes, hangs or exhausts the memory costs the pages and not the text.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        _work(work, read_end, write_end)
    os.close(write_end)
    try:
        answer = _received(read_end)
    finally:
        os.close(read_end)
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
    if not answer:
        ended = (
            f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {os.waitstatus_to_exitcode(status)}"
        )
        raise LayoutFailed(f"the layout engine crashed or took more than {CPU_S} CPU seconds ({ended})")
    told = json.loads(answer)
    if "failed" in told:
        raise LayoutFailed(told["failed"])
    return told["value"]


def _work(work: Callable[[], Any], read_end: int, write_end: int) -> None:
    """The life of the forked process, which never returns."""
    try:
        os.close(read_end)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))  # counted from the fork
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        try:
            told = {"value": work()}
        except Exception as error:  # noqa: BLE001 an engine raises what it likes over hostile bytes
            told = {"failed": f"{type(error).__name__}: {error}"[:300]}
        with os.fdopen(write_end, "w", encoding="utf-8") as pipe:
            json.dump(told, pipe)
        os._exit(0)
    finally:
        os._exit(1)


def _received(pipe: int) -> bytes:
    """All bytes until the end; fewer once the time is up."""
    parts, deadline = list[bytes](), time.monotonic() + WALL_S
    while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if not (part := os.read(pipe, 1 << 20)):
            return b"".join(parts)
        parts.append(part)
    return b""
