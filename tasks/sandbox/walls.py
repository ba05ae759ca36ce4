"""Checks that the sandbox isolates: from outside, by what /proc says of a running program, and by trying from inside.

Harmless where a wall is missing: limits are exceeded by a few processes and megabytes, and the network is tried with
a listener of our own.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from tasks.sandbox.languages import LANGUAGES, unavailable
from tasks.sandbox.sandbox_pool import Sandbox
from tasks.sandbox.sandbox_records import MIB, Execution, Limits, Program, Status

PRIVATE = ("pid", "mnt", "net", "ipc", "uts")
SLEEP_S = 0.5
SMALL = Limits(cpu_s=5, wall_s=20, memory_bytes=256 * MIB, file_bytes=4 * MIB, processes=8)
BEYOND_PROCESSES = 4
BEYOND_MEMORY = 64 * MIB
BEYOND_FILE = 1 * MIB


class Seen(NamedTuple):
    """A running program, seen from outside the sandbox."""

    pid: int
    private: dict[str, bool]
    """Namespace → whether it is another one than ours."""
    uid: int
    """As the kernel has it; 0 is root."""
    capabilities: int
    no_new_privileges: bool
    filtered: bool


class Probe(NamedTuple):
    """One wall, and whether it held."""

    name: str
    held: bool
    detail: str


class Inspection(NamedTuple):
    """What `trivet doctor --sandbox` shows."""

    engine: str
    python: str
    group: bool
    """A cgroup limits memory and processes of a program together."""
    probes: tuple[Probe, ...]
    languages: dict[str, str | None]
    """Language → why it cannot be run here; None: it can."""

    @property
    def ok(self) -> bool:
        return all(probe.held for probe in self.probes)


def inspect(sandbox: Sandbox) -> Inspection:
    """Check from outside and, if all is well there, from inside. Raises SandboxUnavailable."""
    engine = sandbox.engine
    outside = tuple(_from_outside(sandbox, root=engine.privileged))
    probes = (*outside, *(_from_inside(sandbox) if all(probe.held for probe in outside) else ()))
    languages = {language.name: unavailable(language) for language in LANGUAGES}
    return Inspection(engine.name, sandbox.python.version, sandbox.grouped, probes, languages)


def seen_from_outside(sandbox: Sandbox) -> Seen:
    """What /proc says of a sleeping program of this sandbox. Raises RuntimeError if none is found."""
    done: list[Execution] = []
    program = Program(f"import time; time.sleep({SLEEP_S})", limits=SMALL)
    thread = threading.Thread(target=lambda: done.append(sandbox.run(program)), daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            if (seen := next(filter(None, map(_look, descendants(sandbox.pids()))), None)) is not None:
                return seen
            time.sleep(0.01)
    finally:
        thread.join()
    raise RuntimeError(f"no program was seen from outside, and it ended with {done}")


def descendants(roots: list[int]) -> list[int]:
    """Process IDs of `roots` and all processes below them."""
    found = list(roots)
    for root in roots:
        with suppress(psutil.NoSuchProcess):  # it ended meanwhile
            found += [child.pid for child in psutil.Process(root).children(recursive=True)]
    return found


def _look(pid: int) -> Seen | None:
    """None for other processes: a program is the second process of a namespace within the zygote's, and sleeps."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").split("\n")
        status = dict(line.split(":", 1) for line in lines if ":" in line)
        numbers = status["NSpid"].split()
        if len(numbers) < 3 or numbers[-1] != "2" or int(status["Seccomp"]) + int(status["NoNewPrivs"]) == 0:
            return None
        if not status["State"].strip().startswith("S"):
            return None
        mine = {kind: Path(f"/proc/self/ns/{kind}").readlink() for kind in PRIVATE}
        theirs = {kind: Path(f"/proc/{pid}/ns/{kind}").readlink() for kind in PRIVATE}
    except (OSError, KeyError):  # it ended meanwhile
        return None
    return Seen(
        pid=pid,
        private={kind: mine[kind] != theirs[kind] for kind in PRIVATE},
        uid=int(status["Uid"].split()[0]),
        capabilities=int(status["CapEff"], 16),
        no_new_privileges=status["NoNewPrivs"].strip() == "1",
        filtered=status["Seccomp"].strip() == "2",
    )


def _from_outside(sandbox: Sandbox, *, root: bool) -> Iterator[Probe]:
    try:
        seen = seen_from_outside(sandbox)
    except RuntimeError as error:
        yield Probe("seen from outside", False, str(error))
        return
    for kind, private in seen.private.items():
        yield Probe(f"{kind} namespace", private, "its own" if private else "shared with this machine")
    alone = "" if root else ", as whoever started it: there is no second one to be"
    yield Probe("user", seen.uid != 0 or not root, f"user {seen.uid}{alone}")
    yield Probe("capabilities", seen.capabilities == 0, f"{seen.capabilities:016x}")
    yield Probe("no new privileges", seen.no_new_privileges, "set" if seen.no_new_privileges else "not set")
    less = "not filtered, so memory and files are bounded less: install libseccomp2, pyseccomp"
    yield Probe("system calls", True, "filtered" if seen.filtered else less)


def _from_inside(sandbox: Sandbox) -> Iterator[Probe]:
    yield _network(sandbox)
    for path in ("/etc/shadow", __file__):
        yield _refused(sandbox, f"reading {path}", f"open({path!r}).read()", "it can be read")
    yield _home(sandbox)
    yield _processes(sandbox)
    source = f"x = bytearray({SMALL.memory_bytes + BEYOND_MEMORY})\nprint(len(x))"
    yield _refused(sandbox, "memory", source, "more than the limit was given", status="memory")
    source = f"with open('file', 'wb') as f:\n    f.write(bytes({SMALL.file_bytes + BEYOND_FILE}))\nprint('written')"
    yield _refused(sandbox, "files", source, "more than the limit was written")
    zygotes = sandbox.pids()
    kill = sandbox.run(Program("import os\nos.kill(-1, 9)", limits=SMALL))
    after = sandbox.run(Program("print('still here')", limits=SMALL))
    held = after.stdout == "still here\n" and sandbox.pids() == zygotes
    yield Probe("kill", held, f"{kill.reason or kill.status}; {'the next program ran' if held else 'it killed more'}")


def _network(sandbox: Sandbox) -> Probe:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        port = listener.getsockname()[1]
        source = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)"
        called = sandbox.run(Program(source, limits=SMALL))
        try:
            listener.accept()[0].close()
        except TimeoutError:
            return Probe("network", called.status == "failed", called.reason or "it was reached")
    return Probe("network", False, "a listener of this machine was reached")


def _refused(sandbox: Sandbox, name: str, source: str, otherwise: str, *, status: Status = "failed") -> Probe:
    """Whether a program ends with this status; otherwise: what is said of one that passes."""
    done = sandbox.run(Program(source, limits=SMALL))
    return Probe(name, done.status == status, done.reason or otherwise)


def _home(sandbox: Sandbox) -> Probe:
    """Only the path to the interpreter is visible of the home folder."""
    home = Path.home()
    shown = [Path(path) for path in sandbox.python.shown().values()]
    way = {path.relative_to(home).parts[0] for path in shown if path.is_relative_to(home)}
    done = sandbox.run(Program(f"import os\nprint(*os.listdir({str(home)!r}), sep='\\n')", limits=SMALL))
    held = done.status == "failed" or (done.passed and set(done.stdout.splitlines()) <= way)
    return Probe(
        f"reading {home}", held, done.reason or f"shows {', '.join(sorted(way))}" if held else "it can be read"
    )


def _processes(sandbox: Sandbox) -> Probe:
    """Forks as many as are allowed and a few more."""
    most = SMALL.processes + BEYOND_PROCESSES
    source = (
        "import os, time\nmade = 0\n"
        f"for _ in range({most}):\n"
        "    try:\n        child = os.fork()\n    except OSError:\n        break\n"
        "    if child == 0:\n        time.sleep(5)\n        os._exit(0)\n    made += 1\n"
        "print(made)"
    )
    done = sandbox.run(Program(source, limits=SMALL))
    made = int(done.stdout) if done.stdout.strip().isdecimal() else most
    return Probe("processes", made < SMALL.processes, f"{made} children were allowed of {most}")
