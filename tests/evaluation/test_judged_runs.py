"""Published judgments of AlpacaEval and MT-Bench as runs; the numbers are worked by hand from the sample files."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.results.judged_runs import JudgedRun, holds_judgments, judged_runs

JUDGMENTS = Path(__file__).parents[1] / "samples" / "judgments"
ALPACA, SINGLE, PAIR = (JUDGMENTS / name for name in ("annotations.json", "judge-x_single.jsonl", "judge-x_pair.jsonl"))


def by_model(path: Path) -> dict[str, JudgedRun]:
    return {run.report.run.model.name: run for run in judged_runs(path)}


def figures(run: JudgedRun) -> dict[str, float]:
    (result,) = run.report.results
    return {one.metric: one.value for one in result.estimates if not one.part}


def changed(folder: Path, path: Path, change: Callable[[list[dict[str, Any]]], None]) -> Path:
    """A copy of a file with other records."""
    lines = path.suffix == ".jsonl"
    text = path.read_text("utf-8")
    rows = [json.loads(line) for line in text.splitlines()] if lines else json.loads(text)
    change(rows)
    copy = folder / path.name
    copy.write_text("".join(json.dumps(row) + "\n" for row in rows) if lines else json.dumps(rows))
    return copy


def test_preferences_become_the_win_rate_against_the_baseline() -> None:
    (run,) = judged_runs(ALPACA)
    (result,) = run.report.results
    # (.9 + .6 + 1 + 0 + .5) / 5; three wins, one loss, one tie: (3 + .5) / 5
    assert figures(run) == {"win_rate": pytest.approx(60.0)}
    assert result.metrics["discrete_win_rate"] == pytest.approx(70.0)
    assert [result.metrics[name] for name in ("n_wins", "n_wins_base", "n_draws", "n_total")] == [3, 1, 1, 5]
    assert result.settings == {"imported": "AlpacaEval annotations", "judge": "our_judge", "against": "model-b"}
    assert (run.report.run.model.name, run.report.run.model.backend) == ("model-a", "imported")
    assert run.report.run.ended_at is None, "the file does not say when"
    assert any("length_controlled_winrate is not there" in note for note in result.notes)


def test_the_standard_error_is_that_of_alpaca_eval() -> None:
    (run,) = judged_runs(ALPACA)
    # sum of squares around .6: .09 + 0 + .16 + .36 + .01 = .62; sqrt(.62 / 4 / 5) = .17607
    assert run.report.results[0].metrics["standard_error"] == pytest.approx(17.607, abs=1e-3)


def test_length_controlled_preferences_are_taken_where_the_file_has_them(tmp_path: Path) -> None:
    def add(rows: list[dict[str, Any]]) -> None:
        for row, value in zip(rows, (0.8, 0.5, 0.9, 0.1, 0.4), strict=True):
            row["glm_preference"] = value

    (run,) = judged_runs(changed(tmp_path, ALPACA, add))
    assert figures(run) == {"win_rate": pytest.approx(60.0), "length_controlled_winrate": pytest.approx(54.0)}


def test_an_annotation_without_a_preference_is_unscored(tmp_path: Path) -> None:
    (run,) = judged_runs(changed(tmp_path, ALPACA, lambda rows: rows[3].update(preference=None)))
    assert figures(run)["win_rate"] == pytest.approx(75.0)
    assert run.report.results[0].counts.unscored == 1


def test_ratings_are_averaged_by_turn_without_those_that_failed() -> None:
    runs = by_model(SINGLE)
    # model-a: turn 1 (9, 7, 10), turn 2 (8, failed, 6); all five: 40 / 5
    assert figures(runs["model-a"]) == {
        "Turn 1": pytest.approx(26 / 3),
        "Turn 2": pytest.approx(7.0),
        "Average": pytest.approx(8.0),
    }
    assert figures(runs["model-b"])["Average"] == pytest.approx((5 + 4 + 6 + 3 + 7.5 + 2) / 6)
    result = runs["model-a"].report.results[0]
    assert (result.task, result.judge, result.counts.items, result.counts.unscored) == ("MTBench", "judge-x", 3, 1)
    assert [one.status for one in runs["model-a"].samples] == ["scored", "unscored", "scored"]
    assert runs["model-a"].report.run.started_at == datetime.fromtimestamp(1750000010, UTC)


def test_a_turn_that_was_judged_twice_counts_twice(tmp_path: Path) -> None:
    def again(rows: list[dict[str, Any]]) -> None:
        rows.append(rows[0] | {"score": 1})

    figure = figures(by_model(changed(tmp_path, SINGLE, again))["model-a"])
    assert figure["Turn 1"] == pytest.approx((9 + 7 + 10 + 1) / 4)


def test_pairs_count_ties_half_and_a_winner_that_depends_on_the_order_is_a_tie() -> None:
    runs = by_model(PAIR)
    # model-a: won, tied (order), tied, failed; won against model-c: 3 / 4
    found = {name: figures(run)["win_rate_adjusted"] for name, run in runs.items()}
    assert found == {"model-a": 0.75, "model-b": pytest.approx(1 / 4), "model-c": 0.5}
    metrics = runs["model-a"].report.results[0].metrics
    assert (metrics["win_rate"], metrics["loss_rate"], metrics["num_total"]) == (0.5, 0.0, 4)
    assert runs["model-a"].report.results[0].settings["among"] == "model-a, model-b, model-c"


def test_votes_of_people_are_taken_together(tmp_path: Path) -> None:
    votes = [
        {"question_id": 901, "model_a": "x", "model_b": "y", "winner": winner, "judge": judge, "turn": 1}
        for winner, judge in (("model_a", "expert_1"), ("tie (inconsistent)", "expert_22"), ("model_b", "author_0"))
    ]
    file = tmp_path / "votes.json"
    file.write_text(json.dumps(votes))
    runs = {(run.report.run.model.name, run.report.results[0].judge): figures(run) for run in judged_runs(file)}
    assert runs["x", "human"] == {"win_rate_adjusted": 0.75}
    assert runs["x", "author"] == {"win_rate_adjusted": 0.0}
    assert len(runs) == 4


def test_the_same_file_gives_the_same_runs_and_models_of_one_file_are_comparable() -> None:
    assert judged_runs(SINGLE) == judged_runs(SINGLE)
    one, other = (run.report.results[0] for run in judged_runs(SINGLE))
    assert (one.settings, one.data.checksum) == (other.settings, other.data.checksum)


@pytest.mark.parametrize(
    ("path", "at", "change", "said"),
    [
        (ALPACA, 1, {"preference": 2.5}, "item 2: `preference` must be a number from 1 to 2, or 0, found '2.5'"),
        (ALPACA, 0, {"preference": True}, "item 1: `preference` must be a number"),
        (ALPACA, 2, {"generator_2": ""}, "item 3: `generator_2` must hold text"),
        (SINGLE, 3, {"score": 11}, "line 4: `score` must be a number from 1 to 10, or -1, found '11'"),
        (SINGLE, 1, {"turn": 3}, "line 2: `turn` must be 1 or 2, found 3"),
        (SINGLE, 1, {"judge": {}}, "line 2: `judge` must be a name, or a list"),
        (PAIR, 4, {"g2_winner": "A"}, "line 5: `g2_winner` must be model_1, model_2, "),
        (PAIR, 0, {"question_id": None}, "line 1: `question_id` must be a number or a name, found None"),
    ],
)
def test_what_cannot_be_read_is_named_by_file_and_line(
    tmp_path: Path, path: Path, at: int, change: dict[str, Any], said: str
) -> None:
    file = changed(tmp_path, path, lambda rows: rows[at].update(change))
    with pytest.raises(ResultsUnusable) as refused:
        judged_runs(file)
    assert str(refused.value).startswith(f"{file}, {said}")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty; expected annotations of AlpacaEval"),
        ('{"answer": 1}\n', "line 1: a record has the fields answer; expected annotations of AlpacaEval"),
        ('{"question_id": 1', "line 1"),
    ],
)
def test_a_file_without_judgments_is_refused(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "x_single.jsonl"
    file.write_text(content)
    with pytest.raises(ResultsUnusable, match=said):
        judged_runs(file)


def test_a_judge_that_failed_throughout_leaves_nothing(tmp_path: Path) -> None:
    def fail(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row["score"] = -1

    file = changed(tmp_path, SINGLE, fail)
    with pytest.raises(ResultsUnusable, match="holds no verdict"):
        judged_runs(file)


def test_lists_and_lines_are_told_from_results_files(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    results.write_text('{"results": {}}')
    assert [holds_judgments(path) for path in (ALPACA, SINGLE, PAIR, results)] == [True, True, True, False]
