"""HumanEval+: HumanEval with many more tests.

HumanEvalPlus.jsonl of evalplus/evalplus (evalplus/data/humaneval.py): task_id, prompt, contract, entry_point,
canonical_solution, base_input (of HumanEval), plus_input, atol; outputs are compared with those of the canonical
solution. The hub's evalplus/humanevalplus has `test` instead and does not distinguish base and plus, nor does
mlfoundations/evalchemy (eval/chat_benchmarks/HumanEvalPlus), whose prompt and 1,024 tokens these are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

from pydantic import JsonValue

from tasks.evaluation.benchmarks import fields
from tasks.evaluation.benchmarks.base import CodeBenchmark, Summary
from tasks.evaluation.benchmarks.code.humaneval import (
    INSTRUCT,
    canonical_answer,
    python_answer,
    python_item,
    try_python,
)
from tasks.evaluation.evaluation_records import Item, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data, DataFile, Row
from tasks.grading.code.code_extraction import code_in, completed
from tasks.grading.code.code_grading import USUAL_KS, Part, Verdict, verdict_of
from tasks.sandbox import Limits, Program, Sandbox
from tasks.sandbox.sandbox_records import MIB

PLUS = DataFile(
    file="HumanEvalPlus.jsonl",
    hub="evalplus/humanevalplus",
    hub_split="test",
    get="Base and plus are told apart in HumanEvalPlus.jsonl.gz of github.com/evalplus/humanevalplus_release.",
)
KINDS = ("base", "plus")
LIMITS = Limits(cpu_s=20.0, wall_s=60.0, memory_bytes=4096 * MIB)
"""Memory as evalplus allows (evalplus/eval/__init__.py); some inputs are lists of a million, and each is used twice."""
SCRIPT = """\
import json

def _numbers(value):
    if isinstance(value, (list, tuple)):
        return all(_numbers(one) for one in value)
    return isinstance(value, (int, float))

def _near(found, right, atol):
    if isinstance(right, (list, tuple)):
        alike = isinstance(found, (list, tuple)) and len(found) == len(right)
        return alike and all(_near(one, other, atol) for one, other in zip(found, right))
    if found == right or (found != found and right != right):
        return True
    return abs(found - right) <= atol + 1e-7 * abs(right)

def _is_floats(value):
    return isinstance(value, float) or (
        isinstance(value, (list, tuple)) and all(isinstance(one, float) for one in value)
    )

def _right(found, right, given, atol):
    if {entry_point!r} == "find_zero":  # any root will do
        return abs(sum(factor * found**power for power, factor in enumerate(given[0]))) <= atol
    if found == right:
        return True
    atol = 1e-6 if atol == 0 and _is_floats(right) else atol
    alike = type(found) is type(right) and _numbers(found) and _numbers(right)
    return atol != 0 and alike and _near(found, right, atol)

def _check(candidate, inputs, atol):
    names = {{"__name__": "__canonical__"}}
    exec({canonical!r}, names)
    for number, given in enumerate(json.loads(inputs)):
        right = names[{entry_point!r}](*json.loads(json.dumps(given)))
        found = candidate(*json.loads(json.dumps(given)))
        assert _right(found, right, given, atol), f"input {{number}}"

_check({entry_point}, {inputs!r}, {atol!r})
"""
"""Exact, or near where the right output is of floats or the item has a tolerance. The rule is evalplus's, and so is
find_zero's (unsafe_execute in evalplus/eval/__init__.py; rtol is numpy's)."""


class HumanEvalPlus(CodeBenchmark):
    """A sample is right when it passes base and plus; `base_pass@k` is of base alone, where the data tells it apart."""

    name = "HumanEvalPlus"
    summary = "HumanEval with some 80 times the tests, in Python"
    files = (PLUS,)
    sampling = Sampling(temperature=0.0, max_tokens=1024)
    format_checked_only = True

    def items(self, data: Data) -> Iterator[Item]:
        return (_item(row) for row in data.rows(PLUS))

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        return (try_python if "test" in item.detail else try_inputs)(item, answer, sandbox, LIMITS)

    def gold_response(self, item: Item) -> str | None:
        return canonical_answer(item)

    def empty_response(self, item: Item) -> str | None:
        return python_answer(item, "    pass\n")

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """As in the base class, with `base_pass@k`."""
        base = dict[str, list[float]]()
        summary = super().summarise(_noting_base(samples, base))
        named = [
            one.model_copy(update={"metric": f"base_{one.metric}", "part": ""})
            for _, one in Part("base_", "base", base).passes(sorted({1, *(self.ks or USUAL_KS)}))
        ]
        metrics: dict[str, JsonValue] = {one.metric: one.value for one in named}
        return summary._replace(metrics=summary.metrics | metrics, estimates=(*summary.estimates, *named))


def try_inputs(item: Item, answer: str, sandbox: Sandbox, limits: Limits) -> Verdict:
    """Call the function with HumanEval's inputs and, when it passes, with evalplus's."""
    code = code_in(answer, "python")
    detail, entry_point = item.detail, str(item.detail["entry_point"])
    source = completed(str(detail["prompt"]), code, entry_point, "python")
    passed = dict.fromkeys(KINDS, 0.0)
    verdict = Verdict(None, "it was not tried", code)
    for kind in KINDS:
        tests = SCRIPT.format(
            entry_point=entry_point,
            canonical=f"{detail['prompt']}{item.gold}",
            inputs=detail[f"{kind}_input"],
            atol=detail["atol"],
        )
        verdict = verdict_of(sandbox.run(Program(source, tests=tests, limits=limits)), code)
        if not verdict.score:
            return verdict._replace(reason=f"{kind}: {verdict.reason}", values={} if verdict.score is None else passed)
        passed[kind] = verdict.score
    return verdict._replace(values=passed)


def _item(row: Row) -> Item:
    shown = INSTRUCT.format(language="python", prompt=fields.text(row, "prompt").strip())
    if "test" in row:
        return python_item(row, shown)
    item = python_item(Row({"test": "-", **row}, file=row.file, line=row.line, number=row.number), shown)
    detail = {name: value for name, value in item.detail.items() if name != "test"}
    inputs: dict[str, JsonValue] = {f"{kind}_input": json.dumps(_inputs(row, f"{kind}_input")) for kind in KINDS}
    return item.model_copy(update={"detail": {**detail, **inputs, "atol": _tolerance(row)}})


def _inputs(row: Row, name: str) -> list[Any]:
    """The arguments of each call, in lists."""
    value = row.get(name)
    if not isinstance(value, list) or not all(isinstance(one, list) for one in cast("list[Any]", value)):
        row.unusable(f"`{name}` must be a list with a list of arguments for each call")
    return cast("list[Any]", value)


def _tolerance(row: Row) -> float:
    value = row.get("atol", 0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        row.unusable(f"`atol` must be a number, found {value!r}")
    return value


def _noting_base(samples: Iterable[Sample], base: dict[str, list[float]]) -> Iterator[Sample]:
    """The samples, passed on; `base` gets item → whether each passed HumanEval's own inputs, if these are distinct."""
    told = False
    for sample in samples:
        told = told or "base" in sample.values
        if sample.score is not None:
            base.setdefault(sample.item, []).append(sample.values.get("base", sample.score))
        yield sample
    if not told:
        base.clear()


BENCHMARK = HumanEvalPlus()
