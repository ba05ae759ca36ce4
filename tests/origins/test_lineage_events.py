"""OpenLineage events are valid, tell the edges of a step and nothing of its parameters."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from jsonschema import ValidationError
from openlineage.client.event_v2 import RunEvent
from openlineage.client.serde import Serde

from storage.lineage import EVERY, Edge, Ran, StepRun
from tasks.origins import lineage_events
from tasks.origins.lineage_events import Outcome, Reported, end_of, of_step, start_of
from tests.origins.openlineage_schema import check

AT = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
NIGHT = Reported("11111111-1111-4111-8111-111111111111", "nightly", "trivet", "0.1.0+6c1f2ab9")
RUN = Reported("22222222-2222-4222-8222-222222222222", "rag", "trivet", "0.1.0+6c1f2ab9", NIGHT)
STORE = "s3://bucket/prefix"


def ran(*edges: Edge, key: str = "k1") -> Ran:
    step = StepRun(
        key=key,
        step="tasks.rag.steps.parse",
        version=5,
        run=RUN.run,
        code="0.1.0+aaaaaaaa",
        at=AT,
        seconds=2.5,
        parameters={"password_env": "hunter2", "options": {"ocr": "eng"}},
    )
    return Ran(step, edges)


def used(sign: str, *, item: int = EVERY, kind: str = "document") -> Edge:
    return Edge(item, False, kind, sign * 64, "content")


def made(sign: str, *, item: int = EVERY, kind: str = "document-blocks") -> Edge:
    return Edge(item, True, kind, sign * 64, "content")


def told(*events: RunEvent) -> list[dict[str, Any]]:
    """Events as they are sent, each valid."""
    listed = [Serde.to_dict(event) for event in events]
    for event in listed:
        check(event)
    return listed


def of_parse(*edges: Edge, key: str = "k1") -> list[dict[str, Any]]:
    return told(*of_step(RUN, ran(*edges, key=key), store=STORE))


def test_a_step_is_told_by_its_beginning_its_end_and_its_digests() -> None:
    start, end = of_parse(used("a"), made("b"), used("c", kind=""))
    assert (start["eventType"], start["eventTime"]) == ("START", "2026-03-01T09:30:00+00:00")
    assert (end["eventType"], end["eventTime"]) == ("COMPLETE", "2026-03-01T09:30:02.500000+00:00")
    assert (start["run"], start["job"]) == (end["run"], end["job"])
    assert [(one["namespace"], one["name"]) for one in end["inputs"]] == [
        (STORE, f"document/{'a' * 64}"),
        (STORE, f"digest/{'c' * 64}"),
    ]
    assert [one["name"] for one in end["outputs"]] == [f"document-blocks/{'b' * 64}"]
    assert end["outputs"][0]["facets"]["version"]["datasetVersion"] == "b" * 64


def test_a_digest_that_several_items_used_is_one_dataset() -> None:
    _, end = of_parse(used("a", item=0), used("a", item=1), made("b", item=0), made("b", item=1))
    assert (len(end["inputs"]), len(end["outputs"])) == (1, 1)


def test_a_step_names_its_version_its_code_and_its_run() -> None:
    _, end = of_parse(made("b"))
    [tag] = end["job"]["facets"]["tags"]["tags"]
    assert (end["job"]["name"], tag["key"], tag["value"]) == ("tasks.rag.steps.parse", "version", "5")
    assert end["run"]["facets"]["processing_engine"]["version"] == "0.1.0+aaaaaaaa"
    parent = end["run"]["facets"]["parent"]
    assert (parent["run"]["runId"], parent["job"]["name"]) == (RUN.run, "rag")
    assert (parent["root"]["run"]["runId"], parent["root"]["job"]["name"]) == (NIGHT.run, "nightly")


def test_the_id_of_a_step_is_that_of_its_key_and_its_run() -> None:
    first, again, other = of_parse(made("b")), of_parse(made("b")), of_parse(made("b"), key="k2")
    elsewhere = told(*of_step(NIGHT, ran(made("b")), store=STORE))
    ids = [events[0]["run"]["runId"] for events in (first, again, other, elsewhere)]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3


def test_parameters_are_not_sent() -> None:
    assert "hunter2" not in str(of_parse(used("a"), made("b")))


def test_many_datasets_come_in_several_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage_events, "MOST_DATASETS", 2)
    events = of_parse(used("a"), used("b"), used("c"), made("d"), made("e"))
    assert [event["eventType"] for event in events] == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    assert [len(event["inputs"]) + len(event["outputs"]) for event in events] == [0, 2, 2, 1]
    assert len({event["run"]["runId"] for event in events}) == 1


@pytest.mark.parametrize("outcome", ["COMPLETE", "FAIL", "ABORT"])
def test_a_flow_run_has_the_id_that_prefect_gave(outcome: Outcome) -> None:
    start, end = told(start_of(RUN, at=AT), end_of(RUN, outcome, at=AT))
    assert [start["run"]["runId"], end["run"]["runId"]] == [RUN.run] * 2
    assert (start["eventType"], end["eventType"]) == ("START", outcome)
    assert (start["job"]["namespace"], start["job"]["name"]) == ("trivet", "rag")
    assert start["run"]["facets"]["parent"]["run"]["runId"] == NIGHT.run


def test_an_error_is_told_by_its_type() -> None:
    [end] = told(end_of(NIGHT, "FAIL", at=AT, error="NightFailed"))
    assert end["run"]["facets"]["errorMessage"]["message"].startswith("NightFailed; ")
    assert "parent" not in end["run"]["facets"]


@pytest.mark.parametrize(
    "broken",
    [
        {"eventTime": "yesterday"},
        {"run": {"runId": "7"}},
        {"job": {"name": "x"}},
        {"inputs": [{"name": "x"}]},
        {"producer": "trivet"},
        {"eventType": "DONE"},
    ],
    ids=lambda one: next(iter(one)),
)
def test_the_schema_of_these_tests_refuses(broken: dict[str, Any]) -> None:
    [event] = told(start_of(NIGHT, at=AT))
    with pytest.raises(ValidationError):
        check(event | broken)
