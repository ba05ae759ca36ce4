"""Turns the tasks that a user named into a plan, and estimates its calls, tokens and cost."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from models.backends import check_args
from models.model_errors import ModelUnavailable
from models.protocols import Chat
from storage.artifacts import Artifacts
from storage.evaluated import EvalSettings
from storage.records import Record
from storage.responses import Responses
from storage.storage_errors import DatabaseUnavailable
from tasks.budget import Prices, Tokens
from tasks.calls import estimate_tokens, response_key
from tasks.evaluation.benchmarks.base import BaseBenchmark
from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark, find_by_plain_name, plain_name
from tasks.evaluation.evaluation_errors import (
    BenchmarkUnusable,
    DataMissing,
    DataUnusable,
    PreflightFailed,
    UnknownTask,
)
from tasks.evaluation.evaluation_records import Item, ModelFacts, Reply
from tasks.evaluation.record_lines import read_lines
from tasks.evaluation.running.benchmark_data import Data
from tasks.evaluation.running.generation import build_request, find_recorded, read_recorded
from tasks.evaluation.running.open_models import ModelSpec, identify_model, open_model
from tasks.evaluation.running.planning import EvaluationRequest, Plan, PlannedTask, TaskChoice, plan_task
from tasks.resources import optional_responses

if TYPE_CHECKING:
    from storage.evaluations import Evaluations

LOOKUP_BATCH = 1_000
"""Number of requests that are looked up in the response store at once."""
NAMES = tomllib.loads(Path(__file__).with_name("task_names.toml").read_text("utf-8"))
"""Names that evalchemy or an earlier version has: `families`, what each stands for; `lacking`, why it is not here."""


def plan_run(
    request: EvaluationRequest, artifacts: Artifacts, evaluations: Evaluations | None, *, opened: bool = True
) -> Plan:
    """Return the plan of a run.

    A benchmark without usable data is left out with the reason. Raises UnknownTask, BenchmarkUnusable, PreflightFailed
    and ModelUnavailable; DataMissing or DataUnusable where none has any.

    evaluations: where earlier results are; None to look nowhere. A database that is away knows nothing.
    opened: the model must be one that can be asked here.
    """
    model, settings = request.model, request.settings
    earlier_results = None if request.overwrite or settings.debug else evaluations
    benchmarks, lacking = find_tasks(request)  # before a model is loaded for a typo
    chat, remarks = open_model(model) if opened else _open_if_possible(model), list[str]()

    @cache
    def identified(spec_json: str) -> ModelSpec:
        spec, of_it = identify_model(ModelSpec.model_validate_json(spec_json), optional_responses(), ask=opened)
        remarks.extend(of_it)
        return spec

    if chat:
        model = identified(model.model_dump_json())
        chat = open_model(model)
    facts = model.facts(chat) if chat else ModelFacts(name=model.name or model.backend, backend=model.backend)
    data = Data(request.data_dir)
    planned: list[PlannedTask] = []
    harness: list[TaskChoice] = []
    skipped: dict[str, str] = {}
    without_data: dict[str, DataMissing | DataUnusable] = {}
    for choice, benchmark in benchmarks:
        if benchmark is None:
            harness.append(choice)
            continue
        task_settings = settings
        if model.backend == "replay" and not settings.n_repeat:  # as many repeats as were recorded
            task_settings = settings.model_copy(
                update={"n_repeat": read_recorded(find_recorded(model, benchmark.name)).repeats}
            )
        judge = select_judge(benchmark, request.judge, auto=request.auto_judge)
        if judge and opened:
            with suppress(ModelUnavailable):  # the preflight says so, beside what else is wrong
                judge = identified(judge.model_dump_json())
        try:
            task = plan_task(
                benchmark,
                data,
                artifacts,
                # a file or a class is found again as it was named
                benchmark_name=choice.task if any(sign in choice.task for sign in "./:") else benchmark.name,
                settings=task_settings,
                model=model,
                judge=judge,
                batch_size=choice.batch_size,
            )
        except (DataMissing, DataUnusable) as error:
            without_data[benchmark.name] = error
            continue
        if task.score_only and model.backend != "replay":
            raise PreflightFailed(
                f"{task.task} grades recorded answers and asks no model; give them with --model replay "
                f"--model_args path=FOLDER, or `trivet eval score FILE --task {task.task}`"
            )
        run = find_earlier_run(task, facts, earlier_results) if earlier_results else None
        if run:
            skipped[task.task] = run
        else:
            planned.append(task)
    if without_data and not (planned or harness or skipped):
        first = next(iter(without_data.values()))
        raise type(first)("; ".join(map(str, without_data.values()))) from first
    return Plan(
        model=facts,
        spec=model,
        tasks=tuple(planned),
        harness=tuple(harness),
        skipped=skipped,
        lacking=lacking | {name: str(why) for name, why in without_data.items()},
        remarks=tuple(remarks),
    )


def find_tasks(request: EvaluationRequest) -> tuple[list[tuple[TaskChoice, BaseBenchmark | None]], dict[str, str]]:
    """Return the tasks with their benchmarks, as `find_task` does, and why others are not here. Raises UnknownTask."""
    members = ((choice, member) for choice in request.tasks for member in expand_family(choice.task))
    named = [choice.model_copy(update={"task": member}) for choice, member in members]
    lacking = _find_lacking([choice.task for choice in named], request.include_path)
    choices = [choice for choice in named if choice.task not in lacking]
    return [(choice, find_task(choice.task, request.include_path)) for choice in choices], lacking


def expand_family(name: str) -> list[str]:
    """Return the benchmarks for which a name of evalchemy stands; else the name alone."""
    families: dict[str, list[str]] = NAMES["families"]
    return next((members for family, members in families.items() if plain_name(family) == plain_name(name)), [name])


def _find_lacking(tasks: Sequence[str], include_path: Path | None) -> dict[str, str]:
    """Return the reason for each task of another harness that is not here. Raises UnknownTask where all are."""
    from tasks.evaluation.harness.harness_run import is_harness_task

    reasons = {plain_name(name): str(why) for name, why in NAMES["lacking"].items()}
    absent = {task: why for task in tasks if (why := reasons.get(plain_name(task)))}
    available = [
        task for task in absent if find_by_plain_name(task) or (include_path and is_harness_task(task, include_path))
    ]
    lacking = {task: why for task, why in absent.items() if task not in available}
    if lacking and len(lacking) == len(tasks):
        raise UnknownTask("; ".join(f"there is no {task} here: {why}" for task, why in lacking.items()))
    return lacking


def _open_if_possible(model: ModelSpec) -> Chat | None:
    """Return the model; None where it cannot be opened here. Raises ModelUnavailable for arguments of no use to it."""
    check_args(model.backend, model.opening_args)
    try:
        return open_model(model)
    except ModelUnavailable:
        return None


def find_task(name: str, include_path: Path | None) -> BaseBenchmark | None:
    """Return the benchmark of that name; None for a task of the harness. Raises UnknownTask, BenchmarkUnusable."""
    from tasks.evaluation.harness.harness_run import is_harness_task

    try:
        return find_benchmark(name)
    except (UnknownTask, BenchmarkUnusable):  # a YAML file of the harness is none of ours
        if is_harness_task(name, include_path):
            return None
        if benchmark := find_by_plain_name(name):
            return benchmark
        if is_harness_task(name.lower(), include_path):
            raise UnknownTask(f"there is no benchmark {name}; the harness has the task {name.lower()}") from None
        raise


def select_judge(benchmark: BaseBenchmark, judge: ModelSpec | None, *, auto: bool) -> ModelSpec | None:
    """Return a benchmark's judge: `judge`, or by `auto` the published one, reached as `judge` is; None: no judge."""
    if benchmark.judge is None:
        return None
    if not auto:
        return judge
    backend, _, name = benchmark.judge.partition(":")
    update = {"backend": backend, "name": name}  # the judge given says only how to reach it
    return judge.model_copy(update=update) if judge else ModelSpec(backend=backend, name=name)


def find_earlier_run(task: PlannedTask, model: ModelFacts, evaluations: Evaluations) -> str | None:
    """Return the ID of the last run of this revision on the same data and settings; None without one, or a database."""
    try:
        return evaluations.evaluated_before(
            model_name=model.name,
            model_revision=model.revision,
            backend=model.backend,
            dataset_name=task.data.name,
            dataset_checksum=task.data.checksum,
            settings_digest=EvalSettings(name=task.task, parameters=task.settings).digest,
        )
    except DatabaseUnavailable:
        return None


class TaskEstimate(Record):
    """An upper estimate of the calls, tokens and cost of one task."""

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
    """An upper estimate of the calls, tokens and cost of a run."""

    tasks: tuple[TaskEstimate, ...]
    harness: tuple[str, ...] = ()
    """Names of the harness tasks, whose calls are not counted."""
    skipped: dict[str, str] = Field(default_factory=dict)
    """Tasks that were evaluated before → run."""
    notes: tuple[str, ...] = ()


def estimate_run(
    plan: Plan, model: ModelSpec, artifacts: Artifacts, responses: Responses, *, prices: Prices | None
) -> RunEstimate:
    """Estimate the calls of a plan without making any; an unavailable database counts as empty."""
    chat = _open_if_possible(model)
    chat_id = chat.id if chat else None
    notes = [] if chat else [f"{plan.model.name} cannot be had here: no answer of it is counted as stored"]
    if any(task.examples for task in plan.tasks):
        notes.append("the prompt tokens of demonstrations are not counted, as they are not chosen yet")
    return RunEstimate(
        tasks=tuple(_estimate_task(task, chat_id, artifacts, responses, prices) for task in plan.tasks),
        harness=tuple(choice.task for choice in plan.harness),
        skipped=plan.skipped,
        notes=(*notes, *plan.notes),
    )


def _estimate_task(
    task: PlannedTask, chat_id: str | None, artifacts: Artifacts, responses: Responses, prices: Prices | None
) -> TaskEstimate:
    """Count the calls of a task, and the tokens of those whose answers are not stored."""
    calls = stored = prompt = answer = 0
    # every request, and whether it is a first turn; later turns are counted without the replies before them
    requests = (
        (turn == 0, build_request(task, item, repeat=repeat, earlier_replies=[Reply(text="")] * turn))
        for item in read_lines(artifacts, task.items, Item)
        for repeat in range(task.repeats)
        for turn in range(len(item.prompts))
    )
    while group := list(islice(requests, LOOKUP_BATCH)):
        keys = [response_key(chat_id, request) if chat_id and first else None for first, request in group]
        try:
            stored_keys = set(responses.many([key for key in keys if key])) if any(keys) else set[str]()
        except DatabaseUnavailable:
            stored_keys = set[str]()
        for key, (_, request) in zip(keys, group, strict=True):
            calls += 1
            if key in stored_keys:
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
