"""BigCodeBench: 1,140 tasks that take library calls, and the 148 hard ones; each asked by docstring or in words.

Fields as in the data set cards of bigcode/bigcodebench and bigcode/bigcodebench-hard. Prompts, length, temperature,
time and keys as in mlfoundations/evalchemy (eval/chat_benchmarks/BigCodeBench), which asks all four ways in one
benchmark; prompts without the indentation of its source, as in bigcodebench/provider/utility.py of
bigcode-project/bigcodebench.

Incomplete answers are completed with code_prompt, which bigcodebench (`calibrate`) puts before every answer. A task
whose library the sandbox's Python lacks is unscored. Network, displays and browsers are not available.

The code and the item's unittest class share the module `__test__` with `os`, `sys` and `environ`, as in
bigcodebench/eval/__init__.py, behind evalchemy's usual imports (evaluation.py). Unlike there, only tests that their
author marks may be skipped, and builtins and `unittest` are restored before the tests in case the code patched them: a
guard against tricks, and no proof against all of them.
"""

from __future__ import annotations

import ast
import logging
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, cast

from pydantic import JsonValue

from tasks.evaluation.benchmarks.base import CodeBenchmark, Summary, Tools, explain_missing
from tasks.evaluation.evaluation_records import Item, Sample, Sampling
from tasks.evaluation.running.benchmark_data import DataFile, Row
from tasks.grading.code.code_extraction import complete_program, extract_code, put_before
from tasks.grading.code.code_grading import Verdict, verdict_of
from tasks.sandbox import Limits, Program, Sandbox

INSTRUCTION = (
    "Please provide a self-contained Python script that solves the following problem in a markdown code block:"
)
FIELDS = ("task_id", "code_prompt", "canonical_solution", "test", "entry_point")

log = logging.getLogger(__name__)

FAILING_SHARE = 0.1
"""Largest share of canonical solutions that may fail on this machine before the benchmark is refused."""

STANDARD, FOREIGN = "standard library", "third-party libraries"


class BigCodeBench(CodeBenchmark):
    """BigCodeBench in one of two sizes, asked in one of two ways; groups: standard library, third-party libraries."""

    sampling = Sampling(temperature=0.0, max_tokens=1280)
    format_checked_only = True

    def __init__(self, name: str, *, split: Literal["instruct", "complete"], hard: bool) -> None:
        super().__init__()
        self.name = name
        self.split = split
        self.key = f"{split}-hard" if hard else split
        manner = "in words" if split == "instruct" else "by a signature with a docstring"
        self.summary = (
            f"{'148 hard' if hard else '1,140'} tasks that take library calls, asked {manner}; needs the libraries"
        )
        self.files = (
            DataFile(
                file="bigcodebench_hard.jsonl" if hard else "bigcodebench.jsonl",
                also=(f"BigCodeBench-{self.key}.json",),  # each of evalchemy's four has one of the prompts as `prompt`
                hub="bigcode/bigcodebench-hard" if hard else "bigcode/bigcodebench",
                split="v0.1.3",
            ),
        )

    def read_row(self, row: Row) -> Iterator[Item]:
        """Yield the task of a row, grouped by whether it needs libraries beyond those of Python."""
        task_id, code_prompt, solution, test, entry_point = (row.text(name) for name in FIELDS)
        if "class TestCases" not in test:
            row.unusable("test: there is no class TestCases in it")
        own_prompt = f"{self.split}_prompt"
        problem = row.text(own_prompt if own_prompt in row else "prompt").strip()
        problem_text = f"```\n{problem}\n```" if self.split == "complete" else problem
        libraries = find_libraries(row)
        yield Item(
            id=task_id,
            prompts=(f"{INSTRUCTION}\n{problem_text}\n",),
            gold=solution,
            # by the libraries of this Python: a label only
            group=STANDARD if set(libraries) <= sys.stdlib_module_names else FOREIGN,
            detail={
                "entry_point": entry_point,
                "libraries": list[JsonValue](libraries),
                "code_prompt": code_prompt,
                "test": test,
            },
        )

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        """Return the verdict of the task's unit tests on the code of an answer."""
        code = extract_code(answer, "python", str(item.detail["entry_point"]))
        code_prompt, entry_point, test = (str(item.detail[name]) for name in ("code_prompt", "entry_point", "test"))
        return verdict_of(
            sandbox.run(build_program(complete_program(code_prompt, code, entry_point, "python"), test)), code
        )

    def gold_response(self, item: Item) -> str | None:
        return f"```python\n{item.detail['code_prompt']}{item.gold}\n```"

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """Return pass@k under evalchemy's keys too."""
        summary = super().summarise(samples)
        keyed = {f"{self.key}_{name}": value for name, value in summary.metrics.items() if name.startswith("pass@")}
        return summary._replace(metrics={**keyed, **summary.metrics})

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """Yield the problems of those tasks whose libraries are there.

        A few canonical solutions may fail, as in bigcodebench itself: up to FAILING_SHARE of them are logged only.
        """
        problems = list(super().check(items, tools))
        if len(problems) > FAILING_SHARE * len(items) or len(self.find_unscorable(items, tools)) == len(items):
            yield from problems
        for problem in problems:
            log.warning("canonical solution fails benchmark=%s %s", self.name, problem)

    def why_unscorable(self, item: Item, sandbox: Sandbox) -> str | None:
        # before the code runs: a failed import would be graded as wrong
        return explain_missing(cast("list[str]", item.detail["libraries"]), sandbox)


def find_libraries(row: Row) -> list[str]:
    """Return the top-level modules in an item's `libs` and, if it parses, its code, sorted. Raises DataUnusable."""
    libs = row.get("libs", [])
    try:  # the text of a Python list
        names = ast.literal_eval(libs) if isinstance(libs, str) else libs
    except (ValueError, SyntaxError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in cast("list[object]", names)):
        row.unusable(f"libs: expected a list of names such as \"['json', 'pandas']\", found {libs!r:.80}")
    modules = list(cast("list[str]", names))
    try:
        with warnings.catch_warnings(action="ignore"):  # of escapes such as "\d"
            nodes = list(ast.walk(ast.parse(f"{row['code_prompt']}{row['canonical_solution']}\n{row['test']}")))
    except (SyntaxError, ValueError, RecursionError):  # it is not Python
        nodes = []
    for node in nodes:
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.append(node.module)
    return sorted({name.partition(".")[0] for name in modules})


BENCHMARKS = (
    BigCodeBench("BigCodeBench", split="instruct", hard=False),
    BigCodeBench("BigCodeBenchComplete", split="complete", hard=False),
    BigCodeBench("BigCodeBenchHard", split="instruct", hard=True),
    BigCodeBench("BigCodeBenchHardComplete", split="complete", hard=True),
)


MIB = 1024**2
LIMITS = Limits(cpu_s=120, wall_s=120, memory_bytes=8192 * MIB, file_bytes=256 * MIB, processes=256)
"""Time as in evalchemy, which limits nothing else; bigcodebench allows 30 GiB of memory."""

PRELUDE = """\
import os, sys
from os import environ
import collections, copy, datetime, functools, hashlib, heapq, itertools, math, re, string
from typing import *
from collections import *
"""
NUMPY = """\
try:
    import numpy, numpy as np
except ImportError:
    pass
"""
MENTIONS_NUMPY = re.compile(r"\b(?:np|numpy)\b")

RUNNER = """\
import sys

folders = sys.path[:]
sys.path[:] = [folder for folder in folders if folder.startswith("/") and not folder.startswith("/tmp")]
for name in [name for name in sys.modules if name.partition(".")[0] == "unittest"]:
    del sys.modules[name]
import unittest
import unittest.mock

sys.path[:] = folders
names = vars(sys.modules["__test__"])
builtins = __builtins__["len"].__self__
vars(builtins).update(__builtins__)
sys.modules["builtins"] = names["__builtins__"] = builtins
exec(compile(TEST, "<tests>", "exec", dont_inherit=True), names)
suite = unittest.TestLoader().loadTestsFromTestCase(names["TestCases"])
total = suite.countTestCases()
if not total:
    raise AssertionError("there is no test in TestCases")
result = unittest.TestResult()
suite.run(result)

def marked(test):
    method = getattr(test, getattr(test, "_testMethodName", ""), None)
    return getattr(test, "__unittest_skip__", False) or getattr(method, "__unittest_skip__", False)

failed = {}
for test, trace in result.failures + result.errors:
    failed.setdefault(test.id().rpartition("TestCases.")[2], trace)
for test, why in result.skipped:
    if not marked(test):
        failed.setdefault(test.id().rpartition("TestCases.")[2], "skipped: " + why)
for test in result.unexpectedSuccesses:
    failed.setdefault(test.id().rpartition("TestCases.")[2], "passed, and was expected to fail")
for name, trace in sorted(failed.items()):
    print(name, trace, sep=": ", file=sys.stderr)
if failed:
    raise AssertionError("%d of %d tests: %s" % (len(failed), total, ", ".join(sorted(failed))))
"""


def build_program(code: str, test: str) -> Program:
    """Return the program that tests `code` by the class TestCases in `test`, and names failing tests on stderr."""
    numpy = NUMPY if MENTIONS_NUMPY.search(code) else ""
    # the runner has names of its own: those of the program may hide builtins
    runner = f'__builtins__["exec"]({RUNNER!r}, {{"__builtins__": __builtins__, "TEST": {test!r}}})'
    return Program(put_before(PRELUDE + numpy, code), tests=runner, limits=LIMITS)
