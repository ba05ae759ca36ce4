"""Before a model's programs are scored, LiveCodeBench's own way is tried on problems of our own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.evaluation.benchmarks.base import Tools
from tasks.evaluation.benchmarks.code import livecodebench
from tasks.evaluation.benchmarks.code.livecodebench import BENCHMARKS, TRIALS, LiveCodeBench
from tasks.evaluation.running.benchmark_data import Data
from tests.evaluation.code.answered import opened_tools

DATA = Data(Path(__file__).parents[2] / "samples" / "benchmarks")
NAMES = [trial["row"]["question_title"] for trial in TRIALS]


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with opened_tools() as opened:
        yield opened


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda one: one.name)
def test_right_programs_pass_and_wrong_ones_do_not(benchmark: LiveCodeBench, tools: Tools) -> None:
    assert list(benchmark.check(list(benchmark.items(DATA)), tools)) == []


@pytest.mark.parametrize("number", range(len(TRIALS)), ids=NAMES)
def test_a_machine_that_grades_them_otherwise_is_said_to(
    number: int, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = TRIALS[number]
    monkeypatch.setattr(livecodebench, "TRIALS", [trial | {"right": trial["wrong"], "wrong": trial["right"]}])
    right, wrong = BENCHMARKS[0].check(list(BENCHMARKS[0].items(DATA)), tools)
    where = f"item trivet/{trial['row']['question_title']}, of our own: a"
    assert right.startswith(f"{where} right program does not pass (private test ")
    assert wrong.startswith(f"{where} wrong program is not graded as wrong (passed 3 tests)")
