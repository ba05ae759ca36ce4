"""The response store."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import JsonValue, ValidationError

from storage import connections
from storage.embedded import Cluster
from storage.responses import RETRY_S, OptionalResponses, Responses, StoredResponse
from storage.storage_errors import DatabaseUnavailable, StoreUnreachable


def answer(response: JsonValue = "an answer", request: JsonValue = None) -> StoredResponse:
    return StoredResponse(
        backend="scripted",
        model="m",
        request=request,
        response=response,
        prompt_tokens=3,
        completion_tokens=None,
        latency_s=0.25,
    )


def key(number: int) -> str:
    return f"{number:064x}"


@pytest.fixture(scope="module")
def store(running: Path) -> Iterator[Responses]:
    url = Cluster(running).start()
    yield Responses(lambda: url)
    connections.engine(url).dispose()


@pytest.mark.postgres
def test_what_was_put_is_got_with_its_date(store: Responses) -> None:
    store.put_many({key(1): answer()})
    got = store.many([key(1)]).get(key(1))
    assert got
    assert got.created_at
    assert got.model_copy(update={"created_at": None}) == answer()


@pytest.mark.postgres
def test_many_are_put_at_once_and_first_answers_stay(store: Responses) -> None:
    store.put_many({key(3001): answer("first")})
    store.put_many({key(number): answer(number) for number in range(3003, 2999, -1)})
    got = store.many(key(number) for number in range(3000, 3010))
    assert {name: each.response for name, each in got.items()} == {
        key(3000): 3000,
        key(3001): "first",
        key(3002): 3002,
        key(3003): 3003,
    }


@pytest.mark.postgres
def test_what_postgres_cannot_hold_comes_back_whole(store: Responses) -> None:
    hostile: JsonValue = {"a\x00": ["\ud800", "\udfff\x00", "\ufdd00041", "😀 ㎡", 1.5, 10**20, None, True]}
    store.put_many({key(3): answer(hostile, request="\x00")})
    got = store.many([key(3)]).get(key(3))
    assert got
    assert (got.response, got.request) == (hostile, "\x00")


@pytest.mark.postgres
def test_threads_may_put_and_get_at_once(store: Responses) -> None:
    def put_and_get(number: int) -> JsonValue:
        store.put_many({key(number % 50 + 1000): answer(number % 50)})
        got = store.many([key(number % 50 + 1000)]).get(key(number % 50 + 1000))
        return got.response if got else None

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(put_and_get, range(200))) == [number % 50 for number in range(200)]


@pytest.mark.postgres
def test_a_server_that_was_killed_is_started_again(home: Path) -> None:
    store = Responses(lambda: connections.locate(None, home))
    store.put_many({key(1): answer("before")})
    pid = Cluster(home).status().pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    got = store.many([key(1)]).get(key(1))
    assert got
    assert got.response == "before"
    connections.engine(connections.locate(None, home)).dispose()


def test_a_server_that_is_away_is_said_without_the_password() -> None:
    store = Responses(lambda: "postgresql://me:secret@127.0.0.1:9/trivet")
    with pytest.raises(DatabaseUnavailable) as caught:
        store.many([key(1)]).get(key(1))
    assert "127.0.0.1:9" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_an_answer_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(ValidationError, match="finite"):
        answer({"logprob": math.nan})


def test_a_database_that_is_away_is_left_alone_for_a_while_and_told_without_its_password(tmp_path: Path) -> None:
    clock, asked = [0.0], list[float]()

    def locate() -> str:
        asked.append(clock[0])
        return "postgresql://me:secret@127.0.0.1:9/trivet"

    store = OptionalResponses(Responses(locate), home=tmp_path, clock=lambda: clock[0])
    assert store.many(["0" * 64]) == {}
    tried = len(asked)
    store.many(["0" * 64])
    assert len(asked) == tried
    clock[0] = RETRY_S
    store.many(["0" * 64])
    assert len(asked) > tried
    assert store.trouble
    assert "secret" not in store.trouble


def test_nothing_is_asked_where_neither_database_nor_disk_would_keep_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = OptionalResponses(Responses(lambda: "postgresql://me@127.0.0.1:9/trivet"), home=tmp_path)
    assert store.many(["0" * 64]) == {}
    monkeypatch.setattr("storage.files.LEAST_FREE_BYTES", 1 << 60)
    for attempt in (lambda: store.many(["0" * 64]), lambda: store.put_many({})):
        with pytest.raises(StoreUnreachable, match="has no room left"):
            attempt()
