"""The programs that `make demo` scores: which of them are right stands here, in three languages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.evaluation.benchmarks.base import Tools
from tasks.evaluation.benchmarks.code.humaneval import BENCHMARKS
from tasks.evaluation.running.benchmark_data import Data
from tasks.evaluation.running.replaying import read_recorded, recorded_responses
from tasks.sandbox.languages import find, unavailable
from tests.evaluation.code.answered import opened_tools

SAMPLES = Path(__file__).parents[2] / "samples"
PROGRAMS = SAMPLES / "recorded" / "code" / "HumanEval.jsonl"
RIGHT = {"python": [2, 1, 0, 1], "sh": [1, 1, 1], "js": [2, 1, 1]}
"""Language → how many of the two programs of each item."""


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with opened_tools() as opened:
        yield opened


@pytest.mark.parametrize("language", ["python", "sh", pytest.param("js", marks=pytest.mark.machine)])
def test_as_many_programs_of_the_demo_are_right_as_were_written_so(language: str, tools: Tools) -> None:
    if why := unavailable(find(language)):
        pytest.skip(why)
    benchmark = BENCHMARKS[0]
    items = {item.id: item for item in benchmark.items(Data(SAMPLES / "benchmarks"))}
    responses = recorded_responses(items.values(), read_recorded(PROGRAMS))
    of_language = [(items[one.item], one) for one in responses if items[one.item].group == language]
    samples = list(benchmark.grade(of_language, tools))
    assert {sample.status for sample in samples} == {"scored"}
    assert set(Counter(sample.item for sample in samples).values()) == {2}
    right = Counter[str]()
    for sample in samples:
        right[sample.item] += int(sample.score or 0)
    assert list(right.values()) == RIGHT[language]
