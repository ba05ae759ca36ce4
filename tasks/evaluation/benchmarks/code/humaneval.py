"""HumanEval and HumanEval+.

HumanEval: 164 functions of Python to complete, and their translations to Bash and JavaScript where they are there.

Python: fields as in openai/human-eval: task_id, prompt, entry_point, canonical_solution, test. The program is the
completed prompt, the item's tests, and `check(entry_point)`; lost indentation of a body is restored. Bash and
JavaScript: see `multipl_e`. Greedy, 1,024 tokens and 3 seconds as in mlfoundations/evalchemy
(eval/chat_benchmarks/HumanEval), but without its imports before each Python program.

HumanEval+: HumanEval with many more tests. HumanEvalPlus.jsonl of evalplus/evalplus (evalplus/data/humaneval.py):
task_id, prompt, contract, entry_point, canonical_solution, base_input (of HumanEval), plus_input, atol; outputs are
compared with those of the canonical solution. The hub's evalplus/humanevalplus has `test` instead and does not
distinguish base and plus, nor does mlfoundations/evalchemy (eval/chat_benchmarks/HumanEvalPlus), whose prompt and 1,024
tokens these are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from pydantic import JsonValue

from tasks.evaluation.benchmarks.base import CodeBenchmark, Summary, Tools
from tasks.evaluation.benchmarks.code.multipl_e import (
    empty_answer,
    missing_tools,
    own_answer,
    translated_item,
    try_translated,
)
from tasks.evaluation.evaluation_records import Item, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data, DataFile, Row
from tasks.grading.code.code_extraction import code_in, completed
from tasks.grading.code.code_grading import USUAL_KS, Part, Verdict, verdict_of
from tasks.sandbox import Limits, Program, Sandbox
from tasks.sandbox.sandbox_records import MIB

PYTHON = DataFile(
    file="HumanEval.jsonl",
    hub="openai/openai_humaneval",
    hub_split="test",
    get="It is data/HumanEval.jsonl.gz of github.com/openai/human-eval (MIT), and is read packed too.",
)
TRANSLATED = {
    "sh": ("Bash", DataFile(file="humaneval_sh.jsonl", optional=True)),
    "js": ("JavaScript", DataFile(file="humaneval_js.jsonl", optional=True)),
}
"""Extension → the language's name in prompts, and its file."""
PROMPT = "Please provide a {language} solution to the following problem:\n{prompt}"
INSTRUCT = (
    "Please continue to complete the function. You are not allowed to modify the given code and do the completion "
    "only. Please return all completed function in a codeblock. Here is the given code to do completion:\n"
    "```{language}\n{prompt}\n```"
)
"""Source: build_deepseekcoder_instruction of evalchemy's HumanEval; language in lower case, prompt stripped."""
LIMITS = Limits(cpu_s=3.0, wall_s=3.0)
"""The 3 seconds of human-eval and evalchemy."""


PLUS = DataFile(
    file="HumanEvalPlus.jsonl",
    hub="evalplus/humanevalplus",
    hub_split="test",
    get="Base and plus are told apart in HumanEvalPlus.jsonl.gz of github.com/evalplus/humanevalplus_release.",
)
KINDS = ("base", "plus")
PLUS_LIMITS = Limits(cpu_s=20.0, wall_s=60.0, memory_bytes=4096 * MIB)
"""Memory as evalplus allows (evalplus/eval/__init__.py); some inputs are lists of a million, and each is used twice."""
PLUS_SCRIPT = """\
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


class HumanEval(CodeBenchmark):
    """All three languages in one; groups are `python`, `sh` and `js`, and so begin the keys of the figures."""

    name = "HumanEval"
    version = 2
    summary = "164 functions to complete in Python; in Bash and JavaScript too where humaneval_sh, _js.jsonl are there"
    files = (PYTHON, *(file for _, file in TRANSLATED.values()))
    sampling = Sampling(temperature=0.0, max_tokens=1024)
    template = PROMPT

    def items(self, data: Data) -> Iterator[Item]:
        """The Python items, then those of each language whose file is in the folder."""
        yield from (python_item(row, self.shown("Python", row.text("prompt"))) for row in data.rows(PYTHON))
        for extension, (language, file) in TRANSLATED.items():
            for row in data.rows(file) if data.find(file) else ():
                yield translated_item(row, extension, self.shown(language, row.text("prompt")))

    def shown(self, language: str, prompt: str) -> str:
        """What the model sees."""
        return self.template.format(language=language, prompt=prompt)

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        if item.group in TRANSLATED:
            return try_translated(item, answer, sandbox, LIMITS)
        return try_python(item, answer, sandbox, LIMITS)

    def gold_response(self, item: Item) -> str | None:
        return own_answer(item) if item.group in TRANSLATED else canonical_answer(item)

    def empty_response(self, item: Item) -> str | None:
        return empty_answer(item) if item.group in TRANSLATED else python_answer(item, "    pass\n")

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """As in the base class, if the languages of the items can be run; else why they cannot."""
        missing = list(missing_tools(items))
        yield from missing or super().check(items, tools)


class HumanEvalInstruct(HumanEval):
    """With the words of evalchemy's."""

    name = "HumanEvalInstruct"
    summary = "HumanEval with evalchemy's instruction"
    template = INSTRUCT

    def shown(self, language: str, prompt: str) -> str:
        return self.template.format(language=language.lower(), prompt=prompt.strip())


def python_item(row: Row, shown: str) -> Item:
    """A row of openai/human-eval; `test` defines `check`. Raises DataUnusable."""
    names = ("prompt", "entry_point", "canonical_solution", "test")
    detail: dict[str, JsonValue] = {name: row.text(name) for name in names}
    gold = detail.pop("canonical_solution")
    detail["task_id"] = row.id
    return Item(id=row.id, prompts=(shown,), gold=gold, group="python", detail=detail)


def try_python(item: Item, answer: str, sandbox: Sandbox, limits: Limits) -> Verdict:
    """Execute what an answer makes of its prompt, and then `check` of it."""
    code = code_in(answer, "python")
    entry_point = str(item.detail["entry_point"])
    source = completed(str(item.detail["prompt"]), code, entry_point, "python")
    test, call = str(item.detail["test"]), f"check({entry_point})"
    tests = test if test.rstrip().endswith(f"\n{call}") else f"{test}\n\n{call}\n"
    return verdict_of(sandbox.run(Program(source, tests=tests, limits=limits)), code)


def canonical_answer(item: Item) -> str:
    """The data's own solution, as a model may give it."""
    return python_answer(item, str(item.gold))


def python_answer(item: Item, body: str) -> str:
    """The whole function with this body."""
    return f"```python\n{item.detail['prompt']}{body}```\n"


class HumanEvalPlus(CodeBenchmark):
    """A sample is right when it passes base and plus; `base_pass@k` is of base alone, where the data tells it apart."""

    name = "HumanEvalPlus"
    summary = "HumanEval with some 80 times the tests, in Python"
    files = (PLUS,)
    sampling = Sampling(temperature=0.0, max_tokens=1024)
    format_checked_only = True

    def items(self, data: Data) -> Iterator[Item]:
        return (_plus_item(row) for row in data.rows(PLUS))

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        return (try_python if "test" in item.detail else try_inputs)(item, answer, sandbox, PLUS_LIMITS)

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
        tests = PLUS_SCRIPT.format(
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


def _plus_item(row: Row) -> Item:
    shown = INSTRUCT.format(language="python", prompt=row.text("prompt").strip())
    if "test" in row:
        return python_item(row, shown)
    item = python_item(Row({"test": "-", **row}, file=row.file, line=row.line, number=row.number), shown)
    detail = {name: value for name, value in item.detail.items() if name != "test"}
    if isinstance(atol := row.get("atol", 0), bool) or not isinstance(atol, int | float):
        row.unusable(f"`atol` must be a number, found {atol!r}")
    inputs: dict[str, JsonValue] = {f"{kind}_input": json.dumps(_inputs(row, f"{kind}_input")) for kind in KINDS}
    return item.model_copy(update={"detail": {**detail, **inputs, "atol": atol}})


def _inputs(row: Row, name: str) -> list[Any]:
    """The arguments of each call, in lists."""
    value = row.get(name)
    if not isinstance(value, list) or not all(isinstance(one, list) for one in cast("list[Any]", value)):
        row.unusable(f"`{name}` must be a list with a list of arguments for each call")
    return cast("list[Any]", value)


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


BENCHMARKS = (HumanEval(), HumanEvalInstruct(), HumanEvalPlus())
