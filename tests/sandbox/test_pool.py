"""Of a sandbox what test_sandbox.py does not hold: how an engine is chosen, and how it ends while something runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tasks.sandbox import Limits, Program, Sandbox, cgroups, shared_sandbox, walls
from tasks.sandbox.engines import Engine
from tasks.sandbox.sandbox_errors import SandboxUnavailable
from tasks.sandbox.sandbox_layout import Layout
from tests.sandbox.attacking import SMALL

SOON_S = 20.0
ENDLESS = Program("import time\ntime.sleep(600)", limits=Limits(wall_s=900))


@pytest.fixture(scope="module")
def _starts() -> None:
    with Sandbox(workers=1) as trial:
        try:
            assert trial.engine
        except SandboxUnavailable as why:
            pytest.skip(str(why))


@pytest.fixture
def sandbox(_starts: None) -> Iterator[Sandbox]:
    """Not started yet, where one starts at all."""
    with Sandbox(workers=2) as sandbox:
        yield sandbox


def wait_for_program(sandbox: Sandbox) -> list[int]:
    """Until one runs: the engine, the zygote, its init and itself; gives their numbers."""
    end = time.monotonic() + SOON_S
    while True:
        processes = walls.descendants(sandbox.pids())
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


def test_nothing_is_started_before_it_is_needed(sandbox: Sandbox):
    assert sandbox.pids() == []
    assert not sandbox.grouped


def test_what_was_started_to_choose_the_engine_executes_the_first_program(sandbox: Sandbox):
    assert sandbox.engine.name in ("bubblewrap", "namespaces")
    first = sandbox.pids()
    assert len(first) == 1
    assert sandbox.run(Program("x = 1", limits=SMALL)).passed
    assert sandbox.pids() == first


def test_an_engine_is_chosen_once_by_however_many_threads(sandbox: Sandbox):
    barrier = threading.Barrier(6, timeout=SOON_S)

    def choose(_: int) -> Engine:
        barrier.wait()
        return sandbox.engine

    with ThreadPoolExecutor(6) as threads:
        chosen = set(threads.map(choose, range(6)))
    assert len(chosen) == 1
    assert len(sandbox.pids()) == 1


def test_an_engine_that_was_named_is_taken_and_no_other(sandbox: Sandbox):
    class Silent(Engine):
        def command(self, layout: Layout) -> list[str]:
            return ["/bin/sh", "-c", "echo it does not start"]

    named = Silent("bubblewrap", privileged=os.geteuid() == 0)
    with Sandbox(workers=1, engine=named) as other:
        done = other.run(Program("x = 1", limits=SMALL))
        assert other.engine is named
        assert other.pids() == []
    assert (done.status, done.reason) == ("broken", "the sandbox broke: it does not start")


def test_workers_start_only_when_as_many_programs_run(sandbox: Sandbox):
    for _ in range(3):
        assert sandbox.run(Program("x = 1", limits=SMALL)).passed
    assert len(sandbox.pids()) == 1
    list(sandbox.map(sandbox.run, [Program("import time\ntime.sleep(0.3)", limits=SMALL)] * 2))
    assert len(sandbox.pids()) == 2


@pytest.mark.parametrize("used", [True, False], ids=["used", "never used"])
def test_a_closed_sandbox_refuses_and_starts_nothing(sandbox: Sandbox, used: bool):
    if used:
        assert sandbox.run(Program("x = 1", limits=SMALL)).passed
    sandbox.close()
    sandbox.close()
    with pytest.raises(SandboxUnavailable, match="was closed"):
        sandbox.run(Program("x = 1"))
    assert sandbox.pids() == []


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


def test_an_interrupt_that_the_function_of_map_raises_closes_too(sandbox: Sandbox):
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(sandbox.map(interrupted, [1]))
    with pytest.raises(SandboxUnavailable):
        sandbox.run(Program("x = 1"))


def test_an_error_in_map_leaves_the_sandbox_open_and_begins_nothing_more(sandbox: Sandbox):
    begun: list[int] = []

    def refuse(number: int) -> None:
        begun.append(number)
        raise LookupError(number)

    with pytest.raises(LookupError, match="0"):
        list(sandbox.map(refuse, range(1000)))
    assert len(begun) < 1000
    assert sandbox.run(Program("x = 1", limits=SMALL)).passed


def test_items_that_cannot_be_read_end_map_where_they_would_come(sandbox: Sandbox):
    def items() -> Iterator[int]:
        yield 1
        raise OSError("the file ended")

    with pytest.raises(OSError, match="the file ended"):
        list(sandbox.map(lambda number: number, items()))
    assert list(sandbox.map(lambda number: number + 1, [1, 2])) == [2, 3]


def test_who_takes_long_in_map_keeps_nobody_from_working(sandbox: Sandbox):
    far = threading.Event()

    def work(number: int) -> int:
        if number == 0:
            assert far.wait(60)
        if number == 200:
            far.set()
        return number

    with Sandbox(workers=2, engine=sandbox.engine) as two:
        assert list(two.map(work, range(300))) == list(range(300))


def test_map_of_nothing_is_nothing(sandbox: Sandbox):
    assert list(sandbox.map(sandbox.run, [])) == []
    assert sandbox.pids() == []


def test_a_map_whose_reader_goes_away_begins_nothing_more(sandbox: Sandbox):
    begun: list[int] = []
    results = sandbox.map(begun.append, range(100_000))
    next(results)
    results.close()  # pyright: ignore[reportAttributeAccessIssue] it is a generator
    number = len(begun)
    assert number < 1000
    assert list(sandbox.map(abs, [-1])) == [1]
    assert len(begun) == number


def test_a_forked_process_has_workers_of_its_own_and_leaves_the_others_alone(sandbox: Sandbox):
    assert sandbox.run(Program("x = 1", limits=SMALL)).passed
    mine = sandbox.pids()
    child = os.fork()
    if child == 0:
        try:
            right = sandbox.run(Program("x = 1", limits=SMALL)).passed and not set(sandbox.pids()) & set(mine)
            sandbox.close()
            os._exit(0 if right else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sandbox.run(Program("x = 1", limits=SMALL)).passed
    assert sandbox.pids() == mine


@pytest.mark.parametrize(
    ("processors", "share", "workers"),
    [(4, None, 4), (4, 2.0, 2), (4, 1.5, 2), (4, 0.1, 1), (2, 8.0, 2), (64, None, 16)],
)
def test_there_are_as_many_workers_as_processors_may_be_used(
    monkeypatch: pytest.MonkeyPatch, processors: int, share: float | None, workers: int
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    monkeypatch.setattr(cgroups, "processor_share", lambda: share)
    assert Sandbox().workers == workers


def test_the_shared_sandbox_is_one():
    assert shared_sandbox() is shared_sandbox()
