"""Items whose programs could not be executed are named with why; and what executed the others."""

from __future__ import annotations

from typing import Any

import pytest

from storage.artifacts import Artifacts
from tasks.evaluation.evaluation_records import Sample
from tasks.evaluation.running.shard_grading import executed_by, left_by_sandbox, tools_for
from tasks.grading.code.code_grading import BROKEN
from tasks.sandbox import Sandbox, shared_sandbox
from tasks.sandbox.sandbox_errors import SandboxUnavailable
from tests.evaluation.sums import task_of


def sample(item: str, **changed: Any) -> Sample:
    plain: dict[str, Any] = {"item": item, "status": "unscored", "score": None, "reason": f"{BROKEN}it broke"}
    return Sample.model_validate(plain | changed)


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    """The one of this process, where it starts."""
    try:
        shared_sandbox().start()
    except SandboxUnavailable as why:
        pytest.skip(str(why))
    return shared_sandbox()


@pytest.mark.parametrize(
    ("samples", "left"),
    [
        pytest.param([sample("a")], {"X a": "sandbox: it broke"}, id="one"),
        pytest.param([sample("a", reason="needs numpy, which is not here")], {}, id="a library that is not there"),
        pytest.param([sample("a", status="scored", score=0.0)], {}, id="scored, whatever it says"),
    ],
)
def test_what_was_left_is_named_once_an_item(samples: list[Sample], left: dict[str, str]):
    assert left_by_sandbox("X", samples) == left


def test_unsafe_code_is_refused_where_programs_are_graded_and_where_they_are_told_of(artifacts: Artifacts):
    task = task_of([], artifacts, family="code", unsafe_code=True)
    for refuses in (lambda: tools_for(task, None), lambda: executed_by(task)):
        with pytest.raises(SandboxUnavailable, match="--unsafe-code is refused"):
            refuses()
