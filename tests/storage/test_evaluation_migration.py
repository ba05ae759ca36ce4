"""Rows of measurements of an index that were there before 0004, and of model calls before 0009, keep what they say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import text

from storage import connections
from storage.embedded import Cluster
from storage.evaluations import Evaluations
from storage.totals import Calls, Totals

MIGRATIONS = Path(connections.__file__).parent / "migrations"
ROWS = (
    f"insert into datasets (name, source, checksum, count) values ('own', 'q.jsonl', '{'b' * 64}', 1)",
    f"insert into eval_settings values ('{'a' * 64}', 'rag', '{{}}')",
    "insert into eval_runs values ('r1', 'rag', 'completed', now(), null, '0.1.0', null, 'g', 'd', '{}')",
    f"insert into eval_results values ('r1', 1, 'page.mrr@10', '', '{'a' * 64}', 0.5, 0.25, 0.75, 1)",
    "insert into samples values ('r1', 1, 'q-1', 0, '{\"page\": 1}')",
    f"insert into responses values ('{'c' * 64}', 'hf', 'm', '{{}}', '{{}}', 3, 2, 0.5, now() - interval '1 day')",
)


@pytest.fixture
def url(home: Path) -> Iterator[str]:
    address = Cluster(home).start()
    yield address
    connections.engine(address).dispose()


def migrate(url: str, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with connections.connected(connections.engine(url)) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


@pytest.mark.postgres
def test_rows_of_0003_are_read_after_the_upgrade(url: str) -> None:
    migrate(url, "0003")
    with connections.connected(connections.engine(url)) as connection:
        for row in ROWS:
            connection.execute(text(row.replace(":", r"\:")))

    (read,) = Evaluations(lambda: url).read("r1")  # brings the tables to the head
    assert (read.run.id, read.run.model, read.task) == ("r1", None, None)
    assert (read.results[0].value, read.results[0].headline, read.samples[0].status) == (0.5, False, "scored")
    assert Totals(lambda: url).calls() == [Calls("hf", "m", 1, 3, 2, 0.5)]
