from __future__ import annotations

from collections.abc import Iterator

import pytest

from tasks.evaluation.benchmarks.base import Tools
from tasks.grading.math.math_grader import MathGrader
from tasks.sandbox import Sandbox


@pytest.fixture(scope="module")
def tools(sandbox: Sandbox) -> Iterator[Tools]:
    with MathGrader() as math:
        yield Tools(math, sandbox=sandbox)
