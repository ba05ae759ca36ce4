"""What `flows.evaluate.evaluate` would do, step by step as it stands there."""

from __future__ import annotations

from math import ceil
from typing import Any

from flows.running.evaluation_config import EvaluateConfig, planned_of
from flows.running.foresight.foreseeing import Foresight, RunPlan, Unknown, known
from storage.files import sha256_of
from tasks.demonstrating.steps import seen_by, show_examples
from tasks.evaluation import steps
from tasks.evaluation.results.results_file import refuse_output
from tasks.evaluation.running.generation import SHARD_RESPONSES, Generated
from tasks.evaluation.running.planning import Plan, PlannedTask
from tasks.evaluation.running.replaying import recorded_of
from tasks.evaluation.running.task_choice import RunEstimate, estimate_run
from tasks.origins.missing import Names
from tasks.resources import artifacts, responses

REPORT = "a report of its own for each run"


class EvaluationPlan(RunPlan):
    """What an evaluation would do."""

    calls: RunEstimate
    """Of the tasks whose answers are not all kept; those of judges are not counted."""


def plan_evaluation(config: EvaluateConfig) -> EvaluationPlan:
    """What `evaluate` would do; keeps the items of its tasks, and writes nothing else.

    Raises what `evaluate` raises before its first step, and what its step `plan` raises.
    """
    if config.save != "database" and not config.settings.debug:
        refuse_output(config.output_path)
    planned = planned_of(config)
    ahead = Foresight(Names(now=_names(planned, config)))
    ahead.foresee(steps.plan)
    shown = [_with_examples(task, config, ahead) for task in planned.tasks]
    for task in planned.tasks:
        if not task.whole:
            ahead.foresee(steps.preflight)
    asked = list[PlannedTask]()
    for planned_task, task in zip(planned.tasks, shown, strict=True):
        if planned_task.whole:
            ahead.foresee(steps.run_whole)
            continue
        generated = _generated(planned_task, task, config, ahead, revision=planned.model.revision)
        shards = generated.shards if known(generated) else [generated] * ceil(planned_task.samples / SHARD_RESPONSES)
        scored = ahead.foresee_each(steps.score, shards, task=task, spending=config.spending)
        ahead.foresee(steps.aggregate, task, generated=generated, scored=tuple(scored))
        if not known(generated) and config.model.backend != "replay":
            asked.append(planned_task)
    for _ in planned.harness:
        ahead.foresee(steps.run_harness)
    if not config.settings.debug:
        _foresee_keeping(planned, config, ahead)
    without_answers = planned.model_copy(update={"tasks": tuple(asked)})
    prices = config.spending.prices
    calls = estimate_run(without_answers, config.model, artifacts(), responses(), prices=prices)
    return EvaluationPlan(**dict(ahead.plan), calls=calls)


def _names(planned: Plan, config: EvaluateConfig) -> dict[str, str]:
    """The files that answers are read from, and the data of tasks, by digest."""
    names = {task.data.checksum: f"data of {task.task}" for task in planned.tasks}
    if config.model.backend == "replay":
        recorded = [recorded_of(config.model, task.task) for task in planned.tasks]
        names |= {sha256_of(path): path.name for path in recorded}
    return names


def _with_examples(task: PlannedTask, config: EvaluateConfig, ahead: Foresight) -> PlannedTask | Unknown:
    """The task with the demonstrations that the run asks for, if they are chosen already."""
    if not (task.examples and (chosen := config.settings.demonstrations)):
        return task
    told: dict[str, Any] = {"fingerprint": seen_by(chosen), "seed": config.settings.seed[-1]}
    return ahead.foresee(show_examples, task, chosen=chosen, **told)


def _generated(
    planned: PlannedTask, task: PlannedTask | Unknown, config: EvaluateConfig, ahead: Foresight, *, revision: str
) -> Generated | Any:
    """The answers to a task, if they are kept. planned: as it was before examples were shown."""
    if config.model.backend == "replay":
        recorded = recorded_of(config.model, planned.task)
        return ahead.foresee(steps.recall, task, recorded=recorded, digest=sha256_of(recorded))
    parts = config.data_parallel
    chosen: dict[str, Any] = {"model": config.model, "revision": revision, "spending": config.spending}
    answered = [
        ahead.foresee(steps.generate, task, part=part, parts=parts, **chosen) for part in range(config.data_parallel)
    ]
    return answered[0] if len(answered) == 1 else ahead.foresee(steps.merge, task, parts=tuple(answered))


def _foresee_keeping(planned: Plan, config: EvaluateConfig, ahead: Foresight) -> None:
    """Where the report goes: it is another one for each run."""
    has_results = bool(planned.tasks or planned.harness)
    to_database = config.save != "file" and has_results
    if to_database:
        ahead.foresee(steps.compare_with_last)
        ahead.will_run(steps.write_database, REPORT)
    if config.save != "database" and (has_results or planned.skipped):
        ahead.will_run(steps.write_json, REPORT)
    if has_results:
        ahead.foresee(steps.publish_report)
