"""Answers to the items of a code benchmark, executed and graded."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from tasks.evaluation.benchmarks.base import BaseBenchmark, Tools
from tasks.evaluation.evaluation_records import Item, Reply, Response, Sample
from tasks.grading.math.math_grader import MathGrader
from tasks.sandbox import Sandbox
from tasks.sandbox.sandbox_errors import SandboxUnavailable


@contextmanager
def opened_tools() -> Generator[Tools]:
    """Tools with a sandbox; skips where no engine works."""
    with MathGrader() as math, Sandbox(workers=2) as sandbox:
        try:
            sandbox.start()
        except SandboxUnavailable as error:
            pytest.skip(str(error))
        yield Tools(math, sandbox=sandbox)


def graded(
    benchmark: BaseBenchmark, items: Sequence[Item], answers: Mapping[str, str], tools: Tools
) -> dict[str, Sample]:
    """Item → sample of the answer that is given to it."""
    pairs = [
        (item, Response(item=item.id, turns=(Reply(text=answers[item.id]),))) for item in items if item.id in answers
    ]
    return {sample.item: sample for sample in benchmark.grade(pairs, tools)}
