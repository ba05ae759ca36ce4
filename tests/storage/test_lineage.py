"""Edges of steps, in a file and in PostgreSQL."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from storage import connections
from storage.lineage import EVERY, FILE, Edge, Lineage, StepRun

AT = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


@pytest.fixture(params=["file", "database"])
def lineage(request: pytest.FixtureRequest, tmp_path: Path) -> Lineage:
    """An empty one."""
    if request.param == "file":
        return Lineage(None, tmp_path / FILE)
    address: str = request.getfixturevalue("url")
    opened = Lineage(lambda: address, tmp_path / FILE)
    opened.origins([], most=1)
    with connections.connected(connections.engine(address)) as connection:
        connection.execute(text("truncate lineage_steps, lineage_edges, lineage_collected"))
    return opened


def digest(sign: str) -> str:
    return sign * 64


def ran(name: str, *, key: str = "", at: datetime = AT) -> StepRun:
    return StepRun(
        key=key or name,
        step=f"tasks.rag.steps.{name}",
        version=2,
        run="r1",
        code="0.1.0",
        at=at,
        seconds=0.5,
        parameters={"size": 3, "name": "말"},
    )


def made(sign: str, *, item: int = EVERY, kind: str = "text") -> Edge:
    return Edge(item, True, kind, digest(sign), "content")


def used(sign: str, *, item: int = EVERY, kind: str = "text") -> Edge:
    return Edge(item, False, kind, digest(sign), "content")


def test_an_origin_leads_to_the_inputs_of_its_own_item(lineage: Lineage) -> None:
    lineage.record(ran("scan"), [made("a", kind="document"), made("b", kind="document")])
    parsed = [made("1", item=0), used("a", item=0), made("2", item=1), used("b", item=1), used("e")]
    lineage.record(ran("parse"), parsed)

    found = lineage.origins([digest("2")], most=100)

    assert found[digest("2")].step == ran("parse")
    assert sorted(found[digest("2")].used) == [digest("b"), digest("e")]
    assert set(found) == {digest("2"), digest("b"), digest("e")}
    assert found[digest("b")].step == ran("scan")
    assert (found[digest("e")].step, found[digest("e")].kind, found[digest("e")].name) == (None, "text", "content")


def test_recording_again_changes_only_the_date(lineage: Lineage) -> None:
    edges = [made("1"), used("a")]
    lineage.record(ran("parse"), edges)
    later = ran("parse", at=AT.replace(hour=11))
    lineage.record(later, edges)
    assert lineage.origins([digest("1")], most=1)[digest("1")].step == later


def test_of_equal_contents_the_maker_of_what_stands_beside_is_told(lineage: Lineage) -> None:
    """Two documents without a number have one artifact of their numbers; each leads to its own document."""
    shard = [made("1", item=0), made("e", item=0), used("a", item=0), made("2", item=1), made("e", item=1)]
    lineage.record(ran("chunk", key="first"), [*shard, used("b", item=1)])
    other = [made("3", item=0), made("e", item=0), used("c", item=0)]
    lineage.record(ran("chunk", key="later", at=AT.replace(hour=11)), other)
    lineage.record(ran("embed"), [made("f"), used("2"), used("e")])
    found = lineage.origins([digest("f")], most=100)
    assert found[digest("e")].used == (digest("b"),)
    assert set(found) == {digest(sign) for sign in "f2eb"}


def test_a_step_that_only_finds_the_same_again_is_not_recorded_again(lineage: Lineage) -> None:
    lineage.record(ran("scan", key="k1"), [made("a")], only_new=True)
    lineage.record(ran("scan", key="k2", at=AT.replace(hour=11)), [made("a")], only_new=True)
    lineage.record(ran("scan", key="k3", at=AT.replace(hour=12)), [made("a"), made("b")], only_new=True)
    found = lineage.origins([digest("a"), digest("b")], most=10)
    assert [one.step and one.step.key for one in found.values()] == ["k1", "k3"]


def test_what_was_collected_is_said(lineage: Lineage) -> None:
    lineage.record(ran("parse"), [made("1"), used("a")])
    lineage.note_collected([digest("1"), digest("9")], at=AT)
    lineage.note_collected([digest("1")], at=AT.replace(hour=23))
    assert lineage.origins([digest("1")], most=1)[digest("1")].collected == AT
    assert lineage.origins([digest("9")], most=1)[digest("9")].collected is None


def test_digests_are_found_by_how_they_begin(lineage: Lineage) -> None:
    lineage.record(ran("parse"), [made("a"), used("b")])
    assert lineage.beginning("aaaa") == [digest("a")]
    assert lineage.beginning("") == [digest("a"), digest("b")]
    assert lineage.beginning("c") == []


def test_many_write_at_once(lineage: Lineage) -> None:
    def write(number: int) -> None:
        lineage.record(ran(f"s{number}"), [Edge(EVERY, True, "text", f"{number:064x}", ""), used("a")])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(40)))
    found = lineage.origins([f"{number:064x}" for number in range(40)], most=100)
    assert sum(one.step is not None for one in found.values()) == 40
