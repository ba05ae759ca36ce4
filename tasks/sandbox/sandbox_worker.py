"""The host's side of a zygote: starts it, sends it programs, watches it and ends it."""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import socket
import subprocess
from contextlib import ExitStack, suppress
from typing import Any

from tasks.sandbox import cgroups, seccomp
from tasks.sandbox.bubblewrap import NOBODY, Engine, etc_files, zygote_environment
from tasks.sandbox.inside import Frame, receive, send
from tasks.sandbox.inside.runner import COMPILER, WAITING_S
from tasks.sandbox.languages import Language
from tasks.sandbox.sandbox_python import Interpreter
from tasks.sandbox.sandbox_records import Limits, Program

log = logging.getLogger(__name__)

START_S = 60.0
GRACE_S = 60.0
"""Beyond every limit, until a zygote that does not reply is taken for dead."""
RUNNER_BYTES = 64 << 20
"""Memory of a cgroup beyond the program's limit, for the runner that is forked with it."""
PRELOAD = (
    *("typing", "collections", "itertools", "functools", "operator", "heapq", "bisect", "array", "enum", "string"),
    *("math", "cmath", "random", "statistics", "decimal", "fractions", "datetime", "json", "dataclasses", "re"),
    *("textwrap", "copy", "unittest"),
)
"""Modules that programs find imported; all are Python's own. Not `threading` (and `queue`, which needs it), nor
`hashlib`: what they do in every fork, and OpenSSL's memory, cost each program more than the few that want them."""


class WorkerLost(Exception):
    """The zygote is gone or does not answer; nothing is known about the program."""


class Worker:
    """The host's side of one zygote; not thread-safe. Raises WorkerLost where it does not start."""

    def __init__(self, engine: Engine, python: Interpreter) -> None:
        self.group: cgroups.Cgroup | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = 0
        self._limited: tuple[int, int] | None = None
        self._output = os.fdopen(os.memfd_create("zygote"), "w+b")  # the last line in it is the reason of a WorkerLost
        self._channel, zygote_end = socket.socketpair()
        try:
            with ExitStack() as stack:
                stack.enter_context(zygote_end)
                self._start(engine, python, zygote_end, stack)
        except BaseException as error:
            self.stop()
            if isinstance(error, OSError):
                raise WorkerLost(str(error)) from error
            raise

    @property
    def pid(self) -> int:
        """Return the process ID of bubblewrap on this machine."""
        return self._process.pid if self._process else 0

    def ask(self, program: Program, language: Language) -> tuple[Frame, int]:
        """Return the zygote's reply, and how many processes the kernel killed for memory. Raises WorkerLost."""
        compiles = language.compile_command()
        try:
            killed_before = 0
            if self.group:
                memory, processes = program.limits.memory_bytes, program.limits.processes
                if compiles:
                    memory = max(memory, COMPILER["memory_bytes"])
                    processes = max(processes, COMPILER["processes"])
                if self._limited != (memory, processes):
                    self.group.set_limits(memory + RUNNER_BYTES, processes + 2)
                    self._limited = (memory, processes)
                killed_before = self.group.oom_kills()
            tests = None if program.tests is None else program.tests.encode("utf-8", "replace")
            source = program.source.encode("utf-8", "replace")
            run = language.run_command(tested=tests is not None)
            if run and tests is not None:
                source = source + b"\n" + tests + language.ends.encode()
            self._asked += 1
            fields = {
                "number": self._asked,
                "tested": tests is not None,
                "files": list(program.files),
                "token": secrets.token_hex(16),  # of this program alone: no earlier one knows it
                "path": language.file,
                "argv": run,
                "compile": compiles,
                "bound": language.limits_memory_by,
                "limits": program.limits._asdict(),
            }
            # 120: the runner gives a compiler twice its CPU seconds, `COMPILER["cpu_s"] * 2`
            patience = program.limits.wall_s + WAITING_S + GRACE_S + (120 + WAITING_S if compiles else 0)
            blobs = (source, tests or b"", program.stdin, *program.files.values())
            reply = self._exchange(fields, blobs, patience, most=2 * program.limits.output_bytes + (1 << 20))
            if reply.fields.get("number") != self._asked:
                raise WorkerLost("it told of another program")
            return reply, self.group.oom_kills() - killed_before if self.group else 0
        except OSError as error:  # of its cgroup
            raise WorkerLost(str(error)) from error

    def stop(self) -> None:
        """End the zygote and everything that it runs, from any thread."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits there, too
        self._channel.close()
        if self._process:
            try:
                self._process.wait(2)  # it ends by itself when its channel closes
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        if self.group:
            with suppress(OSError):
                self.group.remove()
        self._output.close()

    def _start(self, engine: Engine, python: Interpreter, zygote_end: socket.socket, stack: ExitStack) -> None:
        """Start the zygote, hand over its settings and wait until it serves. Raises WorkerLost, OSError."""
        uid, groups = engine.choose_user(), list[int]()
        if engine.bwrap and engine.privileged == (os.geteuid() == 0):  # root that stands for a user makes none
            name, limits = f"trivet-{os.getpid()}-{secrets.token_hex(4)}", Limits()
            try:
                self.group = cgroups.make_group(name, memory_bytes=limits.memory_bytes, processes=limits.processes)
            except cgroups.NoCgroup as error:
                log.info("no cgroup: %s", error)
            else:
                groups = [_close_with(stack, os.open(path, os.O_WRONLY)) for path in self.group.procs]
        etc: dict[str, int] = {}
        for name, text in etc_files(NOBODY if uid is None else uid).items():
            etc[name] = _close_with(stack, os.memfd_create(name))
            os.write(etc[name], text.encode())
            os.lseek(etc[name], 0, os.SEEK_SET)
        self._process = subprocess.Popen(
            engine.command(python, etc),
            stdin=zygote_end.fileno(),
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=zygote_environment(python),
            cwd="/",
            pass_fds=(*groups, *etc.values()),
            start_new_session=True,  # Ctrl-C is for us; killpg reaches all of it
        )
        zygote_end.close()  # so that its end is seen here
        settings = {
            "isolated": engine.bwrap is not None,
            "uid": uid,
            "counted": engine.counted,
            "cgroup": groups,
            "packages": [python.inside_path(folder) for folder in python.packages] if engine.bwrap else python.packages,
        }
        fields = {"settings": settings, "preload": PRELOAD}
        ready = self._exchange(fields, (seccomp.filter_program() or b"",), START_S)
        if not ready.fields.get("ready"):
            raise WorkerLost(json.dumps(ready.fields))

    def _exchange(
        self, fields: dict[str, Any], blobs: tuple[bytes, ...], patience_s: float, most: int = 1 << 20
    ) -> Frame:
        """Return the reply to a message. Raises WorkerLost, with the last line that the zygote wrote."""
        self._channel.settimeout(patience_s)
        try:
            send(self._channel, fields, blobs)
            reply = receive(self._channel, most=most)
        except OSError as error:
            raise WorkerLost(self._last_words() or str(error)) from error
        if reply is None:
            raise WorkerLost(self._last_words() or "it ended")
        return reply

    def _last_words(self) -> str:
        """Return the last line that bubblewrap or the zygote wrote; empty where there is none."""
        if self._output.closed:
            return "it was stopped"
        self._output.seek(0)
        lines = self._output.read(20_000).decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else ""


def _close_with(stack: ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor
