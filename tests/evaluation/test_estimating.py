"""What a run would ask, counted before anything is asked."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from models.protocols import ChatResponse
from models.scripted import ScriptedChat
from storage.artifacts import Artifacts
from storage.responses import Responses, StoredResponse
from tasks.budget import Prices
from tasks.calls import Answer, kept, response_key
from tasks.evaluation.evaluation_records import Item, ModelFacts, Sampling
from tasks.evaluation.running.generation import request_of
from tasks.evaluation.running.open_models import ModelSpec
from tasks.evaluation.running.planning import Plan, PlannedTask, TaskChoice, read_items
from tasks.evaluation.running.task_choice import estimate_run
from tests.evaluation.conftest import NOWHERE
from tests.evaluation.sums import task_of

MODEL = ModelSpec(backend="scripted")
FACTS = ModelFacts(name="m", backend="scripted")

pytestmark = pytest.mark.usefixtures("here")


class Kept(Responses):
    """Response store in memory."""

    def __init__(self) -> None:
        super().__init__(lambda: NOWHERE)
        self.rows: dict[str, StoredResponse] = {}
        self.lookups: list[int] = []

    def many(self, keys: Iterable[str]) -> dict[str, StoredResponse]:
        wanted = list(keys)
        self.lookups.append(len(wanted))
        return {key: self.rows[key] for key in wanted if key in self.rows}


def plan(*tasks: PlannedTask) -> Plan:
    return Plan(model=FACTS, tasks=tasks, harness=(TaskChoice(task="hellaswag"),), skipped={"Old": "run-1"})


def test_calls_tokens_and_cost_are_on_the_high_side(artifacts: Artifacts) -> None:
    # two characters a token and one more: 20 → 11; the second turn has both prompts and an empty answer: 20 + 10 → 16
    items = [Item(id="1", prompts=("x" * 20,)), Item(id="2", prompts=("x" * 20, "y" * 10))]
    task = task_of(items, artifacts, repeats=2, sampling=Sampling(max_tokens=100))
    found = estimate_run(plan(task), MODEL, artifacts, Kept(), prices=Prices(prompt=1, answer=10))
    [counted] = found.tasks
    assert (counted.items, counted.repeats, counted.calls, counted.stored) == (2, 2, 6, 0)
    assert (counted.prompt_tokens, counted.completion_tokens) == (2 * (11 + 11 + 16), 600)
    assert counted.cost == pytest.approx((76 + 10 * 600) / 1e6)
    assert (found.harness, found.skipped) == (("hellaswag",), {"Old": "run-1"})


def test_first_turns_that_are_stored_are_counted(artifacts: Artifacts) -> None:
    items = [Item(id=str(number), prompts=(f"{number}?", "Sure?")) for number in range(4)]
    task = task_of(items, artifacts)
    store, chat = Kept(), ScriptedChat()
    for item in list(read_items(artifacts, task.items))[:3]:
        request = request_of(task, item, repeat=0)
        answer = Answer(ChatResponse(text="a", finish_reason="stop"), "key", cached=False, latency_s=0)
        store.rows[response_key(chat.id, request)] = kept(chat.id, request, answer)
    [counted] = estimate_run(plan(task), MODEL, artifacts, store, prices=None).tasks
    assert (counted.calls, counted.stored) == (8, 3)


def test_a_database_that_is_away_holds_nothing(artifacts: Artifacts) -> None:
    task = task_of([Item(id="1", prompts=("?",))], artifacts)
    [counted] = estimate_run(plan(task), MODEL, artifacts, Responses(lambda: NOWHERE), prices=None).tasks
    assert (counted.calls, counted.stored) == (1, 0)
