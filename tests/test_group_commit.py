"""Answers on their way into the response store."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event, Thread

from storage.responses import StoredResponse
from storage.storage_errors import DatabaseUnavailable
from tasks.group_commit import GroupCommit

RESPONSE = StoredResponse(backend="scripted", model="m", request=None, response="fine", latency_s=0.5)


class Store:
    """A response store in memory."""

    def __init__(self) -> None:
        self.rows: dict[str, StoredResponse] = {}
        self.broken = False

    def many(self, keys: list[str]) -> dict[str, StoredResponse]:
        return {key: self.rows[key] for key in keys if key in self.rows}

    def put_many(self, rows: Mapping[str, StoredResponse]) -> None:
        if self.broken:
            raise DatabaseUnavailable("the database is away")
        self.rows |= rows


def test_an_answer_that_comes_after_the_end_is_stored():
    store, told = Store(), []
    with GroupCommit[str](store, stored=lambda items, error: told.append((items, error))) as commit:
        commit.begin("in time", RESPONSE, "1")
    commit.begin("late", RESPONSE, "2")
    assert list(store.rows) == ["in time", "late"]
    assert told == [(["1"], None), (["2"], None)]


def test_who_comes_late_hears_of_a_store_that_is_away():
    store, told = Store(), []
    with GroupCommit[str](store, stored=lambda items, error: told.append((items, error))) as commit:
        store.broken = True
    commit.begin("late", RESPONSE, "1")
    assert [(items, type(error)) for items, error in told] == [(["1"], DatabaseUnavailable)]


def test_no_answer_is_lost_at_the_end():
    for _ in range(200):
        store, told, go = Store(), [], Event()

        def give(commit: GroupCommit[int], go: Event = go) -> None:
            go.wait()
            for number in range(20):
                commit.begin(str(number), RESPONSE, number)

        with GroupCommit[int](store, stored=lambda items, _, told=told: told.extend(items)) as commit:
            giver = Thread(target=give, args=(commit,))
            giver.start()
            go.set()
        giver.join()
        assert sorted(told) == list(range(20)) == sorted(map(int, store.rows))
