"""Before a model's programs are scored, LiveCodeBench's own way is tried on problems of our own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.evaluation.benchmarks.base import Tools
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
