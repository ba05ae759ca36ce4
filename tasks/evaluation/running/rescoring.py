"""Grades existing answers with today's grader: recorded ones of any origin, or those of a run."""

from __future__ import annotations

from pathlib import Path

from storage.artifacts import Artifacts
from storage.files import sha256_of
from storage.records import Record
from tasks.evaluation.evaluation_errors import OptionUnusable, PreflightFailed, ResultsUnusable, UnknownTask
from tasks.evaluation.evaluation_records import Item, Sample, Sampling, TaskResult
from tasks.evaluation.record_lines import read_lines, read_shards
from tasks.evaluation.results.finding_runs import FoundRun
from tasks.evaluation.results.run_comparison import Change, Comparison, compare
from tasks.evaluation.running.generation import Generated, replay
from tasks.evaluation.running.open_models import Asking, ModelSpec, identify_model
from tasks.evaluation.running.planning import (
    PROGRAM_SETTINGS,
    EvaluationRequest,
    Plan,
    PlannedTask,
    RunSettings,
    describe_programs,
)
from tasks.evaluation.running.shard_grading import build_result, find_problems, score_shard
from tasks.evaluation.running.task_choice import find_task, plan_run, select_judge
from tasks.grading.reading import POLICIES, Policy
from tasks.resources import optional_responses
from tasks.sandbox.sandbox_python import identify_other_python

OWN_SUFFIXES = (".yaml", ".yml", ".py")


class RegradedTask(Record):
    """A task of a run, graded then and again with today's grader."""

    old: TaskResult
    new: TaskResult
    compared: Comparison | None
    """The comparison of both gradings; None if no item was scored both times."""

    @property
    def changes(self) -> tuple[Change, ...]:
        """The items whose score has changed."""
        return (*self.compared.better, *self.compared.worse) if self.compared else ()


class RegradedRun(Record):
    """A run whose stored answers were graded again; nothing was generated or overwritten."""

    run: str
    tasks: tuple[RegradedTask, ...]


def score_file(request: EvaluationRequest, artifacts: Artifacts) -> tuple[Plan, TaskResult]:
    """Grade the recorded answers to one task in a file, which the model of `request` replays.

    Raises UnknownTask, DataMissing, DataUnusable, PreflightFailed, OptionUnusable.
    """
    responses = Path(str(request.model.args["path"]))
    plan = plan_run(request, artifacts, None, opened=False)
    if plan.harness:
        task_name = plan.harness[0].task
        raise PreflightFailed(f"{task_name} is a task of the harness, which scores only what it asks itself")
    (planned,) = plan.tasks
    if request.settings.ks and planned.family != "code" and planned.repeats == 1:
        raise OptionUnusable(f"--k is of several answers to an item, and {responses} has one to each; leave it")
    if planned.whole:
        raise PreflightFailed(f"{planned.task} grades only what it generates itself; run it with `trivet eval run`")
    generated = replay(planned, responses, artifacts)  # a wrong id is said before anything is executed
    if planned.family == "code":
        benchmark = find_task(planned.benchmark, None)
        assert benchmark is not None
        if problems := find_problems(benchmark, planned, read_lines(artifacts, planned.items, Item)):
            raise PreflightFailed(f"{planned.task} does not pass its own checks: {'; '.join(problems)}")
    facts = plan.model.model_copy(update={"revision": sha256_of(responses)[:16], "args": request.model.args})
    return plan.model_copy(update={"model": facts}), _grade(planned, generated, artifacts)


def score_again(
    run: FoundRun, artifacts: Artifacts, *, task: str | None, judge: ModelSpec | None, settings: RunSettings
) -> RegradedRun:
    """Grade the stored answers of a run with today's grader, and compare with its old scores. Raises ResultsUnusable.

    settings: its ks and unsafe_code are today's, and extract where given. Tasks without stored answers are left out.
    """
    if task:
        run.require(task)
    results = [result for result in run.report.results if task in (None, result.task)]
    gradable = [(result, where) for result in results if (where := _locate_benchmark(result, run))]
    if not gradable:
        raise ResultsUnusable(f"run {run.report.run.id} holds no stored answers to grade again")
    tasks: list[RegradedTask] = []
    # all are planned before one is graded: a benchmark that is gone is said at once
    for planned, old in [(_plan_again(old, where, run, judge, settings), old) for old, where in gradable]:
        count = sum(1 for _ in run.samples(old.task))
        new = _grade(planned, Generated(shards=old.responses, responses=count, usage=old.usage), artifacts)
        before, after = (read_shards(artifacts, result.samples, Sample) for result in (old, new))
        try:
            compared = compare(before, after)
        except ResultsUnusable:
            compared = None
        tasks.append(RegradedTask(old=old, new=new, compared=compared))
    return RegradedRun(run=run.report.run.id, tasks=tuple(tasks))


def _locate_benchmark(result: TaskResult, run: FoundRun) -> str | None:
    """Return name or path of a result's benchmark; None for the harness or without answers. Raises UnknownTask."""
    if result.items is None or not result.responses:
        return None
    tasks = run.report.run.config.get("tasks")
    paths = [str(entry["task"]) for entry in tasks if isinstance(entry, dict)] if isinstance(tasks, list) else []
    # a benchmark of the user's own is found by its path alone
    for path in paths:
        if ":" in path or path.endswith(OWN_SUFFIXES):
            try:
                benchmark = find_task(path, None)
            except UnknownTask:  # it no longer exists
                continue
            if benchmark and benchmark.name == result.task:
                return path
    return result.task if find_task(result.task, None) else None


def _plan_again(
    old: TaskResult, benchmark_name: str, run: FoundRun, judge: ModelSpec | None, settings: RunSettings
) -> PlannedTask:
    """Return the plan of a task as it was asked then, with today's grader."""
    benchmark = find_task(benchmark_name, None)
    assert benchmark is not None
    assert old.items is not None
    config = run.report.run.config
    judge_then = ModelSpec.model_validate(config["judge"]) if config.get("judge") else None
    auto_then = bool(config.get("auto_judge", True))
    chosen = select_judge(benchmark, judge or judge_then, auto=auto_then and not judge)
    repeats = old.settings.get("repeats")
    programs, asked_ks, ks = benchmark.family == "code", old.settings.get("k"), settings.ks
    if not ks and isinstance(asked_ks, list):
        ks = tuple(k for k in asked_ks if isinstance(k, int))
    ks, unsafe_code = ks if programs or repeats != 1 else (), settings.unsafe_code and programs
    old_settings = {name: value for name, value in old.settings.items() if name not in (*PROGRAM_SETTINGS, "extract")}
    read_then: list[Policy] = [policy for policy in POLICIES if policy == old.settings.get("extract")] or ["published"]
    extract: Policy = (settings.extract or read_then[0]) if benchmark.reads_answers else "published"
    return PlannedTask(
        task=old.task,
        benchmark=benchmark_name,
        version=old.version,
        family=old.family,
        data=old.data,
        items=old.items,
        count=old.counts.items,
        repeats=repeats if isinstance(repeats, int) else 1,
        sampling=Sampling.model_validate(old.settings.get("sampling", {})),
        judge=chosen and identify_model(chosen, optional_responses())[0],
        ks=ks,
        extract=extract,
        unsafe_code=unsafe_code,
        settings=old_settings
        | ({} if extract == "published" else {"extract": extract})
        | describe_programs(ks, unsafe_code=unsafe_code, python=identify_other_python() if programs else ""),
    )


def _grade(task: PlannedTask, generated: Generated, artifacts: Artifacts) -> TaskResult:
    scored = tuple(
        score_shard(shard, task, artifacts, Asking(task.judge) if task.judge else None) for shard in generated.shards
    )
    return build_result(task, generated, scored, artifacts)
