"""What a run would ask: calls, tokens and cost, before anything is asked."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from pydantic import Field

from models.protocols import ChatRequest
from storage.artifacts import Artifacts
from storage.records import Record
from storage.responses import Responses
from storage.storage_errors import DatabaseUnavailable
from tasks.budget import Prices, Tokens
from tasks.calls import estimate, response_key
from tasks.evaluation.evaluation_records import Reply
from tasks.evaluation.running.generation import request_of
from tasks.evaluation.running.model_spec import ModelSpec
from tasks.evaluation.running.open_models import open_model
from tasks.evaluation.running.planning import Plan, PlannedTask, read_items

GROUP = 1_000
"""Requests that are looked up at once."""


class TaskEstimate(Record):
    """What one task may take, on the high side."""

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
    """What a run may take, on the high side."""

    tasks: tuple[TaskEstimate, ...]
    harness: tuple[str, ...] = ()
    """Tasks of the harness, which are not counted."""
    skipped: dict[str, str] = Field(default_factory=dict)
    """Tasks that were evaluated before, with the run that did it."""


def estimate_run(
    plan: Plan, model: ModelSpec, artifacts: Artifacts, responses: Responses, *, prices: Prices | None
) -> RunEstimate:
    """Count without asking; a database that is away is taken to hold nothing."""
    chat_id = open_model(model).id
    counted = [_estimate(task, chat_id, artifacts, responses, prices) for task in plan.tasks]
    return RunEstimate(
        tasks=tuple(counted), harness=tuple(chosen.task for chosen in plan.harness), skipped=plan.skipped
    )


def _estimate(
    task: PlannedTask, chat_id: str, artifacts: Artifacts, responses: Responses, prices: Prices | None
) -> TaskEstimate:
    calls = stored = prompt = answer = 0
    requests = _requests(task, artifacts)
    while group := list(islice(requests, GROUP)):
        known = _known(responses, [response_key(chat_id, request) for first, request in group if first])
        for first, request in group:
            calls += 1
            if first and response_key(chat_id, request) in known:
                stored += 1
            else:
                expected = estimate(request)
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


def _requests(task: PlannedTask, artifacts: Artifacts) -> Iterator[tuple[bool, ChatRequest]]:
    """Every request, and whether it is a first turn; later turns are counted without what will be said before."""
    for item in read_items(artifacts, task.items):
        for repeat in range(task.repeats):
            for turn in range(len(item.prompts)):
                yield turn == 0, request_of(task, item, repeat=repeat, said=[Reply(text="")] * turn)


def _known(responses: Responses, keys: list[str]) -> set[str]:
    try:
        return set(responses.many(keys)) if keys else set()
    except DatabaseUnavailable:
        return set()
