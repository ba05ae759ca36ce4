"""The results file and the samples beside it."""

from __future__ import annotations

import errno
import json
import os
import resource
from pathlib import Path
from typing import Any

import pytest

from storage.artifacts import Artifacts
from storage.storage_errors import StoreUnreachable
from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import EvalReport, ModelFacts, Sample
from tasks.evaluation.record_lines import write_lines
from tasks.evaluation.results.results_file import read_results, read_samples, safe_name, write_files
from tests.evaluation.reports import SAMPLES, report, task_result, with_artifacts, write_report

TIME = "2026-03-01T12-01-30.000000"


def written(folder: Path, made: EvalReport) -> dict[str, Any]:
    return json.loads(write_report(made, output_path=folder / "r.json").read_text())


def test_the_file_has_the_seeds_keys(tmp_path: Path) -> None:
    told = written(tmp_path, report())
    assert told["results"]["Sums"]["accuracy_avg"] == 0.5
    assert told["model_info"] == {
        "model_name": "org/tiny",
        "model_args": "pretrained=org/tiny",
        "timestamp": "2026-03-01T12:00:00+00:00",
        "git_hash": "f" * 40,
        "total_evaluation_time": 90.0,
    }


def test_what_was_written_is_read(tmp_path: Path) -> None:
    made = report(task_result(metrics={"half": "\ud800", "all": [None, 1, "한국어"]}))
    path = write_report(made, output_path=tmp_path)
    read = read_results(path)
    assert read == made.model_copy(update={"results": read.results})
    assert read.results[0].model_copy(update={"samples": ()}) == made.results[0]
    assert tuple(read_samples(path, "Sums")) == SAMPLES


@pytest.mark.parametrize(
    ("output", "path"),
    [
        ("logs/quick.json", "logs/quick.json"),
        ("logs", f"logs/org__tiny/results_{TIME}.json"),
    ],
)
def test_a_json_is_the_file_and_a_folder_gets_one_per_model(tmp_path: Path, output: str, path: str) -> None:
    assert write_report(report(), output_path=tmp_path / output) == tmp_path / path
    assert (tmp_path / path).with_name(f"samples_Sums_{TIME}.jsonl").is_file()


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("org/model", "org__model"),
        ("../../etc", "__..__etc"),
        ("a b:c\x00d", "a_b_c_d"),
        ("", "model"),
    ],
)
def test_any_model_name_is_safe_as_a_file_name(name: str, safe: str) -> None:
    assert safe_name(name) == safe


def test_a_line_of_samples_can_be_read_by_a_person(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path / "store")
    path = write_files(report(with_artifacts(task_result(), artifacts)), artifacts, output_path=tmp_path / "out")
    first = json.loads(next(path.parent.glob("samples_*")).read_text().splitlines()[0])
    assert (first["prompt"], first["response"], first["score"]) == (["What is 1 + 3?"], ["It is 4."], 1.0)


def test_no_secret_is_in_the_file(tmp_path: Path) -> None:
    facts = ModelFacts(name="m", backend="openai", args={"api_key": "sk-1", "base_url": "http://h/v1"})
    path = write_report(report(model=facts, config={"api_key": "sk-1"}), output_path=tmp_path / "r.json")
    assert "sk-1" not in path.read_text()
    assert "api_key=***" in path.read_text()


def test_a_full_disk_leaves_no_half_file(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path / "store")
    too_many = [Sample(item=str(number), score=0.0, reason="x" * 1000) for number in range(2000)]
    made = report(task_result(samples=(write_lines(artifacts, "samples", too_many),)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(StoreUnreachable, match=os.strerror(errno.EFBIG)):
            write_files(made, artifacts, output_path=tmp_path / "out" / "r.json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "not JSON"),
        ("[]", "no JSON object"),
        ('{"results": {}}', r"r\.json names no model"),
        ('{"results": {}, "model_info": {"model_name": "m"}}', "no task with a figure"),
        ('{"trivet": {"run": 1}}', r"run: .*not as Trivet wrote it"),
    ],
    ids=["empty", "list", "nameless", "no-tasks", "other"],
)
def test_what_is_no_results_file_is_named(tmp_path: Path, content: str, says: str) -> None:
    file = tmp_path / "r.json"
    file.write_text(content)
    with pytest.raises(ResultsUnusable, match=says):
        read_results(file)


@pytest.mark.parametrize("line", ['{"item": 1', '{"item": {}}', "[]", "null"])
def test_a_broken_line_of_samples_is_named(tmp_path: Path, line: str) -> None:
    path = write_report(report(), output_path=tmp_path)
    with next(path.parent.glob("samples_*")).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ResultsUnusable, match="line 5"):
        list(read_samples(path, "Sums"))
