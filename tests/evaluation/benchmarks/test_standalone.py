"""Evalchemy's two methods for benchmarks that only write `items` and `grade`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tasks.evaluation.benchmarks.base import BaseBenchmark, Tools
from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark
from tasks.evaluation.evaluation_errors import BenchmarkUnusable
from tasks.evaluation.evaluation_records import Item, Response, Said, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data

pytest.importorskip("lm_eval")


class Echo(BaseBenchmark):
    """Right is whoever says the gold in the last turn."""

    name = "Echo"
    sampling = Sampling(temperature=0.7, max_tokens=9, stop=("###",), seed=5)

    def __init__(self, *items: Item, repeats: int = 1, **options: Any) -> None:
        super().__init__(**options)
        self.asked = items
        self.repeats = repeats

    def items(self, data: Data) -> Iterator[Item]:
        return iter(self.asked)

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        for item, response in answered:
            yield Sample(item=item.id, repeat=response.repeat, score=float(response.text == item.gold))


class Counting:
    """Answers each conversation with the number of its messages."""

    def __init__(self, rank: int = 0) -> None:
        self.rank = rank
        self.prompts: list[list[tuple[str, str]]] = []
        self.arguments: list[dict[str, Any]] = []

    def apply_chat_template(self, messages: list[dict[str, str]]) -> list[dict[str, str]]:
        return messages

    def generate_until(self, instances: list[Any]) -> list[str]:
        self.prompts += [[(one["role"], one["content"]) for one in instance.args[0]] for instance in instances]
        self.arguments += [instance.args[1] for instance in instances]
        return [str(len(instance.args[0])) for instance in instances]


def test_what_was_said_before_stands_before_the_first_prompt_of_every_turn() -> None:
    before = (Said(role="user", text="Hello"), Said(role="assistant", text="Hi"))
    model = Counting()
    Echo(Item(id="1", prompts=("One?", "Two?"), history=before, system="Be kind.")).generate_responses(model)
    first = [("system", "Be kind."), ("user", "Hello"), ("assistant", "Hi"), ("user", "One?")]
    assert model.prompts == [first, [*first, ("assistant", "4"), ("user", "Two?")]]


def test_history_survives_the_way_through_json() -> None:
    before = (Said(role="user", text="a"), Said(role="assistant", text="b"))
    item = Item(id="1", prompts=("One?",), gold="3", history=before)
    assert Echo(item).run_benchmark(Counting()) == {"num_total": 1, "num_solved": 1, "accuracy": 1.0}


def test_the_system_instruction_of_the_run_comes_first() -> None:
    model = Counting()
    Echo(Item(id="1", prompts=("One?",)), system_instruction="Be brief.").generate_responses(model)
    assert model.prompts == [[("system", "Be brief."), ("user", "One?")]]


def test_items_with_fewer_turns_are_done_earlier() -> None:
    model = Counting()
    items = [Item(id=str(turns), prompts=("?",) * turns) for turns in (1, 3, 2)]
    found = Echo(*items).generate_responses(model)
    assert [len(prompt) for prompt in model.prompts] == [1, 1, 1, 3, 3, 5]
    assert [one["model_outputs"] for one in found["examples"]] == [[["1"]], [["1", "3", "5"]], [["1", "3"]]]


def test_each_repeat_has_its_seed() -> None:
    model = Counting()
    Echo(Item(id="1", prompts=("?",)), repeats=3).generate_responses(model)
    assert model.arguments[2] == {
        "do_sample": True,
        "temperature": 0.7,
        "max_gen_toks": 9,
        "until": ["###"],
        "seed": 7,
    }


def test_other_ranks_give_nothing() -> None:
    assert Echo(Item(id="1", prompts=("?",))).generate_responses(Counting(rank=1)) == {}


def test_a_benchmark_with_a_judge_says_how_it_is_run() -> None:
    with pytest.raises(BenchmarkUnusable, match="trivet eval run --tasks MTBench"):
        find_benchmark("MTBench").evaluate_responses({"examples": []})
