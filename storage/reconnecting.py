"""Work on a database that may be away for a moment: an embedded server that was killed is started again."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from storage import connections

Result = TypeVar("Result")


class Reconnecting:
    """Transactions on the database that `locate` gives the address of; for any number of threads at once.

    locate: called at the first use, and again when the server has gone away.
    """

    def __init__(self, locate: Callable[[], str]) -> None:
        self._locate = locate
        self._opening = Lock()
        self._engine: Engine | None = None

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """The result of `work` in a transaction of its own; tried again once on a server that was started again.

        Raises DatabaseUnavailable.
        """
        engine = self._open()
        try:
            with engine.begin() as connection:
                return work(connection)
        except (OperationalError, InterfaceError):
            self._forget(engine)
        except DBAPIError as error:
            raise connections.unavailable(engine, error) from error
        engine = self._open()
        with connections.connected(engine) as connection:
            return work(connection)

    def _open(self) -> Engine:
        with self._opening:
            if self._engine is None:
                url = self._locate()
                connections.upgrade(url)
                self._engine = connections.engine(url)
            return self._engine

    def _forget(self, engine: Engine) -> None:
        with self._opening:
            if self._engine is engine:
                engine.dispose()
                self._engine = None
