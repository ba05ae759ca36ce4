"""What runs print and write has the keys of the lists; tests/test_inventory.py says how to change them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.command import run_apart
from tests.inventory import runs
from tests.inventory.lists import hold
from tests.storage.conftest import open_home

pytestmark = [pytest.mark.engine, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(900)]

RUNS = (runs.runs_of_documents, runs.runs_of_an_evaluation, runs.runs_of_a_night, runs.runs_of_the_lever)


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A home without the runs of other tests, which would add to what is printed; its server serves all commands."""
    with open_home() as home:
        places = {
            "TRIVET_HOME": str(home),
            "PREFECT_HOME": str(home / "prefect"),
            "PREFECT_API_URL": "",
            "DATABASE_URL": "",
        }
        run = partial(run_apart, **places, TRIVET_API_LINGER_S="120")
        monkeypatch.setattr(runs, "run_here", run)
        yield
        run("db", "stop")


@pytest.mark.parametrize("listed", RUNS, ids=lambda one: one.__name__)
def test_a_run_has_the_keys_of_the_list(listed: Callable[[Path], Iterable[str]], tmp_path: Path) -> None:
    hold(listed.__name__, listed(tmp_path))
