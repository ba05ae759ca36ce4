"""Lets an endpoint rest that fails every request: nothing is asked while it rests, then one request tries it.

closed ─ FAILURES in a row ─► resting ─ time is over ─► one try ─ answered ─► closed
                                 ▲                          └─ failed: twice as long ─┐
                                 └────────────────────────────────────────────────────┘
Source: Nygard 2007, Release It!, Circuit Breaker.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from models.model_errors import ModelError, TransientModelError

log = logging.getLogger(__name__)

FAILURES = 20
"""Failed requests in a row, of all threads, after which an endpoint rests."""
REST_S = 5.0
"""Seconds of the first rest; doubled for each further one."""
MOST_REST_S = 60.0
RESTS = 4
"""Rests that callers wait for: 5, 10, 20 and 40 seconds, in which a server has started again."""
LOOK_S = 0.5
"""Seconds between looks at the one that tries."""


class LeftAlone(TransientModelError):
    """The endpoint failed every request, and this one was not made."""


class Breaker:
    """Failures of one endpoint, shared by all threads that ask it."""

    def __init__(self, *, failures: int, first_rest_s: float, rests: int, clock: Callable[[], float]) -> None:
        """rests: those that callers wait for; during further ones the endpoint's error is raised at once."""
        self._failures = failures
        self._first_rest_s = first_rest_s
        self._most_rests = rests
        self._clock = clock
        self._guard = threading.Lock()
        self._failed = 0
        self._rests = 0
        self._until = 0.0
        self._tried_by: int | None = None
        self._error: TransientModelError | None = None

    @contextmanager
    def watching(self, pause: Callable[[float], None]) -> Generator[None]:
        """Waits while the endpoint rests, then counts what becomes of a request. Raises LeftAlone."""
        while (wait_s := self._wait_s()) > 0:
            pause(wait_s)
        try:
            yield
        except TransientModelError as error:
            self._count(error)
            raise
        except ModelError:
            self._answers()  # it refuses, so it is there
            raise
        except BaseException:
            self._leave()
            raise
        self._answers()

    def _wait_s(self) -> float:
        """Seconds until the caller may look again; 0: it may ask now, and tries for all where the endpoint rested."""
        with self._guard:
            if not self._rests:
                return 0.0
            rest_s = self._until - self._clock()
            if rest_s <= 0 and self._tried_by is None:
                self._tried_by = threading.get_ident()
                return 0.0
            if self._rests > self._most_rests:
                assert self._error
                raise LeftAlone(f"{self._error} It failed {self._failed} times in a row and is left alone.")
            return rest_s if rest_s > 0 else LOOK_S

    def _count(self, error: TransientModelError) -> None:
        with self._guard:
            tried, self._tried_by = self._tried_by == threading.get_ident(), None
            if error.retry_after_s is not None:
                return  # a server that names a time is not away
            self._failed += 1
            self._error = error
            if tried or (not self._rests and self._failed >= self._failures):
                rest_s = min(MOST_REST_S, self._first_rest_s * 2**self._rests)
                self._rests += 1
                self._until = self._clock() + rest_s
                log.warning("model rests failed=%d rest_s=%.0f error=%s", self._failed, rest_s, error)

    def _answers(self) -> None:
        with self._guard:
            self._failed, self._rests, self._tried_by, self._error = 0, 0, None, None

    def _leave(self) -> None:
        """The one who tried was interrupted: another one may try."""
        with self._guard:
            if self._tried_by == threading.get_ident():
                self._tried_by = None
