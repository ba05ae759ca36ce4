"""LiveCodeBench on problems of our own in the published schema: which programs and functions pass, and which do not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.evaluation.benchmarks.base import Tools
from tasks.evaluation.benchmarks.code import livecodebench_tests as running
from tasks.evaluation.benchmarks.code.livecodebench import BENCHMARKS, LiveCodeBench
from tasks.evaluation.evaluation_records import Item, Reply, Response
from tasks.evaluation.running.benchmark_data import Data
from tasks.grading.code.code_grading import Verdict
from tasks.grading.math.math_grader import MathGrader
from tasks.sandbox import Execution, Program, Sandbox
from tasks.sandbox.sandbox_errors import SandboxUnavailable

PROGRAMS = Path(__file__).parents[2] / "samples" / "programs"
DATA = Data(Path(__file__).parents[2] / "samples" / "benchmarks")
V2, V5 = BENCHMARKS
SOLUTIONS: dict[str, str] = json.loads((PROGRAMS / "livecodebench_solutions.json").read_text("utf-8"))
FERRY = SOLUTIONS["ferry_a"]

PRIVATE = {"livecodebench_v2.jsonl": [3, 2, 3, 3, 3, 3], "livecodebench_v5.jsonl": [2, 3, 3]}
"""How many private tests each item has."""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=2) as sandbox:
        try:
            sandbox.start()
        except SandboxUnavailable as error:
            pytest.skip(str(error))
        yield sandbox


@pytest.fixture(scope="module")
def tools(sandbox: Sandbox) -> Iterator[Tools]:
    with MathGrader(workers=1) as math:
        yield Tools(math, sandbox=sandbox)


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
    for benchmark in BENCHMARKS:
        pairs = [
            (item, Response(item=item.id, turns=(Reply(text=fenced(SOLUTIONS[item.id])),)))
            for item in items_of(benchmark).values()
        ]
        samples = list(benchmark.grade(pairs, tools))
        assert [(sample.item, sample.score, sample.reason) for sample in samples] == [
            (item.id, 1.0, f"passed {len(json.loads(str(item.detail['public']))) + private} tests")
            for (item, _), private in zip(pairs, PRIVATE[benchmark.files[0].file], strict=True)
        ]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param("print(1)", "public test 1: wrong answer: 1 line, expected 3", id="wrong"),
        pytest.param("print('1\\n1\\n3')", "private test 1: wrong answer: 3 lines, expected 1", id="public only"),
        pytest.param(
            FERRY.replace("-(-int(q) // c)", "int(q) // c + (int(q) % c > 0) + (int(q) == 11)"),
            "private test 2: wrong answer in line 2: 3, expected 2",
            id="wrong on a private test only",
        ),
        pytest.param(f"{FERRY}\n1 / 0", "public test 1: ZeroDivisionError: division by zero", id="an error at the end"),
        pytest.param("def f(:", "public test 1: SyntaxError", id="no Python"),
        pytest.param(f"{FERRY}\ninput()", "public test 1: EOFError", id="reads beyond the end"),
        pytest.param(
            f"{FERRY}\nstdout.flush(); import os; os.kill(os.getpid(), 11)",
            "public test 1: it died of SIGSEGV",
            id="a signal",
        ),
    ],
)
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


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("import atexit\natexit.register(print, int(input()) + 1)", id="atexit"),
        pytest.param(
            "import threading\ndef main(): print(int(input()) + 1)\nthreading.Thread(target=main).start()",
            id="a thread",
        ),
        pytest.param("print(int(sys.stdin.buffer.readline()) + 1, end='')", id="bytes"),
        pytest.param("print(1 + next(map(int, open(0))))", id="open(0)"),
        pytest.param(
            "from __future__ import annotations\ndef f(x: Missing): return x + 1\nprint(f(int(input())))",
            id="future import",
        ),
        pytest.param("def main():\n    print(int(input()) + 1)\n\nif __name__ == '__main__':\n    main()", id="main"),
        pytest.param("print(deque([int(input())])[0] + pow(5, 0, 7) * len(Counter('a')) + gcd(0, 0))", id="prelude"),
    ],
)
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
        ("nowhere_to_be_had", None, "public test 1: the library nowhere_to_be_had is not to be had in the sandbox"),
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
HELPER = "def helper(x): return 0\n"


@pytest.mark.parametrize(
    ("code", "right"),
    [
        pytest.param("def f(x): return x + 1", True, id="its name"),
        pytest.param("f = lambda x: x + 1", True, id="a lambda"),
        pytest.param("class Solution:\n    def f(self, x): return x + 1", True, id="a method"),
        pytest.param("def answer(x): return x + 1", True, id="another name"),
        pytest.param("def answer(x): return helper(x) + 1\ndef helper(x): return x", True, id="the first of two"),
        pytest.param(f"{HELPER}def answer(x): return x + 1", False, id="a helper is the first"),
        pytest.param(
            "class Solution:\n    def __init__(self): self.one = 1\n    def answer(self, x): return x + self.one",
            True,
            id="the first method",
        ),
        pytest.param(
            "class Solution:\n    def answer(self, x): return x + 1\ndef main(x): return 0",
            True,
            id="a method goes before a function",
        ),
        pytest.param(
            "min = max = vars = isinstance = list = 0\ndef answer(x): return x + 1", True, id="builtins' names"
        ),
        pytest.param("class Node:\n    def f(self, x): return x + 1", False, id="another class"),
        pytest.param("x = 42", False, id="no function"),
    ],
)
def test_the_function_that_is_called(code: str, right: bool, sandbox: Sandbox) -> None:
    assert V2.try_out(called(ADD_ONE), fenced(code), sandbox).score == right


def test_a_function_that_exits_has_returned_nothing(sandbox: Sandbox) -> None:
    found = V2.try_out(called(ADD_ONE), fenced("def f(x): sys.exit(1)"), sandbox)
    assert (found.score, found.reason) == (0, "public test 1: exit code 1")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param("def fewestBridges(*a): return 2", "private test 1: wrong answer: 2, expected -1", id="constant"),
        pytest.param("def fewestBridges(*a): return {2}", "TypeError: the answer holds a set", id="a set"),
        pytest.param("def fewestBridges(*a): exit(0)", "it ended before its tests were through", id="exit"),
        pytest.param("print('\\x1e2')\nexit()", "it ended before its tests were through", id="forged and ended"),
        pytest.param(
            "import json\njson.dumps = lambda *a, **k: '2'\ndef fewestBridges(*a): return 7",
            "private test 1: wrong answer: 2, expected -1",
            id="patched json",
        ),
        pytest.param(
            "class Yes(int):\n    __eq__ = lambda *a: True\n    __hash__ = None\ndef fewestBridges(*a): return Yes(2)",
            "private test 1: wrong answer: 2, expected -1",
            id="equal to everything",
        ),
        pytest.param(
            "import atexit, os\natexit.register(lambda: os.write(1, b'\\x1e2\\n'))\ndef fewestBridges(*a): return 7",
            "public test 1: wrong answer: 7, expected 2",  # behind the tests nothing is called any more
            id="printed afterwards",
        ),
    ],
)
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


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda one: one.name)
def test_right_programs_pass_and_wrong_ones_do_not(benchmark: LiveCodeBench, tools: Tools) -> None:
    assert list(benchmark.check(list(benchmark.items(DATA)), tools)) == []
