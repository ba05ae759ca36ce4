"""What an earlier version had answers with one line: what takes its place."""

from __future__ import annotations

import pytest

from flows.running.replacements import replacements
from tests.command import run_here

NAMES = [(name, instead) for kind in ("command", "option", "format") for name, instead in replacements()[kind].items()]


@pytest.mark.parametrize(("name", "instead"), NAMES, ids=[name for name, _ in NAMES])
def test_a_removed_name_answers_with_what_takes_its_place(name: str, instead: str) -> None:
    done = run_here(*name.split(), "x")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == f"error: {name} was removed: {instead}\n"
