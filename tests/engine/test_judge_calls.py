"""What `--dry-run` counts is what the stages of the lever then ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from models.causal_lm import CausalLM
from tasks.lever.digits.digits_judge import DigitsJudge
from tasks.lever.judge.judging import Judging
from tests.command import run_here
from tests.drills.telling import SMALL
from tests.models.tiny import make_tiny_model

pytestmark = [pytest.mark.engine, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(900)]

STAGES = {"sft": ("beams", "sft"), "rl-data": ("rl-data",), "grpo": ("rce", "grpo", "gate"), "evaluate": ("evaluate",)}
"""Command → what it adds to the stages of the one before."""


class Counts:
    """Prompts that stages asked about, and those that the judge was really asked about."""

    def __init__(self) -> None:
        self.wanted = self.weighed = self.answered = 0


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    """All goes through to the judge."""
    found = Counts()
    judge, weigh, share = Judging.judge, Judging.answer_log_probs, Judging.gt_prob
    complete, likely, read = DigitsJudge.complete_many, DigitsJudge.answer_log_probs, CausalLM.loglikelihood

    def judged(self: Judging, asked: Any, tell: Any = None) -> Any:
        found.wanted += len(asked)
        return judge(self, asked, tell)

    def weighs(self: Judging, asked: Any) -> Any:
        found.wanted += len(asked)
        return weigh(self, asked)

    def shares(self: Judging, asked: Any) -> Any:
        before = found.wanted  # of prompts that are judged anyhow
        try:
            return share(self, asked)
        finally:
            found.wanted = before

    def counting(real: Callable[..., Iterator[Any]], name: str, count: Callable[[Any], int]) -> Any:
        def asked(self: Any, requests: Any) -> Iterator[Any]:
            setattr(found, name, getattr(found, name) + count(requests))
            yield from real(self, requests)

        return asked

    monkeypatch.setattr(Judging, "judge", judged)
    monkeypatch.setattr(Judging, "answer_log_probs", weighs)
    monkeypatch.setattr(Judging, "gt_prob", shares)
    monkeypatch.setattr(DigitsJudge, "complete_many", counting(complete, "answered", len))
    monkeypatch.setattr(DigitsJudge, "answer_log_probs", counting(likely, "weighed", len))
    prompts = counting(read, "weighed", lambda pairs: len({context for context, _ in pairs}))
    monkeypatch.setattr(CausalLM, "loglikelihood", prompts)
    return found


def run(stage: str, *options: object) -> Any:
    until = () if stage == "run" else ("--until", stage)
    done = run_here("lever", "run", *until, *options, "--json")
    assert done.code == 0, done.stderr
    return done.json


def test_a_cpu_world_asks_what_was_counted(counts: Counts, tmp_path: Path) -> None:
    options = (*SMALL, "--set", "digits.judge_steps=30", "--results", tmp_path, "--set", "oracle.most_judgments=0")
    planned = run("run", *options, "--dry-run")["calls"]
    assert (counts.wanted, counts.weighed, counts.answered) == (0, 0, 0)
    for stage, parts in STAGES.items():
        wanted, weighed, answered = counts.wanted, counts.weighed, counts.answered
        run(stage, *options)
        assert counts.wanted - wanted == sum(planned[part] for part in parts), stage
        if stage == "sft":
            assert counts.weighed == planned["beams"]
        if stage == "rl-data":
            assert counts.answered - answered == planned["rl-data"]
        assert counts.weighed - weighed + counts.answered - answered <= sum(planned[part] for part in parts)


def test_texts_ask_what_was_counted(counts: Counts, tmp_path: Path) -> None:
    folder = tmp_path / "trec"
    folder.mkdir()
    kinds = ("NUM:date When was", "HUM:ind Who is", "LOC:city Where lies", "DESC:def What means")
    lines = [f"{kinds[number % 4]} thing {number} ?\n" for number in range(40)]
    (folder / "train.txt").write_text("".join(lines[:32]), "utf-8")
    (folder / "test.txt").write_text("".join(lines[32:]), "utf-8")
    model = make_tiny_model(tmp_path / "model")
    options = (
        *("--dataset", "trec", "--data-dir", tmp_path, "--judge", f"hf:{model}", "--results", tmp_path / "results"),
        *("--set=dataset.train_queries=6", "--set=dataset.validation=3", "--set=dataset.test=4", "--set=pool_size=6"),
        *("--set=evaluated_shots=[1,2]", "--set=oracle.most_judgments=0", "--set=grpo.rounds=2"),
    )
    planned = run("run", *options, "--dry-run")["calls"]
    for stage, parts in STAGES.items():
        wanted, weighed = counts.wanted, counts.weighed
        told = run(stage, *options)
        assert counts.wanted - wanted == sum(planned[part] for part in parts), stage
        assert counts.weighed - weighed <= sum(planned[part] for part in parts)
        if stage == "evaluate":
            rows = {"zero_shot", "random", "similarity", "similarity_pool", "TextSimSampler", "sft", "rce", "grpo"}
            assert rows <= told.keys()
            assert told["summary"]["headline"]["worse"] == "similarity"
    weighed = counts.weighed
    run("run", *options)
    assert counts.weighed == weighed
