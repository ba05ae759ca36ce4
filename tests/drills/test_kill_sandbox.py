"""`kill -9`, a stop and Ctrl-C of what executes programs: no process stays, and no program is scored for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tasks.sandbox import Execution, Limits, Program, Sandbox, sandbox_worker
from tasks.sandbox.sandbox_records import SandboxUnavailable
from tests.drills.processes import SOON_S, Process, identities, process_of, survivors, wait_until
from tests.sandbox.attacking import command, descendants, wait_for_name, watchdog

pytestmark = pytest.mark.drill

ROOT = Path(__file__).parents[2]
SLOW = Program(
    "import ctypes, time\nctypes.CDLL(None).prctl(15, b'trivet-slow', 0, 0, 0)\ntime.sleep(0.5)\nx = 1",
    tests="assert x == 1",
    limits=Limits(wall_s=5),
)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """With one worker; nothing of it is left when it is closed, whatever was done to it."""
    with Sandbox(workers=1) as sandbox, watchdog(sandbox):
        try:
            sandbox.start()
        except SandboxUnavailable as error:
            pytest.skip(str(error))
        first = identities(descendants(sandbox.pids()))
        yield sandbox
        last = identities(descendants(sandbox.pids()))
    assert survivors(first | last) == []


@pytest.mark.parametrize("how", ["run", "map"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=["kill", "Ctrl-C", "terminate"])
def test_nothing_is_left_of_a_sandbox_whose_host_ends(how: str, end: signal.Signals):
    with executing(how) as (host, processes):
        os.kill(host.pid, end)
        host.wait(SOON_S)
        assert survivors(processes) == []
        assert host.stdout
        assert host.stdout.read() == ""


def test_a_second_ctrl_c_leaves_nothing_either():
    with executing("map") as (host, processes):
        for _ in range(3):
            os.kill(host.pid, signal.SIGINT)
            time.sleep(0.05)
            if host.poll() is not None:
                break
        host.wait(SOON_S)
        assert survivors(processes) == []


def test_a_program_whose_zygote_is_killed_is_tried_again_and_passes(sandbox: Sandbox):
    done = meanwhile(sandbox, lambda: kill_all(zygotes(sandbox)))
    assert done.status == "ok"
    assert sandbox.run(SLOW._replace(tests="assert x == 2")).status == "failed"


def test_a_program_whose_engine_is_killed_with_its_group_is_tried_again_and_passes(sandbox: Sandbox):
    assert meanwhile(sandbox, lambda: [os.killpg(pid, signal.SIGKILL) for pid in sandbox.pids()]).status == "ok"


def test_a_program_whose_engine_alone_is_killed_passes_and_nothing_stays(sandbox: Sandbox):
    """Bubblewrap's own process only waits; the fixture looks for what stays."""
    assert meanwhile(sandbox, lambda: kill_all(sandbox.pids())).status == "ok"
    assert sandbox.run(Program("x = 1")).passed


def test_a_program_whose_zygote_is_killed_twice_is_broken(sandbox: Sandbox):
    done = meanwhile(sandbox, lambda: strike_twice(sandbox, zygotes, signal.SIGKILL))
    assert (done.status, done.passed) == ("broken", False)
    assert sandbox.run(Program("x = 1", tests="assert x == 1")).passed


def test_a_program_whose_first_process_is_killed_is_tried_again_and_passes(sandbox: Sandbox):
    """As the kernel may do for want of memory: it says nothing about the program."""
    assert meanwhile(sandbox, lambda: kill_all(firsts(sandbox))).status == "ok"


def test_a_first_process_that_is_stopped_is_taken_for_dead_and_the_program_is_broken(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    """Both that it meets are; never is the program failed."""
    hurry(monkeypatch)
    short = SLOW._replace(limits=Limits(wall_s=1))
    done = meanwhile(sandbox, lambda: strike_twice(sandbox, firsts, signal.SIGSTOP), short)
    assert (done.status, done.passed) == ("broken", False)
    monkeypatch.undo()
    assert sandbox.run(Program("x = 1", tests="assert x == 1")).passed


def test_a_zygote_that_is_stopped_is_taken_for_dead_and_the_next_program_is_tried_again(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    hurry(monkeypatch)
    before = sandbox.pids()
    for pid in zygotes(sandbox):
        os.kill(pid, signal.SIGSTOP)
    assert sandbox.run(SLOW._replace(limits=Limits(wall_s=1))).status == "ok"
    assert sandbox.pids() != before


def test_a_program_that_is_stopped_from_outside_times_out_and_the_zygote_goes_on(sandbox: Sandbox):
    before = sandbox.pids()

    def stop() -> None:
        pid = next(pid for pid in descendants(sandbox.pids()) if command(pid) == "trivet-slow")
        os.kill(pid, signal.SIGSTOP)

    done = meanwhile(sandbox, stop, SLOW._replace(limits=Limits(wall_s=1)))
    assert (done.status, done.reason) == ("timeout", "killed after 1 s")
    assert sandbox.pids() == before


def meanwhile(sandbox: Sandbox, act: Callable[[], object], program: Program = SLOW) -> Execution:
    """What comes of a program during which something is done."""
    done: list[Execution] = []
    thread = threading.Thread(target=lambda: done.append(sandbox.run(program)))
    thread.start()
    try:
        wait_for_name(sandbox, "trivet-slow")
        act()
    finally:
        thread.join()
    return done[0]


def strike_twice(sandbox: Sandbox, targets: Callable[[Sandbox], list[int]], number: signal.Signals) -> None:
    """Signal the processes that the program needs, and those of its second attempt too."""
    struck: set[int] = set()
    for _ in range(2):
        wait_until(lambda: set(targets(sandbox)) - struck and "trivet-slow" in commands(sandbox))
        for pid in set(targets(sandbox)) - struck:
            struck.add(pid)
            os.kill(pid, number)
        wait_until(lambda: not any(map(process_of, struck)))


@contextmanager
def executing(how: str) -> Generator[tuple[subprocess.Popen[str], set[Process]]]:
    """A host whose programs run, and the processes of its sandbox."""
    told = [sys.executable, "-m", "tests.drills.executing", how]
    with subprocess.Popen(told, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as host:
        groups: list[int] = []
        try:
            assert host.stdout
            line = host.stdout.readline()
            assert line, host.stderr and host.stderr.read()
            groups = [int(pid) for pid in line.split()[1:]]
            yield host, identities(descendants(groups))
        finally:
            host.kill()
            for pid in groups:
                # so that no other process is ended that has got the same number since
                if (process := process_of(pid)) and "inside.zygote" in process.command:
                    os.killpg(pid, signal.SIGKILL)


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What says nothing is taken for dead as soon as the time of its program is over."""
    monkeypatch.setattr(sandbox_worker, "GRACE_S", 0.1)
    monkeypatch.setattr(sandbox_worker, "WAITING_S", 0.1)


def kill_all(pids: list[int]) -> None:
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def places(pid: int) -> list[int]:
    """Its numbers, in this namespace and those below."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").split("\n")
    except OSError:
        return []
    return [int(each) for line in lines if line.startswith("NSpid:") for each in line.split()[1:]]


def firsts(sandbox: Sandbox) -> list[int]:
    """The first process of the namespace of each program."""
    return [pid for pid in descendants(sandbox.pids()) if len(places(pid)) == 3 and places(pid)[-1] == 1]


def zygotes(sandbox: Sandbox) -> list[int]:
    """The first process of each namespace that bubblewrap made."""
    return [pid for pid in descendants(sandbox.pids()) if len(places(pid)) == 2 and places(pid)[-1] == 1]


def commands(sandbox: Sandbox) -> set[str]:
    return {command(pid) for pid in descendants(sandbox.pids())}
