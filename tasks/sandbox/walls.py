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

from tasks.sandbox.languages import LANGUAGES, unavailable
from tasks.sandbox.sandbox_pool import Sandbox
from tasks.sandbox.sandbox_records import MIB, Limits, Program, Status

PRIVATE = ("pid", "mnt", "net", "ipc", "uts")
SMALL = Limits(cpu_s=5, wall_s=20, memory_bytes=256 * MIB, file_bytes=4 * MIB, processes=8)
MOST_FORKS = SMALL.processes + 4
LOOKS = f"""
import json, os
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
status["namespaces"] = {{kind: os.readlink("/proc/self/ns/" + kind) for kind in {PRIVATE}}}
print(json.dumps(status))
"""
"""Tells what the kernel says of the program."""
FORKS = f"""
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
        """Whether all walls held."""
        return all(probe.held for probe in self.probes)


def inspect(sandbox: Sandbox) -> Inspection:
    """What a program is and, if all is well there, what it can do. Raises SandboxUnavailable."""
    sandbox.start()
    seen = tuple(_look(sandbox))
    probes = (*seen, *(_try(sandbox) if all(probe.held for probe in seen) else ()))
    languages = {language.name: unavailable(language) for language in LANGUAGES}
    return Inspection("bubblewrap", sandbox.python.version, sandbox.grouped, probes, languages)


def look_at_itself(sandbox: Sandbox) -> dict[str, Any]:
    """`/proc/self/status` of a program, with its namespaces; `failed` where it did not run."""
    done = sandbox.run(Program(LOOKS, limits=SMALL))
    return json.loads(done.stdout) if done.passed else {"failed": done.reason}


def _look(sandbox: Sandbox) -> Iterator[Probe]:
    seen = look_at_itself(sandbox)
    if "failed" in seen:
        yield Probe("first program", False, seen["failed"])
        return
    for kind, namespace in seen["namespaces"].items():
        private = namespace != str(Path("/proc/self/ns", kind).readlink())
        yield Probe(f"{kind} namespace", private, "its own" if private else "shared with this machine")
    user = seen["Uid"].split()[0]
    yield Probe("user", user != "0", f"user {user}")
    yield Probe("capabilities", int(seen["CapEff"], 16) == 0, seen["CapEff"])
    privileges = seen["NoNewPrivs"] == "1"
    yield Probe("no new privileges", privileges, "set" if privileges else "not set")
    less = "not filtered, so memory and files are bounded less: install libseccomp2, pyseccomp"
    yield Probe("system calls", True, "filtered" if seen["Seccomp"] == "2" else less)


def _try(sandbox: Sandbox) -> Iterator[Probe]:
    yield _call_out(sandbox)
    for path in ("/etc/shadow", __file__):
        yield _try_program(sandbox, f"reading {path}", f"open({path!r}).read()", "it can be read")
    # only the path to the interpreter is visible of the home folder
    home = Path.home()
    shown = [Path(path) for path in sandbox.python.bound_paths().values()]
    way = {path.relative_to(home).parts[0] for path in shown if path.is_relative_to(home)}
    listed = sandbox.run(Program(f"import os\nprint(*os.listdir({str(home)!r}), sep='\\n')", limits=SMALL))
    held = listed.status == "failed" or (listed.passed and set(listed.stdout.splitlines()) <= way)
    detail = listed.reason or f"shows {', '.join(sorted(way))}" if held else "it can be read"
    yield Probe(f"reading {home}", held, detail)
    forked = sandbox.run(Program(FORKS, limits=SMALL)).stdout.strip()
    made = int(forked) if forked.isdecimal() else MOST_FORKS
    yield Probe("processes", made < SMALL.processes, f"{made} children were allowed of {MOST_FORKS}")
    source = f"x = bytearray({SMALL.memory_bytes + 64 * MIB})\nprint(len(x))"
    yield _try_program(sandbox, "memory", source, "more than the limit was given", status="memory")
    source = f"with open('file', 'wb') as f:\n    f.write(bytes({SMALL.file_bytes + MIB}))\nprint('written')"
    yield _try_program(sandbox, "files", source, "more than the limit was written")
    zygotes = sandbox.pids()
    kill = sandbox.run(Program("import os\nos.kill(-1, 9)", limits=SMALL))
    after = sandbox.run(Program("print('still here')", limits=SMALL))
    held = after.stdout == "still here\n" and sandbox.pids() == zygotes
    yield Probe("kill", held, f"{kill.reason or kill.status}; {'the next program ran' if held else 'it killed more'}")


def _call_out(sandbox: Sandbox) -> Probe:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        source = f"import socket\nsocket.create_connection({listener.getsockname()}, 2)"
        called = sandbox.run(Program(source, limits=SMALL))
        try:
            listener.accept()[0].close()
        except TimeoutError:
            return Probe("network", called.status == "failed", called.reason or "it was reached")
    return Probe("network", False, "a listener of this machine was reached")


def _try_program(sandbox: Sandbox, name: str, source: str, otherwise: str, *, status: Status = "failed") -> Probe:
    """Whether a program ends with this status; otherwise: what is said of one that passes."""
    done = sandbox.run(Program(source, limits=SMALL))
    return Probe(name, done.status == status, done.reason or otherwise)
