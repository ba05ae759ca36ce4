"""The current generation of an index, shared by the threads that answer questions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Protocol

from storage.index import Index, pointer_of
from storage.storage_errors import EngineAway, StorageError
from tasks.rag.answering.assistant import Asks

log = logging.getLogger(__name__)


class OpenIndex(Asks, Protocol):
    """An open generation that answers questions."""

    @property
    def index(self) -> Index:
        """The generation."""
        ...


@dataclass
class _Opened:
    """A generation with the number of its users; closed when it is neither current nor used."""

    stack: ExitStack
    opened: OpenIndex
    users: int = 0


class LiveIndex:
    """Lends the current generation, opened by `open_current`, to any number of threads."""

    def __init__(self, folder: Path, open_current: Callable[[], AbstractContextManager[OpenIndex]]) -> None:
        self.folder = folder
        self._open_current = open_current
        self._lock = Lock()
        self._current: _Opened | None = None

    @contextmanager
    def borrow(self) -> Generator[OpenIndex]:
        """The current generation, which stays open during the block. Raises StorageError."""
        with self._lock:
            lent = self._refreshed()
            lent.users += 1
        try:
            yield lent.opened
        finally:
            with self._lock:
                lent.users -= 1
                self._close_if_done(lent)

    def close(self) -> None:
        """Give up the current generation, which stays open for its present users."""
        with self._lock:
            last, self._current = self._current, None
            if last:
                self._close_if_done(last)

    def _refreshed(self) -> _Opened:
        """The current generation, reopened if CURRENT names another one."""
        before = self._current
        try:
            if before and pointer_of(self.folder).manifest == before.opened.index.digest:
                return before
            stack = ExitStack()
            self._current = _Opened(stack, stack.enter_context(self._open_current()))
        except (StorageError, OSError) as error:
            if before is None or isinstance(error, EngineAway):  # then what is open cannot be asked either
                raise
            log.warning("index stays at generation=%s error=%s", before.opened.index.generation, error)
            return before
        log.info("index at generation=%s", self._current.opened.index.generation)
        if before:
            self._close_if_done(before)
        return self._current

    def _close_if_done(self, lent: _Opened) -> None:
        if lent.users == 0 and lent is not self._current:
            lent.stack.close()
