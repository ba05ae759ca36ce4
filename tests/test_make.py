"""`make test` and `make drills` together run every test, and none of them twice."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
BY_FILE = {"--dist", "loadfile", "--no-loadscope-reorder"}
HOW_TO_SPREAD = {"-n", "logical", "--maxprocesses", "8", *BY_FILE}
PYTEST = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def recipe(target: str) -> list[str]:
    """The lines that a target of the Makefile runs."""
    make = ["make", "--dry-run", "--no-print-directory", "--old-file=.venv/.usable", "--old-file=.venv/.ready", target]
    apart = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(make, cwd=ROOT, env=apart, capture_output=True, text=True, check=True).stdout.splitlines()


def pytest_arguments(target: str) -> list[str]:
    """What the one call of pytest that a target of the Makefile makes is given."""
    [call] = [line for line in recipe(target) if line.startswith(".venv/bin/pytest")]
    return shlex.split(call)[1:]


@pytest.fixture(scope="module")
def drills() -> str:
    """The expression that chooses the drills."""
    *spreading, option, expression = pytest_arguments("drills")
    assert option == "-m"
    assert set(spreading) == {"-n", "3", *BY_FILE}
    return expression


def test_the_tests_are_all_that_are_no_drills(drills: str) -> None:
    *spreading, option, expression = pytest_arguments("test")
    assert (option, expression) == ("-m", f"not ({drills})")
    assert set(spreading) == HOW_TO_SPREAD


def test_drills_are_chosen_by_markers_that_there_are(drills: str) -> None:
    declared = {marker.partition(":")[0] for marker in PYTEST["markers"]}
    assert set(re.findall(r"\w+", drills)) - {"or"} <= declared


def test_no_setting_leaves_tests_out() -> None:
    assert PYTEST["testpaths"] == ["tests"]
    options: list[Any] = shlex.split(PYTEST["addopts"])
    assert not [each for each in options if re.match(r"-[mkn]|--(ignore|deselect|last|lf|ff)", each)]


def test_a_file_of_drills_names_their_marks_itself(drills: str) -> None:
    """Workers of drills import no other files."""
    named = re.compile(rf"mark\.({drills.replace(' or ', '|')})\b")
    helpers = [file for file in (ROOT / "tests").rglob("*.py") if not file.name.startswith("test_")]
    assert [file for file in helpers if named.search(file.read_text("utf-8"))] == []


def test_ci_runs_both() -> None:
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert re.findall(r"^make (\w+)", script, re.MULTILINE) == ["setup", "check", "test", "docs", "drills"]


def test_the_demo_needs_no_development_packages() -> None:
    assert recipe("demo") == [f"bash tests/samples/demo.sh {ROOT}/.venv/bin"]
