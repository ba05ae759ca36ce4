"""What a zygote tells becomes a status and a reason. Frames are made by hand, as inside/runner.py sends them."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tasks.sandbox.bubblewrap import Engine
from tasks.sandbox.inside import Frame
from tasks.sandbox.sandbox_pool import Sandbox
from tasks.sandbox.sandbox_records import MIB, Execution, Limits, Program, SandboxUnavailable, read_outcome

LIMITS = Limits(cpu_s=2.5, wall_s=7.5, memory_bytes=256 * MIB, output_bytes=MIB // 2)
TESTED = Program("x = 1", tests="assert x == 1", limits=LIMITS)

PYTHON = """\
Traceback (most recent call last):
  File "<tests>", line 1, in <module>
  File "/tmp/work/main.py", line 3, in f
    raise ValueError("ValueError: it says")
"""
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
NODE_ASSERT = """\
node:assert:126
  throw new AssertionError(obj);
  ^

AssertionError [ERR_ASSERTION]: Values differ:

1 !== 2

    at Object.<anonymous> (/tmp/work/main.js:9:8) {
  generatedMessage: true,
  operator: 'strictEqual'
}

Node.js v20.19.0
"""


def exited(code: int) -> int:
    """The wait status of a process that ended with `code`; that of one that died of a signal is the signal."""
    return code << 8


def told(waited: int | None = 0, **changed: Any) -> dict[str, Any]:
    plain = {"waited": waited, "wall_s": 0.5, "cpu_s": 0.25, "compiled": True, "finished": True, "killed_for": ""}
    return plain | {"failed": "", **changed}


def of(
    fields: dict[str, Any],
    *,
    program: Program = TESTED,
    stdout: bytes = b"",
    stderr: str = "",
    marks_end: bool = True,
    killed_for_memory: int = 0,
    machine_was_full: bool = False,
) -> Execution:
    return read_outcome(
        program,
        Frame(fields, [stdout, stderr.encode()]),
        marks_end=marks_end,
        killed_for_memory=killed_for_memory,
        machine_was_full=machine_was_full,
    )


def said(done: Execution) -> tuple[str, int | None, str]:
    return done.status, done.exit_code, done.reason


def test_the_token_does_not_make_up_for_how_it_ended():
    assert said(of(told(exited(1), finished=True))) == ("failed", 1, "exit code 1")
    assert of(told(signal.SIGSEGV, finished=True)).status == "failed"


@pytest.mark.parametrize(
    ("stderr", "status", "reason"),
    [
        pytest.param("", "failed", "exit code 1", id="nothing was said"),
        pytest.param(f"{PYTHON}ValueError: no\n", "failed", "ValueError: no", id="Python"),
        pytest.param(f"{PYTHON}AssertionError\n", "failed", "AssertionError", id="Python, no message"),
        pytest.param(f"{PYTHON}StopIteration\n", "failed", "StopIteration", id="no name of an error"),
        pytest.param(f"{PYTHON}KeyError: 1\n{DURING}{PYTHON}LookupError: 2\n", "failed", "LookupError: 2", id="two"),
        pytest.param(f"{PYTHON}MemoryError\n", "memory", "MemoryError", id="memory"),
        pytest.param(f"{PYTHON}MemoryError\n{DURING}{PYTHON}KeyError: 2\n", "failed", "KeyError: 2", id="then another"),
        pytest.param(NODE_ASSERT, "failed", "AssertionError [ERR_ASSERTION]: Values differ:", id="Node.js, assert"),
        pytest.param("main.sh: line 3: x: not found\n", "failed", "main.sh: line 3: x: not found", id="Bash"),
    ],
)  # fmt: skip
def test_a_reason_is_the_last_error_that_was_written(stderr: str, status: str, reason: str):
    assert said(of(told(exited(1)), stderr=stderr)) == (status, 1, reason)


OVER_TIME = ("timeout", None, "it used more than 2.5 s of processor time")
OVER_MEMORY = ("memory", None, "it used more than 256 MiB")
NO_ROOM = ("broken", None, "the kernel killed it since this machine had no memory left")


@pytest.mark.parametrize(
    ("number", "cpu_s", "killed", "full", "expected"),
    [
        pytest.param(signal.SIGXCPU, 3.0, 0, False, OVER_TIME, id="processor time"),
        pytest.param(signal.SIGKILL, 3.0, 0, False, OVER_TIME, id="it ignored SIGXCPU"),
        pytest.param(signal.SIGKILL, 2.5, 0, False, OVER_TIME, id="exactly the limit"),
        pytest.param(signal.SIGKILL, 2.4, 0, False, ("failed", 137, "it died of SIGKILL"), id="killed early"),
        pytest.param(signal.SIGSEGV, 3.0, 0, False, ("failed", 139, "it died of SIGSEGV"), id="another signal, late"),
        pytest.param(signal.SIGKILL, 0.1, 1, False, OVER_MEMORY, id="its group was full"),
        pytest.param(signal.SIGKILL, 3.0, 2, False, OVER_MEMORY, id="its group was full, late"),
        pytest.param(signal.SIGKILL, 0.1, 1, True, OVER_MEMORY, id="its group and the machine were full"),
        pytest.param(signal.SIGKILL, 0.1, 0, True, NO_ROOM, id="the machine was full"),
        pytest.param(signal.SIGKILL, 3.0, 0, True, OVER_TIME, id="the machine was full, late"),
        pytest.param(signal.SIGSEGV, 0.1, 1, True, ("failed", 139, "it died of SIGSEGV"), id="a child was killed"),
    ],
)
def test_a_kill_is_told_apart_by_time_and_memory(
    number: int, cpu_s: float, killed: int, full: bool, expected: tuple[str, int | None, str]
):
    done = of(told(number, cpu_s=cpu_s), killed_for_memory=killed, machine_was_full=full)
    assert said(done) == expected


def test_a_source_has_half_of_the_room_for_files():
    limits = LIMITS._replace(file_bytes=8 * MIB)
    why = "its source has 4,194,305 characters; 4,194,304 are allowed, half of the files of a program"
    with Sandbox(workers=1, engine=Engine("/bin/false")) as sandbox:
        assert sandbox.run(Program("x" * (4 * MIB + 1), limits=limits)) == Execution("failed", reason=why)
        with pytest.raises(SandboxUnavailable):  # it fits, and is started
            sandbox.run(Program("x" * (4 * MIB), limits=limits))


def test_a_source_that_does_not_compile_has_failed_for_its_first_error():
    done = of(told(exited(1), compiled=False, finished=False), stderr="\n  main.cpp:1:5: error: no\nmore\n")
    assert said(done) == ("failed", 1, "it does not compile: main.cpp:1:5: error: no")


@pytest.mark.parametrize(
    ("killed", "full", "expected"),
    [
        (0, True, NO_ROOM),
        (1, True, ("failed", 137, "it does not compile: ")),
        (0, False, ("failed", 137, "it does not compile: ")),
    ],
    ids=["the machine was full", "its group was full", "it killed itself"],
)
def test_a_compiler_that_was_killed_says_something_only_where_the_machine_had_room(
    killed: int, full: bool, expected: tuple[str, int | None, str]
):
    done = of(told(signal.SIGKILL, compiled=False), killed_for_memory=killed, machine_was_full=full)
    assert said(done) == expected
