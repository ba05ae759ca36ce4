"""MBPP+ on items of our own, in the schema that the hub has it in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tasks.evaluation.benchmarks.base import Tools
from tasks.evaluation.benchmarks.code.mbpp import BENCHMARKS
from tasks.evaluation.running.benchmark_data import Data
from tasks.sandbox import Execution, Program, Sandbox
from tests.evaluation.code.answered import graded, opened_tools

_, BENCHMARK = BENCHMARKS
SAMPLES = Path(__file__).parents[2] / "samples" / "benchmarks"
ITEMS = list(BENCHMARK.items(Data(SAMPLES)))
BY_ID = {item.id: item for item in ITEMS}


class Noting:
    """In the place of a sandbox: has NumPy or not, and notes what it is to execute."""

    def __init__(self, *, numpy: bool = True) -> None:
        self.numpy = numpy
        self.programs: list[Program] = []

    def run(self, program: Program) -> Execution:
        if "find_spec" in program.source:
            return Execution("ok", 0, "", "", 0.0, 0.0) if self.numpy else Execution("failed", 3, "", "", 0.0, 0.0)
        self.programs.append(program)
        return Execution("ok", 0, "", "", 0.0, 0.0)


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with opened_tools() as opened:
        yield opened


def shown(item: str) -> list[str]:
    """The problems in a prompt, by the first words that only one has."""
    words = {"bounds": "clip", "each letter": "run_lengths", "harmonic": "harmonic_mean", "friends": "common_friends"}
    words |= {"by a quarter": "turn", "by halving": "root_near"}
    asked = [part for part in BY_ID[item].prompts[0].split("\n") if part.startswith("Write a function")]
    return [name for question in asked for word, name in words.items() if word in question]


def test_the_prompt_is_that_of_mbpp_and_no_problem_is_its_own_example() -> None:
    examples = ["run_lengths", "harmonic_mean", "common_friends"]
    assert shown("21") == [*examples, "clip"]
    assert shown("26") == [*examples, "root_near"]
    assert shown("23") == ["run_lengths", "common_friends", "turn", "harmonic_mean"]
    asked = (
        ">>> Problem:\nWrite a function to keep a number between two bounds.\n>>> Test Cases:\n"
        "assert clip(5, 0, 3) == 3\nassert clip(-1, 0, 3) == 0\nassert clip(2, 0, 3) == 2\n"
    )
    assert BY_ID["21"].prompts[0].endswith(f"\n\nHere is my problem:\n{asked}")
    assert "```python\n\nfrom itertools import groupby\ndef run_lengths(text):" in BY_ID["21"].prompts[0]


def test_canonical_solutions_pass_and_empty_bodies_do_not(tools: Tools) -> None:
    assert list(BENCHMARK.check(ITEMS, tools)) == []
    assert len([item for item in ITEMS if BENCHMARK.empty_response(item)]) == len(ITEMS)


@pytest.mark.parametrize(
    ("item", "answer", "score"),
    [
        ("21", "def clip(number, low, high):\n    return min(max(number, low), high)", 1.0),
        ("21", "def clip(number, low, high):\n    return {5: 3, -1: 0}.get(number, number)", 0.0),  # the shown tests
        ("21", "clip = lambda number, low, high: sorted((low, number, high))[1]", 1.0),
        ("23", "def harmonic_mean(numbers):\n    return np.size(numbers) / math.fsum(1 / n for n in numbers)", 1.0),
        ("24", "def common_friends(first: Tuple, second: Tuple) -> Set:\n    return {*first} & {*second}", 1.0),
        ("22", "from __future__ import annotations\ndef run_lengths(t: List):\n    import itertools as i\n    return "
         "[(a, len([*b])) for a, b in i.groupby(t)]", 1.0),
        ("26", "def root_near(number, error):\n    return math.sqrt(number)", 1.0),
        ("26", "def root_near(number, error):\n    return number / 2", 0.0),
    ],
    ids=["right", "only what is shown", "lambda", "imports", "types", "future", "near", "far"],
)  # fmt: skip
def test_all_inputs_decide(item: str, answer: str, score: float, tools: Tools) -> None:
    assert graded(BENCHMARK, ITEMS, {item: f"```python\n{answer}\n```"}, tools)[item].score == score


def test_a_program_has_three_seconds_and_a_slow_problem_more() -> None:
    sandbox = Noting()
    for item in (BY_ID["21"], BY_ID["21"].model_copy(update={"id": "255"})):
        BENCHMARK.try_out(item, "x = 1", cast("Sandbox", sandbox))
    assert [program.limits.cpu_s for program in sandbox.programs] == [3.0, 120.0]
    assert all(program.limits.wall_s > program.limits.cpu_s for program in sandbox.programs)


def test_without_numpy_nothing_is_known() -> None:
    sandbox = Noting(numpy=False)
    verdict = BENCHMARK.try_out(ITEMS[0], "x = 1", cast("Sandbox", sandbox))
    assert (verdict.score, sandbox.programs) == (None, [])
    assert verdict.reason.startswith("library numpy is not in the sandbox's Python")
