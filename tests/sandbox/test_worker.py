"""A zygote from the host's side: started, met, asked, ended; one that does not start is lost within seconds."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tasks.sandbox import Limits, Program, Sandbox, cgroups, sandbox_worker, walls
from tasks.sandbox.engines import Engine, engines
from tasks.sandbox.languages import find
from tasks.sandbox.sandbox_layout import NOBODY, Layout, interpreter
from tasks.sandbox.sandbox_worker import UIDS, Worker, WorkerLost
from tests.sandbox.attacking import SMALL
from tests.sandbox.test_cgroups import why_not

PYTHON = find("python")
CYCLES = 10
SOON_S = 20.0
"""Far more than it takes, far less than what is not waited for."""
GROUPS = why_not() is None
ANSWERS = f"""
import socket, sys
sys.path.insert(0, {str(Path(sandbox_worker.__file__).parent)!r})
from inside.frames import receive, send
channel = socket.socket(fileno=0)
receive(channel)
"""
"""The first lines of a zygote of a test's own."""


def engine_of(command: Callable[[Layout], list[str]]) -> Engine:
    """One that starts something else."""

    class Other(Engine):
        def command(self, layout: Layout) -> list[str]:
            return command(layout)

    return Other("bubblewrap", privileged=os.geteuid() == 0)


def shell(script: str) -> Engine:
    return engine_of(lambda _: ["/bin/sh", "-c", script])


def zygote(script: str) -> Engine:
    """A Python of this machine that speaks with the host; nothing is executed in it."""
    return engine_of(lambda _: [sys.executable, "-I", "-c", ANSWERS + script])


def lost(engine: Engine) -> str:
    with pytest.raises(WorkerLost) as why:
        Worker(engine, interpreter())
    return str(why.value)


def open_files() -> list[str]:
    """Without the one by which it is looked."""
    return sorted(link.name for link in Path("/proc/self/fd").iterdir() if link.exists())


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.fixture(scope="module", params=engines(), ids=lambda engine: engine.name)
def engine(request: pytest.FixtureRequest) -> Engine:
    """That starts here, else a skip with the reason."""
    if why := request.param.unavailable():
        pytest.skip(why)
    try:
        Worker(request.param, interpreter()).stop()
    except WorkerLost as error:
        pytest.skip(f"{request.param.name} does not start: {error}")
    return request.param


@pytest.fixture
def started(engine: Engine) -> Iterator[Worker]:
    one = Worker(engine, interpreter())
    yield one
    one.stop()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where all temporary files of this process go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def dead_pid() -> int:
    with subprocess.Popen(["true"]) as process:
        return process.pid


def test_a_worker_answers_what_it_is_asked(started: Worker):
    for number in range(3):
        reply, killed = started.ask(Program(f"print({number})", limits=SMALL), PYTHON)
        assert (reply.blobs, reply.fields["waited"], killed) == ([f"{number}\n".encode(), b""], 0, 0)


def test_programs_are_a_user_that_nobody_is(started: Worker, engine: Engine):
    """To the program; to this machine, started by somebody else than root, it is that one."""
    reply, _ = started.ask(Program("import os\nprint(os.getuid(), os.getgid(), os.getgroups())", limits=SMALL), PYTHON)
    ranges = [list(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    has_so_many = any(first <= UIDS + started.pid < first + count for first, _, count in ranges)
    uid = UIDS + started.pid if engine.privileged and has_so_many else NOBODY
    user, group, rest = reply.blobs[0].decode().split(" ", 2)
    assert (int(user), int(group)) == (uid, uid)
    assert rest == "[]\n" or not engine.privileged


def test_two_workers_have_two_users(engine: Engine):
    if not engine.privileged:
        pytest.skip("only root's programs are somebody else")
    workers = [Worker(engine, interpreter()) for _ in range(2)]
    asks = Program("import os\nprint(os.getuid())", limits=SMALL)
    users = {one.ask(asks, PYTHON)[0].blobs[0] for one in workers}
    for one in workers:
        one.stop()
    assert len(users) == 2 or users == {f"{NOBODY}\n".encode()}


def test_nothing_is_left_of_a_worker_that_was_stopped(engine: Engine, temporary: Path):
    one = Worker(engine, interpreter())
    one.ask(Program("x = 1", limits=SMALL), PYTHON)
    processes = walls.descendants([one.pid])
    groups = [path.parent for path in one.group.procs] if one.group else []
    assert [path.exists() for path in groups] == [True] * len(groups)
    assert bool(groups) == GROUPS
    one.stop()
    assert all(map(gone, processes))
    assert not any(path.exists() for path in groups)
    assert list(temporary.iterdir()) == []


def test_stopping_again_does_nothing(engine: Engine):
    one = Worker(engine, interpreter())
    one.stop()
    one.stop()
    with pytest.raises(WorkerLost):
        one.ask(Program("x = 1"), PYTHON)


def test_starting_and_stopping_leaves_no_descriptor_thread_or_file(engine: Engine, temporary: Path):
    before, threads = open_files(), threading.active_count()
    for _ in range(CYCLES):
        one = Worker(engine, interpreter())
        one.ask(Program("x = 1", limits=SMALL), PYTHON)
        one.stop()
    assert open_files() == before
    assert threading.active_count() == threads
    assert list(temporary.iterdir()) == []


def test_stopping_from_another_thread_wakes_who_asks(engine: Engine):
    one = Worker(engine, interpreter())
    came_of_it: list[Exception] = []

    def ask() -> None:
        try:
            one.ask(Program("import time\ntime.sleep(600)", limits=Limits(wall_s=900)), PYTHON)
        except WorkerLost as error:
            came_of_it.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    end = time.monotonic() + SOON_S
    while len(processes := walls.descendants([one.pid])) < 3:  # the engine, the zygote, and what it started
        assert time.monotonic() < end
        time.sleep(0.005)
    one.stop()
    thread.join(SOON_S)
    assert not thread.is_alive()
    assert [type(error) for error in came_of_it] == [WorkerLost]
    assert all(map(gone, processes))


def test_a_worker_whose_engine_was_killed_is_lost(started: Worker):
    os.killpg(started.pid, 9)
    with pytest.raises(WorkerLost):
        started.ask(Program("x = 1"), PYTHON)


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        (shell("echo first; echo the last words >&2; exit 3"), "the last words"),
        (shell("printf 'the last words\\n\\n'; kill -9 $$"), "the last words"),
        (shell("exit 0"), ""),
        (engine_of(lambda _: ["/nowhere/engine"]), "No such file or directory: '/nowhere/engine'"),
        (engine_of(lambda _: ["/etc"]), "Permission denied"),
        (engine_of(lambda layout: [*Engine("namespaces", privileged=False).command(layout)[:-1], "{}"]), "KeyError"),
        (shell("printf '\\004\\000\\000\\000nope' >&0; cat > /dev/null"), "no message"),
        (shell("printf '\\377\\377' >&0"), ""),
        (zygote("send(channel, {'ready': False, 'why': 'no room'})"), "no room"),
        (zygote("raise LookupError('inside')"), "LookupError: inside"),
    ],
    ids=["says", "killed", "silent", "absent", "a folder", "raises", "nonsense", "half", "not ready", "zygote raises"],
)
def test_a_worker_that_cannot_start_is_lost_with_the_last_words_of_its_engine(engine: Engine, words: str):
    assert words in lost(engine)


def test_last_words_are_not_long():
    assert len(lost(shell("head -c 100000 /dev/zero | tr '\\0' x"))) <= 300


def test_an_engine_that_says_nothing_is_not_waited_for_and_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(sandbox_worker, "START_S", 0.2)
    engine = shell(f"echo $$ > {tmp_path}/pid; trap '' TERM; sleep 600 & wait; wait")
    assert "timed out" in lost(engine)
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_zygote_that_does_not_come_back_is_given_up(monkeypatch: pytest.MonkeyPatch):
    for name in ("SETUP_S", "GRACE_S", "WAITING_S"):
        monkeypatch.setattr(sandbox_worker, name, 0.1)
    engine = zygote("send(channel, {'ready': True})\nreceive(channel)\nimport time\ntime.sleep(600)")
    one = Worker(engine, interpreter())
    with pytest.raises(WorkerLost, match="timed out"):
        one.ask(Program("x = 1", limits=Limits(wall_s=0.1)), PYTHON)
    one.stop()
    assert gone(one.pid)


def test_a_reply_to_another_question_is_none():
    one = Worker(
        zygote("send(channel, {'ready': True})\nreceive(channel)\nsend(channel, {'number': 7})"), interpreter()
    )
    with pytest.raises(WorkerLost, match="it told of another program"):
        one.ask(Program("x = 1"), PYTHON)
    one.stop()


def test_workers_that_cannot_start_leave_nothing_either(temporary: Path):
    folders = {path.parent.parent for path in _group_files()}
    before, groups = open_files(), _ours_in(folders)
    for engine in (shell("exit 1"), engine_of(lambda _: ["/nowhere/engine"]), zygote("send(channel, {})")):
        for _ in range(3):
            lost(engine)
    assert open_files() == before
    assert list(temporary.iterdir()) == []
    assert _ours_in(folders) == groups


def test_folders_of_processes_that_were_killed_are_removed_and_no_others(temporary: Path, dead_pid: int):
    names = [f"trivet-sandbox-{pid}-x" for pid in (dead_pid, os.getpid())] + ["trivet-sandbox-notes", "other-1-x"]
    for name in names:
        (temporary / name).mkdir()
        (temporary / name / "passwd").touch()
    lost(shell("exit 1"))
    assert sorted(path.name for path in temporary.iterdir()) == sorted(names[1:])


def test_nothing_of_the_host_is_handed_to_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """But the channel, and the files by which a process enters its group."""
    monkeypatch.setenv("MY_API_KEY", "secret")
    kept = (tmp_path / "kept").open("w")
    os.set_inheritable(kept.fileno(), True)
    with kept:
        lost(shell(f"env > {tmp_path}/env; pwd > {tmp_path}/pwd; ls -l /proc/$$/fd > {tmp_path}/fd; exit 1"))
    assert "secret" not in (tmp_path / "env").read_text()
    assert (tmp_path / "pwd").read_text() == "/\n"
    opened = [line.partition("-> ")[2] for line in (tmp_path / "fd").read_text().splitlines() if "->" in line]
    others = [path for path in opened if not path.endswith("cgroup.procs")]
    assert str(tmp_path / "kept") not in others
    assert len([path for path in others if path.startswith("socket:")]) == 1


def _group_files() -> tuple[Path, ...]:
    """Of a group that is there for a moment, to learn where they are made."""
    if not GROUPS:
        return ()
    one = cgroups.make(f"trivet-{os.getpid()}-test", memory_bytes=1 << 30, processes=16)
    one.remove()
    return one.procs


def _ours_in(folders: set[Path]) -> set[Path]:
    """Groups of this process; others may come and go meanwhile."""
    return {path for folder in folders for path in folder.glob(f"trivet-{os.getpid()}-*")}


@pytest.mark.parametrize("name", ["TemporaryFile", "TemporaryDirectory"])
def test_without_a_place_for_temporary_files_nothing_is_known(
    engine: Engine, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, name, partial(getattr(tempfile, name), dir=tmp_path / "gone"))
    with Sandbox(workers=1, engine=engine) as sandbox:
        done = sandbox.run(Program("print(1)"))
    assert done.status == "broken"
    assert "No such file or directory" in done.reason
