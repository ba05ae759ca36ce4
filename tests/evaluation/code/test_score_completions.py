"""`trivet eval score SAMPLES.jsonl --k …`: programs a line each, several to an item, are counted as pass@k."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import Done, run_here
from tests.evaluation.code.drawn import BROKEN, RIGHT, WRONG, samples_of, write_lines, write_programs
from tests.evaluation.sums import write_benchmark


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    return write_programs(tmp_path / "own")


def score(samples: Path, task: Path, *options: object) -> Done:
    return run_here("eval", "score", samples, "--task", task, "--json", *options)


def result(samples: Path, task: Path, *options: object, code: int = 0) -> dict[str, Any]:
    """Metrics and notes."""
    done = score(samples, task, *options)
    assert done.code == code, done.stderr
    [metrics] = done.json["results"].values()
    [found] = done.json["trivet"]["results"]
    notes = [note for note in found["notes"] if not note.startswith("programs were executed ")]
    assert len(notes) == len(found["notes"]) - 1
    return metrics | {"notes": notes, "settings": found["settings"]}


THREE_EACH = samples_of(python_0=[RIGHT, WRONG, WRONG], python_1=[RIGHT, RIGHT, WRONG], sh_0=[WRONG, WRONG, RIGHT])


def test_pass_at_k_of_each_language_and_of_all(programs: Path, tmp_path: Path) -> None:
    found = result(write_lines(tmp_path / "s.jsonl", *THREE_EACH), programs, "--k", "1,2,3")
    # of three, with one right: 1/3, 2/3, 1; with two right: 2/3, 1, 1
    assert {name: value for name, value in found.items() if "pass@" in name} == {
        "pass@1": pytest.approx(4 / 9),
        "pass@2": pytest.approx(7 / 9),
        "pass@3": 1.0,
        "python_pass@1": pytest.approx(1 / 2),
        "python_pass@2": pytest.approx(5 / 6),
        "python_pass@3": 1.0,
        "sh_pass@1": pytest.approx(1 / 3),
        "sh_pass@2": pytest.approx(2 / 3),
        "sh_pass@3": 1.0,
    }
    assert (found["num_total"], found["notes"], found["settings"]["k"]) == (3, [], [1, 2, 3])


def test_a_k_larger_than_the_samples_is_left_out_and_said(programs: Path, tmp_path: Path) -> None:
    lines = samples_of(python_0=[RIGHT] * 10, python_1=[WRONG] * 10, sh_0=[WRONG, RIGHT])
    found = result(write_lines(tmp_path / "s.jsonl", *lines), programs, "--k", "1,10,100")
    assert {name for name in found if "pass@" in name} == {"pass@1", "python_pass@1", "python_pass@10", "sh_pass@1"}
    assert found["notes"] == [
        "items have different numbers of samples, 10 at most",
        "pass@10, pass@100, sh_pass@10, sh_pass@100 left out: HumanEval_0_x has 2 samples",
        "python_pass@100 left out: HumanEval/0 has 10 samples",
    ]


def test_an_unscored_program_is_no_sample(programs: Path, tmp_path: Path) -> None:
    lines = samples_of(python_0=[RIGHT, WRONG, BROKEN], sh_0=[BROKEN])
    found = result(write_lines(tmp_path / "s.jsonl", *lines), programs, "--k", "2,3", code=1)
    assert (found["pass@1"], found["pass@2"], found["sh_pass@1"], found["num_unscored"]) == (0.5, 1.0, None, 2)
    assert found["notes"][0].startswith(
        "2 of 4 have a score, and figures are over them; 2 unscored (HumanEval/0, HumanEval_0_x: sandbox: no pids)"
    )
    assert "pass@3, python_pass@3 left out: HumanEval/0 has 2 scored samples" in found["notes"]


def test_a_run_is_counted_again_with_another_k(programs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "scores.json"
    assert score(write_lines(tmp_path / "s.jsonl", *THREE_EACH), programs, "--k", 3, "--out", out).code == 0
    [same] = run_here("eval", "score", "--run", out).json["tasks"]
    assert same["new"]["metrics"] == same["old"]["metrics"]
    [other] = run_here("eval", "score", "--run", out, "--k", "2").json["tasks"]
    assert ("pass@2" in other["old"]["metrics"], other["new"]["metrics"]["pass@2"]) == (False, pytest.approx(7 / 9))
    assert (other["old"]["settings"]["k"], other["new"]["settings"]["k"]) == ([3], [2])


@pytest.mark.parametrize(
    ("line", "options", "said"),
    [
        ({"task_id": "HumanEval/7", "completion": ""}, (), "line 2: the benchmark has no item 'HumanEval/7'"),
        ({"task_id": "HumanEval/1", "completion": ""}, ("--k", "0"), "--k 0: give numbers from 1, such as 1,10,100"),
    ],
)
def test_what_cannot_be_scored_is_named(
    programs: Path, tmp_path: Path, line: dict[str, Any], options: tuple[object, ...], said: str
) -> None:
    samples = write_lines(tmp_path / "s.jsonl", *samples_of(python_0=[RIGHT]), line)
    done = score(samples, programs, *options)
    assert (done.code, said in done.stderr, done.stdout) == (2, True, ""), done.stderr


def test_k_of_one_answer_each_is_refused(tmp_path: Path) -> None:
    samples = write_lines(tmp_path / "s.jsonl", {"id": 0, "response": "0"})
    done = score(samples, write_benchmark(tmp_path / "sums"), "--k", 2)
    assert (done.code, "has one to each" in done.stderr) == (2, True), done.stderr


@pytest.mark.shared
def test_of_humaneval_ten_samples_of_every_item_are_counted(shared: Path, tmp_path: Path) -> None:
    problems = [
        json.loads(line)
        for line in gzip.decompress((shared / "benchmarks/HumanEval.jsonl.gz").read_bytes()).splitlines()
    ]
    lines = [
        {
            "task_id": one["task_id"],
            "completion": one["canonical_solution"] if turn == place % 10 else "    return None\n",
        }
        for turn in range(10)
        for place, one in enumerate(problems[:20])
    ]
    samples = write_lines(tmp_path / "s.jsonl", *lines)
    found = result(samples, Path("HumanEval"), "--data-dir", shared / "benchmarks", "--k", "1,5,10,100")
    # one of ten is right: 1/10, 1 - C(9, 5) / C(10, 5) = 1/2, 1
    assert found["python_pass@1"] == pytest.approx(0.1)
    assert (found["python_pass@5"], found["python_pass@10"]) == (pytest.approx(0.5), 1.0)
    assert "pass@100, python_pass@100 left out: HumanEval/0 has 10 samples" in found["notes"]
