"""A model is asked all items, turn by turn and repeat by repeat."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.model_errors import ContextOverflow, TransientModelError
from models.protocols import ChatRequest
from storage.artifacts import Artifacts
from tasks.budget import Prices
from tasks.evaluation.evaluation_records import Item, PriorTurn, Reply, Response, Sampling, Usage
from tasks.evaluation.record_lines import read_lines
from tasks.evaluation.running.generation import Outcome, build_request, count_usage, generate, select_sampling
from tasks.evaluation.running.planning import PlannedTask
from tests.evaluation.sums import Model, answer_of, last_words, said_in, task_of

ROOT = Path(__file__).parents[2]
ONE = Item(id="1", prompts=("What is 1 + 1?",))
TWO = Item(id="2", prompts=("What is 2 + 2?", "Are you sure?"))
THREE = Item(id="3", prompts=("What is 3 + 3?", "Are you sure?", "Really?"))


class Run:
    """Items, asked of a model."""

    def __init__(self, folder: Path, items: list[Item], model: Model, **changed: Any) -> None:
        self.artifacts = Artifacts(folder / "store")
        self.scratch = folder / "scratch"
        self.items = items
        self.model = model
        self.task = task_of(items, self.artifacts, **changed)
        self.told: list[int] = []

    def go(self, prices: Prices | None = None) -> Outcome:
        return generate(
            self.task,
            lambda: iter(self.items),
            ask_all=self.model.ask_all,
            artifacts=self.artifacts,
            scratch=self.scratch,
            prices=prices,
            tell=self.told.append,
        )

    def responses(self) -> list[Response]:
        return responses_in(self.go(), self.artifacts)


def responses_in(outcome: Outcome, artifacts: Artifacts) -> list[Response]:
    return [one for shard in outcome.generated.shards for one in read_lines(artifacts, shard, Response)]


def asking(item: Item, artifacts: Artifacts, **changed: Any) -> PlannedTask:
    return task_of([item], artifacts, **changed)


def test_a_request_has_the_prompt_and_the_sampling(artifacts: Artifacts) -> None:
    sampling = Sampling(temperature=0.7, max_tokens=50, top_p=0.9, stop=("###",), seed=40)
    sent = build_request(asking(ONE, artifacts, sampling=sampling, template="tool_use"), ONE, repeat=2)
    assert said_in(sent) == [("user", "What is 1 + 1?")]
    assert (sent.temperature, sent.max_tokens, sent.top_p, sent.stop) == (0.7, 50, 0.9, ("###",))
    assert (sent.seed, sent.draw, sent.template) == (42, 2, "tool_use")


@pytest.mark.parametrize(
    ("of_run", "of_item", "said"),
    [
        (None, "Be kind.", ["Be kind."]),
        ("Be brief.", "Be kind.", ["Be brief."]),
    ],
)
def test_the_system_message_of_the_run_takes_the_place_of_the_items(
    artifacts: Artifacts, of_run: str | None, of_item: str | None, said: list[str]
) -> None:
    item = ONE.model_copy(update={"system": of_item})
    sent = build_request(asking(item, artifacts, system=of_run), item, repeat=0)
    assert said_in(sent) == [*(("system", words) for words in said), ("user", "What is 1 + 1?")]


def test_what_was_said_before_stands_between_the_system_message_and_the_prompt(artifacts: Artifacts) -> None:
    before = (PriorTurn(role="user", text="Hello"), PriorTurn(role="assistant", text="<think>a</think>Hi"))
    item = TWO.model_copy(update={"history": before, "system": "Be kind."})
    sent = build_request(asking(item, artifacts), item, repeat=0, earlier_replies=[Reply(text="It is 4.")])
    assert said_in(sent) == [
        ("system", "Be kind."),
        ("user", "Hello"),
        ("assistant", "<think>a</think>Hi"),
        ("user", "What is 2 + 2?"),
        ("assistant", "It is 4."),
        ("user", "Are you sure?"),
    ]


@pytest.mark.parametrize(
    ("own", "given", "sent"),
    [(None, False, 0.5), (0.0, False, 0.0), (1, True, 0.5), ("hot", False, 0.5)],
)
def test_an_item_has_a_temperature_of_its_own_unless_the_run_names_one(
    artifacts: Artifacts, own: Any, given: bool, sent: float
) -> None:
    item = ONE.model_copy(update={"detail": {} if own is None else {"temperature": own}})
    task = asking(item, artifacts, sampling=Sampling(temperature=0.5), temperature_given=given)
    assert select_sampling(task, item) == Sampling(temperature=sent)


def test_later_turns_see_answers_without_what_was_thought(tmp_path: Path) -> None:
    model = Model(lambda request: f"<think>secret</think>{len(request.messages)} messages")
    Run(tmp_path, [THREE], model).go()
    assert [said_in(request) for request in model.asked][-1] == [
        ("user", "What is 3 + 3?"),
        ("assistant", "1 messages"),
        ("user", "Are you sure?"),
        ("assistant", "3 messages"),
        ("user", "Really?"),
    ]


@pytest.mark.parametrize(
    ("cached", "prices", "usage"),
    [
        (False, None, Usage(calls=1, prompt_tokens=10, completion_tokens=5, latency_s=0.5)),
        (True, None, Usage(calls=1, recalled=1, prompt_tokens=10, completion_tokens=5, latency_s=0.5)),
        (False, (1, 2), Usage(calls=1, prompt_tokens=10, completion_tokens=5, latency_s=0.5, cost=2e-5)),
        (True, (1, 2), Usage(calls=1, recalled=1, prompt_tokens=10, completion_tokens=5, latency_s=0.5, cost=0.0)),
    ],
)
def test_a_recalled_answer_costs_nothing(cached: bool, prices: tuple[int, int] | None, usage: Usage) -> None:
    answer = answer_of("x", ChatRequest(messages=()))._replace(cached=cached)
    assert count_usage(answer, Prices(prompt=prices[0], answer=prices[1]) if prices else None) == usage


@given(
    prompts=st.lists(st.integers(1, 3), min_size=1, max_size=8),
    repeats=st.integers(1, 3),
    orders=st.tuples(st.integers(), st.integers()),
    hard=st.integers(0, 9),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_however_answers_arrive_the_shards_are_the_same(
    tmp_path: Path, prompts: list[int], repeats: int, orders: tuple[int, int], hard: int
) -> None:
    items = [Item(id=f"i{n}", prompts=tuple(f"{n}:{turn}" for turn in range(turns))) for n, turns in enumerate(prompts)]

    def say(request: ChatRequest) -> str | ContextOverflow | TransientModelError:
        match (hash_of(request) + hard) % 7:
            case 0:
                return ContextOverflow("too long")
            case 1:
                return TransientModelError("busy")
            case number:
                return "word " * number

    one, other = (Run(tmp_path, items, Model(say, seed=seed), repeats=repeats) for seed in orders)
    first, second = one.go(), other.go()
    assert first.generated.shards == second.generated.shards
    assert first.unfinished == second.unfinished
    order = [(int(response.item[1:]), response.repeat) for response in responses_in(first, one.artifacts)]
    assert order == sorted(order)
    away = repeats * len(items) - len(order)
    assert (away == 0) == (not first.unfinished)


def hash_of(request: ChatRequest) -> int:
    return sum(map(ord, last_words(request))) + 3 * request.draw + len(request.messages)


def measure_long_answers(folder: Path) -> int:
    """Most bytes in use while 600 answers of 100 kB each are asked for: 60 MB in all."""
    import tracemalloc

    class Streaming(Model):
        """Answers one by one."""

        def ask_all(self, requests: Any) -> Any:
            for tag, request in requests:
                yield tag, answer_of(f"{request.draw}" * 100_000, request)

    run = Run(folder, [Item(id=str(number), prompts=("?", "!")) for number in range(300)], Streaming())
    tracemalloc.start()
    run.go()
    _, most = tracemalloc.get_traced_memory()
    assert list(run.scratch.iterdir()) == []
    return most


def test_answers_wait_on_disk_and_not_in_memory(tmp_path: Path) -> None:
    """In a process of its own: all threads of a process are measured together."""
    measures = f"from pathlib import Path\nprint({__name__}.measure_long_answers(Path({str(tmp_path)!r})))"
    done = subprocess.run(
        [sys.executable, "-c", f"import {__name__}\n{measures}"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},  # the working folder may be no place of modules
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 5e6
