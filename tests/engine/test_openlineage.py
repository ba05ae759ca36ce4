"""What an OpenLineage server hears of real runs: valid events, with the edges that `trivet why` shows."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.running.configuring import configure_steps
from flows.running.settings import settings

configure_steps()

from prefect import flow  # noqa: E402
from prefect.client.orchestration import SyncPrefectClient  # noqa: E402

from flows.rag import build_index  # noqa: E402
from flows.running.shown import watched  # noqa: E402
from tasks.resources import lineage, resources  # noqa: E402
from tests.command import run_here  # noqa: E402
from tests.engine.deployed import Ran  # noqa: E402
from tests.openlineage_server import Heard, answering, serving  # noqa: E402
from tests.origins.openlineage_schema import check  # noqa: E402

pytestmark = pytest.mark.engine

Events = list[dict[str, Any]]


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Heard]]:
    """What a server has received, where OPENLINEAGE_URL names it."""
    with serving(answering(201)) as (url, requests):
        monkeypatch.setenv("OPENLINEAGE_URL", url)
        settings.cache_clear()
        yield requests
        monkeypatch.undo()
        settings.cache_clear()


def events_of(heard: list[Heard]) -> Events:
    """As they were received, each valid."""
    for one in heard:
        check(one.event)
    return [one.event for one in heard]


def kinds(events: Events, job: str) -> list[str]:
    return [event["eventType"] for event in events if event["job"]["name"] == job]


def names(events: Events, side: str) -> set[str]:
    return {data["name"] for event in events for data in event[side]}


def index(folder: Path, **chosen: str) -> dict[str, str]:
    return {"documents": str(folder / "docs"), "index": str(folder / "index"), **chosen}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    for number in range(3):
        (tmp_path / "docs" / f"{number}.txt").write_text(f"Lot {number} of {tmp_path.name} costs {number} million.")
    return tmp_path


def test_a_run_is_told_with_the_edges_that_its_steps_recorded(
    heard: list[Heard], client: SyncPrefectClient, folder: Path
) -> None:
    ran = Ran(client, build_index, config=index(folder))

    events = events_of(heard)
    assert ran.state.is_completed()
    assert kinds(events, "rag") == ["START", "COMPLETE"]
    recorded = lineage().of_run(str(ran.id))
    steps = {f"tasks.rag.steps.{name}" for name in ("scan", "parse", "find_figures", "chunk", "embed", "publish_index")}
    assert steps <= {one.step.step for one in recorded}
    for one in recorded:
        told = [event for event in events if event["job"]["name"] == one.step.step]
        edges = {(edge.made, f"{edge.kind or 'digest'}/{edge.digest}") for edge in one.edges}
        assert {(False, name) for name in names(told, "inputs")} | {(True, n) for n in names(told, "outputs")} == edges
        assert {event["run"]["facets"]["parent"]["run"]["runId"] for event in told} == {str(ran.id)}
        assert [event["eventType"] for event in told] == ["START", "COMPLETE"]
    store = f"file://{socket.gethostname()}{Path(resources().store).absolute()}"
    assert {data["namespace"] for event in events for data in event["inputs"]} == {store}


def test_the_steps_of_a_run_are_one_graph_from_the_files_to_the_index(
    heard: list[Heard], client: SyncPrefectClient, folder: Path
) -> None:
    Ran(client, build_index, config=index(folder))

    events = events_of(heard)
    found = run_here("why", folder / "index", "--json").json["origins"][0]["key"]
    reached, waiting = set[str](), [f"digest/{found}"]
    while waiting:
        reached.add(name := waiting.pop())
        makers = [event for event in events if name in names([event], "outputs")]
        waiting += [one for one in names(makers, "inputs") if one not in reached]
    documents = {name for name in names(events, "outputs") if name.startswith("document/")}
    assert len(documents) == 3
    assert documents < reached


def test_only_steps_that_ran_are_told(heard: list[Heard], client: SyncPrefectClient, folder: Path) -> None:
    Ran(client, build_index, config=index(folder))
    heard.clear()

    Ran(client, build_index, config=index(folder))

    assert [(event["job"]["name"], event["eventType"]) for event in events_of(heard)] == [
        ("rag", "START"),
        ("rag", "COMPLETE"),
    ]


def test_a_run_that_fails_is_told_so_without_its_parameters(
    heard: list[Heard], client: SyncPrefectClient, folder: Path
) -> None:
    ran = Ran(client, build_index, config=index(folder / "hunter2"))

    assert ran.state.is_failed()
    assert kinds(events_of(heard), "rag") == ["START", "FAIL"]
    assert "hunter2" not in json.dumps(events_of(heard))


def test_a_part_names_the_run_that_it_is_a_part_of(heard: list[Heard], client: SyncPrefectClient) -> None:
    @flow(name="part")
    @watched
    def part() -> None:
        pass

    @flow(name="whole")
    @watched
    def whole() -> None:
        part()

    ran = Ran(client, whole)

    events = events_of(heard)
    assert kinds(events, "whole") == kinds(events, "part") == ["START", "COMPLETE"]
    parents = {one["run"]["facets"]["parent"]["run"]["runId"] for one in events if one["job"]["name"] == "part"}
    assert parents == {str(ran.id)}


def test_a_run_ends_as_ever_where_nobody_listens(
    client: SyncPrefectClient, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    settings.cache_clear()
    try:
        assert Ran(client, build_index, config=index(folder)).state.is_completed()
    finally:
        monkeypatch.undo()
        settings.cache_clear()
