"""The figures of a task, with everything that a reader needs to trust them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy

from pydantic import JsonValue

from storage.artifacts import Artifacts
from storage.records import Ref
from tasks.evaluation.evaluation_records import Counts, Sample, TaskResult, Usage
from tasks.evaluation.record_lines import read_lines
from tasks.evaluation.running.generation import Generated
from tasks.evaluation.running.planning import PlannedTask
from tasks.evaluation.running.shard_grading import Scored

NAMED = 5
"""Items that a note names."""
REASON_CHARS = 160


def result_of(task: PlannedTask, generated: Generated, scored: Sequence[Scored], artifacts: Artifacts) -> TaskResult:
    """What the samples of a task come to."""
    from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark

    samples = tuple(shard.samples for shard in scored)
    benchmark = copy(find_benchmark(task.benchmark))
    benchmark.repeats = max(benchmark.repeats, task.repeats)  # figures over repeats, also where the run asked for them
    benchmark.ks = task.ks or benchmark.ks
    summary = benchmark.summarise(samples_of(samples, artifacts))
    return TaskResult(
        task=task.task,
        version=task.version,
        family=task.family,
        data=task.data,
        settings=task.settings,
        metrics=summary.metrics,
        estimates=summary.estimates,
        counts=summary.counts,
        usage=generated.usage,
        judge_usage=_judging(scored),
        judge=next((shard.judge for shard in scored if shard.judge), None),
        samples=samples,
        items=task.items,
        responses=generated.shards,
        notes=(
            *notes_of(task, summary.counts, lambda: unscored_of(samples, artifacts)),
            *left_out_of(summary.metrics),
            *(f"programs were executed {how}" for how in {shard.executed_by: 0 for shard in scored} if how),
        ),
    )


def samples_of(shards: Sequence[Ref], artifacts: Artifacts) -> Iterator[Sample]:
    """All samples of a task, one at a time."""
    for shard in shards:
        yield from read_lines(artifacts, shard, Sample)


def unscored_of(shards: Sequence[Ref], artifacts: Artifacts) -> dict[str, str]:
    """The items that have a sample without a score → why."""
    samples = samples_of(shards, artifacts)
    return {sample.item: sample.reason for sample in samples if sample.status == "unscored"}


def notes_of(task: PlannedTask, counts: Counts, unscored: Callable[[], dict[str, str]] = dict) -> Iterator[str]:
    """What a reader must know beside the score. unscored: reads again which items have none."""
    if task.family == "code":
        yield from _samples_of_programs(task, counts)
    elif left := task.samples - counts.samples:
        yield f"{left} of {task.samples} responses are not there; they count in no figure"
    if counts.unscored:
        items = unscored()
        named = ", ".join(list(items)[:NAMED]) + (" …" if len(items) > NAMED else "")
        why = next(iter(items.values()), "")[:REASON_CHARS]
        which = f" ({named}: {why})" if named else ""
        yield f"{counts.unscored} of {counts.samples} are unscored; they count in no figure{which}"
    if counts.truncated:
        yield f"{counts.truncated} of {counts.samples} were cut off at max_tokens"
    if counts.missing:
        yield f"{counts.missing} of {counts.samples} hold no answer and get the lowest score"


def _samples_of_programs(task: PlannedTask, counts: Counts) -> Iterator[str]:
    """Items may have different numbers of programs: pass@k weighs items alike."""
    if left := task.count - counts.items:
        yield f"{left} of {task.count} items have no samples; they count in no figure"
    if counts.samples < counts.items * task.repeats:
        yield f"items have different numbers of samples, {task.repeats} at most"


def left_out_of(metrics: Mapping[str, JsonValue]) -> Iterator[str]:
    """The pass@k that were asked for and are not there, in a sentence for each reason."""
    left_out = metrics.get("k_left_out")
    why = {str(name): str(reason) for name, reason in left_out.items()} if isinstance(left_out, dict) else {}
    for reason in dict.fromkeys(why.values()):
        yield f"{', '.join(name for name in why if why[name] == reason)} left out: {reason}"


def _judging(scored: Sequence[Scored]) -> Usage | None:
    used = [shard.judge_usage for shard in scored if shard.judge_usage]
    total = Usage()
    for usage in used:
        total = total.plus(usage)
    return total if used else None
