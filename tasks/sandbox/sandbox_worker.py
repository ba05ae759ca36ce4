"""The host's side of a zygote: starts it, sends it programs, watches it and ends it."""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from tasks.sandbox import cgroups, seccomp
from tasks.sandbox.engines import Engine
from tasks.sandbox.inside.child import COMPILER
from tasks.sandbox.inside.frames import Frame, receive, send
from tasks.sandbox.inside.running import SETUP_S, WAITING_S
from tasks.sandbox.languages import Language
from tasks.sandbox.sandbox_layout import NOBODY, PRELOAD, Interpreter, layout, write_etc
from tasks.sandbox.sandbox_records import Limits, Program

log = logging.getLogger(__name__)

START_S = 60.0
GRACE_S = 30.0
"""Beyond every limit, until a zygote that does not reply is taken for dead."""
UIDS = 1_900_000_000
"""Under root, programs run as the user UIDS + PID of their zygote, which nobody else is: limits count them alone."""
ROOM = 64 << 20
"""Memory of a cgroup beyond the program's limit, for the runner that is forked with it."""
TEMPORARY = "trivet-sandbox-"


class WorkerLost(Exception):
    """The zygote is gone, or does not speak; nothing is known about the program."""


class Worker:
    """A zygote; not thread-safe. run_as: the user to start the engine as, where root tries what others can do."""

    def __init__(self, engine: Engine, python: Interpreter, *, run_as: int | None = None) -> None:
        self.group: cgroups.Cgroup | None = None
        self._procs: list[int] = []
        self._asked = 0
        self._limited: tuple[int, int] | None = None
        try:
            self._said = tempfile.TemporaryFile()  # noqa: SIM115 closed with the worker
        except OSError as error:
            raise WorkerLost(f"no temporary file can be made: {error}") from error
        self._channel, theirs = socket.socketpair()
        _remove_leftovers()
        try:
            with theirs, tempfile.TemporaryDirectory(prefix=f"{TEMPORARY}{os.getpid()}-") as etc:
                Path(etc).chmod(0o755)
                write_etc(Path(etc), NOBODY)
                self._process = self._start(engine, python, Path(etc), theirs, run_as)
                theirs.close()  # so that its end is seen here
                write_etc(Path(etc), self._uid(engine) or NOBODY)  # in place: the sandbox shows these very files
                self._meet(engine, python)
        except OSError as error:
            self.stop()
            raise WorkerLost(str(error)) from error
        except BaseException:
            self.stop()
            raise
        finally:
            for fd in self._procs:
                os.close(fd)

    @property
    def pid(self) -> int:
        """Process ID of the engine on this machine."""
        return self._process.pid

    def ask(self, program: Program, language: Language) -> tuple[Frame, int]:
        """The zygote's reply, and how many processes the kernel killed for memory meanwhile. Raises WorkerLost."""
        try:
            return self._ask(program, language)
        except OSError as error:  # of its cgroup
            raise WorkerLost(str(error)) from error

    def _ask(self, program: Program, language: Language) -> tuple[Frame, int]:
        limits, group = program.limits, self.group
        if group:
            memory, processes = limits.memory_bytes, limits.processes
            if language.compile:
                memory, processes = max(memory, COMPILER["memory_bytes"]), max(processes, COMPILER["processes"])
            if self._limited != (memory, processes):
                group.set_limits(memory + ROOM, processes + 2)
                self._limited = (memory, processes)
            group.reset_peak()
        killed = group.oom_kills() if group else 0
        tests = None if program.tests is None else program.tests.encode("utf-8", "replace")
        source = program.source.encode("utf-8", "replace")
        token = secrets.token_hex(16)
        self._asked += 1
        run, compiles = language.run_command(tested=tests is not None), language.compile_command()
        fields = {
            "number": self._asked,
            "tested": tests is not None,
            "files": list(program.files),
            "token": token,
            "path": language.file,
            "argv": run,
            "compile": compiles,
            "bound": language.limits_memory_by,
            "limits": limits._asdict(),
        }
        if run and tests is not None:
            source = source + b"\n" + tests + language.ends.encode()
        patience = limits.wall_s + WAITING_S + SETUP_S + GRACE_S + (120 if compiles else 0)
        blobs = (source, tests or b"", program.stdin, *program.files.values())
        reply = self._exchange(fields, blobs, patience, most=2 * limits.output_bytes + (1 << 20))
        if reply.fields.get("number") != self._asked:
            raise WorkerLost("it told of another program")
        if group and not reply.fields.get("status"):
            peak = group.peak_bytes()
            reply.fields["peak_memory_bytes"] = max(peak, reply.fields["peak_memory_bytes"])
        return reply, (group.oom_kills() - killed if group else 0)

    def stop(self) -> None:
        """End it and everything that it runs; from any thread."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits there, too
        self._channel.close()
        process = getattr(self, "_process", None)
        if process is not None:
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if self.group:
            with suppress(OSError):
                self.group.remove()
        self._said.close()

    def forget(self) -> None:
        """Close our copy in a forked process; the zygote belongs to the parent."""
        self._channel.close()
        self._process.returncode = 0

    def _start(
        self, engine: Engine, python: Interpreter, etc: Path, theirs: socket.socket, run_as: int | None
    ) -> subprocess.Popen[bytes]:
        shown = layout(python, etc, walled=engine.name != "none")
        if engine.name != "none" and run_as is None:
            name, limits = f"trivet-{os.getpid()}-{secrets.token_hex(4)}", Limits()
            try:
                self.group = cgroups.make(name, memory_bytes=limits.memory_bytes, processes=limits.processes)
                self._procs += [os.open(path, os.O_WRONLY) for path in self.group.procs]
            except cgroups.NoCgroup as error:
                log.info("no cgroup: %s", error)
        return subprocess.Popen(
            engine.command(shown),
            stdin=theirs.fileno(),
            stdout=self._said,
            stderr=subprocess.STDOUT,
            env=shown.environment,
            cwd="/",
            pass_fds=self._procs,
            start_new_session=True,
            user=run_as,
            group=run_as,
            extra_groups=None if run_as is None else [],
        )

    def _uid(self, engine: Engine) -> int | None:
        """User that programs run as, an ID that nobody else has if the user namespace allows; None: the zygote's."""
        if not engine.privileged or engine.name == "none":
            return None
        own = UIDS + self.pid
        ranges = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
        if any(first <= own < first + count for first, _, count in ranges):
            return own
        count, first = max((count, first) for first, _, count in ranges)
        # in a small namespace from its upper half, which is hardly used
        return first + count - 2 - self.pid % (count // 2) if count > NOBODY // 2 else NOBODY

    def _meet(self, engine: Engine, python: Interpreter) -> None:
        """Hand over the settings and wait until it serves."""
        settings = {
            "isolated": engine.name != "none",
            "uid": self._uid(engine),
            "counted": engine.counted,
            "cgroup": self._procs,
            "packages": python.packages if engine.name == "none" else [python.there(one) for one in python.packages],
        }
        fields = {"settings": settings, "preload": PRELOAD}
        ready = self._exchange(fields, (seccomp.filter_program() or b"",), START_S)
        if not ready.fields.get("ready"):
            raise WorkerLost(json.dumps(ready.fields))

    def _exchange(
        self, fields: dict[str, Any], blobs: tuple[bytes, ...], patience_s: float, most: int = 1 << 20
    ) -> Frame:
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
        if self._said.closed:
            return "it was stopped"
        self._said.seek(0)
        lines = self._said.read(20_000).decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else ""


def _remove_leftovers() -> None:
    """Remove folders of processes that were killed while a zygote started."""
    for folder in Path(tempfile.gettempdir()).glob(f"{TEMPORARY}*"):
        pid = folder.name.removeprefix(TEMPORARY).partition("-")[0]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            shutil.rmtree(folder, ignore_errors=True)
