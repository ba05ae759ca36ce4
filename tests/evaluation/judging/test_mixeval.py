"""MixEval over our own items in the published schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.protocols import ChatRequest
from tasks.evaluation.benchmarks.mixeval import BENCHMARKS, score_in
from tasks.evaluation.evaluation_errors import DataUnusable
from tasks.evaluation.running.benchmark_data import Data
from tests.evaluation.judging.judges import Bench, response, says

MIXEVAL, HARD = BENCHMARKS


def test_questions_are_asked_in_the_words_of_the_source(data: Data):
    river, tram, baker, bees, harbour = (item.prompts[0] for item in MIXEVAL.items(data))
    assert river == (
        "Question: Which river flows through the invented town of Port Ellery?\nAnswer the question shortly."
    )
    assert tram.startswith("Question: The tram had 40 seats in 1950 and 56 in 1960.\nHow many seats were added?\n")
    assert baker.endswith("How much does she earn?\nAnswer the question. \nLet's think step by step.")
    assert bees == (
        "What do bees collect?\nA. gravel\nB. nectar\nC. glass\n"
        "Answer with the option letter from the given choices directly."
    )
    assert harbour.startswith("The harbour froze in January.\ndid the harbour freeze in winter\nA. No\nB. Yes\n")


def test_letters_are_read_and_free_answers_are_judged(data: Data):
    def speak(prompt: str, request: ChatRequest) -> str:
        del request
        assert "- Arrow\n" in prompt or "- 16\n" in prompt
        return "It is the same. [[1.0]]" if "the Arrow river" in prompt else "It is near. [[0.5]]"

    bench = Bench(speak)
    river, tram, baker, bees, harbour = MIXEVAL.items(data)
    answers = ((river, "the Arrow river"), (tram, "15"), (baker, ""), (bees, "B"), (harbour, "A. No"))
    samples = list(MIXEVAL.grade(((item, response(item, said)) for item, said in answers), bench.tools))
    assert [sample.score for sample in samples] == [1.0, 0.5, 0.0, 1.0, 0.0]
    assert [sample.missing for sample in samples] == [False, False, True, False, False]
    assert len(bench.asked) == 2
    found = MIXEVAL.summarise(samples)
    assert found.metrics["overall"] == pytest.approx(0.5)
    parts = {one.part: one.value for one in found.estimates if one.part}
    assert parts == {
        "group=BoolQ": 0.0,
        "group=CommonsenseQA": 1.0,
        "group=DROP": 0.5,
        "group=GSM8k": 0.0,
        "group=TriviaQA": 1.0,
    }


def test_a_judge_without_a_score_leaves_the_answer_unscored(data: Data):
    river = next(iter(MIXEVAL.items(data)))
    (sample,) = MIXEVAL.grade([(river, response(river, "the Arrow"))], says("It is right.").tools)
    assert (sample.status, sample.score) == ("unscored", None)


@pytest.mark.parametrize(
    ("said", "score"), [("[[0.5]]", 0.5), ("[[1.0]].", 1.0), ("[0.3]", 0.3), ("[[5]]", None), ("right", None)]
)
def test_scores_are_from_0_to_1(said: str, score: float | None):
    assert score_in(said) == score


def test_both_are_whole_with_a_judge_and_say_that_they_need_one(data: Data):
    for benchmark in BENCHMARKS:
        items = list(benchmark.items(data))
        assert [line for line in benchmark.check(items, says("[[1]]").tools) if "no judge" in line] == []
        without = says("").tools._replace(judge=None)
        assert "is graded by a model and none is there" in next(iter(benchmark.check(items, without)))


def test_a_target_that_is_no_option_is_named(tmp_path: Path):
    row = {"prompt": "Which?", "options": ["a", "b"], "target": ["2"], "benchmark_name": "MMLU"}
    (tmp_path / "mixeval_free_form.jsonl").write_text("", "utf-8")
    (tmp_path / "mixeval_multiple_choice.jsonl").write_text(json.dumps(row), "utf-8")
    with pytest.raises(DataUnusable, match=r"line 1: `target` must be the index of one of 2 options"):
        list(MIXEVAL.items(Data(tmp_path)))
