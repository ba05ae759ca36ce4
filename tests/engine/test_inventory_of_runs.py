"""What runs print and write has the keys of the lists; tests/test_inventory.py says how to change them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.inventory import runs
from tests.inventory.lists import hold

pytestmark = [pytest.mark.engine, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(900)]

RUNS = (runs.runs_of_documents, runs.runs_of_an_evaluation, runs.runs_of_a_night, runs.runs_of_the_lever)


@pytest.mark.parametrize("listed", RUNS, ids=lambda one: one.__name__)
def test_a_run_has_the_keys_of_the_list(listed: Callable[[Path], Iterable[str]], tmp_path: Path) -> None:
    hold(listed.__name__, listed(tmp_path))
