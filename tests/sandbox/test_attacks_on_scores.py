"""Programs that are wrong and want to pass: none does.

Engines have no part in it, so one is enough.
"""

from __future__ import annotations

import pytest

from tasks.sandbox import Program
from tests.sandbox.attacking import PROGRAMS, SMALL, Arena

FAIR = SMALL._replace(open_files=256)
"""So many that the descriptors of the harness can be replaced."""
WRONG = "def answer(): return 41\n"
TESTS = "assert answer() == 42"
OVERALL = "import math\nassert all([answer() == 42]), 'all'\nassert not any([answer() == 41]), 'any'\n" + TESTS
"""Tests that use builtins too."""


@pytest.mark.parametrize("source", PROGRAMS["exits"].values(), ids=PROGRAMS["exits"])
def test_an_exit_before_the_tests_are_through_is_no_pass(any_arena: Arena, source: str):
    done = any_arena.attack(WRONG + source, tests=TESTS, status="unfinished", reason=None, limits=FAIR)
    assert (done.passed, done.exit_code) == (False, 0)


@pytest.mark.parametrize("tests", [TESTS, OVERALL], ids=["compared", "by builtins"])
@pytest.mark.parametrize("source", PROGRAMS["deceits"].values(), ids=PROGRAMS["deceits"])
def test_a_wrong_program_does_not_pass_by_deceit(any_arena: Arena, source: str, tests: str):
    with any_arena.unharmed():
        done = any_arena.sandbox.run(Program(f"import os\n{WRONG}{source}", tests=tests, limits=FAIR))
    assert done.status in ("failed", "unfinished", "memory"), done


@pytest.mark.parametrize("source", PROGRAMS["searches"].values(), ids=PROGRAMS["searches"])
def test_the_token_that_ends_the_tests_is_not_found(any_arena: Arena, source: str):
    with any_arena.unharmed():
        done = any_arena.sandbox.run(Program(f"import os\n{WRONG}{source}", tests=TESTS, limits=FAIR))
    assert (done.status, done.reason) == ("failed", "AssertionError"), done


@pytest.mark.xfail(reason="tests run in the program's own interpreter, see sandbox_pool.py")
@pytest.mark.parametrize("source", PROGRAMS["possible"].values(), ids=PROGRAMS["possible"])
def test_what_a_program_can_do_to_its_tests_is_known(any_arena: Arena, source: str):
    with any_arena.unharmed():
        done = any_arena.sandbox.run(Program(f"import os\n{WRONG}{source}", tests=TESTS, limits=FAIR))
    assert not done.passed, done


def test_without_deceit_a_right_program_passes_the_same_tests(any_arena: Arena):
    with any_arena.unharmed():
        done = [
            any_arena.sandbox.run(Program("def answer(): return 42", tests=tests, limits=SMALL))
            for tests in (TESTS, OVERALL)
        ]
    assert [each.status for each in done] == ["ok", "ok"]


def test_what_a_program_prints_decides_nothing_and_is_only_handed_on(any_arena: Arena):
    with any_arena.unharmed():
        done = any_arena.sandbox.run(Program("print('passed')\nraise SystemExit(3)", limits=SMALL))
    assert (done.status, done.exit_code, done.stdout) == ("failed", 3, "passed\n")
