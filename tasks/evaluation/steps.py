"""The steps of the evaluation pipeline."""

from __future__ import annotations

import json
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

from storage.files import alone, sha256_of
from storage.records import Record, Ref
from tasks import progress
from tasks.budget import Spending
from tasks.calls import wait_for_twin
from tasks.evaluation.evaluation_errors import PreflightFailed
from tasks.evaluation.evaluation_records import AgainstLast, EvalReport, Example, Item, PriorTurn, Sample, TaskResult
from tasks.evaluation.record_lines import read_lines, write_lines
from tasks.evaluation.running import generation, whole_benchmarks
from tasks.evaluation.running.generation import Generated
from tasks.evaluation.running.open_models import Asking, ModelSpec
from tasks.evaluation.running.planning import (
    EvaluationRequest,
    Plan,
    PlannedTask,
    RunSettings,
    TaskChoice,
    identify_questions,
)
from tasks.evaluation.running.shard_grading import Scored
from tasks.keys import slug
from tasks.resources import artifacts, budget, evaluations, optional_responses, resources
from tasks.step import Incomplete, paying_run, slot, step


@step(version=1, reads_world=True)
def plan(request: EvaluationRequest) -> Plan:
    """Read the items of every task, and leave out what was evaluated before under the same settings."""
    from tasks.evaluation.running.task_choice import plan_run

    return plan_run(request, artifacts(), evaluations())


@step(version=1)
def list_examples(task: PlannedTask) -> Ref:
    """Store a task's texts by ID as JSON, {questions, examples, answers}, for `tasks.lever.steps.choose_examples`.

    An example that is one of the questions is left out.
    """
    from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark

    question_in, examples = find_benchmark(task.benchmark).question_in, _read_examples(task)
    texts = {
        "questions": {item.id: question_in(item.prompts[0]) for item in read_lines(artifacts(), task.items, Item)},
        "examples": {example.id: question_in(example.prompt) for example in examples},
        "answers": {example.id: example.answer for example in examples},
    }
    return artifacts().put("texts", json.dumps(texts, ensure_ascii=False).encode())


@step(version=1)
def show_examples(task: PlannedTask, *, shown: Ref) -> PlannedTask:
    """Return the task, examples as turns before each question. shown: JSON of each item's ID → IDs of its examples."""
    by_id = {example.id: example for example in _read_examples(task)}
    ids_by_item: dict[str, list[str]] = json.loads(artifacts().path(shown).read_bytes())
    items: list[Item] = []
    for item in read_lines(artifacts(), task.items, Item):
        turns = [
            turn
            for example_id in ids_by_item[item.id]
            for turn in (
                PriorTurn(role="user", text=by_id[example_id].prompt),
                PriorTurn(role="assistant", text=by_id[example_id].answer),
            )
        ]
        items.append(item.model_copy(update={"history": (*turns, *item.history)}))
    return task.model_copy(update={"items": write_lines(artifacts(), "items", items), "examples": None})


def _read_examples(task: PlannedTask) -> list[Example]:
    """Return the solved examples of a task that are none of its questions."""
    assert task.examples
    questions = {item.prompts[0] for item in read_lines(artifacts(), task.items, Item)}
    return [example for example in read_lines(artifacts(), task.examples, Example) if example.prompt not in questions]


@step(version=1, reads_world=True)
def preflight(task: PlannedTask) -> int:
    """Return the number of items. Raises PreflightFailed where golds, prompts or judgments do not pass the checks."""
    from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark
    from tasks.evaluation.running.shard_grading import find_problems

    benchmark = find_benchmark(task.benchmark)
    if problems := find_problems(benchmark, task, read_lines(artifacts(), task.items, Item)):
        raise PreflightFailed(f"{task.task} does not pass its own checks: {'; '.join(problems)}")
    return task.count


@step(version=2, gpu=True)
def generate(
    task: PlannedTask, *, model: ModelSpec, revision: str, spending: Spending, part: int = 0, parts: int = 1
) -> Generated:
    """Ask the model; each answer is in the response store before the next is asked for, so none is paid for twice.

    revision: of weights or script, for the step's key. part: the first of every `parts` items. Raises Incomplete.
    """
    del revision
    asking = _open_asking(model, spending, batch_size=task.batch_size)
    stage = f"generate {task.task}"
    progress.expect(stage, task.samples // parts)
    # a process that asks the same waits, and then finds the answers in the response store
    with alone(resources().home, f"{asking.chat.id} {identify_questions(task)} {part}/{parts}", wait=wait_for_twin):
        generated, unfinished = generation.generate(
            task,
            # every so many: a rank's share
            lambda: islice(read_lines(artifacts(), task.items, Item), part, None, parts),
            ask_all=asking.ask_all,
            artifacts=artifacts(),
            scratch=resources().home / "cache",
            prices=spending.prices,
            tell=lambda count: progress.advance(stage, count),
        )
    asking.require_answers()
    if unfinished:
        raise Incomplete(generated, unfinished)
    return generated


def _open_asking(model: ModelSpec, spending: Spending, *, batch_size: int | None = None) -> Asking:
    """Return what asks a model within the budget of this run."""
    spent = budget(paying_run(), spending)
    return Asking(model, budget=spent, prices=spending.prices, batch_size=batch_size)


@step(version=1)
def recall(task: PlannedTask, *, recorded: Path, digest: str) -> Generated:
    """Store the recorded answers to a task. digest: of the file, so that a changed one is read again."""
    del digest
    return generation.replay(task, recorded, artifacts())


@step(version=1)
def merge(task: PlannedTask, parts: tuple[Generated, ...]) -> Generated:
    """Merge the answers of several ranks into those that one rank would have given."""
    return generation.merge_parts(parts, read_lines(artifacts(), task.items, Item), artifacts())


@step(version=5)
def score(shard: Ref, *, task: PlannedTask, spending: Spending) -> Scored:
    """Grade a shard of responses. Raises Incomplete where a judge or the sandbox failed for now."""
    from tasks.evaluation.running.shard_grading import find_unfinished, score_shard

    asking = _open_asking(task.judge, spending) if task.judge else None
    progress.expect(f"score {task.task}", 1)
    lock = alone(resources().home, f"{asking.chat.id} {shard.digest}", wait=wait_for_twin) if asking else nullcontext()
    # the slot bounds how many shards ask a judge at once, over all processes
    with lock, slot("judge") if asking else nullcontext():
        scored = score_shard(shard, task, artifacts(), asking)
    progress.advance(f"score {task.task}")
    samples = read_lines(artifacts(), scored.samples, Sample)
    if unfinished := find_unfinished(task.task, samples, asking.away if asking else ()):
        raise Incomplete(scored, unfinished)
    return scored


@step(version=3)
def aggregate(task: PlannedTask, *, generated: Generated, scored: tuple[Scored, ...]) -> TaskResult:
    """Return the result of a task: its metrics over the samples of all shards."""
    from tasks.evaluation.running.shard_grading import build_result

    return build_result(task, generated, scored, artifacts())


@step(version=1, gpu=True, reads_world=True)
def run_whole(task: PlannedTask, *, model: ModelSpec, spending: Spending) -> TaskResult:
    """Run a benchmark with evalchemy's two methods; its model calls are stored too. Raises Incomplete."""
    asking = _open_asking(model, spending, batch_size=task.batch_size)
    result = whole_benchmarks.run_benchmark(task, asking, artifacts())
    asking.require_answers()
    if asking.away:
        raise Incomplete(result, {task.task: asking.away[0]})
    return result


@step(version=2, gpu=True, reads_world=True)
def run_harness(
    chosen: TaskChoice, *, model: ModelSpec, settings: RunSettings, include_path: Path | None, spending: Spending
) -> TaskResult:
    """Run a task of the lm-evaluation-harness with our backends. Raises Incomplete: the endpoint is away."""
    from tasks.evaluation.harness.harness_run import evaluate_harness

    asking, store = _open_asking(model, spending, batch_size=chosen.batch_size), artifacts()
    outcome = evaluate_harness(
        chosen.task,
        model=asking.chat,
        ask_all=asking.ask_all,
        responses=optional_responses(),
        settings=settings,
        include_path=include_path,
    )
    update = {
        "usage": asking.usage.plus(outcome.result.usage),
        "samples": (write_lines(store, "samples", outcome.samples),),
        "items": write_lines(store, "items", outcome.items),
        "responses": (write_lines(store, "responses", outcome.responses),) if outcome.responses else (),
    }
    result = outcome.result.model_copy(update=update)
    asking.require_answers()
    if asking.away:
        raise Incomplete(result, {chosen.task: asking.away[0]})
    return result


def _is_in_database(result: str, inputs: dict[str, Any]) -> bool:
    report: EvalReport = inputs["report"]
    return evaluations().has(result, {task.task: task.counts.samples for task in report.results})


@step(version=1, verify=_is_in_database)
def write_database(report: EvalReport) -> str:
    """Store the run in PostgreSQL; returns its ID. Writing it again changes nothing."""
    from tasks.evaluation.results.results_file import store_run

    with slot("database"):
        store_run(report, artifacts(), evaluations())
    return report.run.id


class Written(Record):
    """A results file that was written."""

    path: str
    digest: str
    """SHA-256 (hex) of the file's content."""


def _is_written(result: Written, inputs: dict[str, Any]) -> bool:
    del inputs
    path = Path(result.path)
    return path.is_file() and sha256_of(path) == result.digest


@step(version=1, verify=_is_written)
def write_json(report: EvalReport, *, output_path: Path) -> Written:
    """Write the results file, and the samples beside it."""
    from tasks.evaluation.results.results_file import write_files

    path = write_files(report, artifacts(), output_path=output_path)
    return Written(path=str(path), digest=sha256_of(path))


@step(version=1, reads_world=True)
def compare_with_last(report: EvalReport) -> AgainstLast:
    """Compare each task with the last run of the same model name, data and settings."""
    from tasks.evaluation.results.run_comparison import compare_with_last_run

    return compare_with_last_run(report, artifacts(), evaluations())


@step(version=1, reads_world=True)
def publish_report(report: EvalReport, *, file: str | None = None) -> str:
    """Show the run, with the path of its results file, in the Prefect UI; returns the key of the artifact."""
    from prefect.artifacts import create_markdown_artifact

    from tasks.evaluation.results.run_report import render_markdown

    key = f"evaluation-{slug(report.run.model.name)}-report"  # one key per model, so that the UI shows its history
    create_markdown_artifact(
        markdown=render_markdown(report, file=file), key=key, description="Scores and results file"
    )
    return key
