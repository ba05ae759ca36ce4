"""The recipe `add_a_results_column.md`, applied to a copy of the packages and run there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import run_apart

REPOSITORY = Path(__file__).parents[2]
RECIPE = Path(__file__).with_name("add_a_results_column.md")
CHANGE = re.compile(r"```diff\n# file: (\S+)\n(.*?)```", re.DOTALL)
REPORT = """
import json, sys
from datetime import UTC, datetime
from tasks.evaluation.evaluation_records import Dataset, EvalReport, ModelFacts, RunFacts, Sample, TaskResult
from tasks.grading.sample_statistics import summarise_single

now = datetime(2026, 3, 1, tzinfo=UTC)
samples = [Sample(item="1", score=1.0), Sample(item="2", score=0.0), Sample(item="3", score=0.0, missing=True)]
found = summarise_single(samples)
facts = Dataset(name="Sums", source="own", checksum="b" * 64, count=3)
result = TaskResult(task="Sums", version="1", family="math", data=facts, settings={}, metrics=found.metrics,
                    estimates=found.estimates, counts=found.counts)
model = ModelFacts(name="counted", backend="replay")
run = RunFacts(id="a-column-of-its-own", model=model, started_at=now, status="completed", version="0")
report = EvalReport(run=run, results=(result,))
"""
EXPORTED = """
from tasks.evaluation.results import ranking, run_report
from tasks.evaluation.results.ranking import render_page
from tasks.evaluation.results.results_file import build_content

boards = ranking.rank(ranking.read_scores(report))
print(json.dumps({
    "results file": build_content(report)["trivet"]["results"][0]["counts"]["wrong"],
    "report": run_report.render_markdown(report).count("| wrong |"),
    "leaderboard": ranking.as_rows(boards)[0]["wrong"],
    "csv": ranking.as_csv(boards).splitlines()[0].split(",").count("wrong"),
    "markdown": ranking.as_markdown(boards).count("| wrong |"),
    "page": render_page(boards, made_at=now).count('data-column="wrong"'),
}))
"""
KEPT = """
from flows.running.settings import configure_steps
from tasks.evaluation.results.results_file import store_run_with, report_from_rows
from tasks.resources import evaluations

configure_steps()
store_run_with(report, lambda _: samples, evaluations())
stored = report_from_rows(evaluations().run(run.id), evaluations().task_results(run.id))
print(stored.results[0].counts.wrong)
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the packages with the recipe applied."""
    copy = tmp_path / "house"
    for package in ("flows", "tasks", "models", "storage", "deployments"):
        shutil.copytree(REPOSITORY / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, block in CHANGE.findall(RECIPE.read_text("utf-8")):
        lines = block.splitlines(keepends=True)
        before, after = ("".join(line[1:] for line in lines if line[0] in marks) for marks in (" -", " +"))
        text = (copy / name).read_text("utf-8")
        assert text.count(before) == 1, f"{name} no longer has the lines that the recipe changes: {before}"
        (copy / name).write_text(text.replace(before, after), "utf-8")
    return copy


def execute(house: Path, program: str) -> object:
    """What a program prints that imports the changed packages."""
    environment = os.environ | _packages_of(house)
    done = subprocess.run([sys.executable, "-c", REPORT + program], env=environment, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def _packages_of(house: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(house), "PYTHONSAFEPATH": "1"}


def test_it_touches_four_files() -> None:
    assert len({name for name, _ in CHANGE.findall(RECIPE.read_text("utf-8"))}) == 4


def test_the_column_is_in_every_report_and_export(house: Path) -> None:
    found = execute(house, EXPORTED)
    assert isinstance(found, dict)
    assert set(found.values()) == {1}


@pytest.mark.postgres
def test_the_database_keeps_the_column_and_the_leaderboard_reads_it(house: Path) -> None:
    assert execute(house, KEPT) == 1
    places = _packages_of(house)
    asked = ("--format", "json", "--model", "counted")
    ranked = run_apart("eval", "results", *asked, PYTHONPATH=places["PYTHONPATH"], PYTHONSAFEPATH="1")
    [row] = ranked.json["scores"]
    assert row["wrong"] == 1
