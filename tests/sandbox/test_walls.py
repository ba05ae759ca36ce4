"""What `trivet doctor --sandbox` says of walls: of those that stand, and of each that does not.

Where a wall has to be missing, either bubblewrap shows a folder too much, or nothing is executed at all and somebody
answers as a sandbox without that wall would.
"""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.sandbox import Execution, Program, Sandbox, walls
from tasks.sandbox.bubblewrap import Engine

HOME = Path.home()
KINDS = ("pid", "mnt", "net", "ipc", "uts")
NAMESPACES: dict[str, str] = dict.fromkeys(KINDS, "another")
SEEN = {
    "namespaces": NAMESPACES,
    "Uid": "1900000001\t1900000001",
    "CapEff": "0" * 16,
    "NoNewPrivs": "1",
    "Seccomp": "2",
}
Answer = Callable[[Program], Execution]


def passed(stdout: str = "") -> Execution:
    return Execution("ok", 0, stdout, "", 0.1, 0.1)


class Answering(Sandbox):
    """Executes nothing: of each program it says what `answer` does."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(workers=1, engine=Engine("bwrap", privileged=True))
        self.answer = answer

    def start(self) -> None:
        pass

    def run(self, program: Program) -> Execution:
        return self.answer(program)


def holds(program: Program) -> Execution:
    """As a sandbox does whose walls all stand."""
    source = program.source
    if source == walls.SELF_CHECK:
        return passed(json.dumps(SEEN))
    if "os.fork()" in source:
        return passed("7\n")
    if "bytearray" in source:
        return Execution("memory", 1, "", "", 0.1, 0.1, "MemoryError")
    if "still here" in source:
        return passed("still here\n")
    return Execution("failed", 1, "", "", 0.1, 0.1, "OSError: no")


def reaches_the_network(program: Program) -> Execution:
    if "create_connection" not in program.source:
        return holds(program)
    port = int(program.source.partition("'127.0.0.1', ")[2].partition(")")[0])
    socket.create_connection(("127.0.0.1", port)).close()
    return passed()


def where(part: str, answer: Execution) -> Answer:
    """A program with `part` in it is answered so, all others as where the walls stand."""
    return lambda program: answer if part in program.source else holds(program)


def sees(**changed: object) -> Answer:
    """What the kernel says of a program is another in this."""
    return lambda program: passed(json.dumps(SEEN | changed)) if program.source == walls.SELF_CHECK else holds(program)


def fallen(answer: Answer) -> list[tuple[str, str]]:
    return [(probe.name, probe.detail) for probe in walls.inspect_walls(Answering(answer)).probes if not probe.held]


@pytest.mark.parametrize(
    ("answer", "name", "detail"),
    [
        pytest.param(reaches_the_network, "network", "a listener of this machine was reached", id="network"),
        pytest.param(where("/etc/shadow", passed()), "reading /etc/shadow", "it can be read", id="shadow"),
        pytest.param(where("walls.py", passed()), f"reading {walls.__file__}", "it can be read", id="project"),
        pytest.param(where("listdir", passed(".ssh\nnotes\n")), f"reading {HOME}", "it can be read", id="home"),
        pytest.param(where("os.fork()", passed("8\n")), "processes", "8 children were allowed of 12", id="processes"),
        pytest.param(where("bytearray", passed("335544320\n")), "memory", "more than the limit was given", id="memory"),
        pytest.param(where("'wb'", passed("written\n")), "files", "more than the limit was written", id="files"),
        pytest.param(
            sees(namespaces=NAMESPACES | {"pid": str(Path("/proc/self/ns/pid").readlink())}),
            "pid namespace",
            "shared with this machine",
            id="namespace",
        ),
        pytest.param(sees(Uid="0\t0"), "user", "user 0", id="programs are root"),
        pytest.param(sees(CapEff="0000000000200000"), "capabilities", "0000000000200000", id="capabilities"),
        pytest.param(sees(NoNewPrivs="0"), "no new privileges", "not set", id="privileges"),
    ],
)  # fmt: skip
def test_a_wall_that_fell_is_named_with_what_happened(answer: Answer, name: str, detail: str):
    assert fallen(answer) == [(name, detail)]


def test_without_a_filter_there_is_a_hint_and_no_fall():
    found = walls.inspect_walls(Answering(sees(Seccomp="0")))
    assert found.ok
    assert "install libseccomp2" in {probe.name: probe.detail for probe in found.probes}["system calls"]


def test_what_kills_the_next_program_or_the_zygote_is_named():
    class Renewed(Answering):
        def pids(self) -> list[int]:
            return [next(numbers)]

    numbers = itertools.count(100)
    assert [name for name, _ in fallen(where("still here", Execution("broken", reason="the sandbox broke")))] == [
        "kill"
    ]
    assert [probe.name for probe in walls.inspect_walls(Renewed(holds)).probes if not probe.held] == ["kill"]


def test_behind_a_wall_that_fell_and_where_nothing_is_executed_nothing_is_tried():
    """A program that kills all it sees is harmless only where it sees nobody."""
    asked: list[str] = []

    def answer(program: Program) -> Execution:
        asked.append(program.source)
        return sees(Uid="0\t0")(program)

    assert fallen(answer) == [("user", "user 0")]
    assert asked == [walls.SELF_CHECK]
    assert fallen(lambda _: Execution("broken", reason="the sandbox broke: no room")) == [
        ("first program", "the sandbox broke: no room")
    ]
