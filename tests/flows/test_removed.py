"""What an earlier version had answers with one line: what takes its place."""

from __future__ import annotations

import pytest

from flows.running.config_reading import replacements
from tests.command import run_here

NAMES = [(name, instead) for kind in ("command", "option", "format") for name, instead in replacements()[kind].items()]


@pytest.mark.parametrize(("name", "instead"), NAMES, ids=[name for name, _ in NAMES])
def test_a_removed_name_answers_with_what_takes_its_place(name: str, instead: str) -> None:
    done = run_here(*name.split(), "x")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == f"error: {name} was removed: {instead}\n"


@pytest.mark.parametrize("key", replacements()["configuration"])
def test_a_removed_parameter_answers_with_what_takes_its_place(key: str) -> None:
    flow = ("eval", "run", "--model", "scripted", "--tasks", "IFEval") if ".calls." in key else ("lever", "run")
    done = run_here(*flow, "--set", f"{key}=1", "--dry-run")
    assert (done.code, done.stderr) == (2, f"error: {key} was removed: {replacements()['configuration'][key]}\n")
