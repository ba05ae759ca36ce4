"""Attacks on a sandbox: where they run, what stands by and must stay untouched, and what is looked at behind each.

No attack begins before its walls were seen: `arena` skips with the reason where a namespace is shared, where root's
programs would be root, or where the limit of processes is not enforced. Attacks go beyond limits by a little; a
watchdog ends the process group of a sandbox that takes too long.
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
import shutil
import socket
import tempfile
import threading
import time
import tomllib
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from signal import SIGKILL
from typing import Any, NamedTuple

import psutil
import pytest

from tasks.sandbox import Execution, Limits, Program, Sandbox, walls
from tasks.sandbox.bubblewrap import NOBODY, Engine, find_bwrap
from tasks.sandbox.inside.runner import REPORT, TOKEN
from tasks.sandbox.sandbox_records import MIB, SandboxUnavailable

ROOT = Path(__file__).resolve().parents[2]
SYSTEM_PYTHON = Path("/usr/bin/python3")
SOMEBODY = itertools.count(1_700_000_000 + 32 * os.getpid())
"""Users that nobody is, for each arena another one: as whom root tries what others can."""
SMALL = Limits(
    cpu_s=5,
    wall_s=10,
    memory_bytes=256 * MIB,
    file_bytes=8 * MIB,
    inodes=500,
    processes=8,
    open_files=64,
    output_bytes=MIB,
)
SPARE = 1
"""A process more than the limit, where those of the sandbox itself are counted with the program's: for users."""
WATCHDOG_S = 90.0
GONE_S = 10.0
"""Far more than a process needs to end, and far less than those stay that a program leaves."""
HELD = "AssertionError: held"
SECRET_NAME, SECRET = "TRIVET_TEST_API_KEY", f"secret-{secrets.token_hex(8)}"
"""In the environment of the host, before a sandbox starts."""

PRELUDE = """
import json, os
aims = json.load(open("aims.json"))
won = []
def attempt(what, function, *arguments, **options):
    try:
        result = function(*arguments, **options)
    except Exception as error:
        print(what, "failed:", type(error).__name__, error)
    else:
        print(what, "went through")
        won.append(what)
        return result
"""
PROGRAMS: dict[str, dict[str, str]] = tomllib.loads(
    (ROOT / "tests/samples/sandbox/programs.toml")
    .read_text("utf-8")
    .replace("REPORT", str(REPORT))
    .replace("TOKEN", str(TOKEN))
    .replace("BEYOND", str(SMALL.processes + 16))
)
"""Programs that are wrong and want to pass, by kind and name."""
WON = "assert won, 'held'"
"""Passes when an attempt reached its aim."""


class Bystanders:
    """What a program must not touch: listeners that stand for Postgres, Prefect and a name server, sockets, a file."""

    def __init__(self, stack: ExitStack) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="trivet-bystander-"))
        stack.callback(shutil.rmtree, self.folder)
        self.folder.chmod(0o777)
        self.file = self.folder / "file"
        self.file.write_text(SECRET)
        self.file.chmod(0o666)
        self.shared_memory = Path("/dev/shm") / f"trivet-{secrets.token_hex(8)}"
        self.shared_memory.write_text(SECRET)
        self.shared_memory.chmod(0o666)
        stack.callback(self.shared_memory.unlink)
        self.abstract = f"trivet-{secrets.token_hex(8)}"
        self.socket = str(self.folder / "socket")
        tcp = [_bound(stack, socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)) for _ in range(2)]
        udp = _bound(stack, socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        self.ports = [each.getsockname()[1] for each in (*tcp, udp)]
        unix = [_bound(stack, socket.AF_UNIX, socket.SOCK_STREAM, path) for path in (f"\0{self.abstract}", self.socket)]
        Path(self.socket).chmod(0o777)
        names: list[socket.socket] = []
        with suppress(OSError):  # a machine's own name server, or no right to the port
            names = [_bound(stack, socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 53))]
        self.called = [*tcp, *unix]
        self.told = [udp, *names]
        self.before = self._state()

    @property
    def aims(self) -> dict[str, object]:
        """What a program is told of them, as aims.json."""
        return {
            "ports": self.ports,
            "abstract": self.abstract,
            "socket": self.socket,
            "file": str(self.file),
            "shared_memory": str(self.shared_memory),
            "home": str(Path.home()),
            "project": str(ROOT),
            "secret_name": SECRET_NAME,
        }

    def assert_untouched(self) -> None:
        """Nobody called, nothing was sent, no file is another."""
        for listener in self.called:
            with suppress(BlockingIOError):
                listener.accept()[0].close()
                raise AssertionError(f"a connection to {listener.getsockname()}")
        for listener in self.told:
            with suppress(BlockingIOError):
                raise AssertionError(f"a datagram to {listener.getsockname()}: {listener.recv(100)}")
        assert self._state() == self.before

    def _state(self) -> dict[str, tuple[int, int, int, str]]:
        files = sorted(self.folder.iterdir())
        stats = {path.name: path.stat() for path in files}
        texts = {path.name: path.read_text() for path in files if path.is_file()}
        return {
            name: (stat.st_mode, stat.st_nlink, stat.st_mtime_ns, texts.get(name, "")) for name, stat in stats.items()
        }


class Arena(NamedTuple):
    """A sandbox whose walls were seen, and who stands by."""

    sandbox: Sandbox
    seen: dict[str, Any]
    """What the kernel says of its programs."""
    users: set[int]
    """Users that are nobody but its programs."""
    known: dict[str, list[int]]
    """Its `zygotes`, and all its `processes` when no program runs."""
    bystanders: Bystanders

    def attack(
        self,
        source: str,
        *,
        tests: str | None = WON,
        status: str = "failed",
        reason: str | None = HELD,
        language: str = "python",
        stdin: bytes = b"",
        limits: Limits = SMALL,
    ) -> Execution:
        """Execute it: it fails as told (reason None: as it likes), and nothing else is another than before.

        A source in Python is put behind PRELUDE, and its tests pass when an attempt of its went through.
        """
        files = {"aims.json": json.dumps(self.bystanders.aims).encode()}
        whole = PRELUDE + source if language == "python" else source
        with self.unharmed():
            done = self.sandbox.run(Program(whole, language, tests, stdin, files, limits))
        assert done.status == status, done
        assert reason is None or done.reason == reason, done
        return done

    @contextmanager
    def unharmed(self) -> Generator[None]:
        """What happens here leaves no process, no trace outside, and a pool that goes on with the same zygotes."""
        pids = sorted(self.sandbox.pids())
        if pids != self.known["zygotes"]:  # one was lost in another test, which said so
            self.known.update(zygotes=pids, processes=sorted(self.processes()))
        with watchdog(self.sandbox):
            yield
            assert sorted(self.sandbox.pids()) == pids, "a zygote was lost"
            assert self.left() == set(), "a process is left"
            self.bystanders.assert_untouched()
            assert self.sandbox.run(Program("x = 1", tests="assert x == 1", limits=SMALL)).passed
            assert sorted(self.sandbox.pids()) == pids, "a zygote was lost"

    def processes(self) -> set[int]:
        """Those of the sandbox, by descent, and of the users that are nobody but its programs, where there are such."""
        return _processes(self.sandbox, self.users)

    def left(self) -> set[int]:
        """Processes that do not end by themselves, now that no program runs; a runner ends behind its reply."""
        end = time.monotonic() + GONE_S
        while (left := self.processes() - set(self.known["processes"])) and time.monotonic() < end:
            time.sleep(0.002)
        return left

    @property
    def is_filtered(self) -> bool:
        return self.seen["Seccomp"] == "2"


class Skipped(Exception):
    """Why a sandbox is not attacked."""


def open_arena(who: str, stack: ExitStack) -> Arena:
    """who: `root` or `user`, who starts it. Raises Skipped where it does not start, or where walls are missing."""
    user, python, bwrap = None, None, find_bwrap()
    if bwrap is None:
        raise Skipped("there is no bubblewrap")
    if who == "root" and os.geteuid() != 0:
        raise Skipped("only root can try how it is for root")
    if who == "user" and os.geteuid() == 0:
        user, python = next(SOMEBODY), SYSTEM_PYTHON
        if not python.exists():
            raise Skipped(f"{python} is not there, and root's Python may be closed to others")
        bwrap = as_user(user, bwrap, stack)
    sandbox = stack.enter_context(Sandbox(2, Engine(bwrap, privileged=who == "root"), python))
    bystanders = Bystanders(stack)
    with watchdog(sandbox):
        try:
            warm = list(sandbox.map(sandbox.run, [Program("import time; time.sleep(0.3)")] * sandbox.workers))
        except SandboxUnavailable as error:
            raise Skipped(f"bubblewrap does not start for {who}: {error}") from error
        assert all(done.passed for done in warm), warm
        seen = walls.read_own_status(sandbox)
        missing = [kind for kind, it in seen["namespaces"].items() if it == str(Path("/proc/self/ns", kind).readlink())]
        uid = int(seen["Uid"].split()[0])
        if missing or uid == 0 or _processes_allowed(sandbox) > SMALL.processes + SPARE:
            raise Skipped(f"the walls do not stand for {who}: {missing}, user {uid}")
    users = {user} if user else {uid} - {NOBODY}
    known = {"zygotes": sorted(sandbox.pids()), "processes": descendants(sandbox.pids())}
    return Arena(sandbox, seen, users, known, bystanders)


def as_user(user: int, bwrap: str, stack: ExitStack) -> str:
    """Path of a bubblewrap that root starts as another user."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    folder.chmod(0o755)
    path = folder / "bwrap"
    path.write_text(f'#!/bin/sh\nexec setpriv --reuid {user} --regid {user} --clear-groups {bwrap} "$@"\n')
    path.chmod(0o755)
    return str(path)


def descendants(roots: list[int]) -> list[int]:
    """Process IDs of `roots` and all processes below them."""
    found = list(roots)
    for root in roots:
        with suppress(psutil.NoSuchProcess):  # it ended meanwhile
            found += [child.pid for child in psutil.Process(root).children(recursive=True)]
    return found


@contextmanager
def watchdog(sandbox: Sandbox, seconds: float = WATCHDOG_S) -> Generator[None]:
    """Ends the process groups of a sandbox that is not through in time, from outside."""
    through = threading.Event()
    bitten: list[int] = []

    def watch() -> None:
        while not through.wait(1 if bitten else seconds):
            for pid in sandbox.pids():
                bitten.append(pid)
                with suppress(ProcessLookupError):
                    os.killpg(pid, SIGKILL)

    thread = threading.Thread(target=watch, name="watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        through.set()
        thread.join()
    if bitten:
        pytest.fail(f"the watchdog ended it after {seconds:g} s")


def wait_for_name(sandbox: Sandbox, name: str) -> None:
    """Until a process of a program has called itself `name`, which this machine sees."""
    end = time.monotonic() + WATCHDOG_S
    while name not in {command(pid) for pid in descendants(sandbox.pids())}:
        assert time.monotonic() < end, f"no process called itself {name}"
        time.sleep(0.005)


def _processes_allowed(sandbox: Sandbox) -> int:
    """How many a program is when it forks four more than its limit."""
    source = f"""
import os, time
made = 1
for _ in range({SMALL.processes + 4}):
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
    done = sandbox.run(Program(source, limits=SMALL))
    return int(done.stdout) if done.passed else SMALL.processes + 4


def _bound(stack: ExitStack, family: int, kind: int, address: str | tuple[str, int]) -> socket.socket:
    made = stack.enter_context(socket.socket(family, kind))
    made.bind(address)
    if kind == socket.SOCK_STREAM:
        made.listen()
    made.setblocking(False)
    return made


def _processes(sandbox: Sandbox, users: set[int]) -> set[int]:
    """One look at all processes of this machine; `Uid` is the true one, while who owns a folder in /proc may not be."""
    found = set(sandbox.pids())
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                lines = (entry / "status").read_text(errors="replace").split("\n")
                told = dict(line.split(":", 1) for line in lines if ":" in line)
                below.setdefault(int(told["PPid"]), []).append(int(entry.name))
                if int(told["Uid"].split()[0]) in users:
                    found.add(int(entry.name))
    waiting = list(found)
    for pid in waiting:
        new = set(below.get(pid, [])) - found
        found |= new
        waiting += new
    return found


def command(pid: int) -> str:
    """What a process calls itself; empty when it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    return ""
