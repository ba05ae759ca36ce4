"""Whatever an OpenLineage server does, a run goes on; without OPENLINEAGE_URL nothing is done."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.states import Completed, Failed

from flows.running import told_elsewhere
from flows.running.configuring import configure_steps
from flows.running.settings import settings
from flows.running.told_elsewhere import told
from storage.lineages import FILE, Lineage
from tasks.resources import resources
from tests.openlineage_server import Answer, answering, serving
from tests.origins.openlineage_schema import check


@pytest.fixture(autouse=True)
def _patience_of_a_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    configure_steps()
    monkeypatch.setattr(told_elsewhere, "TIMEOUT_S", 0.5)
    yield
    monkeypatch.undo()
    settings.cache_clear()


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def change(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        settings.cache_clear()

    return change


def a_run(**fields: Any) -> FlowRun:
    return FlowRun(flow_id=uuid4(), **fields)


def answer_to_all() -> int:
    return 42


def failing() -> int:
    raise ValueError("password=hunter2")


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == told_elsewhere.__name__]


Setting = Callable[..., None]


def test_beginning_and_end_are_sent_where_the_variables_say(setting: Setting) -> None:
    with serving(answering(201)) as (url, heard):
        setting(
            OPENLINEAGE_URL=url,
            OPENLINEAGE_ENDPOINT="openapi/lineage",
            OPENLINEAGE_API_KEY="k3y",
            OPENLINEAGE_NAMESPACE="team",
        )
        run = a_run()
        assert told(answer_to_all, run=run, flow="rag") == 42
    assert [one.kind for one in heard] == ["START", "COMPLETE"]
    for one in heard:
        check(one.event)
        assert (one.path, one.key) == ("/openapi/lineage", "Bearer k3y")
        assert one.event["job"] | {"facets": {}} == {"namespace": "team", "name": "rag", "facets": {}}
        assert one.event["run"]["runId"] == str(run.id)
        assert "k3y" not in json.dumps(one.event)


def test_a_run_inside_another_names_it(setting: Setting) -> None:
    with serving(answering(201)) as (url, heard):
        setting(OPENLINEAGE_URL=url)
        night, part = a_run(), a_run(parent_task_run_id=uuid4())
        told(lambda: told(answer_to_all, run=part, flow="evaluation"), run=night, flow="nightly")
    parents = {one.event["job"]["name"]: one.event["run"]["facets"].get("parent") for one in heard}
    assert parents["nightly"] is None
    assert (parents["evaluation"]["job"]["name"], parents["evaluation"]["run"]["runId"]) == ("nightly", str(night.id))


def test_a_step_that_was_sent_to_a_pool_is_told_by_its_sender(setting: Setting) -> None:
    with serving(answering(201)) as (url, heard):
        setting(OPENLINEAGE_URL=url)
        told(answer_to_all, run=a_run(parent_task_run_id=uuid4(), deployment_id=uuid4()), flow="gpu-step")
    assert heard == []


@pytest.mark.parametrize(("state", "kind"), [(Failed, "FAIL"), (Completed, "COMPLETE")])
def test_the_state_that_a_flow_returns_is_its_end(setting: Setting, state: Callable[[], Any], kind: str) -> None:
    with serving(answering(201)) as (url, heard):
        setting(OPENLINEAGE_URL=url)
        told(state, run=a_run(), flow="nightly")
    assert [one.kind for one in heard] == ["START", kind]


def test_an_error_is_raised_and_told_without_its_words(setting: Setting) -> None:
    with serving(answering(201)) as (url, heard):
        setting(OPENLINEAGE_URL=url)
        with pytest.raises(ValueError, match="hunter2"):
            told(failing, run=a_run(), flow="rag")
    assert [one.kind for one in heard] == ["START", "FAIL"]
    check(heard[1].event)
    assert "ValueError" in json.dumps(heard[1].event)
    assert "hunter2" not in json.dumps(heard[1].event)


def test_an_interrupted_run_is_aborted(setting: Setting) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with serving(answering(201)) as (url, heard):
        setting(OPENLINEAGE_URL=url)
        with pytest.raises(KeyboardInterrupt):
            told(interrupted, run=a_run(), flow="rag")
    assert [one.kind for one in heard] == ["START", "ABORT"]


def test_a_server_that_comes_back_hears_of_the_beginning_too(setting: Setting) -> None:
    statuses = iter([503, 201, 201])
    with serving(lambda request: answering(next(statuses))(request)) as (url, heard):
        setting(OPENLINEAGE_URL=url)

        def slow() -> None:
            while not heard:
                time.sleep(0.01)

        told(slow, run=a_run(), flow="rag")
    assert [one.kind for one in heard] == ["START", "START", "COMPLETE"]


def never(request: BaseHTTPRequestHandler) -> None:
    Event().wait(30)


@pytest.mark.parametrize(
    ("answer", "words"),
    [(answering(500), "answered 500"), (answering(404), "answered 404"), (never, "did not answer in 0.5 s")],
    ids=["500", "404", "silent"],
)
def test_a_server_at_fault_costs_one_warning(
    setting: Setting, caplog: pytest.LogCaptureFixture, answer: Answer, words: str
) -> None:
    with serving(answer) as (url, _):
        setting(OPENLINEAGE_URL=url.replace("//", "//user:hunter2@"))
        started = time.monotonic()
        assert told(answer_to_all, run=a_run(), flow="rag") == 42
        assert time.monotonic() - started < 5
    [warning] = warnings_of(caplog)
    assert words in warning
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:9", "cannot be reached"),
        ("localhost:5000", "is no address of a server; expected http://HOST:PORT"),
        ("http://", "is no address of a server"),
        ("http://host:port", "is no address of a server"),
    ],
)
def test_an_address_at_fault_costs_one_warning(
    setting: Setting, caplog: pytest.LogCaptureFixture, url: str, words: str
) -> None:
    setting(OPENLINEAGE_URL=url)
    assert told(answer_to_all, run=a_run(), flow="rag") == 42
    [warning] = warnings_of(caplog)
    assert words in warning


def test_a_slow_server_is_waited_for_only_so_long(
    setting: Setting, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(told_elsewhere, "TIMEOUT_S", 30)
    monkeypatch.setattr(told_elsewhere, "LAST_WORDS_S", 0.5)
    go_on = Event()

    def slow(request: BaseHTTPRequestHandler) -> None:
        go_on.wait(30)
        answering(201)(request)

    with serving(slow) as (url, _):
        setting(OPENLINEAGE_URL=url)
        started = time.monotonic()
        told(answer_to_all, run=a_run(), flow="rag")
        assert time.monotonic() - started < 5
        go_on.set()
    [warning] = warnings_of(caplog)
    assert "0 were sent 0.5 s after its end" in warning


def test_without_the_client_the_remedy_is_said(
    setting: Setting, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "openlineage"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "tasks.origins.lineage_events", raising=False)
    monkeypatch.setitem(sys.modules, "openlineage", None)  # as if it were not installed
    setting(OPENLINEAGE_URL="http://127.0.0.1:9")
    assert told(answer_to_all, run=a_run(), flow="rag") == 42
    [warning] = warnings_of(caplog)
    assert "the client is not installed; run `pip install 'trivet[openlineage]'`" in warning


def test_without_an_address_nothing_is_imported_and_no_thread_started() -> None:
    code = """
import sys, threading
from uuid import uuid4
from flows.running.told_elsewhere import told
from prefect.client.schemas.objects import FlowRun
before = threading.active_count()
assert told(threading.active_count, run=FlowRun(flow_id=uuid4()), flow="rag") == before
assert not [name for name in sys.modules if name.startswith("openlineage")]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_lineage_that_cannot_be_read_is_said(
    setting: Setting, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / FILE).write_bytes(b"not a database" * 100)
    monkeypatch.setattr(told_elsewhere, "lineage", lambda: Lineage(None, tmp_path / FILE))
    with serving(answering(201)) as (url, heard):
        setting(OPENLINEAGE_URL=url)
        told(answer_to_all, run=a_run(), flow="rag")
    assert [one.kind for one in heard] == ["START", "COMPLETE"]
    [warning] = warnings_of(caplog)
    assert "cannot be used" in warning


@pytest.mark.parametrize(
    ("store", "namespace"),
    [
        ("s3://key:hunter2@bucket/prefix?region=x", "s3://bucket/prefix"),
        ("/data/store", f"file://{socket.gethostname()}/data/store"),
    ],
)
def test_the_namespace_of_datasets_is_their_store(monkeypatch: pytest.MonkeyPatch, store: str, namespace: str) -> None:
    kept = replace(resources(), store=store)
    monkeypatch.setattr(told_elsewhere, "resources", lambda: kept)
    assert told_elsewhere._store() == namespace
