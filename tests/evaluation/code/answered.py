"""Answers to the items of a code benchmark, executed and graded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tasks.evaluation.benchmarks.base import BaseBenchmark, Tools
from tasks.evaluation.evaluation_records import Item, Reply, Response, Sample


def graded(
    benchmark: BaseBenchmark, items: Sequence[Item], answers: Mapping[str, str], tools: Tools
) -> dict[str, Sample]:
    """Item → sample of the answer that is given to it."""
    pairs = [
        (item, Response(item=item.id, turns=(Reply(text=answers[item.id]),))) for item in items if item.id in answers
    ]
    return {sample.item: sample for sample in benchmark.grade(pairs, tools)}
