"""The recipe `add_a_benchmark.md`, followed outside the repository: a YAML file, and a package with an entry point."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.recipes.packages import Package

ANSWERS = (("seine", "About 800 km."), ("thames", "I do not know."))


@pytest.mark.parametrize("named", ["CloseRivers", "close_rivers.py", "rivers.yaml"])
def test_every_gold_is_graded_as_right(package: Package, named: str) -> None:
    path = package.site / named
    done = package.run("eval", "list", "--check", path if path.exists() else named)
    assert done.code == 0, done.stderr


def test_a_package_adds_to_the_list_of_benchmarks(package: Package) -> None:
    assert "CloseRivers" in package.run("eval", "list", "--json").stdout


@pytest.mark.engine
@pytest.mark.postgres
def test_answers_are_scored_with_the_metric_of_its_own(package: Package, tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    answers.write_text("".join(json.dumps({"id": id, "response": text}) + "\n" for id, text in ANSWERS))

    done = package.run("eval", "score", answers, "--task", "CloseRivers", "--json")

    assert done.code == 0, done.stderr
    figures = {one["metric"]: one["value"] for one in done.json["trivet"]["results"][0]["estimates"]}
    assert figures["accuracy"] == 0.5
    assert figures["off_by"] == pytest.approx((23 / 777 + 1) / 2)


def test_inside_the_repository_one_file_is_enough(package: Package) -> None:
    """The folder of benchmarks is searched, so that no list names them."""
    from tasks.evaluation.benchmarks.benchmark_registry import FOLDER

    copy = package.site / "tasks"
    shutil.copytree(FOLDER.parents[1], copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(package.site / "rivers.yaml", copy / "evaluation" / "benchmarks" / "rivers.yaml")
    done = package.run("eval", "list", "--json", PYTHONSAFEPATH="1")
    assert '"Rivers"' in done.stdout
