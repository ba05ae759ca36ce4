"""A trained selector is used where it measurably beats the best rule of the validation queries."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.judge.demonstration_task import PromptSettings
from tasks.lever.learning.checkpoints import OpenedSelector, add_to_meta, open_selector, save_selector
from tasks.lever.learning.choosing import choose_diverse, choose_nearest, show_nearest_last
from tasks.lever.learning.gate import compare
from tasks.lever.learning.predicting import predict_files
from tasks.lever.lever_records import SelectionRule, Verdict
from tests.lever.small_dataset import bank

RULES = [SelectionRule(name="similarity"), SelectionRule(name="mmr", weight=0.3), SelectionRule(name="mmr", weight=0.7)]


def verdict_of(rules: list[list[float]], learned: list[float | None]) -> Verdict:
    numbered = [dict(zip(map(str, range(len(values))), values, strict=True)) for values in rules]
    accuracies = dict(zip([rule.title for rule in RULES], numbered, strict=True))
    return compare(accuracies, RULES, {str(number): value for number, value in enumerate(learned)}, stage="grpo")


def answers(right: int, of: int) -> list[float]:
    return [1.0] * right + [0.0] * (of - right)


@pytest.mark.parametrize(
    ("right", "of", "used", "words"),
    [
        (50, 100, False, "MMR(.7) is used: nothing measurable was gained over MMR(.7): p = .50 on 100 validation"),
        (56, 100, False, "p = .02 on 100 validation"),  # six flips one way: 1 / 64
        (57, 100, True, "grpo is used: +0.070 over MMR(.7), p = .008 on 100 validation"),
        (40, 100, False, "p = 1.00 on 100 validation"),
        (49, 49, False, "49 validation queries are too few"),
    ],
)
def test_the_selector_is_used_if_chance_alone_gives_its_gain_in_one_of_100_cases(
    right: int, of: int, used: bool, words: str
) -> None:
    rule = answers(of // 2, of)
    verdict = verdict_of([answers(3, of), answers(10, of), rule], [*answers(right, of)])
    assert (verdict.rule, verdict.n, verdict.tuned) == (RULES[2], of, {"mmr": 0.7})
    assert verdict.is_learned == used
    assert words in verdict.description


def test_of_weights_that_are_equally_good_all_take_the_first() -> None:
    verdict = verdict_of([answers(0, 60), answers(30, 60), answers(30, 60)], [*answers(0, 60)])
    assert (verdict.rule.weight, verdict.tuned) == (0.3, {"mmr": 0.3})


def test_queries_that_the_judge_refused_are_left_out_of_the_test() -> None:
    verdict = verdict_of([answers(0, 60)] * 3, [None] * 10 + [1.0] * 50)
    assert (verdict.n, verdict.gain, verdict.is_learned) == (50, 1.0, True)


@pytest.mark.parametrize("latest_pick", ["first", "last"])
def test_rules_show_the_nearest_next_to_the_question(latest_pick: str) -> None:
    prompts = PromptSettings.model_validate({"latest_pick": latest_pick})
    setting: Any = SimpleNamespace(judging=SimpleNamespace(task=SimpleNamespace(prompts=prompts)))
    rules = show_nearest_last({"rule": lambda *, shots: {"q": ("far", "near")}}, setting)
    assert prompts.in_order(rules["rule"](shots=2)["q"]) == ("far", "near")


@pytest.mark.parametrize("is_learned", [True, False])
def test_a_checkpoint_that_lost_to_a_rule_predicts_by_it(tmp_path: Path, is_learned: bool) -> None:
    drawn = np.random.default_rng(0).normal(size=(22, 3))
    rows = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).tolist()
    queries = bank(dict(zip("qr", rows, strict=False)))
    candidates = bank(dict(zip("abcdefghijklmnopst", rows[2:], strict=False)))
    places = tmp_path / "query_embeddings.pt", tmp_path / "candidate_embeddings.pt"
    for place, embeddings in zip(places, (queries, candidates), strict=True):
        embeddings.export_pt(place)
    torch.manual_seed(0)
    network = PointerSelector(PointerConfig(embedding_dim=3, hidden=8, layers=1)).eval()
    plain = save_selector(network, meta={"encoder": "by hand"})
    verdict = verdict_of([answers(0, 60), answers(1, 60), answers(30, 60)], [*answers(60 if is_learned else 30, 60)])
    path = tmp_path / "grpo_RandSampler.safetensors"
    path.write_bytes(add_to_meta(plain, verdict=verdict.model_dump(mode="json")))
    opened = open_selector(path)
    assert all(torch.equal(weight, network.state_dict()[name]) for name, weight in opened.selector.state_dict().items())

    files: Any = {"queries": places[0], "candidates": places[1], "ids": None, "candidate_ids": None}
    how: Any = {"shots": 3, "sampler": None, "pool_size": None}

    def ask(chooser: OpenedSelector | SelectionRule) -> dict[str, tuple[str, ...]]:
        choices, _ = predict_files(chooser, path, **files, **how)
        return {query: choice.demonstrations for query, choice in choices.items()}

    (found, warnings), shown = predict_files(opened, path, **files, **how), ask(opened)
    by_rule = choose_diverse(queries.ids, candidates.ids, (queries, candidates), shots=3, weight=0.7)
    assert by_rule != choose_nearest(queries.ids, candidates.ids, (queries, candidates), shots=3)
    assert (shown == by_rule) != is_learned
    first = found["q"]
    assert is_learned or first.demonstrations == tuple(candidates.ids[at] for at in first.pointer)
    alone = SelectionRule.parse("mmr:0.7")
    assert alone
    assert ask(alone) == by_rule
    assert any("nothing measurable was gained over MMR(.7)" in warning for warning in warnings) != is_learned
