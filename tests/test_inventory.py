"""Everything that a user can name is listed in tests/samples/inventory: commands, options, JSON keys, settings, tables.

A list that differs from the program fails, whether something was lost or added: it is changed on purpose, by
`python -m tests.test_inventory`, and the diff is read.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.inventory import names, runs, schemas
from tests.inventory.lists import LISTS, WRITE, hold

ASKED: tuple[Callable[[], Iterable[str]], ...] = (
    names.commands,
    names.deployments,
    names.environment,
    names.extensions,
    names.flow_configs,
    names.steps,
    names.tables,
    schemas.inputs,
    schemas.json_keys,
)


UNLISTED = {"rag serve", "lever rl-data"}
"""What ends by a signal, and a stage, which prints what `lever run` does."""


@pytest.mark.parametrize("listed", ASKED, ids=lambda one: one.__name__)
def test_the_list_is_what_the_program_has(listed: Callable[[], Iterable[str]]) -> None:
    hold(listed.__name__, listed())


@pytest.mark.slow
def test_outputs_of_commands_have_the_keys_of_the_list(tmp_path: Path) -> None:
    hold("outputs", runs.outputs(tmp_path))


def test_every_command_with_json_is_listed() -> None:
    lists = [path.read_text("utf-8") for path in LISTS.glob("*.txt")]
    listed = {words for text in lists for words in re.findall(r"^(.+?)(?: \S+\[\])?(?: --\S+)* --json \| ", text, re.M)}
    printing = re.findall(r"^trivet (.+) \| --json \|", (LISTS / "commands.txt").read_text("utf-8"), re.M)
    assert set(printing) - listed == UNLISTED


if __name__ == "__main__":
    os.environ[WRITE] = "1"
    files = [__file__, str(Path(__file__).parent / "engine" / "test_inventory_of_runs.py")]
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *files, *(("-k", sys.argv[1]) if sys.argv[1:] else ())]))
