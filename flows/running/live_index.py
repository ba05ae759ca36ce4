"""The current generation of an index folder, opened once and shared; a later one takes its place between questions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from threading import Lock
from typing import Protocol

from storage.generations import Index, read_pointer
from storage.storage_errors import StorageError
from tasks.rag.answering.assistant import Asks

log = logging.getLogger(__name__)


class OpenIndex(Asks, Protocol):
    """What answers from one generation."""

    @property
    def index(self) -> Index:
        """The generation."""
        ...


class _Opened:
    """A generation with those who use it; closed when it is neither current nor used."""

    def __init__(self, stack: ExitStack, opened: OpenIndex) -> None:
        self.stack = stack
        self.opened = opened
        self.users = 0


class LiveIndex:
    """Lends the current generation; for any number of threads at once.

    open_current: opens what is current at that moment.
    """

    def __init__(self, folder: Path, open_current: Callable[[], AbstractContextManager[OpenIndex]]) -> None:
        self.folder = folder
        self._open_current = open_current
        self._lock = Lock()
        self._current: _Opened | None = None

    @contextmanager
    def borrow(self) -> Generator[OpenIndex]:
        """The current generation, which stays open until it is given back. Raises StorageError."""
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
        """Give up the current generation; those who use it still have it until they give it back."""
        with self._lock:
            last, self._current = self._current, None
            if last:
                self._close_if_done(last)

    def _refreshed(self) -> _Opened:
        """The current generation, opened again when CURRENT names another one."""
        before = self._current
        try:
            if before and read_pointer(self.folder).manifest == before.opened.index.digest:
                return before
            stack = ExitStack()
            self._current = _Opened(stack, stack.enter_context(self._open_current()))
        except (StorageError, OSError) as error:
            if before is None:
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
