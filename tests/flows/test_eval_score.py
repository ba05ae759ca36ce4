"""`trivet eval score` as a user meets it: answers that exist are graded, in every shape that they come in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import TRIVET, Done, run_apart, run_here
from tests.evaluation.code.drawn import write_lines
from tests.evaluation.sums import SUMS, TURNS, write_benchmark
from tests.terminal import at_terminal

SAMPLES = Path(__file__).parents[1] / "samples"
BENCHMARKS, RECORDED = SAMPLES / "benchmarks", SAMPLES / "recorded" / "model-a"


def score(responses: Path, task: object, *options: object) -> Done:
    return run_here("eval", "score", responses, "--task", task, "--data-dir", BENCHMARKS, *options)


def metrics(responses: Path, task: object, *options: object) -> dict[str, Any]:
    done = score(responses, task, *options)
    assert done.code == 0, done.stderr
    [found] = done.json["results"].values()
    return found


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    return write_benchmark(tmp_path / "own")


def answer(number: int) -> str:
    return rf"It is \boxed{{{number}}}."


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        pytest.param([{"id": n, "response": answer(2 * n)} for n in (2, 0, 1)], {"accuracy": 1.0}, id="response"),
        pytest.param([{"id": n, "turns": [answer(2)]} for n in range(3)], {"num_solved": 1}, id="turns of one"),
        pytest.param(
            [{"id": n, "responses": [answer(2 * n), answer(0)]} for n in range(3)],
            # the first repeat has 3 of 3, the second 1 of 3
            {"num_repeat": 2, "solved_avg": 2.0, "accuracy_avg": pytest.approx(2 / 3), "num_total": 3},
            id="responses",
        ),
        pytest.param([{"id": n, "response": None} for n in range(3)], {"num_total": 3, "accuracy": 0.0}, id="null"),
    ],
)
def test_lines_hold_an_answer_repeats_or_turns(
    sums: Path, tmp_path: Path, rows: list[dict[str, Any]], found: dict[str, Any]
) -> None:
    got = metrics(write_lines(tmp_path / "r.jsonl", *rows), sums)
    assert {name: got[name] for name in found} == found


@pytest.mark.parametrize("field", ["id", "unique_id", "idx", "key", "question_id", "task_id"])
@pytest.mark.parametrize("kind", [int, str], ids=["number", "text"])
def test_ids_of_all_kinds_are_compared_as_text(sums: Path, tmp_path: Path, field: str, kind: type) -> None:
    rows = [{field: kind(n), "response": answer(2 * n)} for n in (2, 1, 0)]
    assert metrics(write_lines(tmp_path / "r.jsonl", *rows), sums)["accuracy"] == 1.0


def test_without_ids_a_line_answers_the_item_of_its_number(tmp_path: Path) -> None:
    path = write_benchmark(tmp_path / "own")
    data = tmp_path / "own" / "sums.jsonl"
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    write_lines(data, *({name: value for name, value in row.items() if name != "id"} for row in rows))
    responses = write_lines(tmp_path / "r.jsonl", *({"response": answer(2 * n)} for n in range(3)))
    assert metrics(responses, path)["accuracy"] == 1.0


def test_of_two_turns_the_last_one_is_graded(tmp_path: Path) -> None:
    path = write_benchmark(tmp_path / "own", text=TURNS)
    rows = [{"id": n, "turns": [answer(9), answer(2 * n)]} for n in range(3)]
    assert metrics(write_lines(tmp_path / "r.jsonl", *rows), path)["accuracy"] == 1.0


def test_a_pipe_gets_evalchemys_results_and_who_answered(sums: Path, tmp_path: Path) -> None:
    done = score(write_lines(tmp_path / "r.jsonl", {"id": 0, "response": "0"}), sums, "--model_name", "mine")
    assert done.json["model_info"]["model_name"] == "mine"
    assert set(done.json) >= {"results", "model_info"}
    assert set(done.json["results"]) == {"Sums"}


def test_a_terminal_gets_a_table_and_a_pipe_json(sums: Path, tmp_path: Path) -> None:
    responses = write_lines(tmp_path / "r.jsonl", *({"id": n, "response": answer(2 * n)} for n in range(3)))
    piped = run_apart("eval", "score", responses, "--task", sums)
    assert json.loads(piped.stdout)["results"]["Sums"]["accuracy"] == 1.0
    with at_terminal([*TRIVET, "eval", "score", str(responses), "--task", str(sums)]) as terminal:
        assert terminal.ends() == 0
    # Wilson, of 3 out of 3: 3 / (3 + 1.96²)
    assert terminal.text.split()[-9:] == ["Sums", "accuracy", "1.000", "0.439", "–", "1.000", "3", "3", "·"]


@pytest.mark.parametrize(
    ("task", "keys"),
    [
        ("MATH500", {"num_total", "num_solved", "accuracy"}),
        ("AIME24", {"num_total", "solved_avg", "run_stats", "accuracy_avg", "accuracy_std_err", "num_repeat"}),
        (
            "IFEval",
            {"prompt_level_strict", "prompt_level_loose", "instruction_level_strict", "instruction_level_loose"},
        ),
        ("GPQADiamond", {"num_total", "accuracy_avg"}),
    ],
)
def test_metrics_have_evalchemys_keys(task: str, keys: set[str]) -> None:
    assert set(metrics(RECORDED / f"{task}.jsonl", task)) >= keys


@pytest.mark.postgres
def test_a_judge_is_named_by_its_flag() -> None:
    judge = f"scripted:{SAMPLES / 'judge.json'}"
    found = metrics(RECORDED / "MTBench.jsonl", "MTBench", "--annotator_model", judge)
    assert {"Turn 1", "Turn 2", "Average"} <= set(found)


def test_the_json_and_the_samples_are_written_where_asked(sums: Path, tmp_path: Path) -> None:
    responses = write_lines(tmp_path / "r.jsonl", *({"id": n, "response": answer(0)} for n in range(3)))
    out = tmp_path / "out" / "scores.json"
    done = score(responses, sums, "--output_path", out)
    assert json.loads(out.read_text())["results"] == done.json["results"]
    [samples] = out.parent.glob("*.jsonl")
    assert [json.loads(line)["score"] for line in samples.read_text().splitlines()] == [1, 0, 0]


def test_a_run_is_graded_again_with_old_beside_new(sums: Path, tmp_path: Path) -> None:
    rows = [answer(0), r"It is \boxed{\frac{4}{2}}.", answer(5)]
    responses = write_lines(tmp_path / "r.jsonl", *({"id": n, "response": text} for n, text in enumerate(rows)))
    out = tmp_path / "out" / "scores.json"
    assert score(responses, sums, "--out", out).code == 0
    same = run_here("eval", "score", "--run", out, "--task", "Sums").json
    assert [task["new"]["metrics"] == task["old"]["metrics"] for task in same["tasks"]] == [True]
    sums.write_text(SUMS.replace("kind: math", "kind: exact"))
    [task] = run_here("eval", "score", "--run", out).json["tasks"]
    assert [task[age]["metrics"]["num_solved"] for age in ("old", "new")] == [2, 1]
    assert [change["item"] for change in task["compared"]["worse"]] == ["1"]


@pytest.mark.parametrize(
    ("rows", "options", "code", "said"),
    [
        ([{"id": 0, "text": "a"}], (), 2, "line 1: it has no answer"),
        ([{"id": 9, "response": "a"}], (), 2, "line 1: the benchmark has no item '9'"),
        ([], (), 2, "there is no answer in it"),
        ([{"id": 0, "response": "a"}, {"id": 0, "response": "b"}], (), 2, "line 2: item '0' stands on line 1"),
        ([{"id": 0, "turns": ["a", "b"]}], (), 2, "2 turns, and item '0' asks 1"),
        ([{"id": 0, "response": "a"}], ("--limit", 0), 2, "--limit"),
    ],
)
def test_answers_that_cannot_be_graded_are_named(
    sums: Path, tmp_path: Path, rows: list[dict[str, Any]], options: tuple[object, ...], code: int, said: str
) -> None:
    done = score(write_lines(tmp_path / "r.jsonl", *rows), sums, *options)
    assert (done.code, said in done.stderr, done.stdout) == (code, True, ""), done.stderr


def test_what_is_missing_on_the_command_line_is_named(sums: Path, tmp_path: Path) -> None:
    responses = write_lines(tmp_path / "r.jsonl", {"id": 0, "response": "0"})
    assert run_here("eval", "score", responses).code == 2
    assert "there is no file" in run_here("eval", "score", tmp_path / "none.jsonl", "--task", sums).stderr
    assert run_here("eval", "score", "--run", tmp_path / "none.json").code != 0
