"""An evaluation that is killed, and one whose database is: each answer is paid for once, each sample kept once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storage.connections import locate
from storage.embedded import Cluster
from storage.evaluations import Evaluations
from tests.command import TRIVET
from tests.drills.evaluating import adder, asked, command, finished, kill_when, start, wait_until, write_sums
from tests.models.server import Server

pytestmark = [pytest.mark.drill, pytest.mark.engine, pytest.mark.postgres, pytest.mark.timeout(900)]

ITEMS = 500
CONCURRENCY = 16
KILLED_AT = (90, 230, 390)
"""Requests that the server has seen when each of the three runs is killed."""


@pytest.fixture
def server(server: Server) -> Server:
    """It adds, and takes its time."""
    server.answer = adder(pause_s=0.05)
    return server


def kept_in(home: Path) -> Evaluations:
    """The tables of that home."""
    return Evaluations(lambda: locate(None, home=home))


def test_a_run_that_is_killed_three_times_asks_each_item_once(server: Server, home: Path, tmp_path: Path) -> None:
    data = write_sums(tmp_path / "data", ITEMS)
    arguments = command(server, data, tmp_path / "out", "--set", f"model.args.num_concurrent={CONCURRENCY}")
    for seen in KILLED_AT:
        kill_when(start(arguments, TRIVET_HOME=str(home)), lambda seen=seen: len(server.requests) >= seen)
    done = finished(start(arguments, TRIVET_HOME=str(home)))
    assert done.code == 0, done.stderr
    report = done.json
    [result] = report["results"]
    accuracies = dict.fromkeys(("accuracy", "accuracy_strict", "accuracy_flexible"), 0.9)
    assert result["metrics"] == {"num_total": ITEMS, "num_solved": 450} | accuracies
    counted = asked(server)
    assert len(counted) == ITEMS
    again = sum(counted.values()) - ITEMS
    assert again <= CONCURRENCY * len(KILLED_AT), "no more than what was under way at each kill"

    kept = list(kept_in(home).samples(report["run"]["id"], "MATH500"))
    assert len({(sample.item, sample.repeat) for sample in kept}) == len(kept) == ITEMS
    assert sum(sample.score or 0 for sample in kept) == 450

    before = len(server.requests)
    once_more = finished(start([*arguments, "--overwrite"], TRIVET_HOME=str(home)))
    assert once_more.code == 0
    assert len(server.requests) == before, "a finished run is recalled"


def test_a_database_that_stops_in_the_middle_loses_nothing(server: Server, home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    cluster = Cluster(outside)
    try:
        environment = {"TRIVET_HOME": str(home), "DATABASE_URL": cluster.start()}
        arguments = command(server, write_sums(tmp_path / "data", ITEMS), tmp_path / "out")
        run = start(arguments, **environment)
        wait_until(lambda: len(server.requests) >= ITEMS // 3, run)
        cluster.stop()
        done = finished(run)
        assert done.code == 1
        assert "trivet eval import" in done.stderr
        assert "Traceback" not in done.stderr
        [file] = (tmp_path / "out").glob("*/results_*.json")
        assert json.loads(file.read_text())["results"]["MATH500"]["num_total"] == ITEMS

        cluster.start()
        imported = finished(start([*TRIVET, "eval", "import", str(file), "--json"], **environment))
        assert imported.code == 0, imported.stderr
        kept = list(Evaluations(cluster.start).samples(done.json["run"]["id"], "MATH500"))
        assert len({sample.item for sample in kept}) == len(kept) == ITEMS
        before = len(server.requests)
        again = finished(start([*arguments, "--overwrite"], **environment))
        assert again.code == 0, again.stderr
        assert len(server.requests) == before, "what was answered while the database was away is not asked again"
    finally:
        cluster.remove()
