"""How workers start, and how a sandbox ends while something runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.sandbox import Limits, Program, Sandbox, shared_sandbox
from tasks.sandbox.sandbox_records import SandboxUnavailable
from tests.sandbox.attacking import SMALL, descendants

SOON_S = 60.0
ENDLESS = Program("import time\ntime.sleep(600)", limits=Limits(wall_s=900))


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """Not started yet, where one starts at all."""
    with Sandbox(workers=1) as trial:
        try:
            trial.start()
        except SandboxUnavailable as why:
            pytest.skip(str(why))
    with Sandbox(workers=2) as sandbox:
        yield sandbox


def wait_for_program(sandbox: Sandbox) -> list[int]:
    """Until one runs: the engine, the zygote, its init and itself; gives their numbers."""
    end = time.monotonic() + SOON_S
    while True:
        processes = descendants(sandbox.pids())
        for pid in processes:
            try:
                inner = Path(f"/proc/{pid}/status").read_text().partition("NSpid:")[2].split("\n", 1)[0].split()
            except OSError:  # it ended meanwhile
                continue
            if len(inner) > 1 and inner[-1] == "2":
                return processes
        assert time.monotonic() < end, "no program runs"
        time.sleep(0.005)


def assert_gone(processes: list[int]) -> None:
    assert not [pid for pid in processes if Path(f"/proc/{pid}").exists()]


def test_workers_start_only_when_as_many_programs_run(sandbox: Sandbox):
    assert (sandbox.pids(), sandbox.grouped) == ([], False)
    sandbox.start()
    first = sandbox.pids()
    for _ in range(3):
        assert sandbox.run(Program("x = 1", limits=SMALL)).passed
    assert sandbox.pids() == first
    assert len(sandbox.pids()) == 1
    list(sandbox.map(sandbox.run, [Program("import time\ntime.sleep(0.3)", limits=SMALL)] * 2))
    assert len(sandbox.pids()) == 2


def test_closing_while_programs_run_refuses_each_where_it_is_waited_for(sandbox: Sandbox):
    came_of_it: list[Exception] = []

    def run() -> None:
        try:
            sandbox.run(ENDLESS)
        except SandboxUnavailable as error:
            came_of_it.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]  # two of them wait for a worker
    for thread in threads:
        thread.start()
    processes = wait_for_program(sandbox)
    sandbox.close()
    for thread in threads:
        thread.join(SOON_S)
    assert not any(thread.is_alive() for thread in threads)
    assert len(came_of_it) == 4
    assert sandbox.pids() == []
    assert_gone(processes)


def test_an_interrupt_in_map_ends_the_programs_under_way(sandbox: Sandbox):
    """It comes as Ctrl-C does: raised in the thread that waits, here while it reads the next item."""
    processes: list[int] = []

    def programs() -> Iterator[Program]:
        yield ENDLESS
        yield ENDLESS
        processes.extend(wait_for_program(sandbox))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(sandbox.map(sandbox.run, programs()))
    assert_gone(processes)
    with pytest.raises(SandboxUnavailable):
        sandbox.run(Program("x = 1"))


def test_an_error_in_map_leaves_the_sandbox_open_and_begins_nothing_more(sandbox: Sandbox):
    begun: list[int] = []

    def refuse(number: int) -> None:
        begun.append(number)
        raise LookupError(number)

    with pytest.raises(LookupError, match="0"):
        list(sandbox.map(refuse, range(10_000)))
    assert len(begun) < 5000
    assert sandbox.run(Program("x = 1", limits=SMALL)).passed


def test_who_takes_long_in_map_keeps_nobody_from_working(sandbox: Sandbox):
    far = threading.Event()

    def work(number: int) -> int:
        if number == 0:
            assert far.wait(60)
        if number == 200:
            far.set()
        return number

    assert list(sandbox.map(work, range(300))) == list(range(300))


def test_a_map_whose_reader_goes_away_begins_nothing_more(sandbox: Sandbox):
    begun: list[int] = []
    results = sandbox.map(begun.append, range(100_000))
    next(results)
    results.close()  # pyright: ignore[reportAttributeAccessIssue] it is a generator
    number = len(begun)
    assert number < 5000
    assert list(sandbox.map(abs, [-1])) == [1]
    assert len(begun) == number


def test_the_shared_sandbox_is_one():
    assert shared_sandbox() is shared_sandbox()
