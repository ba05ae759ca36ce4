"""Functions of LiveCodeBench: which one of a code is called, and what counts as the value that it returned."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.evaluation.benchmarks.code.livecodebench import BENCHMARKS
from tasks.evaluation.evaluation_records import Item
from tasks.evaluation.running.benchmark_data import Data
from tasks.sandbox import Sandbox
from tests.evaluation.code.answered import opened_tools

ASKED = BENCHMARKS[0]
BRIDGES = next(
    item for item in ASKED.items(Data(Path(__file__).parents[2] / "samples" / "benchmarks")) if item.id == "90003"
)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with opened_tools() as tools:
        assert tools.sandbox is not None
        yield tools.sandbox


def fenced(code: str) -> str:
    return f"```python\n{code}\n```"


def made(test: dict[str, str], function: str = "f") -> Item:
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
    assert ASKED.try_out(made(ADD_ONE), fenced(code), sandbox).score == right


def test_a_function_that_exits_has_returned_nothing(sandbox: Sandbox) -> None:
    found = ASKED.try_out(made(ADD_ONE), fenced("def f(x): sys.exit(1)"), sandbox)
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
    found = ASKED.try_out(BRIDGES, fenced(code), sandbox)
    assert (found.score, reason in found.reason) == (0, True), found


@pytest.mark.parametrize(
    "returned",
    ["(1, (2.0, True))", "[1, [2, 1]]", "[1.0, (2, 1)]"],
)
def test_tuples_are_lists_and_numbers_numbers(returned: str, sandbox: Sandbox) -> None:
    item = made({"input": "1", "output": "[1, [2, 1]]", "testtype": "functional"})
    assert ASKED.try_out(item, fenced(f"def f(x): return {returned}"), sandbox).score == 1
