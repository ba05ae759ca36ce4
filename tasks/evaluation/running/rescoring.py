"""Grades existing answers with today's grader: recorded ones of any origin, or those of a run."""

from __future__ import annotations

from pathlib import Path

from storage.artifacts import Artifacts
from storage.files import sha256_of
from storage.records import Record
from tasks.evaluation.evaluation_errors import OptionUnusable, PreflightFailed, ResultsUnusable, UnknownTask
from tasks.evaluation.evaluation_records import Sample, Sampling, TaskResult
from tasks.evaluation.record_lines import read_shards
from tasks.evaluation.results.finding_runs import FoundRun
from tasks.evaluation.results.run_comparison import Change, Comparison, compare
from tasks.evaluation.running.generation import Generated
from tasks.evaluation.running.open_models import Asking, ModelSpec
from tasks.evaluation.running.planning import (
    OF_PROGRAMS,
    EvaluationRequest,
    Plan,
    PlannedTask,
    RunSettings,
    of_programs,
    of_reading,
    read_items,
)
from tasks.evaluation.running.replaying import replay
from tasks.evaluation.running.shard_grading import problems_of, result_of, score_shard
from tasks.evaluation.running.task_choice import choose, find, judge_of
from tasks.grading.reading import POLICIES, Policy
from tasks.sandbox.sandbox_python import another_python

OWN = (".yaml", ".yml", ".py")


class Again(Record):
    """A task of a run, graded before and with today's grader."""

    old: TaskResult
    new: TaskResult
    compared: Comparison | None
    """None if no item was scored both times."""

    @property
    def changes(self) -> tuple[Change, ...]:
        """The items whose score has changed."""
        return (*self.compared.better, *self.compared.worse) if self.compared else ()


class Rescored(Record):
    """A run whose stored answers were graded again; nothing is generated or overwritten."""

    run: str
    tasks: tuple[Again, ...]


def score_file(request: EvaluationRequest, artifacts: Artifacts) -> tuple[Plan, TaskResult]:
    """Figures of one task from a file of recorded answers, which the model of `request` replays.

    Raises UnknownTask, DataMissing, DataUnusable, PreflightFailed, OptionUnusable.
    """
    responses = Path(str(request.model.args["path"]))
    plan = choose(request, artifacts, None, opened=False)
    if plan.harness:
        named = plan.harness[0].task
        raise PreflightFailed(f"{named} is a task of the harness, which scores only what it asks itself")
    (planned,) = plan.tasks
    if request.settings.ks and planned.family != "code" and planned.repeats == 1:
        raise OptionUnusable(f"--k is of several answers to an item, and {responses} has one to each; leave it")
    if planned.whole:
        raise PreflightFailed(f"{planned.task} grades only what it generates itself; run it with `trivet eval run`")
    generated = replay(planned, responses, artifacts)  # a wrong id is said before anything is executed
    if planned.family == "code":
        benchmark = find(planned.benchmark, None)
        assert benchmark is not None
        if problems := problems_of(benchmark, planned, read_items(artifacts, planned.items)):
            raise PreflightFailed(f"{planned.task} does not pass its own checks: {'; '.join(problems)}")
    facts = plan.model.model_copy(update={"revision": sha256_of(responses)[:16], "args": request.model.args})
    return plan.model_copy(update={"model": facts}), _graded(planned, generated, artifacts)


def score_again(
    run: FoundRun, artifacts: Artifacts, *, task: str | None, judge: ModelSpec | None, settings: RunSettings
) -> Rescored:
    """Old figures beside those of today's grader. Raises ResultsUnusable.

    settings: of which ks and unsafe_code are today's, and so is extract where it is given.
    """
    if task:
        run.require(task)
    named = [result for result in run.report.results if task in (None, result.task)]
    chosen = [(result, where) for result in named if (where := _benchmark_of(result, run))]
    if not chosen:
        raise ResultsUnusable(f"run {run.report.run.id} holds no stored answers to grade again")
    tasks: list[Again] = []
    # all are planned before one is graded: a benchmark that is gone is said at once
    for planned, old in [(_planned(old, where, run, judge, settings), old) for old, where in chosen]:
        count = sum(1 for _ in run.samples(old.task))
        new = _graded(planned, Generated(shards=old.responses, responses=count, usage=old.usage), artifacts)
        before, after = (read_shards(artifacts, one.samples, Sample) for one in (old, new))
        try:
            compared = compare(before, after)
        except ResultsUnusable:
            compared = None
        tasks.append(Again(old=old, new=new, compared=compared))
    return Rescored(run=run.report.run.id, tasks=tuple(tasks))


def _benchmark_of(result: TaskResult, run: FoundRun) -> str | None:
    """Name or path of the benchmark of a result; None if its answers were not stored. Raises UnknownTask."""
    if result.items is None or not result.responses:
        return None
    asked = run.report.run.config.get("tasks")
    paths = [str(one["task"]) for one in asked if isinstance(one, dict)] if isinstance(asked, list) else []
    # a benchmark of the user's own is found by its path alone
    for path in paths:
        if ":" in path or path.endswith(OWN):
            try:
                benchmark = find(path, None)
            except UnknownTask:  # it no longer exists
                continue
            if benchmark and benchmark.name == result.task:
                return path
    return result.task if find(result.task, None) else None


def _planned(old: TaskResult, named: str, run: FoundRun, judge: ModelSpec | None, settings: RunSettings) -> PlannedTask:
    """The task as it was asked, with today's grader."""
    benchmark = find(named, None)
    assert benchmark is not None
    assert old.items is not None
    config = run.report.run.config
    judge_then = ModelSpec.model_validate(config["judge"]) if config.get("judge") else None
    auto_then = bool(config.get("auto_judge", True))
    repeats = old.settings.get("repeats")
    programs, asked_ks, ks = benchmark.family == "code", old.settings.get("k"), settings.ks
    if not ks and isinstance(asked_ks, list):
        ks = tuple(k for k in asked_ks if isinstance(k, int))
    ks, unsafe_code = ks if programs or repeats != 1 else (), settings.unsafe_code and programs
    asked = {name: value for name, value in old.settings.items() if name not in (*OF_PROGRAMS, "extract")}
    extract: Policy = "published"
    if benchmark.reads_answers:
        for policy in POLICIES:
            extract = policy if policy == old.settings.get("extract") else extract
        extract = settings.extract or extract
    return PlannedTask(
        task=old.task,
        benchmark=named,
        version=old.version,
        family=old.family,
        data=old.data,
        items=old.items,
        count=old.counts.items,
        repeats=repeats if isinstance(repeats, int) else 1,
        sampling=Sampling.model_validate(old.settings.get("sampling", {})),
        judge=judge_of(benchmark, judge or judge_then, auto=auto_then and not judge),
        ks=ks,
        extract=extract,
        unsafe_code=unsafe_code,
        settings=asked
        | of_reading(extract)
        | of_programs(ks, unsafe_code=unsafe_code, python=another_python() if programs else ""),
    )


def _graded(task: PlannedTask, generated: Generated, artifacts: Artifacts) -> TaskResult:
    scored = tuple(
        score_shard(shard, task, artifacts, Asking(task.judge) if task.judge else None) for shard in generated.shards
    )
    return result_of(task, generated, scored, artifacts)
