"""Grades the replies of one run as another run graded its own; no model is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import cast

from storage.artifacts import Artifacts
from storage.storage_errors import DamagedArtifact, MissingArtifact
from tasks.evaluation.benchmarks.base import Tools
from tasks.evaluation.benchmarks.benchmark_registry import definition_digest
from tasks.evaluation.evaluation_errors import EvaluationError, ResultsUnusable
from tasks.evaluation.evaluation_records import Item, Response, Sample, TaskResult
from tasks.evaluation.results.kept_texts import Asked
from tasks.evaluation.running.planning import GRADER_VERSION, version_of
from tasks.evaluation.running.task_choice import find
from tasks.grading.math.math_grader import shared_grader
from tasks.grading.reading import Policy

GRADED_BY = ("version", "grader", "extract", "judge", "unsafe_code", "python")
"""Settings that say how a reply was graded."""
Regrade = Callable[[Iterable[Sample]], Iterator[Sample]]
"""Samples of the one run → the same replies, graded as the other run graded."""


def graded_alike(one: TaskResult, other: TaskResult) -> bool:
    """Whether equal replies get equal scores in both runs."""
    same = all(one.settings.get(name) == other.settings.get(name) for name in GRADED_BY)
    return same and one.data.checksum == other.data.checksum


def regrader(one: TaskResult, other: TaskResult, artifacts: Artifacts) -> Regrade:
    """Grades replies of `one` as those of `other` were. Raises ResultsUnusable where that cannot be done here."""
    try:
        benchmark = find(other.task, None)
    except EvaluationError as error:
        raise ResultsUnusable(str(error)) from error
    if benchmark is None or benchmark.judge:
        raise ResultsUnusable(f"{other.task} is not graded by rules alone, and no model is asked here")
    if other.settings.get("unsafe_code"):
        raise ResultsUnusable("its programs ran without a sandbox")
    own = {"grader": GRADER_VERSION, "version": version_of(benchmark, definition_digest(benchmark))}
    if wrong := [name for name, value in own.items() if other.settings.get(name) != value]:
        name = wrong[0]
        raise ResultsUnusable(f"it was graded with {name} {other.settings.get(name)}, and here is {own[name]}")
    try:
        replies, items = Asked(one, artifacts), Asked(other, artifacts)
    except (MissingArtifact, DamagedArtifact) as error:
        raise ResultsUnusable("the replies are no longer kept") from error
    tools = Tools(shared_grader(), extract=cast("Policy", other.settings.get("extract", "published")))

    def pairs(samples: Iterable[Sample]) -> Iterator[tuple[Item, Response]]:
        for sample in samples:
            item, response = items(sample).item, replies(sample).response
            if item is None or response is None:
                raise ResultsUnusable(f"the reply to {sample.item} is no longer kept")
            yield item, response

    return lambda samples: benchmark.grade(pairs(samples), tools)
