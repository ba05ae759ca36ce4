"""Results files of evalchemy and of the lm-evaluation-harness."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import EvalReport
from tasks.evaluation.results.results_file import read_results

SEED = {
    "results": {"AIME24": {"accuracy_avg": 0.65, "accuracy_std_err": 0.05, "num_total": 30, "solved_avg": 19.5}},
    "model_info": {
        "model_name": "deepseek-r1",
        "model_args": "api_base=http://h/v1,api_key=sk-1",
        "timestamp": "2024-01-01T12:00:00",
    },
}
HARNESS = {
    "results": {
        "arc_easy": {"alias": "arc_easy", "acc,none": 0.5, "acc_stderr,none": 0.1, "acc_norm,none": 0.75},
        "gsm8k": {
            "exact_match,strict-match": 0.25,
            "exact_match_stderr,strict-match": "N/A",
            "bits,none": float("nan"),
        },
    },
    "versions": {"arc_easy": 1.0},
    "higher_is_better": {"arc_easy": {"acc": True, "acc_norm": False}},
    "n-samples": {"arc_easy": {"original": 2376, "effective": 20}},
    "config": {"model": "hf", "model_args": {"pretrained": "org/tiny"}, "model_revision": "main"},
    "git_hash": "abc",
    "date": 1700000000.0,
}


def read(folder: Path, content: dict[str, Any]) -> EvalReport:
    file = folder / "results.json"
    file.write_text(json.dumps(content))
    return read_results(file)


def test_the_seeds_example_is_read(tmp_path: Path) -> None:
    report = read(tmp_path, SEED)
    (result,) = report.results
    (figure,) = result.estimates
    assert (report.run.model.name, report.run.started_at) == ("deepseek-r1", datetime(2024, 1, 1, 12, tzinfo=UTC))
    assert (figure.metric, figure.value, figure.std_err, figure.n, figure.headline) == (
        *("accuracy_avg", 0.65, 0.05),
        *(30, True),
    )
    assert result.metrics == SEED["results"]["AIME24"]
    assert "sk-1" not in report.model_dump_json()


def test_the_same_file_is_the_same_run(tmp_path: Path) -> None:
    assert read(tmp_path, SEED) == read(tmp_path, SEED)
    assert read(tmp_path, SEED).run.id != read(tmp_path, SEED | {"more": 1}).run.id


def test_results_of_the_harness_are_read(tmp_path: Path) -> None:
    report = read(tmp_path, HARNESS)
    model = report.run.model
    assert (model.name, model.backend, model.revision) == ("org/tiny", "hf", "main")
    arc, gsm = report.results
    assert [(one.metric, one.value, one.std_err, one.higher_is_better) for one in arc.estimates] == [
        ("acc", 0.5, 0.1, True),
        ("acc_norm", 0.75, None, False),
    ]
    assert [one.metric for one in arc.estimates if one.headline] == ["acc_norm"]
    assert (arc.counts.items, arc.version) == (20, "1.0")
    assert [(one.metric, one.std_err) for one in gsm.estimates] == [("exact_match,strict-match", None)]
    assert gsm.metrics["bits,none"] is None


def test_what_has_no_figure_is_left_out(tmp_path: Path) -> None:
    failed = {"results": SEED["results"] | {"Broken": {"error": "it crashed"}, "Odd": 3}}
    assert [result.task for result in read(tmp_path, SEED | failed).results] == ["AIME24"]


@pytest.mark.parametrize("name", ["annotations.json", "gpt-4_single.jsonl", "gpt-4_pair.jsonl"])
def test_judgments_that_were_imported_once_are_refused_by_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("[]")
    with pytest.raises(ResultsUnusable, match=r"was removed; import results files"):
        read_results(tmp_path / name)
