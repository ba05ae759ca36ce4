"""What `trivet doctor --sandbox` says of walls: of those that stand, and of each that does not.

Where a wall has to be missing, either an engine shows a folder too much, or nothing is executed at all and somebody
answers as a sandbox without that wall would.
"""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.sandbox import Execution, Program, Sandbox, walls
from tasks.sandbox.engines import Engine
from tasks.sandbox.languages import LANGUAGES
from tasks.sandbox.sandbox_errors import SandboxUnavailable
from tasks.sandbox.sandbox_layout import Layout
from tasks.sandbox.sandbox_records import MIB, broken
from tasks.sandbox.walls import Inspection, Probe, Seen
from tests.sandbox.attacking import watchdog

HOME = Path.home()
Answer = Callable[[Program], Execution]


def passed(stdout: str = "") -> Execution:
    return Execution("ok", 0, stdout, "", 0.1, 0.1, MIB)


def failed(reason: str) -> Execution:
    return Execution("failed", 1, "", "", 0.1, 0.1, MIB, reason)


class Answering(Sandbox):
    """Executes nothing: of each program it says what `answer` does."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(workers=1, engine=Engine("bubblewrap", privileged=True))
        self.answer = answer

    def run(self, program: Program) -> Execution:
        return self.answer(program)


def holds(program: Program) -> Execution:
    """As a sandbox does whose walls all stand."""
    source = program.source
    if "os.fork()" in source:
        return passed("7\n")
    if "bytearray" in source:
        return Execution("memory", 1, "", "", 0.1, 0.1, MIB, "MemoryError")
    if "still here" in source:
        return passed("still here\n")
    return failed("OSError: no")


def reaches_the_network(program: Program) -> Execution:
    if "create_connection" not in program.source:
        return holds(program)
    port = int(program.source.partition("'127.0.0.1', ")[2].partition(")")[0])
    socket.create_connection(("127.0.0.1", port)).close()
    return passed()


def where(part: str, answer: Execution) -> Answer:
    """A program with `part` in it is answered so, all others as where the walls stand."""
    return lambda program: answer if part in program.source else holds(program)


def inside(answer: Answer) -> list[Probe]:
    return list(walls._from_inside(Answering(answer)))  # pyright: ignore[reportPrivateUsage]


def fallen(answer: Answer) -> list[tuple[str, str]]:
    return [(probe.name, probe.detail) for probe in inside(answer) if not probe.held]


@pytest.fixture(scope="module")
def best() -> Iterator[Sandbox]:
    """The best engine of this machine, with one worker."""
    with Sandbox(workers=1) as sandbox:
        try:
            assert sandbox.engine
        except SandboxUnavailable as why:
            pytest.skip(str(why))
        with watchdog(sandbox):
            yield sandbox


@pytest.fixture(scope="module")
def inspection(best: Sandbox) -> Inspection:
    return walls.inspect(best)


def test_the_walls_of_this_machine_stand(inspection: Inspection):
    assert [probe for probe in inspection.probes if not probe.held] == []
    assert inspection.ok
    assert inspection.engine in ("bubblewrap", "namespaces")
    assert inspection.python == ".".join(map(str, sys.version_info[:3])) or "TRIVET_SANDBOX_PYTHON" in os.environ


def test_each_wall_is_told_of_once_in_this_order(inspection: Inspection):
    assert [probe.name for probe in inspection.probes] == [
        *(f"{kind} namespace" for kind in ("pid", "mnt", "net", "ipc", "uts")),
        "user",
        "capabilities",
        "no new privileges",
        "system calls",
        "network",
        "reading /etc/shadow",
        f"reading {walls.__file__}",
        f"reading {HOME}",
        "processes",
        "memory",
        "files",
        "kill",
    ]


def test_what_each_wall_did_is_told(inspection: Inspection):
    details = {probe.name: probe.detail for probe in inspection.probes}
    assert details["pid namespace"] == "its own"
    assert details["capabilities"] == "0" * 16
    assert details["no new privileges"] == "set"
    assert "Errno" in details["network"]
    assert details["reading /etc/shadow"].startswith(("FileNotFoundError", "PermissionError"))
    assert details[f"reading {walls.__file__}"].startswith("FileNotFoundError")
    assert details["processes"].endswith("children were allowed of 12")
    assert details["files"].startswith("OSError")


def test_languages_are_told_with_what_they_lack(inspection: Inspection):
    assert list(inspection.languages) == [language.name for language in LANGUAGES]
    assert inspection.languages["python"] is None


def test_looking_leaves_no_process(best: Sandbox):
    before = set(walls.descendants(best.pids()))
    walls.inspect(best)
    end = time.monotonic() + 20
    while not set(walls.descendants(best.pids())) <= before:  # the one that told of the last program ends behind it
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_program_is_seen_from_outside(best: Sandbox):
    seen = walls.seen_from_outside(best)
    assert seen.private == dict.fromkeys(("pid", "mnt", "net", "ipc", "uts"), True)
    assert seen.pid != os.getpid()
    assert seen.capabilities == 0
    assert (seen.uid == 0) is False


def test_an_engine_that_shows_too_much_is_found_out(best: Sandbox, tmp_path: Path):
    """Harmless: what it shows as /etc/shadow is a file of the test's own."""
    shadow = tmp_path / "shadow"
    shadow.write_text("nobody:*:1::::::\n")

    class Shows(Engine):
        def command(self, layout: Layout) -> list[str]:
            return super().command(layout._replace(readonly=(*layout.readonly, (str(shadow), "/etc/shadow"))))

    with Sandbox(workers=1, engine=Shows(*best.engine)) as sandbox, watchdog(sandbox):
        found = walls.inspect(sandbox)
    assert not found.ok
    fell = [probe for probe in found.probes if not probe.held]
    assert fell == [Probe("reading /etc/shadow", held=False, detail="it can be read")]


def test_where_all_stand_none_fell():
    assert fallen(holds) == []


@pytest.mark.parametrize(
    ("answer", "name", "detail"),
    [
        pytest.param(reaches_the_network, "network", "a listener of this machine was reached", id="network"),
        pytest.param(where("/etc/shadow", passed()), "reading /etc/shadow", "it can be read", id="shadow"),
        pytest.param(where("walls.py", passed()), f"reading {walls.__file__}", "it can be read", id="project"),
        pytest.param(where("listdir", passed(".ssh\nnotes\n")), f"reading {HOME}", "it can be read", id="home"),
        pytest.param(where("os.fork()", passed("12\n")), "processes", "12 children were allowed of 12", id="processes"),
        pytest.param(where("os.fork()", passed("8\n")), "processes", "8 children were allowed of 12", id="one more"),
        pytest.param(where("bytearray", passed("335544320\n")), "memory", "more than the limit was given", id="memory"),
        pytest.param(where("'wb'", passed("written\n")), "files", "more than the limit was written", id="files"),
    ],
)  # fmt: skip
def test_a_wall_that_fell_is_named_with_what_happened(answer: Answer, name: str, detail: str):
    assert fallen(answer) == [(name, detail)]


def test_a_program_that_kills_what_comes_next_is_named():
    assert [name for name, _ in fallen(where("still here", broken("the sandbox broke")))] == ["kill"]


def test_a_zygote_that_was_killed_is_not_hidden_by_the_one_that_follows():
    class Renewed(Answering):
        def pids(self) -> list[int]:
            return [next(numbers)]

    numbers = itertools.count(100)
    probes = walls._from_inside(Renewed(holds))  # pyright: ignore[reportPrivateUsage]
    assert [probe.name for probe in probes if not probe.held] == ["kill"]


def test_a_wall_is_not_said_to_hold_when_nothing_was_executed():
    assert not any(probe.held for probe in inside(lambda _: broken("the sandbox broke: no room")))


def test_of_a_home_the_way_to_the_interpreter_may_show(monkeypatch: pytest.MonkeyPatch):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:  # what is below /tmp is shown elsewhere
        prefix = Path(home, "my pythons", "3.12")
        (prefix / "lib").mkdir(parents=True)
        monkeypatch.setenv("HOME", home)
        monkeypatch.setattr(Answering, "python", Answering(holds).python._replace(prefix=str(prefix)))
        assert fallen(where("listdir", passed("my pythons\n"))) == []
        assert [name for name, _ in fallen(where("listdir", passed("my pythons\n.ssh\n")))] == [f"reading {home}"]


SEEN = Seen(
    pid=1,
    private=dict.fromkeys(walls.PRIVATE, True),
    uid=1_900_000_001,
    capabilities=0,
    no_new_privileges=True,
    filtered=True,
)


@pytest.mark.parametrize(
    ("seen", "root", "name", "detail"),
    [
        *(
            pytest.param(
                SEEN._replace(private={**SEEN.private, kind: False}),
                kind != "mnt",
                f"{kind} namespace",
                "shared with this machine",
                id=kind,
            )
            for kind in ("pid", "mnt", "net", "ipc", "uts")
        ),
        pytest.param(SEEN._replace(uid=0), True, "user", "user 0", id="programs are root"),
        pytest.param(SEEN._replace(capabilities=1 << 21), True, "capabilities", "0000000000200000", id="capabilities"),
        pytest.param(SEEN._replace(no_new_privileges=False), False, "no new privileges", "not set", id="privileges"),
    ],
)  # fmt: skip
def test_a_wall_that_is_not_seen_from_outside_is_named(
    monkeypatch: pytest.MonkeyPatch, seen: Seen, root: bool, name: str, detail: str
):
    monkeypatch.setattr(walls, "seen_from_outside", lambda _: seen)
    found = list(walls._from_outside(Answering(holds), root=root))  # pyright: ignore[reportPrivateUsage]
    assert [(probe.name, probe.detail) for probe in found if not probe.held] == [(name, detail)]


def test_behind_a_wall_that_fell_nothing_is_tried(monkeypatch: pytest.MonkeyPatch):
    """A program that kills all it sees is harmless only where it sees nobody."""
    asked: list[Program] = []

    def answer(program: Program) -> Execution:
        asked.append(program)
        return holds(program)

    monkeypatch.setattr(walls, "seen_from_outside", lambda _: SEEN._replace(private={**SEEN.private, "pid": False}))
    found = walls.inspect(Answering(answer))
    assert not found.ok
    assert asked == []


@pytest.mark.parametrize(
    ("seen", "root", "name", "detail"),
    [
        (SEEN, True, "user", "user 1900000001"),
        (SEEN._replace(uid=1000), False, "user", "user 1000, as whoever started it: there is no second one to be"),
        (SEEN, True, "system calls", "filtered"),
        (
            SEEN._replace(filtered=False),
            True,
            "system calls",
            "not filtered, so memory and files are bounded less: install libseccomp2, pyseccomp",
        ),
    ],
)
def test_what_a_user_cannot_have_is_said_and_is_no_fall(
    monkeypatch: pytest.MonkeyPatch, seen: Seen, root: bool, name: str, detail: str
):
    monkeypatch.setattr(walls, "seen_from_outside", lambda _: seen)
    found = list(walls._from_outside(Answering(holds), root=root))  # pyright: ignore[reportPrivateUsage]
    assert Probe(name, held=True, detail=detail) in found
    assert all(probe.held for probe in found)


def test_a_program_that_is_not_seen_is_no_wall_that_stands():
    found = walls.inspect(Answering(lambda program: holds(program) if "sleep(0.5)" not in program.source else passed()))
    assert not found.ok


def test_without_an_engine_there_is_nothing_to_inspect(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with Sandbox(workers=1) as sandbox, pytest.raises(SandboxUnavailable, match="it needs Linux"):
        walls.inspect(sandbox)


def test_descendants_are_found_through_generations():
    script = "sleep 600 & exec sh -c 'sleep 600 & echo ready; wait'"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout
            process.stdout.readline()
            found = walls.descendants([process.pid])
        finally:
            os.killpg(process.pid, 9)
    assert found[0] == process.pid
    assert len(found) == 3
    assert os.getpid() not in found
    assert walls.descendants([process.pid]) == [process.pid]
