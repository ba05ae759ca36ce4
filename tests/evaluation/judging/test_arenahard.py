"""Arena-Hard over our own items in the published schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tasks.evaluation.benchmarks.judged_comparisons import ARENA_HARD as BENCHMARK
from tasks.evaluation.evaluation_errors import DataUnusable
from tasks.evaluation.evaluation_records import Sample
from tasks.evaluation.running.benchmark_data import Data
from tests.evaluation.judging.judges import SAMPLES, Bench, prompt_of, response, says


def graded(data: Data, games: list[tuple[str, str] | None]) -> list[Sample]:
    """The samples of answers `<0>`, `<1>` … with these verdicts of both games; None has no answer."""
    items = list(BENCHMARK.items(data))

    def speak(prompt: str, request: object) -> str:
        answer_a = prompt.split("<|The Start of Assistant A's Answer|>\n")[1].split("\n<|The End")[0]
        (mine,) = [number for number in range(len(games)) if f"<{number}>" in prompt]
        verdicts = games[mine]
        assert verdicts
        return f"My verdict: [[{verdicts[1] if f'<{mine}>' in answer_a else verdicts[0]}]]"

    answers = [f"<{number}>" if verdicts else "" for number, verdicts in enumerate(games)]
    answered = [(item, response(item, answer)) for item, answer in zip(items, answers, strict=False)]
    return list(BENCHMARK.grade(answered, Bench(speak).tools))


def test_the_score_is_the_share_of_battles_won(data: Data):
    samples = graded(data, [("B>>A", "A>B"), ("A=B", "B>A"), ("A>B", "A>B"), None, ("B>A", "A>>B")])
    # won of battles: 3 + 1 of 4, ½ + 0 of 2, 0 + 1 of 2, no answer 0 of 6, 1 + 3 of 4
    assert [(one.values["won"], one.values["battles"]) for one in samples] == [(4, 4), (0.5, 2), (1, 2), (0, 6), (4, 4)]
    assert [one.score for one in samples] == [1, 0.25, 0.5, 0, 1]
    found = BENCHMARK.summarise(samples)
    assert found.metrics["score"] == pytest.approx(100 * 9.5 / 18)
    (score,) = found.estimates
    assert score.headline
    assert 0 <= (score.low or 0) < score.value < (score.high or 100) <= 100
    assert (found.metrics["rating_q025"], found.metrics["rating_q975"]) == (score.low, score.high)


def test_a_game_without_a_verdict_unscores_the_question(data: Data):
    samples = graded(data, [("B>A", "A>B"), ("B>A", "none")])
    assert [(one.status, one.score) for one in samples] == [("scored", 1), ("unscored", None)]
    found = BENCHMARK.summarise(samples)
    assert (found.metrics["score"], found.metrics["num_unscored"]) == (100, 1)


def test_both_games_are_asked_with_sides_swapped(data: Data):
    bench = says("[[A=B]]")
    item = next(iter(BENCHMARK.items(data)))
    list(BENCHMARK.grade([(item, response(item, "my own"))], bench.tools))
    places = sorted(prompt_of(one).index("my own") < prompt_of(one).index("^([01]") for one in bench.asked)
    assert places == [False, True]


def test_a_question_without_a_baseline_answer_is_named(tmp_path: Path):
    for source in (SAMPLES / "benchmarks").glob("arena_hard_*"):
        (tmp_path / source.name).write_bytes(source.read_bytes())
    with (tmp_path / "arena_hard_v0.1_question.jsonl").open("a", encoding="utf-8") as lines:
        lines.write(json.dumps({"question_id": "new", "turns": [{"content": "Why?"}]}) + "\n")
    data = Data(tmp_path)
    assert len(list(BENCHMARK.items(data))) == 5
    assert "line 6: arena_hard_v0.1_baseline.jsonl has no answer to question new" in data.left_out["new"]


def test_files_of_both_versions_ask_the_same(tmp_path: Path):
    for source in (SAMPLES / "benchmarks").glob("arena_hard_*"):
        (tmp_path / source.name).write_bytes(source.read_bytes())
    before = list(BENCHMARK.items(Data(tmp_path)))
    questions = [{"uid": item.id, "category": "arena-hard-v0.1", "prompt": item.prompts[0]} for item in before]
    answers = [
        {
            "uid": item.id,
            "model": item.detail["baseline_model"],
            "messages": [
                {"role": "user", "content": item.prompts[0]},
                {"role": "assistant", "content": {"answer": item.detail["baseline"]}},
            ],
        }
        for item in before
    ]
    for name, rows in (("question", questions), ("baseline", answers)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"arena_hard_v0.1_{name}.jsonl").write_text(lines, "utf-8")
    plain = [item.model_copy(update={"detail": {**item.detail, "cluster": ""}}) for item in before]
    assert list(BENCHMARK.items(Data(tmp_path))) == plain


def test_the_judge_gets_the_published_configuration(data: Data):
    bench = says("[[A=B]]")
    item = next(iter(BENCHMARK.items(data)))
    list(BENCHMARK.grade([(item, response(item, "{answer_1} stays"))], bench.tools))
    system, user = (turn.content[0] for turn in bench.asked[0].messages)
    assert "Compare two answers." in prompt_of(bench.asked[0])
    assert (bench.asked[0].max_tokens, bench.asked[0].temperature) == (4096, 0)
    assert "{answer_1} stays" in f"{system}{user}"


def test_a_configuration_without_its_labels_or_its_prompt_is_named(data: Data, tmp_path: Path):
    for source in (SAMPLES / "benchmarks").glob("arena_hard_*"):
        (tmp_path / source.name).write_bytes(source.read_bytes())
    config = tmp_path / "arena_hard_v0.1_judge_config.yaml"
    config.write_text(config.read_text("utf-8").replace("[[A=B]]", "[[tie]]"), "utf-8")
    items = list(BENCHMARK.items(Data(tmp_path)))
    assert "label [[A=B]]" in " ".join(BENCHMARK.check(items, says("").tools))
    config.write_text("judge_model: gpt-4\n", "utf-8")
    with pytest.raises(DataUnusable, match="expected `system_prompt`"):
        list(BENCHMARK.items(Data(tmp_path)))
