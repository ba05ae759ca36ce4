"""Runs by what people call them: files here, the database in tests/flows/test_eval_show.py."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import ModelFacts, Sample, TaskResult
from tasks.evaluation.results.finding_runs import find_run
from tasks.evaluation.results.results_file import write_results
from tests.evaluation.reports import NOON, SAMPLES, report


def own(result: TaskResult) -> tuple[Sample, ...]:
    return SAMPLES


def test_a_results_file_is_a_run(tmp_path: Path) -> None:
    path = write_results(report(), own, output_path=tmp_path / "quick.json")
    found = find_run(str(path), None)
    assert (found.report, tuple(found.samples("Sums")), found.path) == (report(), SAMPLES, path)
    assert found.item("Sums", "2") == list(SAMPLES[2:])
    assert found.item("Sums", "3") == []


def test_a_folder_is_its_newest_run(tmp_path: Path) -> None:
    for minutes, name in ((5, "zz"), (9, "aa"), (7, "mm")):
        later = NOON + timedelta(minutes=minutes)
        made = report(id=f"{minutes}" * 16, ended_at=later, model=ModelFacts(name=name, backend="hf"))
        write_results(made, own, output_path=tmp_path)
    assert find_run(str(tmp_path), None).report.run.model.name == "aa"
    assert find_run(str(tmp_path / "zz"), None).report.run.model.name == "zz"


@pytest.mark.parametrize(
    ("which", "says"),
    [("gone.json", "cannot be read"), ("nothing", "no results file"), (".", "has no results_TIME")],
)
def test_what_is_no_run_is_said(which: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ResultsUnusable, match=says):
        find_run(which, None)
