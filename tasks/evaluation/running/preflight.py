"""What must hold before anything is asked: a benchmark that fails its own checks would measure nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from tasks.evaluation.benchmarks.base import BaseBenchmark, Judge
from tasks.evaluation.evaluation_errors import PreflightFailed
from tasks.evaluation.evaluation_records import Item
from tasks.evaluation.running.open_models import open_model
from tasks.evaluation.running.planning import PlannedTask
from tasks.evaluation.running.shard_grading import tools_for

SHOWN_PROBLEMS = 5
CHECKED_ITEMS = 2_000
"""Items checked of a large benchmark, the first ones; `trivet eval check` checks all."""
CHECKED_CHARS = 64 << 20
"""Characters checked, so fewer large items: one LiveCodeBench problem may bring megabytes of tests."""


def problems_of(benchmark: BaseBenchmark, task: PlannedTask, items: Iterable[Item]) -> list[str]:
    """What is wrong, a sentence each. Raises PreflightFailed without a judge, ModelUnavailable without its key."""
    judge = None
    if benchmark.judge is not None:
        if task.judge is None:
            raise PreflightFailed(f"{task.task} is graded by a model; name it with --annotator_model, or give `auto`")
        judge = Judge(open_model(task.judge).id, _asks_nobody)
    problems = list(benchmark.check(list(_first(items)), tools_for(task, judge)))
    more = len(problems) - SHOWN_PROBLEMS
    return problems[:SHOWN_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])


def _first(items: Iterable[Item]) -> Iterator[Item]:
    """As many as are checked, and one at least."""
    room = CHECKED_CHARS
    for item in islice(items, CHECKED_ITEMS):
        yield item
        room -= sum(map(len, item.prompts)) + sum(len(one) for one in item.detail.values() if isinstance(one, str))
        if room <= 0:
            return


def _asks_nobody(requests: Iterable[Any]) -> Iterator[Any]:
    raise AssertionError(f"a check asks no judge, and was about to ask {requests!r}")
