"""LiveCodeBench on problems of our own in the published schema: which programs and functions pass, and which do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.evaluation.benchmarks.base import REMEDY, Tools
from tasks.evaluation.benchmarks.code import contest_tests as running
from tasks.evaluation.benchmarks.code.contests import V2, V5, LiveCodeBench
from tasks.evaluation.evaluation_records import Item, Reply, Response
from tasks.evaluation.running.benchmark_data import Data
from tasks.grading.code.code_grading import Verdict
from tasks.sandbox import Execution, Program, Sandbox

PROGRAMS = Path(__file__).parents[2] / "samples" / "programs"
DATA = Data(Path(__file__).parents[2] / "samples" / "benchmarks")
SOLUTIONS: dict[str, str] = json.loads((PROGRAMS / "livecodebench_solutions.json").read_text("utf-8"))
FERRY = SOLUTIONS["ferry_a"]
CASES = json.loads((PROGRAMS / "livecodebench_programs.json").read_text("utf-8"))
"""Programs and functions, and what becomes of them."""

PRIVATE = {"livecodebench_v2.jsonl": [3, 2, 3, 3, 3, 3], "livecodebench_v5.jsonl": [2, 3, 3]}
"""How many private tests each item has."""


def items_of(benchmark: LiveCodeBench) -> dict[str, Item]:
    return {item.id: item for item in benchmark.items(DATA)}


def fenced(code: str) -> str:
    return f"This should do:\n```python\n{code}\n```"


def verdict(code: str, sandbox: Sandbox, item: str = "ferry_a") -> Verdict:
    return V2.try_out(items_of(V2)[item], fenced(code), sandbox)


def made(tests: list[dict[str, str]], **changed: Any) -> Item:
    """An item of stdin with these public tests and no private ones."""
    detail = {"function": None, "public": json.dumps(tests), "private": "[]"} | changed
    return Item(id="made", prompts=("?",), detail=detail)


def stdin(given: str, expected: str) -> dict[str, str]:
    return {"input": given, "output": expected, "testtype": "stdin"}


def test_right_solutions_pass_all_tests(tools: Tools) -> None:
    for benchmark in (V2, V5):
        pairs = [
            (item, Response(item=item.id, turns=(Reply(text=fenced(SOLUTIONS[item.id])),)))
            for item in items_of(benchmark).values()
        ]
        samples = list(benchmark.grade(pairs, tools))
        assert [(sample.item, sample.score, sample.reason) for sample in samples] == [
            (item.id, 1.0, f"passed {len(json.loads(str(item.detail['public']))) + private} tests")
            for (item, _), private in zip(pairs, PRIVATE[benchmark.files[0].file], strict=True)
        ]


@pytest.mark.parametrize(("code", "reason"), CASES["fails"].values(), ids=CASES["fails"])
def test_a_program_fails_and_the_reason_says_where(code: str, reason: str, sandbox: Sandbox) -> None:
    found = verdict(code, sandbox)
    assert found.score == 0
    assert found.reason.startswith(reason)


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param("exit()", id="exit"),
        pytest.param("sys.exit(0)", id="sys.exit"),
        pytest.param("sys.exit(1)", id="exit code"),
        pytest.param("stdout.flush(); import os; os._exit(0)", id="os._exit"),
        pytest.param("import sys; sys.stdout.close()", id="closes stdout"),
    ],
)
def test_a_program_may_end_as_it_likes(ending: str, sandbox: Sandbox) -> None:
    assert verdict(f"{FERRY}\n{ending}", sandbox).score == 1


@pytest.mark.parametrize("code", CASES["as the contest runs them"].values(), ids=CASES["as the contest runs them"])
def test_programs_are_run_as_the_contest_runs_them(code: str, sandbox: Sandbox) -> None:
    item = made([stdin("41\n", "42\n"), stdin("-1", "0")])
    assert V2.try_out(item, fenced(code), sandbox).reason == "passed 2 tests"


def test_deep_recursion_ends(sandbox: Sandbox) -> None:
    item = made([stdin("20000", "20000")])
    code = "def deep(n):\n    return n and deep(n - 1) + 1\nprint(deep(int(input())))"
    assert V2.try_out(item, fenced(code), sandbox).score == 1
    assert V2.try_out(item, fenced(f"sys.setrecursionlimit(10**6)\n{code}"), sandbox).score == 1


def test_a_program_that_never_ends_is_stopped(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LIMITS", running.LIMITS._replace(cpu_s=1, wall_s=60))
    assert verdict("while True: pass", sandbox).reason == "public test 1: it used more than 1 s of processor time"
    monkeypatch.setattr(running, "LIMITS", running.LIMITS._replace(wall_s=2))
    assert verdict("import time; time.sleep(99)", sandbox).reason == "public test 1: killed after 2 s"


def test_each_test_is_a_process_of_its_own(sandbox: Sandbox) -> None:
    code = "import os, pathlib\nprint(os.path.exists('seen'))\npathlib.Path('seen').touch()"
    assert V2.try_out(made([stdin("", "False"), stdin("", "False")]), fenced(code), sandbox).score == 1


@pytest.mark.parametrize(
    ("library", "score", "reason"),
    [
        ("nowhere_to_be_had", None, f"public test 1: library nowhere_to_be_had is not {REMEDY}"),
        ("json", 0, "public test 1: ModuleNotFoundError: No module named 'json'"),
    ],
)
def test_a_library_of_the_contests_that_is_really_lacking_leaves_a_program_unscored(
    library: str, score: float | None, reason: str, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "LIBRARIES", ("nowhere_to_be_had", "json"))
    found = verdict(f'raise ModuleNotFoundError("No module named {library!r}")', sandbox)
    assert (found.score, found.reason) == (score, reason)


class Broken(Sandbox):
    """A sandbox that could not run anything."""

    def run(self, program: Program) -> Execution:
        del program
        return Execution("broken", None, "", "", 0.0, 0.0, "out of pids")


def test_a_broken_sandbox_says_nothing_about_a_program() -> None:
    found = verdict(FERRY, Broken())
    assert (found.score, found.reason) == (None, "public test 1: sandbox: out of pids")


def called(test: dict[str, str], function: str = "f") -> Item:
    """An item whose function is to be called with this."""
    return Item(id="made", prompts=("?",), detail={"function": function, "public": json.dumps([test]), "private": "[]"})


ADD_ONE = {"input": "41", "output": "42", "testtype": "functional"}


@pytest.mark.parametrize(("code", "right"), CASES["called"].values(), ids=CASES["called"])
def test_the_function_that_is_called(code: str, right: bool, sandbox: Sandbox) -> None:
    assert V2.try_out(called(ADD_ONE), fenced(code), sandbox).score == right


def test_a_function_that_exits_has_returned_nothing(sandbox: Sandbox) -> None:
    found = V2.try_out(called(ADD_ONE), fenced("def f(x): sys.exit(1)"), sandbox)
    assert (found.score, found.reason) == (0, "public test 1: exit code 1")


@pytest.mark.parametrize(("code", "reason"), CASES["function fails"].values(), ids=CASES["function fails"])
def test_a_function_fails_and_no_trick_helps(code: str, reason: str, sandbox: Sandbox) -> None:
    found = V2.try_out(items_of(V2)["90003"], fenced(code), sandbox)
    assert (found.score, reason in found.reason) == (0, True), found


@pytest.mark.parametrize(
    "returned",
    ["(1, (2.0, True))", "[1, [2, 1]]", "[1.0, (2, 1)]"],
)
def test_tuples_are_lists_and_numbers_numbers(returned: str, sandbox: Sandbox) -> None:
    item = called({"input": "1", "output": "[1, [2, 1]]", "testtype": "functional"})
    assert V2.try_out(item, fenced(f"def f(x): return {returned}"), sandbox).score == 1


@pytest.mark.parametrize("benchmark", [V2, V5], ids=lambda one: one.name)
def test_right_programs_pass_and_wrong_ones_do_not(benchmark: LiveCodeBench, tools: Tools) -> None:
    assert list(benchmark.check(list(benchmark.items(DATA)), tools)) == []
