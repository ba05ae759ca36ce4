"""What counts as equal in LiveCodeBench, and the programs that are run, as far as no sandbox is needed."""

from __future__ import annotations

import pytest

from tasks.evaluation.benchmarks.code.livecodebench_tests import PRELUDE, other_output, other_value, program_of


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("5", "5\n"),
        ("  5  \n\n", "5"),
        ("1 2\r\n3\r\n", "1 2\n3"),
        ("2.50", "2.5"),
        ("1e3  7", "1000 7.0"),
        ("-0", "0"),
    ],
)
def test_outputs_that_count_as_equal(printed: str, expected: str) -> None:
    assert other_output(printed, expected) is None


@pytest.mark.parametrize(
    ("printed", "expected", "why"),
    [
        ("6", "5", "wrong answer in line 1: 6, expected 5"),
        ("5\n5", "5", "wrong answer: 2 lines, expected 1"),
        ("", "5", "wrong answer in line 1: , expected 5"),
        ("1  a", "1 a", "wrong answer in line 1: 1  a, expected 1 a"),
        ("yes", "YES", "wrong answer in line 1: yes, expected YES"),
        ("0.3333333333", "0.3333333334", "wrong answer in line 1"),
        ("nan", "5", "wrong answer in line 1"),
        ("a\0b", "5", "wrong answer in line 1: a\ufffdb, expected 5"),
    ],
)
def test_outputs_that_differ(printed: str, expected: str, why: str) -> None:
    assert (other_output(printed, expected) or "").startswith(why)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("\x1e3\n", "3"),
        ("noise \x1e9\n\x1e3\nmore noise", "3"),
        ("\x1e1.0\n", "1"),
        ('\x1e[["a", 1]]\n', '[["a",1]]'),
        ("\x1e" + "7" * 5000, "7" * 5000),
    ],
)
def test_values_that_are_equal(told: str, expected: str) -> None:
    assert other_value(told, expected) is None


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("\x1e3\n", "4"),
        ("", "3"),
        ("\x1e[1, 2]\n", "[2, 1]"),
        ("\x1eNaN\n", "NaN"),
        ("\x1e0.30000000000000004\n", "0.3"),
        ("\x1e" + "[" * 100_000, "[]"),
    ],
)
def test_values_that_differ(told: str, expected: str) -> None:
    assert (other_value(told, expected) or "").startswith("wrong answer: ")


def test_a_future_import_stays_first() -> None:
    source = program_of('"""Doc."""\nfrom __future__ import annotations\nprint(1)', None).source
    assert source == f'from __future__ import annotations\n{PRELUDE}\n"""Doc."""\nprint(1)'
