"""MBPP+: 378 corrected problems of MBPP, each with some hundred inputs and the outputs of a right solution.

Fields as in evalplus/mbppplus on the hub and in evalchemy's mbppplus.jsonl (eval/chat_benchmarks/MBPPPlus/
eval_instruct.py): task_id, prompt, code, test_list (shown in the prompt), test (a program that needs NumPy). Not
evalplus's MbppPlus.jsonl, whose JSON inputs must be converted problem by problem.

Prompt, length, greedy decoding, imports and three seconds per program are evalchemy's, with two changes: an example is
not shown in its own prompt, where the next problem replaces it; and a few problems, whose canonical solutions are
slow, have more time, as measured by marin-community/evalchemy (same file).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from tasks.evaluation.benchmarks.base import CodeBenchmark
from tasks.evaluation.benchmarks.code.bigcodebench_libraries import Libraries, reason_of
from tasks.evaluation.benchmarks.code.mbpp import SHOTS, emptied, fenced, few_shot, solved, unsolved
from tasks.evaluation.benchmarks.fields import distinct, text
from tasks.evaluation.evaluation_errors import DataUnusable
from tasks.evaluation.evaluation_records import Item, Sampling
from tasks.evaluation.running.benchmark_data import Data, DataFile, Row
from tasks.grading.code.code_extraction import code_in
from tasks.grading.code.code_grading import Verdict, verdict_of
from tasks.sandbox import Limits, Program, Sandbox

IMPORTS = "\n".join(
    (
        *(f"import {name}" for name in ("math", "re", "sys", "copy", "datetime", "itertools", "collections", "heapq")),
        *(f"import {name}" for name in ("functools", "hashlib", "numpy", "numpy as np", "string")),
        *(f"from {name} import *" for name in ("typing", "collections")),
    )
)
SECONDS = 3.0
LONGER = {"255": 120.0, "271": 30.0, "392": 30.0, "599": 30.0, "630": 30.0}
"""Seconds by problem."""
LIBRARIES = Libraries()
NUMPY = ("numpy",)


class MBPPPlus(CodeBenchmark):
    """A solution passes when it gives what is right for every input."""

    name = "MBPPPlus"
    summary = "378 problems of MBPP with many more tests (EvalPlus)"
    files = (
        DataFile(
            file="mbppplus.jsonl",
            hub="evalplus/mbppplus",
            hub_split="test",
            get="It is the hub's data set as JSON lines, not EvalPlus's own MbppPlus.jsonl.",
        ),
    )
    sampling = Sampling(temperature=0.0, max_tokens=1024)
    format_checked_only = True

    def items(self, data: Data) -> Iterator[Item]:
        (file,) = self.files
        first = [_checked(row) for row in islice(data.rows(file), SHOTS.stop + 1)]
        if len(first) < SHOTS.stop + 1:
            raise DataUnusable(
                f"{file.file}: {len(first)} problems; expected {SHOTS.stop + 1} or more for the examples"
            )
        examples = [(row.id, solved(row)) for row in first[SHOTS.start :]]
        return (_item(_checked(row), examples) for row in distinct(data.rows(file)))

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        code = code_in(answer, "python")
        if LIBRARIES.missing(NUMPY, sandbox).missing:
            return Verdict(None, reason_of(NUMPY), code)
        seconds = LONGER.get(item.id, SECONDS)
        limits = Limits(cpu_s=seconds, wall_s=3 * seconds + 20)
        program = Program(_with_imports(code), tests=str(item.detail["tests"]), limits=limits)
        return verdict_of(sandbox.run(program), code)

    def gold_response(self, item: Item) -> str | None:
        return fenced(str(item.gold))

    def empty_response(self, item: Item) -> str | None:
        empty = emptied(str(item.gold))
        return fenced(empty) if empty is not None else None


def _checked(row: Row) -> Row:
    if "base_input" in row:
        row.unusable("these are fields of EvalPlus's own MbppPlus.jsonl; take the hub's evalplus/mbppplus instead")
    return row


def _item(row: Row, examples: Sequence[tuple[str, str]]) -> Item:
    """examples: ID and text, one more than a prompt shows."""
    others = [example for own, example in examples if own != row.id]
    return Item(
        id=row.id,
        prompts=(few_shot(others[: len(SHOTS)], unsolved(row)),),
        gold=text(row, "code"),
        detail={"tests": text(row, "test")},
    )


def _with_imports(code: str) -> str:
    # nothing may stand before an import from __future__
    return f"{code}\n{IMPORTS}" if "from __future__" in code else f"{IMPORTS}\n{code}"


BENCHMARK = MBPPPlus()
