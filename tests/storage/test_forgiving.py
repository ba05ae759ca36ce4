"""The response store of a run that goes on while the database is away."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage import connections
from storage.embedded import Cluster
from storage.forgiving import RETRY_S, Forgiving
from storage.responses import Responses, StoredResponse
from storage.storage_errors import DatabaseUnavailable

NOWHERE = "postgresql://me:secret@127.0.0.1:9/trivet"


def answer(text: str) -> StoredResponse:
    return StoredResponse(backend="scripted", model="m", request=None, response={"text": text}, latency_s=0.25)


def key(number: int) -> str:
    return f"{number:064x}"


def away(folder: Path) -> Forgiving:
    return Forgiving(Responses(lambda: NOWHERE), folder)


def test_what_the_database_does_not_take_is_kept_and_found(tmp_path: Path):
    store = away(tmp_path)
    store.put_many({key(1): answer("one"), key(2): answer("two\x00\ud800")})
    store.put_many({key(3): answer("three")})
    assert store.many([key(2), key(3), key(4)]) == {key(2): answer("two\x00\ud800"), key(3): answer("three")}


def test_another_process_finds_it_too(tmp_path: Path):
    away(tmp_path).put_many({key(1): answer("one")})
    assert away(tmp_path).many([key(1)]).get(key(1)) == answer("one")


def test_the_trouble_is_told_without_the_password(tmp_path: Path):
    store = away(tmp_path)
    assert store.trouble is None
    store.many([key(9)]).get(key(9))
    store.put_many({key(1): answer("one")})
    assert store.trouble
    assert "1 answers are kept in" in store.trouble
    assert "1 requests could not be looked up" in store.trouble
    assert "secret" not in store.trouble


def test_a_database_that_is_away_is_left_alone_for_a_while(tmp_path: Path):
    clock, asked = [0.0], list[float]()

    def locate() -> str:
        asked.append(clock[0])
        return NOWHERE

    store = Forgiving(Responses(locate), tmp_path, clock=lambda: clock[0])
    for clock[0] in (0.0, 1.0, RETRY_S - 1, RETRY_S + 1):
        store.many([key(1)]).get(key(1))
    assert asked == [0.0, RETRY_S + 1]


def test_a_disk_that_takes_nothing_either_stops_no_run(tmp_path: Path):
    (tmp_path / "file").touch()
    store = away(tmp_path / "file" / "folder")
    store.put_many({key(1): answer("one")})
    assert store.trouble
    assert "could be stored nowhere" in store.trouble


def test_storing_what_waits_says_when_the_database_is_still_away(tmp_path: Path):
    away(tmp_path).put_many({key(1): answer("one")})
    with pytest.raises(DatabaseUnavailable):
        away(tmp_path).store_unsaved()


@pytest.mark.postgres
def test_what_waits_is_stored_with_the_next_use(tmp_path: Path, running: Path):
    away(tmp_path).put_many({key(1): answer("one"), key(2): answer("two")})
    url = Cluster(running).start()
    store = Forgiving(Responses(lambda: url), tmp_path)
    assert store.trouble
    store.many([key(3)]).get(key(3))
    assert (store.trouble, list(tmp_path.iterdir())) == (None, [])
    assert {name: each.response for name, each in Responses(lambda: url).many([key(1), key(2)]).items()} == {
        key(1): {"text": "one"},
        key(2): {"text": "two"},
    }
    connections.engine(url).dispose()
