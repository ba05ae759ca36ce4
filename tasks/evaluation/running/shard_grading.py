"""Checks a benchmark before a run, grades shards of responses with its grader, and aggregates the metrics."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import reduce
from itertools import islice, tee
from typing import NamedTuple

from pydantic import JsonValue

from storage.artifacts import Artifacts
from storage.records import Record, Ref
from storage.storage_errors import list_reasons
from tasks.evaluation.benchmarks.base import BaseBenchmark, Judge, Tools
from tasks.evaluation.evaluation_errors import BenchmarkUnusable
from tasks.evaluation.evaluation_records import Counts, Item, Response, Sample, TaskResult, Usage
from tasks.evaluation.record_lines import read_lines, read_shards, write_lines
from tasks.evaluation.running.generation import Generated
from tasks.evaluation.running.known_defects import describe_repair, mark_defects
from tasks.evaluation.running.open_models import Asking, open_model
from tasks.evaluation.running.planning import PlannedTask
from tasks.grading.code.code_grading import BROKEN
from tasks.grading.grading_records import make_unanswered_sample
from tasks.sandbox import shared_sandbox

GRADER_FAILURES = (TypeError, AttributeError, LookupError, ValueError, ArithmeticError, AssertionError)
"""Errors of a user's own grader on an answer that it did not expect."""
SHOWN_PROBLEMS = 5
"""Most problems of a benchmark that an error lists."""
CHECKED_ITEMS = 2_000
"""At most so many items, the first ones, are checked; `trivet eval list --check` checks all."""
CHECKED_CHARS = 64 << 20
"""At most so many characters are checked: one LiveCodeBench problem may hold megabytes of tests."""
REASON_CHARS = 160
"""Most characters of a reason in a remark."""


class Scored(Record):
    """The graded samples of a shard."""

    samples: Ref
    """Artifact of the graded samples, JSONL of Sample."""
    judge: str | None = None
    judge_usage: Usage | None = None
    executed_by: str | None = None
    """For programs, the kind of sandbox and the Python version that executed them."""


def score_shard(shard: Ref, task: PlannedTask, artifacts: Artifacts, asking: Asking | None) -> Scored:
    """Grade a shard of responses, in order. Raises BenchmarkUnusable where the grader fails. asking: asks any judge."""
    from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark

    benchmark, executed_by = find_benchmark(task.benchmark), None
    tools = open_tools(task, Judge(asking.chat.id, asking.ask_all) if asking else None)
    items = read_lines(artifacts, task.items, Item)
    pairs, answered = tee(pair_responses(items, read_lines(artifacts, shard, Response)))
    samples = mark_defects(benchmark, pairs, grade_answered(benchmark, answered, tools), tools)
    try:
        ref = write_lines(artifacts, "samples", samples)
    except GRADER_FAILURES as error:
        raise BenchmarkUnusable(f"{task.task}: its grader failed with {type(error).__name__}: {error}") from error
    if task.family == "code":
        walls = "without a sandbox" if task.unsafe_code else "behind bubblewrap"
        executed_by = f"{walls}, with Python {shared_sandbox(unsafe=task.unsafe_code).python.version}"
    judge, judge_usage = (asking.chat.id, asking.usage) if asking else (None, None)
    return Scored(samples=ref, judge=judge, judge_usage=judge_usage, executed_by=executed_by)


def grade_answered(
    benchmark: BaseBenchmark, answered: Iterable[tuple[Item, Response]], tools: Tools
) -> Iterator[Sample]:
    """Yield a sample for each response, in order; the grader sees only those that hold something to grade."""
    waiting = deque[Sample | None]()  # None: of the grader, which may read ahead

    def read_gradable() -> Iterator[tuple[Item, Response]]:
        for item, response in answered:
            waiting.append(make_unanswered_sample(item, response) if response.unanswered else None)
            if not response.unanswered:
                yield item, response

    for sample in benchmark.grade(read_gradable(), tools):
        while (unanswered := waiting.popleft()) is not None:
            yield unanswered
        yield sample
    yield from (sample for sample in waiting if sample is not None)


def find_unfinished(task: str, samples: Iterable[Sample], away: Sequence[str]) -> dict[str, str]:
    """Return the reason by `TASK ITEM` for each item whose judge or sandbox failed for now; a rerun grades it again.

    away: why the judge did not answer, for each failed call.
    """
    if not away:
        broken = (sample for sample in samples if sample.status == "unscored" and sample.reason.startswith(BROKEN))
        return {f"{task} {sample.item}": sample.reason for sample in broken}
    unscored = (sample for sample in samples if sample.outcome == "unscored")
    return {f"{task} {sample.item}": f"judge: {away[0]}" for sample in unscored} or {f"{task}, judge": away[0]}


def pair_responses(items: Iterable[Item], responses: Iterable[Response]) -> Iterator[tuple[Item, Response]]:
    """Yield each response with its item; both come in the order of the items. Raises ValueError for an unknown item."""
    remaining = iter(items)
    item: Item | None = None
    for response in responses:
        # items without a response are passed over
        while item is None or item.id != response.item:
            item = next(remaining, None)
            if item is None:
                raise ValueError(f"a response to item {response.item!r}, which is not among the items or not in order")
        yield item, response


def open_tools(task: PlannedTask, judge: Judge | None) -> Tools:
    """Return the tools of a task's grader. Raises SandboxUnavailable where --unsafe-code is refused."""
    from tasks.grading.math.math_grader import shared_grader

    return Tools(shared_grader(), judge, shared_sandbox(unsafe=True) if task.unsafe_code else None, task.extract)


def find_problems(benchmark: BaseBenchmark, task: PlannedTask, items: Iterable[Item]) -> list[str]:
    """Return at most SHOWN_PROBLEMS problems of the first items, then `and N more`. Raises ModelUnavailable (judge)."""
    judge = Judge(open_model(task.judge).id, lambda _: iter(())) if task.judge else None  # a check asks no judge
    checked, chars_left = list[Item](), CHECKED_CHARS
    for item in islice(items, CHECKED_ITEMS):
        checked.append(item)
        chars_left -= sum(map(len, item.prompts)) + sum(
            len(value) for value in item.detail.values() if isinstance(value, str)
        )
        if chars_left <= 0:
            break
    problems = list(benchmark.check(checked, open_tools(task, judge)))
    more = len(problems) - SHOWN_PROBLEMS
    return problems[:SHOWN_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])


def build_result(task: PlannedTask, generated: Generated, scored: Sequence[Scored], artifacts: Artifacts) -> TaskResult:
    """Return the result of a task: its metrics over all samples of its shards."""
    from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark

    samples = tuple(shard.samples for shard in scored)
    benchmark = copy(find_benchmark(task.benchmark))  # all tasks of this process share it
    # metrics over repeats, also where only the run asked for repeats
    benchmark.repeats = max(benchmark.repeats, task.repeats)
    benchmark.ks = task.ks or benchmark.ks
    benchmark.extract = task.extract
    summary = benchmark.summarise(read_shards(artifacts, samples, Sample))
    headline = next((estimate.value for estimate in summary.estimates if estimate.headline), None)
    repaired, repair_notes = describe_repair(benchmark, lambda: read_shards(artifacts, samples, Sample), headline)
    counts = summary.counts
    expected = task.samples if counts.samples >= counts.items * task.repeats else counts.samples
    graded = read_shards(artifacts, samples, Sample)
    coverage = measure_coverage(expected, counts, graded, has_bounds=task.family != "judge")
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
        metrics={**summary.metrics, **coverage.metrics, **repaired},
        estimates=summary.estimates,
        counts=summary.counts,
        usage=generated.usage,
        judge_usage=reduce(Usage.plus, judged) if judged else None,
        judge=next((shard.judge for shard in scored if shard.judge), None),
        samples=samples,
        items=task.items,
        responses=generated.shards,
        notes=(
            *coverage.notes,
            *repair_notes,
            *collect_notes(task, summary.counts),
            *summary.notes,
            *left_out,
            *(f"programs were executed {engine}" for engine in {shard.executed_by: 0 for shard in scored} if engine),
        ),
    )


class Coverage(NamedTuple):
    """The share of the expected samples that has a score, and what the score were if the others had one."""

    metrics: Mapping[str, JsonValue] = {}
    """`coverage`, and `bounds`, the score with all others wrong and with all right; empty where all have a score."""
    notes: tuple[str, ...] = ()


def measure_coverage(expected: int, counts: Counts, samples: Iterable[Sample], *, has_bounds: bool) -> Coverage:
    """Return the share of the expected samples that has a score, and a note of what the others lack; empty if all have.

    has_bounds: whether a score is 0 at worst and 1 at best. No source has a rule for requests that got no answer.
    """
    lacking = {"failed": expected - counts.samples, "refused": counts.refused, "too long": counts.too_long}
    lacking = {name: count for name, count in (lacking | {"unscored": counts.unscored}).items() if count > 0}
    if not lacking:
        return Coverage()
    total, reasons = 0.0, dict[str, str]()
    for sample in samples:
        total += sample.score or 0.0
        if sample.score is None:
            reasons.setdefault(sample.item, sample.reason[:REASON_CHARS] + "…" * (len(sample.reason) > REASON_CHARS))
    why = f" ({list_reasons(reasons)})" if reasons else ""
    parts = ", ".join(f"{count} {name}" for name, count in lacking.items())
    note = f"{counts.scored} of {expected} have a score, and figures are over them; {parts}{why}"
    metrics: dict[str, JsonValue] = {"coverage": counts.scored / expected}
    if not (has_bounds and counts.scored):
        return Coverage(metrics, (note,))
    low, high = total / expected, (total + expected - counts.scored) / expected
    bounds = f"the score is {low:.3f} with all of these wrong, {high:.3f} with all right"
    metrics["bounds"] = [low, high]
    return Coverage(metrics, (f"{note}; {bounds}",))


def collect_notes(task: PlannedTask, counts: Counts) -> Iterator[str]:
    """Yield remarks on the samples of a task."""
    if task.family == "code" and counts.samples < counts.items * task.repeats:
        # items may have different numbers of programs: pass@k weighs items alike
        yield f"items have different numbers of samples, {task.repeats} at most"
        if absent := task.count - counts.items:
            yield f"{absent} of {task.count} items have no samples; they count in no figure"
    if left_out := task.left_out:
        yield f"{len(left_out)} items of the data are left out ({list_reasons(left_out)})"
    if counts.truncated:
        yield f"{counts.truncated} of {counts.samples} were cut off at max_tokens"
    if counts.missing:
        yield f"{counts.missing} of {counts.samples} hold no answer and get the lowest score"
