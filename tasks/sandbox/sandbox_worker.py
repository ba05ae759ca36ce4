"""The host's side of a zygote: starts it, sends it programs, watches it and ends it.

Programs run behind a filter that refuses system calls which no program needs and which reach beyond its own files and
memory. libseccomp makes it, through pyseccomp, as classic BPF that the sandbox loads with `prctl`. It is a deny list:
the walls are namespaces, limits and the lack of privileges, and the filter guards against holes in the kernel. A call
is refused with EPERM, or with ENOSYS where callers then fall back; a call by another ABI (32 bits, x32) ends the
process. Sources: seccomp(2); the manual page of each call; linux/sched.h, linux/socket.h, asm-generic/ioctls.h,
linux/stat.h.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import secrets
import signal
import socket
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Any

from tasks.sandbox import cgroups
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

_CALLS = tomllib.loads(Path(__file__).with_name("system_calls.toml").read_text("utf-8"))
REFUSED, ABSENT = (" ".join(_CALLS[kind].values()).split() for kind in ("refused", "absent"))
"""System calls that are refused with EPERM, and with ENOSYS."""
NEWER: dict[str, int] = _CALLS["newer"]
"""Numbers of calls that a libseccomp may not know yet."""

NAMESPACE_FLAGS = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
FAMILIES = (1, 2, 10)
"""The allowed socket families: AF_UNIX, AF_INET, AF_INET6."""
TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX put characters into the terminal of whoever started us."""
FILE_KIND, DEVICES = 0o170000, (0o020000, 0o060000)
LOW_HALF = 0xFFFFFFFF
"""The kernel reads 32 bits of an int, and a filter compares 64."""
UNKNOWN = -1
"""Number to which libseccomp resolves a name that it does not know."""


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
        """Return the reply, and how many processes were killed for memory, 0 without a cgroup. Raises WorkerLost."""
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
        ready = self._exchange(fields, (filter_program() or b"",), START_S)
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
        """Return the last line of bubblewrap or the zygote, "" without one; `it was stopped` for a closed output."""
        if self._output.closed:
            return "it was stopped"
        self._output.seek(0)
        lines = self._output.read(20_000).decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else ""


def _close_with(stack: ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


@cache
def filter_program() -> bytes | None:
    """Return instructions of 8 bytes each, for `kernel.load_filter`; None, with a line in the log, where that fails."""
    try:
        import pyseccomp

        rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
        rules.set_attr(pyseccomp.Attr.ACT_BADARCH, pyseccomp.KILL_PROCESS)
        with suppress(OSError):  # a binary tree, from libseccomp 2.5 on
            rules.set_attr(pyseccomp.Attr.CTL_OPTIMIZE, 2)
        native = pyseccomp.system_arch()
        for call, error, *condition in _list_refused_calls():
            number = pyseccomp.resolve_syscall(native, call)
            number = NEWER.get(call, number) if number == UNKNOWN else number
            if number >= 0:  # else this architecture has no such call
                rules.add_rule(pyseccomp.ERRNO(error), number, *condition)
        with tempfile.TemporaryFile() as file:
            rules.export_bpf(file)
            file.seek(0)
            return file.read()
    except (ImportError, RuntimeError, OSError) as error:  # as pyseccomp has it, without libseccomp
        log.info("no filter of system calls: %s", error)
        return None


def _list_refused_calls() -> Iterator[tuple[Any, ...]]:
    """Yield the name of a call, its error and, where only some calls are refused, a condition on one argument."""
    from pyseccomp import GT, MASKED_EQ, Arg

    yield from ((call, errno.EPERM) for call in REFUSED)
    yield from ((call, errno.ENOSYS) for call in ABSENT)
    yield "prlimit64", errno.EPERM, Arg(0, GT, 0)  # of others: init, where it is of the same user
    yield from (("clone", errno.EPERM, Arg(0, MASKED_EQ, flag, flag)) for flag in NAMESPACE_FLAGS)
    yield from (("ioctl", errno.EPERM, Arg(1, MASKED_EQ, LOW_HALF, request)) for request in TERMINAL_INPUT)
    for call, place in (("mknod", 1), ("mknodat", 2)):
        yield from ((call, errno.EPERM, Arg(place, MASKED_EQ, FILE_KIND, kind)) for kind in DEVICES)
    for call in ("socket", "socketpair"):
        yield call, errno.EPERM, Arg(0, GT, max(FAMILIES))
        refused_families = set(range(max(FAMILIES))) - set(FAMILIES)
        yield from ((call, errno.EPERM, Arg(0, MASKED_EQ, LOW_HALF, family)) for family in sorted(refused_families))
    # all but 0, and 0xFFFFFFFF, which only asks: those whose highest bit differs from another
    top = 1 << 31
    for bit in (1 << place for place in range(31)):
        yield "personality", errno.EPERM, Arg(0, MASKED_EQ, top | bit, bit)
        yield "personality", errno.EPERM, Arg(0, MASKED_EQ, top | bit, top)
