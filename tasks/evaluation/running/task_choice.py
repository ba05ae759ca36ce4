"""Turns the tasks that a user named into a plan, and estimates its calls, tokens and cost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from models.backends import check_args
from models.model_errors import ModelUnavailable
from models.protocols import Chat
from storage.artifacts import Artifacts
from storage.records import Record
from storage.responses import Responses
from storage.storage_errors import DatabaseUnavailable
from tasks.budget import Prices, Tokens
from tasks.calls import estimate_tokens, response_key
from tasks.evaluation.benchmarks.base import BaseBenchmark
from tasks.evaluation.evaluation_errors import BenchmarkUnusable, PreflightFailed, UnknownTask
from tasks.evaluation.evaluation_records import ModelFacts, Reply
from tasks.evaluation.running.benchmark_data import Data
from tasks.evaluation.running.generation import request_of
from tasks.evaluation.running.open_models import ModelSpec, open_model
from tasks.evaluation.running.planning import (
    EvaluationRequest,
    Plan,
    PlannedTask,
    TaskChoice,
    plan_task,
    read_items,
    settings_digest,
)
from tasks.evaluation.running.replaying import read_recorded, recorded_of

if TYPE_CHECKING:
    from storage.evaluations import Evaluations

GROUP = 1_000
LACKING = {
    "ZeroEval": "the solutions of its grids are private; name ZeroEvalMath and ZeroEvalNumersense, and CruxEval",
    "SWE-Bench": "it needs a container for each repository",
    "SafetyBench": "its data are not read here",
    "AlpacaEvalWeighted": "it is AlpacaEval now; the judge's prompt of our own went",
    "LiveBench": "a third of its tasks has a grader by rule, so that its average can be compared with nothing",
    "CodeElo": "its ratings need the site as judge; CodeForces runs official tests",
    "LiveCodeBenchOfficial": "name LiveCodeBench, which asks in the words of evalchemy",
    "LiveCodeBenchv5Official": "name LiveCodeBenchv5, which asks in the words of evalchemy",
    "MixEval": "name the benchmarks that it draws from, such as bbh and gsm8k of the harness",
    "MixEvalHard": "name the benchmarks that it draws from, such as bbh and gsm8k of the harness",
}
"""Benchmarks that evalchemy or an earlier version names and that are not here, and why."""


def choose(
    request: EvaluationRequest, artifacts: Artifacts, evaluations: Evaluations | None, *, opened: bool = True
) -> Plan:
    """The plan of a run. Raises UnknownTask, DataMissing, DataUnusable, BenchmarkUnusable, ModelUnavailable.

    evaluations: where earlier results are; None to look nowhere. A database that is away knows nothing.
    opened: the model must be one that can be asked here.
    """
    model, settings, include_path = request.model, request.settings, request.include_path
    known = None if request.overwrite or settings.debug else evaluations
    lacking = _lacking([chosen.task for chosen in request.tasks], include_path)
    named = [chosen for chosen in request.tasks if chosen.task not in lacking]
    found = [(chosen, find(chosen.task, include_path)) for chosen in named]  # before a model is loaded for a typo
    chat = open_model(model) if opened else _openable(model)
    facts = model.facts(chat) if chat else ModelFacts(name=model.name or model.backend, backend=model.backend)
    data = Data(request.data_dir)
    planned: list[PlannedTask] = []
    harness: list[TaskChoice] = []
    skipped: dict[str, str] = {}
    for chosen, benchmark in found:
        if benchmark is None:
            harness.append(chosen)
            continue
        own = settings
        if model.backend == "replay" and not settings.n_repeat:  # as many repeats as were recorded
            own = settings.model_copy(update={"n_repeat": read_recorded(recorded_of(model, benchmark.name)).repeats})
        task = plan_task(
            benchmark,
            data,
            artifacts,
            # a file or a class is found again as it was named
            named=chosen.task if any(sign in chosen.task for sign in "./:") else benchmark.name,
            settings=own,
            model=model,
            judge=judge_of(benchmark, request.judge, auto=request.auto_judge),
            batch_size=chosen.batch_size,
        )
        if task.score_only and model.backend != "replay":
            raise PreflightFailed(
                f"{task.task} grades recorded answers and asks no model; give them with --model replay "
                f"--model_args path=FOLDER, or `trivet eval score FILE --task {task.task}`"
            )
        if known and (run := done_before(task, facts, known)):
            skipped[task.task] = run
        else:
            planned.append(task)
    return Plan(model=facts, tasks=tuple(planned), harness=tuple(harness), skipped=skipped, lacking=lacking)


def _lacking(tasks: Sequence[str], include_path: Path | None) -> dict[str, str]:
    """Tasks of other harnesses that are not here → why. Raises UnknownTask where all are."""
    from tasks.evaluation.benchmarks.benchmark_registry import plainly_named
    from tasks.evaluation.harness.harness_run import is_harness_task

    reasons = {name.casefold(): why for name, why in LACKING.items()}
    named = {task: why for task in tasks if (why := reasons.get(task.casefold()))}
    own = [task for task in named if plainly_named(task) or (include_path and is_harness_task(task, include_path))]
    lacking = {task: why for task, why in named.items() if task not in own}
    if lacking and len(lacking) == len(tasks):
        raise UnknownTask("; ".join(f"there is no {task} here: {why}" for task, why in lacking.items()))
    return lacking


def _openable(model: ModelSpec) -> Chat | None:
    """The model; None where it cannot be had here. Raises ModelUnavailable for arguments that it does not take."""
    check_args(model.backend, model.args)
    try:
        return open_model(model)
    except ModelUnavailable:
        return None


def find(name: str, include_path: Path | None) -> BaseBenchmark | None:
    """The benchmark of that name; None for a task of the harness. Raises UnknownTask, BenchmarkUnusable."""
    from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark, plainly_named
    from tasks.evaluation.harness.harness_run import is_harness_task

    try:
        return find_benchmark(name)
    except (UnknownTask, BenchmarkUnusable):  # a YAML file of the harness is none of ours
        if is_harness_task(name, include_path):
            return None
        if benchmark := plainly_named(name):
            return benchmark
        if is_harness_task(name.lower(), include_path):
            raise UnknownTask(f"there is no benchmark {name}; the harness has the task {name.lower()}") from None
        raise


def judge_of(benchmark: BaseBenchmark, judge: ModelSpec | None, *, auto: bool) -> ModelSpec | None:
    """The judge of this benchmark; None if it needs none."""
    if benchmark.judge is None:
        return None
    if not auto:
        return judge
    backend, _, name = benchmark.judge.partition(":")
    named = {"backend": backend, "name": name}
    return judge.model_copy(update=named) if judge else ModelSpec(backend=backend, name=name)


def done_before(task: PlannedTask, model: ModelFacts, known: Evaluations) -> str | None:
    """The run that evaluated the same revision on the same data under the same settings, if there is one."""
    try:
        return known.evaluated_before(
            model_name=model.name,
            model_revision=model.revision,
            backend=model.backend,
            dataset_name=task.data.name,
            dataset_checksum=task.data.checksum,
            settings_digest=settings_digest(task),
        )
    except DatabaseUnavailable:
        return None


class TaskEstimate(Record):
    """Upper estimate of what one task takes."""

    task: str
    items: int
    repeats: int
    calls: int
    """Turns of all items and repeats; judges are not counted."""
    stored: int
    """First turns among them that the response store already answers."""
    prompt_tokens: int
    """Prompt tokens of the calls that are not stored."""
    completion_tokens: int
    """Upper bound on their completion tokens: every answer as long as max_tokens allows."""
    cost: float | None = None


class RunEstimate(Record):
    """Upper estimate of what a run takes."""

    tasks: tuple[TaskEstimate, ...]
    harness: tuple[str, ...] = ()
    """Harness tasks, which are not counted."""
    skipped: dict[str, str] = Field(default_factory=dict)
    """Tasks that were evaluated before → run."""
    notes: tuple[str, ...] = ()


def estimate_run(
    plan: Plan, model: ModelSpec, artifacts: Artifacts, responses: Responses, *, prices: Prices | None
) -> RunEstimate:
    """Count calls without making any; an unavailable database counts as empty."""
    chat = _openable(model)
    chat_id = chat.id if chat else None
    notes = [] if chat else [f"{plan.model.name} cannot be had here: no answer of it is counted as stored"]
    if any(task.examples for task in plan.tasks):
        notes.append("the prompt tokens of demonstrations are not counted, as they are not chosen yet")
    return RunEstimate(
        tasks=tuple(_estimate(task, chat_id, artifacts, responses, prices) for task in plan.tasks),
        harness=tuple(chosen.task for chosen in plan.harness),
        skipped=plan.skipped,
        notes=(*notes, *plan.notes),
    )


def _estimate(
    task: PlannedTask, chat_id: str | None, artifacts: Artifacts, responses: Responses, prices: Prices | None
) -> TaskEstimate:
    calls = stored = prompt = answer = 0
    # every request, and whether it is a first turn; later turns are counted without the replies before them
    requests = (
        (turn == 0, request_of(task, item, repeat=repeat, said=[Reply(text="")] * turn))
        for item in read_items(artifacts, task.items)
        for repeat in range(task.repeats)
        for turn in range(len(item.prompts))
    )
    while group := list(islice(requests, GROUP)):
        keys = [response_key(chat_id, request) if chat_id and first else None for first, request in group]
        try:
            known = set(responses.many([key for key in keys if key])) if any(keys) else set[str]()
        except DatabaseUnavailable:
            known = set[str]()
        for key, (_, request) in zip(keys, group, strict=True):
            calls += 1
            if key in known:
                stored += 1
            else:
                expected = estimate_tokens(request)
                prompt, answer = prompt + expected.prompt, answer + expected.answer
    return TaskEstimate(
        task=task.task,
        items=task.count,
        repeats=task.repeats,
        calls=calls,
        stored=stored,
        prompt_tokens=prompt,
        completion_tokens=answer,
        cost=prices.cost(Tokens(prompt, answer)) if prices else None,
    )
