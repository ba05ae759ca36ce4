"""Runs one program, as init of its namespace: feeds it, collects its output, and ends it in time."""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .child import FOLDER, Pipe, Settings, Task, become_compiler, become_init, become_program
from .frames import Frame, send

BLOCK = 1 << 16
SHORT_S = 1.0
SETUP_S = 30.0
"""To set a program up; one that has not started by then is given up."""
WAITING_S = 30.0
"""Most that a program's time is extended by, since it waited for a processor."""


def run(request: Frame, settings: Settings, channel: socket.socket) -> Task | None:
    """Execute a program and reply to the host; in the fork that is to be a Python program: return its task."""
    task = Task.of(request, FOLDER if settings.isolated else _new_folder())
    pipes = {name: Pipe(*os.pipe()) for name in ("stdout", "stderr", "report", "token", "status")}
    os.write(pipes["token"].write, task.token)
    os.close(pipes["token"].write)
    watched = _Watched(pipes, task, channel)
    try:
        stdin = become_init(settings, task)
        if task.compile:
            watched.until_it_ends(_forked(lambda: become_compiler(task, settings, pipes)), within_s=task.compile_s)
        watched.compiled = watched.waited in (None, 0) and not watched.killed_for
        if watched.compiled and not watched.host_is_gone:
            program = os.fork()
            if program == 0:
                os.close(channel.detach())
                become_program(task, settings, pipes, stdin=stdin)
                return task
            watched.until_it_ends(program)
    except OSError as error:
        watched.failed = str(error)
    watched.end_all()
    if not settings.isolated:
        _remove(task.folder)
    if not watched.host_is_gone:
        send(channel, watched.told(), (bytes(watched.taken["stdout"]), bytes(watched.taken["stderr"])))
    return None


def _new_folder() -> str:
    import tempfile  # here, so that walled programs do not pay for what it imports

    return tempfile.mkdtemp(prefix="trivet-program-")


def _remove(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _forked(then: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        then()
    return child


class _Watched:
    def __init__(self, pipes: dict[str, Pipe], task: Task, channel: socket.socket) -> None:
        self.taken = {name: bytearray() for name in ("stdout", "stderr", "report", "status")}
        self.host_is_gone = False
        self.compiled = False
        self.killed_for = ""
        self.failed = ""
        self.waited: int | None = None
        """Wait status of the last child waited for."""
        self._task = task
        self._starved = False
        self._began = self._ended = time.monotonic()
        self._names = {pipes[name].read: name for name in self.taken}
        self._channel = channel.fileno()
        self._wake, waking = os.pipe()
        for fd in (*self._names, self._wake, waking):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)

    def until_it_ends(self, child: int, *, within_s: float | None = None) -> None:
        """Until `child` ended, the time is over, too much was written or the host is gone.

        within_s: of a compiler; a program has the time of its limits, from when it says that it is set up. Time in
        which it waited for a processor, since others were running, is not its own.
        """
        poll = select.poll()
        for fd in (*self._names, self._wake):
            poll.register(fd, select.POLLIN)
        poll.register(self._channel, select.POLLRDHUP)
        self.waited, self._began = None, time.monotonic()
        deadline, started = self._began + (within_s or SETUP_S), within_s is not None
        waited_before_s = extended_s = 0.0
        while not self.killed_for and not self._has_ended(child):
            left = deadline - time.monotonic()
            if left <= 0 and started and extended_s < WAITING_S:
                waited_s = min(_waited_s(child) - waited_before_s, WAITING_S)
                deadline += max(0.0, waited_s - extended_s)
                extended_s = max(extended_s, waited_s)
                left = deadline - time.monotonic()
            if left <= 0:
                self.killed_for = "wall" if started else "setup"
                self._starved = extended_s >= WAITING_S and _starved(child, time.monotonic() - self._began)
            for fd, _ in poll.poll(max(left, 0) * 1000 + 1):
                if fd == self._channel:
                    self.host_is_gone = True
                    return
                if fd == self._wake:
                    os.read(fd, BLOCK)
                else:
                    self._take(poll, fd)
            if not started and self.taken["status"].startswith(b"S"):
                started, self._began = True, time.monotonic()
                deadline, waited_before_s = self._began + self._task.wall_s, _waited_s(child)
        self._ended = time.monotonic()

    def end_all(self) -> None:
        """Kill every process that is left, and read what they still wrote."""
        if os.getpid() == 1:  # else -1 would be everybody
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        with suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
        for fd in list(self._names):
            while not self.killed_for and fd in self._names and self._take(None, fd):
                pass

    def told(self) -> dict[str, Any]:
        """The reply to the host."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        status = bytes(self.taken["status"])
        told: dict[str, Any] = {
            "number": self._task.number,
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "peak_memory_bytes": usage.ru_maxrss * 1024,
            "wall_s": self._ended - self._began,
            "starved": self._starved,
            "finished": self._finished,
            "killed_for": self.killed_for,
            "compiled": self.compiled,
            "waited": self.waited,
        }
        if failed := self.failed or status.partition(b"E")[2].decode("utf-8", "replace"):
            return told | {"status": "broken", "reason": failed}
        return told

    @property
    def _finished(self) -> bool:
        """The token came, and nothing else; more than once from a program that forked within its tests."""
        said, token = bytes(self.taken["report"]), self._task.token
        return said != b"" and said.replace(token, b"") == b""

    def _has_ended(self, child: int) -> bool:
        """Reap ended processes; whether the child is among them."""
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == child:
                    self.waited = status
        return self.waited is not None

    def _take(self, poll: Any, fd: int) -> bool:
        """Read; False when there is nothing more to read."""
        name = self._names[fd]
        try:
            block = os.read(fd, BLOCK)
        except BlockingIOError:
            return False
        if not block:
            del self._names[fd]
            if poll is not None:
                poll.unregister(fd)
            os.close(fd)
            return False
        taken, most = self.taken[name], self._task.most(name)
        taken += block[: most - len(taken)]
        if len(taken) >= most:
            self.killed_for = self.killed_for or name
            return False
        return True


def _starved(child: int, wall_s: float) -> bool:
    """Whether a program waited most of its time for a processor, since others were running.

    False for one that ever made a process or thread, for which it may have waited, and for a time too short to tell.
    """
    with suppress(OSError, IndexError, ValueError):
        newest = int(_read("/proc/loadavg").split()[-1])
        return os.getpid() == 1 and newest == child and wall_s > SHORT_S and _waited_s(child) > wall_s / 2
    return False


def _waited_s(child: int) -> float:
    """Seconds that a program waited on run queues, all its threads and, in its own namespace, all its processes.

    0 where the kernel does not tell (CONFIG_SCHED_INFO).
    """
    pids = [str(child)]
    if os.getpid() == 1:
        pids = [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]  # noqa: PTH208
    waited_ns = 0
    for pid in pids:
        with suppress(OSError, IndexError, ValueError):  # it may end meanwhile
            for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
                waited_ns += int(_read(f"/proc/{pid}/task/{thread}/schedstat").split()[1])
    return waited_ns / 1e9


def _read(path: str) -> str:
    with open(path) as file:  # noqa: PTH123
        return file.read()
