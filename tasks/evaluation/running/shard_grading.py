"""Grades a shard of responses: each beside its item, by the benchmark's own grader."""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from storage.artifacts import Artifacts
from storage.records import Record, Ref
from tasks.evaluation.benchmarks.base import Judge, Tools
from tasks.evaluation.evaluation_errors import BenchmarkUnusable
from tasks.evaluation.evaluation_records import Item, Response, Sample, Usage
from tasks.evaluation.record_lines import read_lines, write_lines
from tasks.evaluation.running.planning import PlannedTask, read_items

if TYPE_CHECKING:
    from tasks.grading.math.math_grader import MathGrader


GRADER_FAILURES = (TypeError, AttributeError, LookupError, ValueError, ArithmeticError, AssertionError)
"""What a grader of the user's own may raise when it meets an answer that it did not expect."""


class Scored(Record):
    """A shard of graded samples."""

    samples: Ref
    """JSONL of Sample."""
    judge: str | None = None
    judge_usage: Usage | None = None
    executed_by: str | None = None
    """For code: the sandbox engine and the Python version."""


def grade_shard(shard: Ref, task: PlannedTask, artifacts: Artifacts, *, judge: Judge | None) -> Ref:
    """The samples of a shard of responses, in its order."""
    from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark

    answered = beside(read_items(artifacts, task.items), read_lines(artifacts, shard, Response))
    samples = find_benchmark(task.benchmark).grade(answered, tools_for(task, judge))
    try:
        return write_lines(artifacts, "samples", samples)
    except GRADER_FAILURES as error:
        raise BenchmarkUnusable(f"{task.task}: its grader failed with {type(error).__name__}: {error}") from error


def left_by_judge(task: str, samples: Iterable[Sample], why: str) -> dict[str, str]:
    """The items without a verdict, and why; a run that follows asks for these verdicts again."""
    unscored = [sample for sample in samples if sample.status == "unscored"]
    return {f"{task} {sample.item}": f"judge: {why}" for sample in unscored} or {f"{task}, judge": why}


def left_by_sandbox(task: str, samples: Iterable[Sample]) -> dict[str, str]:
    """The items whose programs could not be executed, and why; a run that follows executes them again."""
    from tasks.grading.code.code_grading import BROKEN

    unscored = (sample for sample in samples if sample.status == "unscored" and sample.reason.startswith(BROKEN))
    return {f"{task} {sample.item}": sample.reason for sample in unscored}


def beside(items: Iterable[Item], responses: Iterable[Response]) -> Iterator[tuple[Item, Response]]:
    """Each response with its item; both are in the order of the items, and items may have none or several.

    Raises ValueError for a response whose item does not come.
    """
    coming = iter(items)
    item: Item | None = None
    for response in responses:
        while item is None or item.id != response.item:
            item = next(coming, None)
            if item is None:
                raise ValueError(f"a response to item {response.item!r}, which is not among the items or not in order")
        yield item, response


def tools_for(task: PlannedTask, judge: Judge | None) -> Tools:
    """What the grader of a task may use. Raises SandboxUnavailable for --unsafe-code where that is refused."""
    from tasks.sandbox import shared_sandbox

    return Tools(math_grader(), judge, shared_sandbox(unsafe=True) if task.unsafe_code else None)


def executed_by(task: PlannedTask) -> str | None:
    """What executes the programs of a task; None: its answers are none."""
    from tasks.sandbox import shared_sandbox

    if task.family != "code":
        return None
    sandbox = shared_sandbox(unsafe=task.unsafe_code)
    walls = "without a sandbox" if task.unsafe_code else f"behind {sandbox.engine.name}"
    return f"{walls}, with Python {sandbox.python.version}"


@cache
def math_grader() -> MathGrader:
    """The grader of mathematics of this process; its workers start with the first answer that needs them."""
    from tasks.grading.math.math_grader import MathGrader

    grader = MathGrader()
    atexit.register(grader.close)
    return grader
