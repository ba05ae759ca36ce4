"""Which stages of a run would ask the judge, and how often, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows.running.judge_calls import count_calls
from flows.running.lever_config import read_lever_config
from tasks.lever.lever_errors import FileUnusable

SMALL = (
    *("dataset.train_queries=6", "dataset.validation=3", "dataset.test=4", "pool_size=5", "digits.candidates=20"),
    *("beams.width=2", "beams.candidates=4", "sft.epochs=2", "rce.epochs=1", "rl_data.random=1"),
    *("grpo.offline_epochs=1", "grpo.rounds=2", "grpo.draws=3", "oracle.most_judgments=10", "evaluated_shots=[1,2]"),
)
PLANNED = {
    "beams": 6 * (1 + 4 + 2),
    "sft": 3 * 3,
    "rl-data": 6 * (5 + 2 * 2 + 1),
    "rce": 2 * 3,
    "grpo": 2 * 6 * 3 + 4 * 3,
    "gate": 3 * (1 + 2 + 2 * 4),
    "evaluate": 4 * (1 + 2 * (9 + 3)),
    "oracle": 10,
}
"""Ten selectors without training beside zero-shot, and three with it, in the digits' world; the last of these is
compared with two rules, and with two of four weights each."""


def planned(*settings: str, until: str = "evaluate", **given: Any) -> dict[str, int]:
    named = {name.replace("__", "."): value for name, value in given.items()}
    return count_calls(read_lever_config({**named, "until": until}, settings=(*SMALL, *settings))).calls


def test_each_stage_is_counted() -> None:
    assert planned() == PLANNED
    found = count_calls(read_lever_config({}, settings=SMALL))
    assert found.total == sum(PLANNED.values())


def test_seeds_are_counted_together() -> None:
    assert planned(seeds=3) == {stage: 3 * calls for stage, calls in PLANNED.items()}


def test_stages_after_the_last_ask_nothing() -> None:
    assert planned(until="sft") == {stage: PLANNED[stage] for stage in ("beams", "sft")}
    assert planned(until="pools") == {}


def test_files_replace_stages(tmp_path: Path) -> None:
    assert planned(start__sft_checkpoint=tmp_path / "v2.ckpt").keys() == PLANNED.keys() - {"beams", "sft"}
    both = planned(start__rce_checkpoint=tmp_path / "r", start__grpo_checkpoint=tmp_path / "g")
    assert both.keys() == {"beams", "sft", "gate", "evaluate", "oracle"}
    assert planned("judge=openai:m").keys() == PLANNED.keys() - {"beams"}


def test_answers_that_are_weighed_are_counted() -> None:
    plain, weighed = planned(), planned("reward=hard_plus_gtprob")
    assert weighed["beams"] == plain["beams"]
    assert weighed["rl-data"] >= 2 * plain["rl-data"]  # each query has an answer at least


def test_a_stage_whose_files_are_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileUnusable, match="there is no beam data"):
        planned(begin_at="sft", results=tmp_path)


def test_of_texts_labels_are_weighed_with_the_judgment(tmp_path: Path) -> None:
    (tmp_path / "trec").mkdir()
    lines = [f"NUM:date When was thing {number} ?\n" for number in range(30)]
    (tmp_path / "trec" / "train.txt").write_text("".join(lines[:20]))
    (tmp_path / "trec" / "test.txt").write_text("".join(lines[20:]))
    found = planned(dataset__name="trec", dataset__data_dir=tmp_path, judge="hf:nowhere")
    expected = {"gate": 3 * (1 + 2 + 2 * 4), "rl-data": 6 * (2 + 2 * 1 + 1), "evaluate": 4 * (1 + 2 * (7 + 3))}
    assert found == PLANNED | expected
