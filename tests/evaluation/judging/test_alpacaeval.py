"""AlpacaEval over our own items in the published schema."""

from __future__ import annotations

import math

import pytest

from tasks.evaluation.benchmarks.alpacaeval import BENCHMARK
from tasks.evaluation.evaluation_records import Item, Sample
from tasks.evaluation.running.benchmark_data import Data
from tests.evaluation.judging.judges import Bench, prompt_of, response, says


def judge_of(verdicts: dict[str, str]) -> Bench:
    """Prefers `model`, `reference` or `neither` by what the answer says, wherever it stands."""

    def speak(prompt: str, request: object) -> str:
        answer_a = prompt.split("=== answer A ===\n")[1].split("\n=== end of answer A")[0]
        (mine,) = [mark for mark in verdicts if f"<{mark}>" in prompt]
        model, reference = ("A", "B") if f"<{mine}>" in answer_a else ("B", "A")
        return f"So it is: [[{ {'model': model, 'reference': reference, 'neither': 'C'}[verdicts[mine]] }]]"

    return Bench(speak)


def graded(data: Data, outcomes: list[str]) -> list[Sample]:
    """The samples of answers `<0>`, `<1>` … of 9 letters each, with these outcomes; an empty one has no answer."""
    items = list(BENCHMARK.items(data))
    judge = judge_of({str(number): outcome for number, outcome in enumerate(outcomes) if outcome})
    answers = [f"<{number}> fine." if outcome else "" for number, outcome in enumerate(outcomes)]
    return list(BENCHMARK.grade(((i, response(i, a)) for i, a in zip(items, answers, strict=True)), judge.tools))


def test_items_hold_instruction_reference_and_data_set(data: Data):
    items = list(BENCHMARK.items(data))
    assert [item.id for item in items] == ["0", "1", "2", "3", "4", "5"]
    assert items[1].prompts == ("Translate 'good morning' into Korean.",)
    assert (items[1].detail["reference"], items[1].group) == ("좋은 아침입니다", "helpful_base")


def test_the_answers_position_is_drawn_by_instruction_and_stays(data: Data):
    first, second = ([item.detail["model_is"] for item in BENCHMARK.items(data)] for _ in range(2))
    assert first == second
    assert set(first) == {"A", "B"}


def test_wins_ties_and_losses_count_wherever_the_answer_stands(data: Data):
    samples = graded(data, ["model", "reference", "model", "neither", "model", ""])
    assert [one.score for one in samples] == [1, 0, 1, 0.5, 1, 0]
    assert [one.missing for one in samples] == [False] * 5 + [True]
    found = BENCHMARK.summarise(samples)
    # 3.5 of 6; squared distances from 7/12: 3 × (5/12)² + 2 × (7/12)² + (1/12)² = 174/144, by 5, by 6
    assert found.metrics == pytest.approx(
        {
            "win_rate": 100 * 3.5 / 6,
            "standard_error": 100 * math.sqrt(174 / 144 / 5 / 6),
            "n_wins": 3,
            "n_wins_base": 2,
            "n_draws": 1,
            "n_total": 6,
            "avg_length": 5 * 9 / 6,
        }
    )
    assert [one.value for one in found.estimates if one.headline] == [pytest.approx(100 * 3.5 / 6)]
    assert found.counts.missing == 1


def test_a_judge_without_a_verdict_counts_nowhere(data: Data):
    item = next(iter(BENCHMARK.items(data)))
    found = BENCHMARK.summarise(BENCHMARK.grade([(item, response(item, "x"))], says("[[A]] or [[B]]").tools))
    assert (found.metrics["win_rate"], found.metrics["num_unscored"], found.counts.scored) == (None, 1, 0)


def test_braces_of_the_data_reach_the_judge_as_they_are(data: Data):
    *_, item = BENCHMARK.items(data)
    bench = says("[[C]]")
    list(BENCHMARK.grade([(item, response(item, "{answer_b}"))], bench.tools))
    prompt = prompt_of(bench.asked[0])
    assert '{"{instruction}": 1}' in prompt
    assert prompt.count("{answer_b}") == 1


def test_the_sample_items_pass_their_check(data: Data):
    assert list(BENCHMARK.check(list(BENCHMARK.items(data)), says("").tools)) == []


def test_the_check_names_a_missing_judge(data: Data):
    items: list[Item] = list(BENCHMARK.items(data))
    (problem,) = BENCHMARK.check(items, says("").tools._replace(judge=None))
    assert "--annotator_model" in problem
