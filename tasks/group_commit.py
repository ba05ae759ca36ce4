"""Answers on their way into the response store: one transaction for all that came while the last one was committed."""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Generic, NamedTuple, Self, TypeVar

from tasks.calls import ResponseStore

if TYPE_CHECKING:
    from storage.responses import StoredResponse

MOST_ANSWERS = 256
"""In one transaction."""
MOST_PAUSE_S = 0.002

Item = TypeVar("Item")


class _Kept(NamedTuple, Generic[Item]):
    key: str
    response: StoredResponse
    item: Item


class GroupCommit(Generic[Item]):
    """Stores answers in a thread of its own, for any number of threads; a context manager, at its end all is stored.

    stored: told in that thread, after each transaction: the items of its answers, and None, or what storing them met.
    An answer that comes after the end, from a thread that Ctrl-C has left behind, is stored in that thread at once.
    """

    def __init__(self, responses: ResponseStore, *, stored: Callable[[list[Item], Exception | None], None]) -> None:
        self._responses = responses
        self._stored = stored
        self._came: SimpleQueue[_Kept[Item] | None] = SimpleQueue()
        self._over = False
        self._guard = Lock()
        """Nothing comes behind the None that ends the thread."""
        self._thread = Thread(target=self._store_all, daemon=True, name="response-store")

    def begin(self, key: str, response: StoredResponse, item: Item) -> None:
        """Store an answer soon; `item` comes back when it is stored."""
        kept = _Kept(key, response, item)
        with self._guard:
            if not self._over:
                self._came.put(kept)
                return
        self._stored([item], self._store([kept]))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        with self._guard:
            self._over = True
            self._came.put(None)
        self._thread.join()

    def _store_all(self) -> None:
        last = False
        while not last and (first := self._came.get()) is not None:
            group, last = self._group(first)
            started = time.monotonic()
            error = self._store(group)
            took_s = time.monotonic() - started
            self._stored([kept.item for kept in group], error)
            if not last:
                time.sleep(min(took_s, MOST_PAUSE_S))  # more come meanwhile: a transaction costs more than a row

    def _group(self, first: _Kept[Item]) -> tuple[list[_Kept[Item]], bool]:
        """What has come by now, and whether nothing will come any more."""
        group = [first]
        while len(group) < MOST_ANSWERS:
            try:
                kept = self._came.get_nowait()
            except Empty:
                return group, False
            if kept is None:
                return group, True
            group.append(kept)
        return group, False

    def _store(self, group: list[_Kept[Item]]) -> Exception | None:
        try:
            self._responses.put_many({kept.key: kept.response for kept in group})
        except Exception as error:  # noqa: BLE001 those who wait raise it
            return error
        return None
