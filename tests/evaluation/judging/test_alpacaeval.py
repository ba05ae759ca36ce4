"""AlpacaEval 2.0's annotator over our own items and prompt in the published schemas."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from models.protocols import ChatRequest, ChatResponse
from tasks.calls import Answer, response_key
from tasks.evaluation.benchmarks.base import Judge, Tools
from tasks.evaluation.benchmarks.judged_comparisons import ALPACA_EVAL as BENCHMARK
from tasks.evaluation.evaluation_errors import DataMissing, PreflightFailed
from tasks.evaluation.evaluation_records import Sample
from tasks.evaluation.running.benchmark_data import Data
from tests.evaluation.judging.judges import SAMPLES, prompt_of, response


class Weighing:
    """A judge that finds an answer with `<good>` four times as likely to be the better one."""

    def __init__(self, *, tells: bool = True) -> None:
        self.asked: list[ChatRequest] = []
        self.tells = tells

    def ask_all(self, requests: Iterable[tuple[Any, ChatRequest]]) -> Iterator[tuple[Any, Answer]]:
        for tag, request in requests:
            self.asked.append(request)
            good_first = '"m": "<good>' in prompt_of(request)
            likely = {"m": math.log(0.64), "M": math.log(0.16)} if good_first else {"M": math.log(0.64), "m": -1.8326}
            told = likely | {"The": -1.6} if self.tells else {}
            reply = ChatResponse(text="m", finish_reason="length", top_logprobs=told)
            yield tag, Answer(reply, response_key("judge", request), cached=False, latency_s=0.0)

    @property
    def tools(self) -> Tools:
        math_grader: Any = None
        return Tools(math=math_grader, judge=Judge("scripted:weighing", self.ask_all))


def graded(data: Data, judge: Weighing, *, last_is_empty: bool = False) -> list[Sample]:
    items = list(BENCHMARK.items(data))
    answers = ["<good> it is."] * (len(items) - last_is_empty) + [""] * last_is_empty
    return list(BENCHMARK.grade(((i, response(i, a)) for i, a in zip(items, answers, strict=True)), judge.tools))


def test_a_verdict_is_the_share_of_m_and_its_place_does_not_matter(data: Data):
    judge = Weighing()
    samples = graded(data, judge, last_is_empty=True)
    assert [one.score for one in samples] == [pytest.approx(0.8, abs=1e-3)] * 5 + [0.0]
    assert {one.reason for one in samples} == {"preferred with p = 0.800", "lost: no answer"}
    assert {'"m": "<good>' in prompt_of(asked) for asked in judge.asked} == {True, False}
    found = BENCHMARK.summarise(samples)
    assert found.metrics["win_rate"] == pytest.approx(100 * 4 / 6, abs=0.1)
    assert (found.metrics["n_wins"], found.metrics["n_wins_base"], found.metrics["n_draws"]) == (5, 1, 0)


def test_the_judge_is_asked_for_one_token_in_the_turns_of_the_prompt(data: Data):
    judge = Weighing()
    graded(data, judge)
    asked = judge.asked[0]
    assert [turn.role for turn in asked.messages] == ["system", "user"]
    assert (asked.max_tokens, asked.temperature, asked.top_logprobs) == (1, 1.0, 5)


def test_braces_of_the_data_reach_the_judge_as_they_are(data: Data):
    *_, item = BENCHMARK.items(data)
    judge = Weighing()
    list(BENCHMARK.grade([(item, response(item, "{output_1} {instruction}"))], judge.tools))
    assert "{output_1} {instruction}" in prompt_of(judge.asked[0])


def test_a_judge_that_tells_no_log_probabilities_is_refused_by_name(data: Data):
    with pytest.raises(PreflightFailed, match="the judge scripted:weighing tells none"):
        graded(data, Weighing(tells=False))


def test_without_the_published_prompt_it_says_where_to_get_it(tmp_path: Path):
    shutil.copy(SAMPLES / "benchmarks" / "alpaca_eval.jsonl", tmp_path)
    with pytest.raises(DataMissing, match=r"alpaca_eval_clf\.txt is not here"):
        list(BENCHMARK.items(Data(tmp_path)))
