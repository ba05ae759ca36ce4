"""Everything that a user can name is listed in tests/samples/inventory: commands, options, JSON keys, settings, tables.

A list that differs from the program fails, whether something was lost or added: it is changed on purpose, by
`python -m tests.test_inventory`, and the diff is read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable

import pytest

from tests.inventory import names, schemas
from tests.inventory.lists import WRITE, hold

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


@pytest.mark.parametrize("listed", ASKED, ids=lambda one: one.__name__)
def test_the_list_is_what_the_program_has(listed: Callable[[], Iterable[str]]) -> None:
    hold(listed.__name__, listed())


if __name__ == "__main__":
    os.environ[WRITE] = "1"
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", __file__, *(("-k", sys.argv[1]) if sys.argv[1:] else ())]))
