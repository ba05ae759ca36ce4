"""A model is measured on benchmarks.

plan ─► preflight ─► generate(benchmark 1) ─► generate(benchmark 2) ─► …     one model fills the device   (GPU)
                          └─► score shards ─┐     └─► score shards ─┐        while later ones generate    (CPU)
                                            └──────────► aggregate ─► write_database ─► write_json ─► report
tasks of the lm-evaluation-harness ─► run_harness ─────────┘                            compare_with_last ─┘

Demonstrations, where a run asks for them, stand behind plan: list_examples ─► choose_examples ─► show_examples.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from prefect import flow
from prefect.futures import PrefectFuture
from prefect.runtime import flow_run

from flows.running.environment import program
from flows.running.evaluation_config import EvaluateConfig as EvaluateConfig
from flows.running.run_reporting import say, watched
from flows.running.run_state import EvaluationRun
from flows.running.task_runners import task_runner
from storage.files import sha256_of
from storage.storage_errors import StorageError
from tasks.evaluation import steps
from tasks.evaluation.evaluation_records import AgainstLast, EvalReport, TaskResult
from tasks.evaluation.results.results_file import refuse_output
from tasks.evaluation.results.run_report import format_headline
from tasks.evaluation.running.generation import Generated, find_recorded
from tasks.evaluation.running.open_models import release_models
from tasks.evaluation.running.planning import PlannedTask, TaskChoice
from tasks.evaluation.running.shard_grading import Scored
from tasks.lever.steps import choose_examples, embedder_fingerprint
from tasks.resources import budget
from tasks.step import gather, quoted, with_device, with_name

runner: Any = task_runner(max(4, os.cpu_count() or 1))


@flow(name="evaluation", flow_run_name="{config.title}", version=program(), task_runner=runner, persist_result=False)
@watched
def evaluate(config: EvaluateConfig) -> EvalReport:
    """Measure a model; only what was never asked is asked, and only what is not graded yet is graded."""
    run = EvaluationRun.begin(flow_run.id, config.model_dump(mode="json"))
    if config.save != "database" or config.settings.debug:
        refuse_output(config.output_path)
    planned = steps.plan(config)
    config = config.model_copy(update={"model": planned.spec})
    planned = planned.model_copy(update={"tasks": tuple(_with_examples(task, config) for task in planned.tasks)})
    for task in planned.tasks:
        if not task.whole:
            run.guard(task.task, with_name(steps.preflight, f"preflight {task.task}"), quoted(task))
    tasks = [task for task in planned.tasks if task.task not in run.failed]

    answered: list[_Answered] = []
    revision = planned.model.revision
    for task in tasks:
        if task.whole:
            run.results += run.guard(task.task, _run_at_once, steps.run_whole, task, config, run) or []
        elif generated := run.guard(task.task, _generate, task, config, run, revision=revision):
            scoring = None if _needs_device(task) else _score(task, generated, config)
            answered.append(_Answered(task, generated, scoring))
    of_harness: dict[str, Any] = {"settings": config.settings, "include_path": config.include_path}
    for choice in planned.harness:
        run.results += run.guard(choice.task, _run_at_once, steps.run_harness, choice, config, run, **of_harness) or []

    if any(_needs_device(task) for task in tasks):
        release_models()  # the judge needs the device
    for each in answered:
        run.results += run.guard(each.task.task, _aggregate, each, config, run) or []

    report = run.report(planned, spent=budget(str(flow_run.id), config.spending))
    if report.results or report.earlier:
        report = _write_report(report, config, run)
    for result in report.results:
        say(format_headline(result))
    return run.end(report)


def _with_examples(task: PlannedTask, config: EvaluateConfig) -> PlannedTask:
    """Return the task with the demonstrations that the run asks for; unchanged where there are none."""
    recipe = config.settings.demonstrations
    if not task.examples or not recipe:
        return task
    texts = with_name(steps.list_examples, f"list_examples {task.task}")(quoted(task))
    examples = with_name(choose_examples, f"choose_examples {task.task}")(
        texts,
        chosen=recipe,
        fingerprint=embedder_fingerprint(recipe),
        seed=config.settings.seed[-1],  # of few-shot examples
    )
    return with_name(steps.show_examples, f"show_examples {task.task}")(quoted(task), shown=examples)


class _Answered(NamedTuple):
    """A task with its answers, and the scoring of its shards."""

    task: PlannedTask
    generated: Generated
    scoring: list[PrefectFuture[Scored]] | None


def _generate(task: PlannedTask, config: EvaluateConfig, run: EvaluationRun, *, revision: str) -> Generated:
    """Return the answers to a task, generated now or recorded; wait for them, since one model fills the device."""
    if config.model.backend == "replay":
        file = find_recorded(config.model, task.task)
        return with_name(steps.recall, f"recall {task.task}")(quoted(task), recorded=file, digest=sha256_of(file))
    parts, step = config.data_parallel, with_device(steps.generate, in_process=config.model.in_process)
    settings: dict[str, Any] = {"model": config.model, "revision": revision, "spending": config.spending}
    answering = [
        with_name(step, f"generate {task.task} {part + 1}/{parts}").submit(
            quoted(task), part=part, parts=parts, **settings
        )
        for part in range(parts)
    ]
    answered = run.note(gather(answering))
    return answered[0] if len(answered) == 1 else steps.merge(quoted(task), parts=quoted(tuple(answered)))


def _score(task: PlannedTask, generated: Generated, config: EvaluateConfig) -> list[PrefectFuture[Scored]]:
    """Submit every shard for scoring, in parallel with the generation of the next task; return the futures."""
    step = steps.score.with_options(tags=steps.generate.tags) if _needs_device(task) else steps.score  # a GPU step
    settings: dict[str, Any] = {"task": quoted(task), "spending": config.spending}
    return [
        with_name(step, f"score {task.task} {number}/{len(generated.shards)}").submit(shard, **settings)
        for number, shard in enumerate(generated.shards, start=1)
    ]


def _aggregate(answered: _Answered, config: EvaluateConfig, run: EvaluationRun) -> list[TaskResult]:
    """Return the result of a task, alone in a list, once its shards are graded, which begins now if not before."""
    task, generated, scoring = answered
    scored = tuple(run.note(gather(scoring or _score(task, generated, config))))
    step = with_name(steps.aggregate, f"aggregate {task.task}")
    return [step(quoted(task), generated=quoted(generated), scored=quoted(scored))]


def _run_at_once(
    step: Any, task: PlannedTask | TaskChoice, config: EvaluateConfig, run: EvaluationRun, **settings: Any
) -> list[TaskResult]:
    """Measure a task by a single step, which asks and grades; return its result, alone in a list."""
    whole = with_name(with_device(step, in_process=config.model.in_process), f"{step.name} {task.task}")
    return run.note(gather([whole.submit(quoted(task), model=config.model, spending=config.spending, **settings)]))


def _needs_device(task: PlannedTask) -> bool:
    """Return whether the judge is a model of this machine, which is loaded once the measured one is released."""
    return task.judge is not None and task.judge.in_process


def _write_report(report: EvalReport, config: EvaluateConfig, run: EvaluationRun) -> EvalReport:
    """Write the report to the database, and to a file if wanted or the database is unavailable.

    Return it with notes on what moved since the last run. A run of --debug is no result, and stands in its file alone.
    """
    to_database = config.save != "file" and bool(report.results) and not config.settings.debug
    if to_database:
        try:
            compared = steps.compare_with_last(quoted(report))
        except StorageError:  # the database is away, and to be written next: that says so
            compared = AgainstLast()
        additions = {"notes": (*report.notes, *compared.lines), "regressions": compared.regressions}
        report = report.model_copy(update=additions)
        run.in_database = run.attempt(lambda: steps.write_database(quoted(report)), "the database") is not None
    if config.save != "database" or config.settings.debug or (to_database and not run.in_database):
        file = run.attempt(lambda: steps.write_json(quoted(report), output_path=config.output_path), "the results file")
        run.written = file.path if file else None
    if report.results and not config.settings.debug:
        steps.publish_report(quoted(report), file=run.written)
    return report
