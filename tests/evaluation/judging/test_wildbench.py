"""WildBench over our own items in the published schema."""

from __future__ import annotations

import json

import pytest

from tasks.evaluation.benchmarks.judged_ratings import MOST_WORDS
from tasks.evaluation.benchmarks.judged_ratings import WILD_BENCH as BENCHMARK
from tasks.evaluation.evaluation_records import PriorTurn, Sample
from tasks.evaluation.running.benchmark_data import Data
from tests.evaluation.judging.judges import Bench, prompt_of, response, says


def graded(data: Data, scores: list[str]) -> list[Sample]:
    """The samples of answers `<0>`, `<1>` … with these scores; an empty one has no answer."""

    def speak(prompt: str, request: object) -> str:
        (score,) = [score for number, score in enumerate(scores) if f"<{number}>" in prompt]
        return json.dumps({"strengths": "It is short.", "weaknesses": "The score: 3 of 4.", "score": score})

    answers = [f"<{number}>" if score else "" for number, score in enumerate(scores)]
    answered = [(i, response(i, a)) for i, a in zip(BENCHMARK.items(data), answers, strict=True)]
    return list(BENCHMARK.grade(answered, Bench(speak).tools))


def test_items_hold_history_checklist_and_categories(data: Data):
    items = {item.id: item for item in BENCHMARK.items(data)}
    assert len(items) == 6
    assert items["wb-2"].prompts == ("And without the multiples of 4?",)
    assert items["wb-2"].history == (
        PriorTurn(role="user", text="What is the sum of the numbers from 1 to 40?"),
        PriorTurn(role="assistant", text="It is 820."),
    )
    assert items["wb-2"].detail | {"template": ""} == {
        "template": "",
        "checklist": ["Is the result 600?", "Is the working shown?"],
        "categories": ["Math & Data Analysis"],
    }
    assert items["wb-6"].detail["categories"] == ["Math & Data Analysis", "Planning & Reasoning"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ('{"strengths": "…", "weaknesses": "…", "score": "7"}', 7),
        ('```json\n{"score": "[6]"}\n```', 6),
        ('{"weaknesses": "score: 2 would be too hard", "score": "4"}', 4),
        ("**Score**: 9", 9),
        ('{"score": "11"}', None),
        ('{"score": "high"}', None),
        ("score" * 200_000, None),
        ("score" + "*" * 1_000_000, None),
    ],
    ids=range(8),
)
def test_the_last_score_from_1_to_10_counts(said: str, expected: float | None):
    assert BENCHMARK.verdict_in(said) == expected


def test_scores_are_rescaled_and_weighed_by_category(data: Data):
    samples = graded(data, ["8", "6", "9", "5", "", "7"])
    assert [one.score for one in samples] == [6, 2, 8, 0, -8, 4]
    found = BENCHMARK.summarise(samples)
    # planning: 6 8 4, advice: 6 -8, math: 2 4, coding: 8, creative: 0
    categories = {
        "Planning & Reasoning": 6.0,
        "Information/Advice seeking": -1.0,
        "Math & Data Analysis": 3.0,
        "Coding & Debugging": 8.0,
        "Creative Tasks": 0.0,
    }
    macro = (1.25 * 6 - 0.75 + 3 + 1.25 * 8) / 4.75
    assert found.metrics.pop("task_categorized_scores") == categories
    assert found.metrics == pytest.approx(
        {
            "score": 36 / 6,
            "adjusted_score": 2,
            "task_macro_score": macro,
            "adjusted_task_macro_score": macro,
            "total_examples": 6,
            "avg_output_length": 3,
        }
    )
    assert [(one.metric, one.value) for one in found.estimates if one.headline] == [("adjusted_score", 2)]
    assert found.counts.missing == 1


def test_a_judgment_without_a_score_counts_nowhere(data: Data):
    items = list(BENCHMARK.items(data))
    found = BENCHMARK.summarise(BENCHMARK.grade([(items[0], response(items[0], "x"))], says("Well.").tools))
    assert (found.metrics["adjusted_score"], found.metrics["num_unscored"], found.estimates) == (None, 1, ())


def test_the_judge_sees_conversation_checklist_and_at_most_a_thousand_words(data: Data):
    bench = says('{"score": 5}')
    item = list(BENCHMARK.items(data))[1]
    list(BENCHMARK.grade([(item, response(item, "word " * 5_000))], bench.tools))
    prompt = prompt_of(bench.asked[0])
    assert "USER: What is the sum of the numbers from 1 to 40?\n\nASSISTANT: It is 820." in prompt
    assert "- Is the result 600?\n- Is the working shown?" in prompt
    assert prompt.count("word ") == MOST_WORDS - 1
    assert "word... (truncated)" in prompt
