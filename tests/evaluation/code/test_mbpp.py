"""MBPP and MBPP+ on items of our own and on the published ones: the prompt, what passes, and what does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from tasks.evaluation.benchmarks.base import Tools
from tasks.evaluation.benchmarks.code.mbpp import BENCHMARKS
from tasks.evaluation.evaluation_records import Reply, Response, Sample
from tasks.evaluation.running.benchmark_data import Data
from tasks.sandbox import Execution, Program, Sandbox
from tests.evaluation.code.answered import graded

SAMPLES = Path(__file__).parents[2] / "samples" / "benchmarks"
BENCHMARK, PLUS = BENCHMARKS
ITEMS = list(BENCHMARK.items(Data(SAMPLES)))
RIGHT = "def swap_ends(word):\n    return word[-1:] + word[1:-1] + word[:1] if len(word) > 1 else word"
PROMPT = (Path(__file__).parents[2] / "samples" / "programs" / "mbpp_prompt.txt").read_text("utf-8")


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def test_the_prompt_shows_three_solved_problems() -> None:
    assert ITEMS[0].prompts == (PROMPT,)


def test_canonical_solutions_pass(tools: Tools) -> None:
    assert list(BENCHMARK.check(ITEMS, tools)) == []


def test_the_setup_of_the_tests_stands_behind_the_solution(tools: Tools) -> None:
    (item,) = [item for item in ITEMS if item.id == "14"]
    assert str(item.detail["tests"]).startswith("north = Station('Ash')")
    own = "class Station:\n    def __init__(self, name): self.after = None\n"
    count = "def count_stations(first):\n    return 1 + count_stations(first.after) if first else 0"
    samples = graded(BENCHMARK, [item], {"14": own + count}, tools), graded(BENCHMARK, [item], {"14": count}, tools)
    assert [sample["14"].score for sample in samples] == [1.0, 0.0]
    assert samples[1]["14"].reason.startswith("NameError")


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        (f"Here it is:\n```python\n{RIGHT}\n```\nIt swaps.", 1.0),
        (RIGHT, 1.0),
        (f"{RIGHT}\nif __name__ == '__main__':\n    swap_ends(input())", 1.0),
        ("<think>```python\nno\n```</think>\n```python\n" + RIGHT + "\n```", 1.0),
        ("```python\ndef swap_ends(word):\n    return word[::-1]\n```", 0.0),
        ("```python\nraise SystemExit\n```", 0.0),
        ("```python\nimport os\nos._exit(0)\n```", 0.0),
        ("I do not know.", 0.0),
    ],
    ids=["fenced", "bare", "with a main", "behind a thought", "wrong", "exits", "exits hard", "prose"],
)
def test_the_asserts_decide(answer: str, score: float, tools: Tools) -> None:
    assert graded(BENCHMARK, ITEMS[:1], {"11": answer}, tools)["11"].score == score


def test_figures_carry_evalchemys_names(tools: Tools) -> None:
    answers = {"11": RIGHT, "12": "```python\npass\n```", "13": "<think>never closed", "14": ""}
    metrics = BENCHMARK.summarise(graded(BENCHMARK, ITEMS, answers, tools).values()).metrics
    assert metrics["pass@1"] == 0.25
    assert (metrics["num_examples"], metrics["completion_rate"]) == (2, 0.5)


@pytest.mark.shared
def test_of_the_published_problems_all_solutions_pass(shared: Path, tools: Tools) -> None:
    items = list(BENCHMARK.items(Data(shared / "benchmarks")))
    assert [item.id for item in items] == [str(number) for number in range(11, 511)]
    right = graded(BENCHMARK, items, {item.id: str(BENCHMARK.gold_response(item)) for item in items}, tools)
    assert passed(right) == 500


def passed(samples: dict[str, Sample]) -> int:
    return sum(sample.score == 1 for sample in samples.values())


PLUS_ITEMS = list(PLUS.items(Data(SAMPLES)))
PLUS_BY_ID = {item.id: item for item in PLUS_ITEMS}


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


def shown(item: str) -> list[str]:
    """The problems in a prompt, by the first words that only one has."""
    words = {"bounds": "clip", "each letter": "run_lengths", "harmonic": "harmonic_mean", "friends": "common_friends"}
    words |= {"by a quarter": "turn", "by halving": "root_near"}
    asked = [part for part in PLUS_BY_ID[item].prompts[0].split("\n") if part.startswith("Write a function")]
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
    assert PLUS_BY_ID["21"].prompts[0].endswith(f"\n\nHere is my problem:\n{asked}")
    assert "```python\n\nfrom itertools import groupby\ndef run_lengths(text):" in PLUS_BY_ID["21"].prompts[0]


def test_of_plus_canonical_solutions_pass(tools: Tools) -> None:
    assert list(PLUS.check(PLUS_ITEMS, tools)) == []


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
    assert graded(PLUS, PLUS_ITEMS, {item: f"```python\n{answer}\n```"}, tools)[item].score == score


def test_a_program_has_three_seconds_and_a_slow_problem_more() -> None:
    sandbox = Noting()
    for item in (PLUS_BY_ID["21"], PLUS_BY_ID["21"].model_copy(update={"id": "255"})):
        PLUS.try_out(item, "x = 1", cast("Sandbox", sandbox))
    assert [program.limits.cpu_s for program in sandbox.programs] == [3.0, 120.0]
    assert all(program.limits.wall_s > program.limits.cpu_s for program in sandbox.programs)


def test_without_numpy_nothing_is_known() -> None:
    sandbox = Noting(numpy=False)
    response = Response(item=PLUS_ITEMS[0].id, turns=(Reply(text="x = 1"),))
    sample = PLUS.sample(PLUS_ITEMS[0], response, cast("Sandbox", sandbox))
    assert (sample.status, sample.score, sandbox.programs) == ("unscored", None, [])
    assert sample.reason.startswith("library numpy is not in the sandbox's Python")
