"""Our own items in the published schemas go through every benchmark, and two recorded models get known figures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.evaluation.benchmarks.base import BaseBenchmark, Judge, Tools
from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark
from tasks.evaluation.evaluation_records import Item, Reply, Response, Sample
from tasks.evaluation.running.benchmark_data import Data
from tasks.evaluation.running.generation import match_responses, read_recorded
from tasks.grading.math.math_grader import MathGrader

SAMPLES = Path(__file__).parents[2] / "samples"
DATA = Data(SAMPLES / "benchmarks")
ANSWERS: dict[str, list[list[Any]]] = json.loads((SAMPLES / "graded_answers.json").read_text("utf-8"))
"""Benchmark → item, answer, its score, and what is read in it. HLE's `the planet Venus` is one that a judge would
accept; JEEBench gives a part of its points for some of several letters."""


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with MathGrader() as math:
        yield Tools(math, Judge("scripted:judge", lambda _: iter(())))  # a check asks no judge


def items_of(name: str, data: Data = DATA) -> list[Item]:
    return list(find_benchmark(name).items(data))


def graded(name: str, answers: dict[str, str], tools: Tools) -> dict[str, Sample]:
    """Item → sample of the answer that is given to it."""
    pairs = [
        (item, Response(item=item.id, turns=(Reply(text=answers[item.id]),)))
        for item in items_of(name)
        if item.id in answers
    ]
    return {sample.item: sample for sample in find_benchmark(name).grade(pairs, tools)}


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *(("AIME24", 8), ("AIME25", 5), ("AMC23", 6), ("HMMT", 5), ("MATH500", 9), ("GSM8K", 6), ("OlympiadBench", 5)),
        *(("Minerva", 5), ("GPQADiamond", 8), ("MMLUPro", 6), ("MMLUStem", 5), ("JEEBench", 6), ("HLE", 5)),
        *(
            ("IFEval", 17),
            ("RAGReading", 5),
            ("TextVQA", 5),
            ("AIW", 3),
            ("ZeroEvalMath", 3),
            ("ZeroEvalNumersense", 2),
            ("MTBench", 8),
            ("AlpacaEval", 6),
            ("WildBench", 6),
            ("ArenaHard", 5),
        ),
    ],
)
def test_every_gold_matches_itself(name: str, count: int, tools: Tools) -> None:
    items = items_of(name)
    assert len(items) == count
    assert list(find_benchmark(name).check(items, tools)) == []


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        ("AIME24", "Problem: A rectangular garden has integer side lengths"),
        ("MATH500", "Problem: Solve for $x$: $3x-7=11$.\nMark your solution with \\boxed\nAnswer:"),
        ("Minerva", "dioptres.\nPlease reason step by step, and put your final answer within \\boxed{}."),
        (
            "GPQADiamond",
            "Return your final response within \\boxed{} and only include the letter choice (A, B, C, or D)",
        ),
        ("MMLUPro", "where LETTER is one of ABCDEFGHIJ. Think step by step before answering.\n\nWhich number"),
        ("JEEBench", "exactly one multiple-choice letter, with \\boxed\nAnswer:\n\nProblem: A stone is thrown"),
        ("IFEval", "Describe a morning on a small fishing pier"),
    ],
)
def test_the_first_prompt_reads_as_published(name: str, prompt: str) -> None:
    assert prompt in items_of(name)[0].prompts[0]


def test_settings_are_those_of_the_seed() -> None:
    for name in ("AIME24", "AIME25", "AMC23", "HMMT"):
        benchmark = find_benchmark(name)
        assert (benchmark.repeats, benchmark.sampling.temperature, benchmark.sampling.max_tokens) == (10, 0.7, 32768)
        assert benchmark.sampling.seed == 0
    assert find_benchmark("MATH500").repeats == 1


def test_pictures_are_left_out_of_hle() -> None:
    assert [item.id for item in items_of("HLE")] == ["hle-0", "hle-1", "hle-3", "hle-4", "hle-5"]


@pytest.mark.parametrize(
    ("name", "item", "answer", "score", "read"), [(name, *case) for name, cases in ANSWERS.items() for case in cases]
)
def test_an_answer_is_read_and_scored_as_its_source_does(
    name: str, item: str, answer: str, score: float, read: str | None, tools: Tools
) -> None:
    sample = graded(name, {item: answer}, tools)[item]
    assert (sample.score, sample.extracted, sample.missing) == (pytest.approx(score), read, read is None)


def test_only_the_puzzles_that_evalchemy_asks_are_asked() -> None:
    assert [item.id for item in items_of("AIW")] == ["577", "580", "559"]


def test_benchmarks_without_what_the_model_was_to_see_only_score() -> None:
    names = ("TextVQA", "VizWiz", "RAGQuestions", "RAGReading", "AIME24")
    assert [find_benchmark(name).score_only for name in names] == [True, True, True, False, False]


def figures(model: str, name: str, tools: Tools) -> dict[str, Any]:
    benchmark, items = find_benchmark(name), items_of(name)
    recorded = read_recorded(SAMPLES / "recorded" / model / f"{name}.jsonl")
    by_id = {item.id: item for item in items}
    answered = ((by_id[response.item], response) for response in match_responses(items, recorded))
    summary = benchmark.summarise(benchmark.grade(answered, tools))
    return {**summary.metrics, "missing": summary.counts.missing}


@pytest.mark.parametrize(
    ("model", "solved", "missing"),
    # by design: all of 8 but three, two and one; and 3, 3 and 2 with one cut off in its reasoning, one without a box
    [("model-a", [7, 6, 7], 0), ("model-b", [3, 3, 2], 2)],
)
def test_recorded_aime_answers_get_their_known_figures(
    model: str, solved: list[int], missing: int, tools: Tools
) -> None:
    found = figures(model, "AIME24", tools)
    accuracies = [one / 8 for one in solved]
    mean = sum(accuracies) / 3
    spread = (sum((one - mean) ** 2 for one in accuracies) / 3) ** 0.5
    assert [one["num_solved"] for one in found["run_stats"]] == solved
    assert found["accuracy_avg"] == pytest.approx(mean)
    assert found["accuracy_std_err"] == pytest.approx(spread / 3**0.5)
    assert (found["num_total"], found["num_repeat"], found["missing"]) == (8, 3, missing)


@pytest.mark.parametrize(("model", "solved", "missing"), [("model-a", 8, 0), ("model-b", 5, 1)])
def test_recorded_math_answers_get_their_known_figures(model: str, solved: int, missing: int, tools: Tools) -> None:
    found = figures(model, "MATH500", tools)
    assert {name: found[name] for name in ("num_total", "num_solved", "missing")} == {
        "num_total": 9,
        "num_solved": solved,
        "missing": missing,
    }
    assert found["accuracy"] == pytest.approx(solved / 9)


@pytest.mark.parametrize(("model", "solved", "missing"), [("model-a", 7, 0), ("model-b", 4, 0)])
def test_recorded_choices_get_their_known_figures(model: str, solved: int, missing: int, tools: Tools) -> None:
    found = figures(model, "GPQADiamond", tools)
    assert (found["num_total"], found["solved_avg"], found["accuracy_avg"]) == (8, solved, solved / 8)
    assert found["missing"] == missing


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([], "the data holds no items"),
        ([Item(id="a", prompts=("?",)), Item(id="a", prompts=("?",))], "item a: 2 items have this id"),
        ([Item(id="a", prompts=(" \n",))], "item a: a prompt is empty"),
        ([Item(id="a", prompts=("?",), gold="")], "item a: its gold is empty"),
        ([Item(id="a", prompts=("?",), gold="5} or {")], "item a: its own gold '5} or {' is graded as wrong"),
    ],
)
def test_a_check_names_each_problem(items: list[Item], problem: str, tools: Tools) -> None:
    assert any(problem in one for one in find_benchmark("MATH500").check(items, tools))


@pytest.mark.parametrize(
    ("name", "file", "line", "why"),
    [
        ("JEEBench", "jeebench", '{"question": "?", "gold": "X", "type": "MCQ", "subject": "phy"}', "the gold 'X'"),
        ("JEEBench", "jeebench", '{"question": "?", "gold": "A", "type": "Essay", "subject": "phy"}', "type 'Essay'"),
        ("HLE", "hle", '{"id": 1, "question": "?", "answer": "AB", "answer_type": "multipleChoice"}', "is no letter"),
        ("HLE", "hle", '{"id": 1, "question": "?", "answer": "5"}', "no field 'answer_type'"),
        ("RAGReading", "reading", '{"id": 1, "question": "?", "answer": "5"}', "`context` must hold text"),
        ("HumanEval", "HumanEval", '{"task_id": "a", "prompt": ""}', "`prompt` must hold text"),
        ("BigCodeBench", "bigcodebench", '{"task_id": "a"}', "`code_prompt` must hold text, found nothing"),
        ("GPQADiamond", "gpqa_diamond", '{"Question": "?"}', "there is no field 'Correct Answer'"),
    ],
)
def test_a_row_in_another_schema_is_named(tmp_path: Path, name: str, file: str, line: str, why: str) -> None:
    path = tmp_path / f"{file}.jsonl"
    path.write_text(line + "\n", "utf-8")
    data = Data(tmp_path)
    assert items_of(name, data) == []
    (said,) = data.left_out.values()
    assert said.startswith(f"{path}, line 1: ")
    assert why in said


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "count"),
    [
        *(("AIME24", 30), ("AIME25", 30), ("AMC23", 40), ("MATH500", 500), ("GSM8K", 1319), ("Minerva", 272)),
        *(("OlympiadBench", 675), ("MMLUStem", 3018), ("IFEval", 541)),
    ],
)
def test_the_real_data_is_read_whole(name: str, count: int, shared: Path) -> None:
    data = Data(shared / "benchmarks")
    benchmark = find_benchmark(name)
    items = items_of(name, data)
    assert len({item.id for item in items}) == count
    assert data.facts(name, benchmark.files).count == count
    assert all(prompt.strip() for item in items for prompt in item.prompts)


@pytest.mark.shared
@pytest.mark.parametrize(("name", "count"), [("TextVQA", 5000), ("VizWiz", 4319)])
def test_the_real_answers_of_people_score_themselves(name: str, count: int, shared: Path, tools: Tools) -> None:
    benchmark: BaseBenchmark = find_benchmark(name)
    items = items_of(name, Data(shared / "vqa"))
    assert len(items) == count
    assert list(benchmark.check(items, tools)) == []


@pytest.mark.parametrize("response", [r"So we get $\boxed{18}$.", r"\boxed{18}, after 7 days", "She makes $18 a day"])
def test_the_rule_of_gsm8k_takes_the_box_that_its_prompt_asks_for(response: str, tools: Tools) -> None:
    item = Item(id="1", prompts=("?",), gold="18")
    answered = [(item, Response(item="1", turns=(Reply(text=response),)))]
    assert next(find_benchmark("GSM8K").grade(answered, tools)).score == 1
