"""A zygote from the host's side: started, met, asked, ended; one that does not start is lost within seconds."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from tasks.sandbox import Limits, Program, cgroups, sandbox_worker
from tasks.sandbox.bubblewrap import Engine, find_engine
from tasks.sandbox.languages import find_language
from tasks.sandbox.sandbox_python import Interpreter, find_interpreter
from tasks.sandbox.sandbox_worker import Worker, WorkerLost
from tests.sandbox.attacking import SMALL, descendants
from tests.sandbox.test_cgroups import why_not

PYTHON = find_language("python")
CYCLES = 4
SOON_S = 60.0
"""Far more than it takes, far less than what is not waited for."""
GROUPS = why_not() is None
ANSWERS = f"""
import socket, sys
sys.path.insert(0, {str(Path(sandbox_worker.__file__).parent)!r})
from inside import receive, send
channel = socket.socket(fileno=0)
receive(channel)
"""
"""The first lines of a zygote of a test's own."""


def engine_of(*command: str) -> Engine:
    """One that starts something else."""

    class Other(Engine):
        def command(self, python: Interpreter, etc: dict[str, int]) -> list[str]:
            return list(command)

    return Other("bwrap", privileged=os.geteuid() == 0)


def shell(script: str) -> Engine:
    return engine_of("/bin/sh", "-c", script)


def zygote(script: str) -> Engine:
    """A Python of this machine that speaks with the host; nothing is executed in it."""
    return engine_of(sys.executable, "-I", "-c", ANSWERS + script)


def lost(engine: Engine) -> str:
    with pytest.raises(WorkerLost) as why:
        Worker(engine, find_interpreter())
    return str(why.value)


def open_files() -> list[str]:
    """Without the one by which it is looked."""
    return sorted(link.name for link in Path("/proc/self/fd").iterdir() if link.exists())


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.fixture(scope="module")
def engine() -> Engine:
    """That starts here, else a skip with the reason."""
    engine = find_engine()
    if engine is None:
        pytest.skip("there is no bubblewrap")
    try:
        Worker(engine, find_interpreter()).stop()
    except WorkerLost as error:
        pytest.skip(f"it does not start: {error}")
    return engine


def test_starting_and_stopping_leaves_no_process_descriptor_thread_or_group(engine: Engine):
    before, threads = open_files(), threading.active_count()
    for _ in range(CYCLES):
        one = Worker(engine, find_interpreter())
        one.ask(Program("x = 1", limits=SMALL), PYTHON)
        processes = descendants([one.pid])
        groups = [path.parent for path in one.group.procs] if one.group else []
        assert (bool(groups), [path.exists() for path in groups]) == (GROUPS, [True] * len(groups))
        one.stop()
        one.stop()
        assert all(map(gone, processes))
        assert not any(path.exists() for path in groups)
    assert open_files() == before
    assert threading.active_count() == threads


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        (shell("echo first; echo the last words >&2; exit 3"), "the last words"),
        (shell("printf 'the last words\\n\\n'; kill -9 $$"), "the last words"),
        (shell("exit 0"), ""),
        (shell("head -c 100000 /dev/zero | tr '\\0' x"), "x" * 300),
        (engine_of("/nowhere/engine"), "No such file or directory: '/nowhere/engine'"),
        (shell("printf '\\004\\000\\000\\000nope' >&0; cat > /dev/null"), "no message"),
        (shell("printf '\\377\\377' >&0"), ""),
        (zygote("send(channel, {'ready': False, 'why': 'no room'})"), "no room"),
        (zygote("raise LookupError('inside')"), "LookupError: inside"),
    ],
    ids=["says", "killed", "silent", "long", "absent", "nonsense", "half", "not ready", "zygote raises"],
)
def test_a_worker_that_cannot_start_is_lost_with_the_last_words_of_its_engine(engine: Engine, words: str):
    assert words in lost(engine)


def test_an_engine_that_says_nothing_is_not_waited_for_and_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(sandbox_worker, "START_S", 0.2)
    engine = shell(f"echo $$ > {tmp_path}/pid; trap '' TERM; sleep 600 & wait; wait")
    assert "timed out" in lost(engine)
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_zygote_that_does_not_come_back_is_given_up(monkeypatch: pytest.MonkeyPatch):
    for name in ("GRACE_S", "WAITING_S"):
        monkeypatch.setattr(sandbox_worker, name, 0.1)
    engine = zygote("send(channel, {'ready': True})\nreceive(channel)\nimport time\ntime.sleep(600)")
    one = Worker(engine, find_interpreter())
    with pytest.raises(WorkerLost, match="timed out"):
        one.ask(Program("x = 1", limits=Limits(wall_s=0.1)), PYTHON)
    one.stop()
    assert gone(one.pid)


def test_a_reply_to_another_question_is_none():
    one = Worker(
        zygote("send(channel, {'ready': True})\nreceive(channel)\nsend(channel, {'number': 7})"), find_interpreter()
    )
    with pytest.raises(WorkerLost, match="it told of another program"):
        one.ask(Program("x = 1"), PYTHON)
    one.stop()


def test_workers_that_cannot_start_leave_nothing_either():
    folders = {path.parent.parent for path in _group_files()}
    before, groups = open_files(), _ours_in(folders)
    for engine in (shell("exit 1"), engine_of("/nowhere/engine"), zygote("send(channel, {})")):
        for _ in range(3):
            lost(engine)
    assert open_files() == before
    assert _ours_in(folders) == groups


def test_nothing_of_the_host_is_handed_to_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """But the channel, files for /etc, and those by which a process enters its group."""
    monkeypatch.setenv("MY_API_KEY", "secret")
    kept = (tmp_path / "kept").open("w")
    os.set_inheritable(kept.fileno(), True)
    with kept:
        lost(shell(f"env > {tmp_path}/env; pwd > {tmp_path}/pwd; ls -l /proc/$$/fd > {tmp_path}/fd; exit 1"))
    assert "secret" not in (tmp_path / "env").read_text()
    assert (tmp_path / "pwd").read_text() == "/\n"
    opened = [line.partition("-> ")[2] for line in (tmp_path / "fd").read_text().splitlines() if "->" in line]
    others = [path for path in opened if not path.endswith("cgroup.procs") and "memfd:" not in path]
    assert str(tmp_path / "kept") not in others
    assert len([path for path in others if path.startswith("socket:")]) == 1


def _group_files() -> tuple[Path, ...]:
    """Of a group that is there for a moment, to learn where they are made."""
    if not GROUPS:
        return ()
    one = cgroups.make_group(f"trivet-{os.getpid()}-test", memory_bytes=1 << 30, processes=16)
    one.remove()
    return one.procs


def _ours_in(folders: set[Path]) -> set[Path]:
    """Groups of this process; others may come and go meanwhile."""
    return {path for folder in folders for path in folder.glob(f"trivet-{os.getpid()}-*")}
