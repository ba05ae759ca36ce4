"""Which stages of a run would ask the judge, and how often, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows.cli.lever.read_config import config_of
from flows.running.lever_calls import CallPlan, plan_calls
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
    "evaluate": 4 * (1 + 2 * (8 + 3)),
    "oracle": 10,
}
"""Seven selectors without training beside zero-shot, and three with it, in the digits' world."""


def planned(*settings: str, until: str = "evaluate", **given: Any) -> dict[str, int]:
    named = {name.replace("__", "."): value for name, value in given.items()}
    return plan_calls(config_of(named, until=until, settings=(*SMALL, *settings))).calls


def test_each_stage_is_counted() -> None:
    assert planned() == PLANNED
    found = plan_calls(config_of({}, until="evaluate", settings=SMALL))
    assert found.total == sum(PLANNED.values())


def test_seeds_are_counted_together() -> None:
    assert planned(seeds=3) == {stage: 3 * calls for stage, calls in PLANNED.items()}


def test_stages_after_the_last_ask_nothing() -> None:
    assert planned(until="sft") == {stage: PLANNED[stage] for stage in ("beams", "sft")}
    assert planned(until="pools") == {}


def test_without_grpo_there_is_a_selector_less() -> None:
    without = planned(rce_only=True)
    assert "grpo" not in without
    assert without["evaluate"] == 4 * (1 + 2 * (8 + 2))


def test_files_replace_stages(tmp_path: Path) -> None:
    assert planned(start__sft_checkpoint=tmp_path / "v2.ckpt").keys() == PLANNED.keys() - {"beams", "sft"}
    both = planned(start__rce_checkpoint=tmp_path / "r", start__grpo_checkpoint=tmp_path / "g")
    assert both.keys() == {"beams", "sft", "evaluate", "oracle"}


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
    expected = {"rl-data": 6 * (2 + 2 * 1 + 1), "evaluate": 4 * (1 + 2 * (6 + 3))}
    expected["beams"] = 6 * (1 + 4 + 2 * 3)  # both beams grow by all that is left
    assert found == PLANNED | expected


def judged_by(entry: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> CallPlan:
    (folder / "trec").mkdir()
    # 20 signs are a text; behind `Question: ` and before `Answer Type:` they are a query
    (folder / "trec" / "train.txt").write_text(
        "".join(f"NUM:date Thing number {number:04} ?\n" for number in range(20))
    )
    (folder / "trec" / "test.txt").write_text("".join(f"NUM:date Other number {number:03} ?\n" for number in range(9)))
    (folder / "models.yaml").write_text(f"judge: {{backend: hf, name: nowhere, {entry}}}\n")
    monkeypatch.setenv("TRIVET_MODELS", str(folder / "models.yaml"))
    given = {"dataset.name": "trec", "dataset.data_dir": folder, "judge": "judge"}
    settings = (*SMALL, "prompts.instruction=''")
    return plan_calls(config_of(given, until="evaluate", settings=settings))


def test_tokens_are_counted_by_the_demonstrations_that_each_prompt_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = judged_by("price: {prompt: 1000, answer: 9}, args: {max_requests_per_minute: 10}", tmp_path, monkeypatch)
    query = len("Question: Other number 000 ?\nAnswer Type:") // 2 + 1
    shown = len("Question: Thing number 0000 ?\nAnswer Type: Number\n\n") / 2
    alone = 6 + 4  # prompts of the search and of zero-shot
    with_one = 6 * 4 + 4 * 8
    assert found.prompt_tokens == pytest.approx(
        found.total * query + (2 * (found.total - alone - with_one) + with_one) * shown, rel=0.02
    )
    assert found.answer_tokens == 0  # labels are weighed
    assert found.prompt_tokens is not None
    assert found.cost == pytest.approx(found.prompt_tokens / 1000)
    assert found.hours == pytest.approx(found.total / 10 / 60)


def test_without_a_price_and_a_rate_there_are_tokens_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged_by("default: true", tmp_path, monkeypatch)
    assert found.prompt_tokens
    assert (found.cost, found.hours) == (None, None)


def test_of_pictures_tokens_are_counted_without_reading_them() -> None:
    named = {"judge": "hf:nowhere", "reward": "hard_plus_soft"}
    found = plan_calls(config_of(named, until="sft", settings=SMALL))
    assert found.prompt_tokens is not None
    asked = found.total - 6 - 6 * 4  # these show two demonstrations, and so three pictures
    assert found.prompt_tokens > 1500 * (3 * asked + 2 * 6 * 4 + 6)
    assert found.answer_tokens == found.calls["sft"] * 5


def test_the_judge_of_the_cpu_worlds_has_no_tokens() -> None:
    assert plan_calls(config_of({}, until="evaluate", settings=SMALL)).prompt_tokens is None
