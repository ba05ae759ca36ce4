"""MT-Bench over our own questions, two recorded models and a scripted judge: every figure worked by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.evaluation.benchmarks.base import Summary
from tasks.evaluation.benchmarks.judged_ratings import MT_BENCH as BENCHMARK
from tasks.evaluation.evaluation_records import Item, Response, Sample
from tasks.evaluation.running.benchmark_data import Data
from tasks.evaluation.running.generation import match_responses, read_recorded
from tests.evaluation.judging.judges import SAMPLES, Bench, follows, prompt_of, response, says


def recorded(model: str, items: list[Item]) -> Iterator[tuple[Item, Response]]:
    answers = read_recorded(SAMPLES / "recorded" / model / "MTBench.jsonl")
    return zip(items, match_responses(items, answers), strict=True)


def samples_of(model: str, data: Data, bench: Bench | None = None) -> dict[str, Sample]:
    judge = bench or follows(SAMPLES / "judge.json")
    items = list(BENCHMARK.items(data))
    return {one.item: one for one in BENCHMARK.grade(recorded(model, items), judge.tools)}


def summary_of(model: str, data: Data) -> Summary:
    return BENCHMARK.summarise(samples_of(model, data).values())


def test_items_have_two_turns_a_category_and_its_temperature(data: Data):
    items = {item.id: item for item in BENCHMARK.items(data)}
    assert [len(item.prompts) for item in items.values()] == [2] * 8
    assert {item.group: item.detail["temperature"] for item in items.values()} == {
        "writing": 0.7,
        "roleplay": 0.7,
        "reasoning": 0.0,
        "math": 0.0,
        "coding": 0.0,
        "extraction": 0.0,
        "stem": 0.1,
        "humanities": 0.1,
    }


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        # turn 1: 9 8 8 10 8 9 7 9; turn 2: 8 9 8 9 7.5 9 8 7
        ("model-a", {"Turn 1": 68 / 8, "Turn 2": 65.5 / 8, "Average": 133.5 / 16, "num_total": 8}),
        # turn 1: 6 4 10 3 5 7 6 6, of which 10 is quoted before a 2, and the first counts, as in FastChat;
        # turn 2: 5 6 5 4, no answer 1, 6, no verdict, 5
        ("model-b", {"Turn 1": 47 / 8, "Turn 2": 32 / 7, "Average": 79 / 15, "num_total": 8, "num_unscored": 1}),
    ],
)
def test_the_figures_of_the_recorded_models(model: str, expected: dict[str, float], data: Data):
    assert summary_of(model, data).metrics == pytest.approx(expected)


def test_the_headline_is_the_average_and_each_category_has_its_own(data: Data):
    found = {(one.metric, one.part): one for one in summary_of("model-b", data).estimates}
    assert [key for key, one in found.items() if one.headline] == [("Average", "")]
    assert found["Average", ""].value == pytest.approx(79 / 15)
    assert found["Average", "group=math"].value == 3.5
    assert found["Turn 1", "group=stem"].value == 6
    assert ("Turn 2", "group=stem") not in found
    assert len(found) == 3 + 8 * 3 - 1


def test_a_turn_without_a_verdict_unscores_its_question_and_keeps_the_other_turn(data: Data):
    sample = samples_of("model-b", data)["7"]
    assert (sample.status, sample.score, sample.values) == ("unscored", None, {"Turn 1": 6})
    assert sample.reason.startswith("Turn 2: no verdict in 3 judgments")


def test_a_turn_without_an_answer_gets_the_lowest_rating_and_no_judge(data: Data):
    bench = says("Rating: [[8]]")
    sample = samples_of("model-b", data, bench)["5"]
    assert (sample.values, sample.score, sample.missing) == ({"Turn 1": 8, "Turn 2": 1}, 4.5, True)
    assert sample.reason == "Turn 1: 8; Turn 2: 1 (no answer)"
    assert len(bench.asked) == 15


def test_the_judge_sees_the_answer_without_its_reasoning_and_with_its_braces(data: Data):
    bench = says("Rating: [[8]]")
    samples_of("model-b", data, bench)
    prompts = [prompt_of(one) for one in bench.asked]
    assert not any("<think>" in prompt for prompt in prompts)
    assert any(prompt.endswith("return 'Hi {question}'.format(question=name)") for prompt in prompts)


def test_the_judge_of_mathematics_sees_the_references(data: Data):
    bench = says("Rating: [[8]]")
    samples_of("model-a", data, bench)
    seen = [prompt_of(one) for one in bench.asked if "84 / 3.5 = 24, so after 24 minutes." in prompt_of(one)]
    assert len(seen) == 2
    assert "63 / 3.5 = 18, so it takes 18 minutes." in max(seen, key=len)


def test_the_check_names_a_missing_reference_and_a_missing_judge(data: Data):
    items = [item.model_copy(update={"detail": {**item.detail, "references": []}}) for item in BENCHMARK.items(data)]
    problems = list(BENCHMARK.check(items, says("").tools._replace(judge=None)))
    assert [problem.split(":")[0] for problem in problems[:3]] == ["3", "4", "5"]
    assert "--annotator_model" in problems[-1]


@pytest.mark.parametrize(
    ("template", "said"),
    [("{question} {nothing} [[5]]", "slot {nothing}"), ("{question} {answer}", "no rating")],
    ids=["slot", "example"],
)
def test_the_check_names_a_judge_prompt_that_is_no_use(template: str, said: str, data: Data):
    item = next(iter(BENCHMARK.items(data)))
    prompts = {name: {"name": "mine", "system": "", "template": template} for name in ("Turn 1", "Turn 2")}
    broken = item.model_copy(update={"detail": {**item.detail, "judge_prompts": prompts}})
    problems = list(BENCHMARK.check([broken], says("").tools))
    assert said in problems[0]


@pytest.mark.shared
def test_the_published_questions_prompts_and_references_pass_the_check(shared: Path):
    items = list(BENCHMARK.items(Data(shared / "benchmarks")))
    assert (len(items), len({item.group for item in items})) == (80, 8)
    assert list(BENCHMARK.check(items, says("").tools)) == []


@pytest.mark.shared
def test_the_published_questions_are_judged_with_references_where_fastchat_does(shared: Path):
    bench = says("Rating: [[7]]")
    items = list(BENCHMARK.items(Data(shared / "benchmarks")))
    answered = [(item, response(item, "One {question}.", "Two {answer_1}.")) for item in items]
    found = BENCHMARK.summarise(BENCHMARK.grade(answered, bench.tools))
    assert found.metrics == {"Turn 1": 7, "Turn 2": 7, "Average": 7, "num_total": 80}
    assert sum("Start of Reference Answer" in prompt_of(one) for one in bench.asked) == 60
    assert len(bench.asked) == 160
