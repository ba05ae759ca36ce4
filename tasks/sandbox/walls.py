"""Checks that the sandbox isolates: by what a program of ours sees of itself, and by what it tries.

Harmless where a wall is missing: limits are exceeded by a few processes and megabytes, and the network is tried with
a listener of our own.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tasks.sandbox.languages import LANGUAGES, why_unavailable
from tasks.sandbox.sandbox_pool import Sandbox
from tasks.sandbox.sandbox_records import MIB, Limits, Program, Status

PRIVATE = ("pid", "mnt", "net", "ipc", "uts")
SMALL = Limits(cpu_s=5, wall_s=20, memory_bytes=256 * MIB, file_bytes=4 * MIB, processes=8)
MOST_FORKS = SMALL.processes + 4
SELF_CHECK = f"""
import json, os
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
status["namespaces"] = {{kind: os.readlink("/proc/self/ns/" + kind) for kind in {PRIVATE}}}
print(json.dumps(status))
"""
"""Source of a program that prints what the kernel says of it."""
FORK_SOURCE = f"""
import os, time
made = 0
for _ in range({MOST_FORKS}):
    try:
        child = os.fork()
    except OSError:
        break
    if child == 0:
        time.sleep(5)
        os._exit(0)
    made += 1
print(made)
"""


class Probe(NamedTuple):
    """One wall of the sandbox, and whether it held."""

    name: str
    held: bool
    detail: str


class Inspection(NamedTuple):
    """The result of an inspection, as `trivet doctor --sandbox` shows it."""

    engine: str
    python: str
    group: bool
    """A cgroup limits memory and processes of a program together."""
    probes: tuple[Probe, ...]
    languages: dict[str, str | None]
    """Language → why it cannot be run here; None: it can."""

    @property
    def ok(self) -> bool:
        """Whether every probe of the sandbox's walls held."""
        return all(probe.held for probe in self.probes)


def inspect_walls(sandbox: Sandbox) -> Inspection:
    """Return probes of what a program sees of itself and, if all held, of attacks by it. Raises SandboxUnavailable."""
    sandbox.start()
    first_probes = tuple(_probe_status(sandbox))
    probes = (*first_probes, *(_probe_attacks(sandbox) if all(probe.held for probe in first_probes) else ()))
    languages = {language.name: why_unavailable(language) for language in LANGUAGES}
    return Inspection("bubblewrap", sandbox.python.version, sandbox.grouped, probes, languages)


def read_own_status(sandbox: Sandbox) -> dict[str, Any]:
    """Return `/proc/self/status` of a program with its `namespaces`, or `failed` alone: why it did not run."""
    execution = sandbox.run(Program(SELF_CHECK, limits=SMALL))
    return json.loads(execution.stdout) if execution.passed else {"failed": execution.reason}


def _probe_status(sandbox: Sandbox) -> Iterator[Probe]:
    """Yield a probe for each wall that a program sees of itself; a missing filter of system calls fails none."""
    status = read_own_status(sandbox)
    if "failed" in status:
        yield Probe("first program", False, status["failed"])
        return
    for kind, namespace in status["namespaces"].items():
        private = namespace != str(Path("/proc/self/ns", kind).readlink())
        yield Probe(f"{kind} namespace", private, "its own" if private else "shared with this machine")
    user = status["Uid"].split()[0]
    yield Probe("user", user != "0", f"user {user}")
    yield Probe("capabilities", int(status["CapEff"], 16) == 0, status["CapEff"])
    privileges = status["NoNewPrivs"] == "1"
    yield Probe("no new privileges", privileges, "set" if privileges else "not set")
    less = "not filtered, so memory and files are bounded less: install libseccomp2, pyseccomp"
    yield Probe("system calls", True, "filtered" if status["Seccomp"] == "2" else less)


def _probe_attacks(sandbox: Sandbox) -> Iterator[Probe]:
    """Yield a probe for each wall that a program tries to get through."""
    yield _probe_network(sandbox)
    for path in ("/etc/shadow", __file__):
        yield _probe_program(sandbox, f"reading {path}", f"open({path!r}).read()", "it can be read")
    # only the path to the interpreter is visible of the home folder
    home = Path.home()
    bound_paths = [Path(path) for path in sandbox.python.bound_paths().values()]
    visible_folders = {path.relative_to(home).parts[0] for path in bound_paths if path.is_relative_to(home)}
    listed = sandbox.run(Program(f"import os\nprint(*os.listdir({str(home)!r}), sep='\\n')", limits=SMALL))
    is_intact = listed.status == "failed" or (listed.passed and set(listed.stdout.splitlines()) <= visible_folders)
    detail = listed.reason or f"shows {', '.join(sorted(visible_folders))}" if is_intact else "it can be read"
    yield Probe(f"reading {home}", is_intact, detail)
    forked = sandbox.run(Program(FORK_SOURCE, limits=SMALL)).stdout.strip()
    children = int(forked) if forked.isdecimal() else MOST_FORKS
    yield Probe("processes", children < SMALL.processes, f"{children} children were allowed of {MOST_FORKS}")
    source = f"x = bytearray({SMALL.memory_bytes + 64 * MIB})\nprint(len(x))"
    yield _probe_program(sandbox, "memory", source, "more than the limit was given", status="memory")
    source = f"with open('file', 'wb') as f:\n    f.write(bytes({SMALL.file_bytes + MIB}))\nprint('written')"
    yield _probe_program(sandbox, "files", source, "more than the limit was written")
    zygotes = sandbox.pids()
    kill = sandbox.run(Program("import os\nos.kill(-1, 9)", limits=SMALL))
    after = sandbox.run(Program("print('still here')", limits=SMALL))
    is_intact = after.stdout == "still here\n" and sandbox.pids() == zygotes
    outcome = "the next program ran" if is_intact else "it killed more"
    yield Probe("kill", is_intact, f"{kill.reason or kill.status}; {outcome}")


def _probe_network(sandbox: Sandbox) -> Probe:
    """Return a probe that passes if a program does not reach a listener of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)  # the program is over: a connection would be waiting
        source = f"import socket\nsocket.create_connection({listener.getsockname()}, 2)"
        called = sandbox.run(Program(source, limits=SMALL))
        try:
            listener.accept()[0].close()
        except TimeoutError:
            return Probe("network", called.status == "failed", called.reason or "it was reached")
    return Probe("network", False, "a listener of this machine was reached")


def _probe_program(sandbox: Sandbox, name: str, source: str, otherwise: str, *, status: Status = "failed") -> Probe:
    """Return a probe that holds if a program ends with this status; `otherwise`: its detail if it gives no reason."""
    execution = sandbox.run(Program(source, limits=SMALL))
    return Probe(name, execution.status == status, execution.reason or otherwise)
