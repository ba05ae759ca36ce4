"""Answers of a judge from a file: what is recorded is not asked, what is not or has changed is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, permutations
from pathlib import Path
from typing import Any

import pytest

from flows.running.lever_config import read_lever_config
from models.protocols import ChatResponse
from tasks.lever.digits.digits_judge import DigitsJudge
from tasks.lever.judge.demonstration_task import open_task
from tasks.lever.judge.recorded_answers import Choice, RecordedAnswers, digest_of_asking, read_recorded, record
from tasks.lever.lever_errors import FileUnusable
from tasks.lever.lever_records import TextItem
from tasks.lever.opened_worlds import draw_world, open_items
from tests.samples.make_judgments import DEMO

ROOT = Path(__file__).parents[2]
ITEMS = {name: TextItem(id=name, text=f"text {name}", label=name.upper()) for name in "pqabc"}
POOLS = {"p": ("a", "b"), "q": ("b", "c")}


def said(choices: Sequence[Choice]) -> list[str | None]:
    return [None if shown == ("c", "b") else f"{query}:{''.join(shown)}" for query, shown in choices]


def read_again() -> RecordedAnswers:
    return read_recorded(record(POOLS, ITEMS, said, asking="j").to_bytes())


@pytest.mark.parametrize(
    ("query", "shown", "answer"),
    [
        ("p", (), "p:"),
        ("p", ("b",), "p:b"),
        ("p", ("a", "b"), "p:ab"),
        ("p", ("b", "a"), "p:ba"),
        ("q", ("b", "c"), "q:bc"),
        ("q", ("c", "b"), None),
        ("q", ("a",), None),
        ("q", ("b", "b"), None),
        ("q", ("b", "c", "a"), None),
        ("r", (), None),
    ],
    ids=["nothing", "one", "two", "other order", "other query", "no answer", "no pool", "twice", "three", "no query"],
)
def test_choices_from_the_pool_are_read_back_and_no_others(
    query: str, shown: tuple[str, ...], answer: str | None
) -> None:
    assert read_again().answer(query, shown) == answer


def test_what_has_changed_since_is_not_known() -> None:
    changed = ITEMS | {"b": ITEMS["b"].model_copy(update={"text": "another"})}
    found = read_again().about(changed)
    assert (found.answer("p", ("a",)), found.answer("p", ("b",)), found.answer("p", ("a", "b"))) == ("p:a", None, None)
    assert read_again().about({name: item for name, item in ITEMS.items() if name != "q"}).answer("q", ()) is None


@pytest.mark.parametrize("data", [b"", b"no archive", b"PK\x03\x04"], ids=["empty", "text", "broken"])
def test_another_file_is_refused(data: bytes) -> None:
    with pytest.raises(FileUnusable, match="no file of recorded judgments"):
        read_recorded(data)


@pytest.mark.slow
def test_the_demo_s_answers_are_those_that_its_judge_gives(tmp_path: Path) -> None:
    config = read_lever_config({}, file=DEMO)
    assert config.digits.judge
    assert config.recorded
    judge = DigitsJudge((ROOT / config.digits.judge).read_bytes())
    known = read_recorded((ROOT / config.recorded).read_bytes())
    assert known.asking == digest_of_asking(judge.id, config.prompts)
    chosen, sizes = config.dataset, config.world_sizes
    draw_world(tmp_path, world=chosen.name, seed=config.digits.seed, **sizes)
    held_out: Any = {"validation": chosen.validation, "test": chosen.test, "seed": chosen.seed}
    dataset = open_items(chosen.name, tmp_path, train_queries=chosen.train_queries, **held_out)
    items, task = {item.id: item for item in dataset.items}, open_task(chosen.name, config.prompts)
    same = known.about(items)
    assert {*same.pools} == {*dataset.queries}
    for query in [*same.pools][::50]:
        choices = list(islice(permutations(same.pools[query], 2), 5))
        requests = [task.request(items[query], [items[one] for one in shown]) for shown in choices]
        given = dict(judge.complete_many(requests))
        for at, shown in enumerate(choices):
            assert isinstance(answer := given[at], ChatResponse)
            assert same.answer(query, shown) == answer.text
