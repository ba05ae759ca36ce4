"""Checks a benchmark before a run, grades shards of responses with its grader, and aggregates the figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import reduce
from itertools import islice

from storage.artifacts import Artifacts
from storage.records import Record, Ref
from tasks.evaluation.benchmarks.base import BaseBenchmark, Judge, Tools
from tasks.evaluation.evaluation_errors import BenchmarkUnusable, PreflightFailed
from tasks.evaluation.evaluation_records import Counts, Item, Response, Sample, TaskResult, Usage
from tasks.evaluation.record_lines import read_lines, read_shards, write_lines
from tasks.evaluation.running.generation import Generated
from tasks.evaluation.running.open_models import Asking, open_model
from tasks.evaluation.running.planning import PlannedTask, read_items
from tasks.grading.code.code_grading import BROKEN
from tasks.sandbox import shared_sandbox

GRADER_FAILURES = (TypeError, AttributeError, LookupError, ValueError, ArithmeticError, AssertionError)
"""Errors of a user's own grader on an answer that it did not expect."""
SHOWN_PROBLEMS = 5
CHECKED_ITEMS = 2_000
"""At most so many items, the first ones, are checked; `trivet eval list --check` checks all."""
CHECKED_CHARS = 64 << 20
"""At most so many characters are checked: one LiveCodeBench problem may hold megabytes of tests."""
NAMED = 5
REASON_CHARS = 160


class Scored(Record):
    samples: Ref
    """JSONL of Sample."""
    judge: str | None = None
    judge_usage: Usage | None = None
    executed_by: str | None = None
    """For code: the sandbox engine and the Python version."""


def score_shard(shard: Ref, task: PlannedTask, artifacts: Artifacts, asking: Asking | None) -> Scored:
    """Grade a shard of responses in order; `asking`: the judge, if one is needed. Raises BenchmarkUnusable."""
    from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark

    answered = pair_responses(read_items(artifacts, task.items), read_lines(artifacts, shard, Response))
    samples = find_benchmark(task.benchmark).grade(answered, tools_for(task, asking and asking.as_judge))
    try:
        kept = write_lines(artifacts, "samples", samples)
    except GRADER_FAILURES as error:
        raise BenchmarkUnusable(f"{task.task}: its grader failed with {type(error).__name__}: {error}") from error
    return Scored(
        samples=kept,
        judge=asking and asking.chat.id,
        judge_usage=asking and asking.usage,
        executed_by=executed_by(task),
    )


def left_by_judge(task: str, samples: Iterable[Sample], why: str) -> dict[str, str]:
    """Items without a verdict → reason; the next run asks for these verdicts again."""
    unscored = [sample for sample in samples if sample.status == "unscored"]
    return {f"{task} {sample.item}": f"judge: {why}" for sample in unscored} or {f"{task}, judge": why}


def left_by_sandbox(task: str, samples: Iterable[Sample]) -> dict[str, str]:
    """Items whose programs could not be executed → reason; the next run executes them again."""
    unscored = (sample for sample in samples if sample.status == "unscored" and sample.reason.startswith(BROKEN))
    return {f"{task} {sample.item}": sample.reason for sample in unscored}


def pair_responses(items: Iterable[Item], responses: Iterable[Response]) -> Iterator[tuple[Item, Response]]:
    """Each response with its item; both come in the order of the items. Raises ValueError for an unknown item."""
    coming = iter(items)
    item: Item | None = None
    for response in responses:
        while item is None or item.id != response.item:
            item = next(coming, None)
            if item is None:
                raise ValueError(f"a response to item {response.item!r}, which is not among the items or not in order")
        yield item, response


def tools_for(task: PlannedTask, judge: Judge | None) -> Tools:
    """The tools of a task's grader. Raises SandboxUnavailable where --unsafe-code is refused."""
    from tasks.grading.math.math_grader import shared_grader

    return Tools(shared_grader(), judge, shared_sandbox(unsafe=True) if task.unsafe_code else None, task.extract)


def executed_by(task: PlannedTask) -> str | None:
    """How the programs of a task are executed; None for other tasks."""
    if task.family != "code":
        return None
    sandbox = shared_sandbox(unsafe=task.unsafe_code)
    walls = "without a sandbox" if task.unsafe_code else "behind bubblewrap"
    return f"{walls}, with Python {sandbox.python.version}"


def problems_of(benchmark: BaseBenchmark, task: PlannedTask, items: Iterable[Item]) -> list[str]:
    """Problems, a sentence each. Raises PreflightFailed without a judge, ModelUnavailable without its key."""
    judge = None
    if benchmark.judge is not None:
        if task.judge is None:
            raise PreflightFailed(f"{task.task} is graded by a model; name it with --annotator_model, or give `auto`")
        judge = Judge(open_model(task.judge).id, lambda _: iter(()))  # a check asks no judge
    checked, room = list[Item](), CHECKED_CHARS
    for item in islice(items, CHECKED_ITEMS):
        checked.append(item)
        room -= sum(map(len, item.prompts)) + sum(len(one) for one in item.detail.values() if isinstance(one, str))
        if room <= 0:
            break
    problems = list(benchmark.check(checked, tools_for(task, judge)))
    more = len(problems) - SHOWN_PROBLEMS
    return problems[:SHOWN_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])


def result_of(task: PlannedTask, generated: Generated, scored: Sequence[Scored], artifacts: Artifacts) -> TaskResult:
    """The figures of a task over all its samples."""
    from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark

    samples = tuple(shard.samples for shard in scored)
    benchmark = copy(find_benchmark(task.benchmark))
    benchmark.repeats = max(benchmark.repeats, task.repeats)  # figures over repeats, also where the run asked for them
    benchmark.ks = task.ks or benchmark.ks
    benchmark.extract = task.extract
    summary = benchmark.summarise(read_shards(artifacts, samples, Sample))
    read = read_shards(artifacts, samples if summary.counts.unscored else (), Sample)
    unscored = {sample.item: sample.reason for sample in read if sample.status == "unscored"}
    judged = [shard.judge_usage for shard in scored if shard.judge_usage]
    # a sentence for each reason why a requested pass@k is missing
    missing = summary.metrics.get("k_left_out")
    why = {str(name): str(reason) for name, reason in missing.items()} if isinstance(missing, dict) else {}
    left_out = [
        f"{', '.join(name for name in why if why[name] == reason)} left out: {reason}"
        for reason in dict.fromkeys(why.values())
    ]
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
        judge_usage=reduce(Usage.plus, judged) if judged else None,
        judge=next((shard.judge for shard in scored if shard.judge), None),
        samples=samples,
        items=task.items,
        responses=generated.shards,
        notes=(
            *notes_of(task, summary.counts, unscored),
            *summary.notes,
            *left_out,
            *(f"programs were executed {how}" for how in {shard.executed_by: 0 for shard in scored} if how),
        ),
    )


def notes_of(task: PlannedTask, counts: Counts, unscored: Mapping[str, str]) -> Iterator[str]:
    """Remarks on the figures. unscored: items without a score → reason."""
    if task.family == "code":  # items may have different numbers of programs: pass@k weighs items alike
        if left := task.count - counts.items:
            yield f"{left} of {task.count} items have no samples; they count in no figure"
        if counts.samples < counts.items * task.repeats:
            yield f"items have different numbers of samples, {task.repeats} at most"
    elif left := task.samples - counts.samples:
        yield f"{left} of {task.samples} responses are not there; they count in no figure"
    if counts.unscored:
        named = ", ".join(list(unscored)[:NAMED]) + (" …" if len(unscored) > NAMED else "")
        why = next(iter(unscored.values()), "")[:REASON_CHARS]
        which = f" ({named}: {why})" if named else ""
        yield f"{counts.unscored} of {counts.samples} are unscored; they count in no figure{which}"
    if counts.truncated:
        yield f"{counts.truncated} of {counts.samples} were cut off at max_tokens"
    if counts.missing:
        yield f"{counts.missing} of {counts.samples} hold no answer and get the lowest score"
