"""Conversations in the database: each question with its whole answer, so that a later process goes on with them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, cast
from uuid import uuid4

from pydantic import ConfigDict, JsonValue, TypeAdapter
from sqlalchemy import Connection, Select, exists, func, insert, select, update

from storage.connections import Reconnecting
from storage.records import Record
from storage.responses import escape, unescape_row
from storage.storage_errors import UnknownSession
from storage.tables import chat_sessions, chat_turns

ID = re.compile(r"[0-9a-f-]{1,36}")
LISTED_SESSIONS = 5  # sessions that an error names
SHORT_ID = 8  # characters of an id that people get
_finite = TypeAdapter[JsonValue](JsonValue, config=ConfigDict(allow_inf_nan=False))  # jsonb has no NaN


class Session(Record):
    """A conversation about the documents of one index."""

    id: str
    title: str | None = None
    """The first question; None while nothing has been asked."""
    index_path: str
    created_at: datetime
    updated_at: datetime

    @property
    def short_id(self) -> str:
        """Enough of the id for `Sessions.get`, as long as no other session begins so."""
        return self.id[:SHORT_ID]


class StoredTurn(Record):
    """A question of a session and its answer."""

    n: int
    """Number of the turn in its session, from 1."""
    question: str
    answered: JsonValue
    created_at: datetime


class Sessions:
    """Conversations by id; any number of threads and processes may add turns at once. locate: see Reconnecting.

    Every method raises DatabaseUnavailable.
    """

    def __init__(self, locate: Callable[[], str]) -> None:
        self._database = Reconnecting(locate)

    def start(self, index: str) -> Session:
        """Return a new session on the index at this path."""
        row = {"id": str(uuid4()), "index_path": escape(index)}
        statement = insert(chat_sessions).values(row).returning(*chat_sessions.c)
        row = self._database.run(lambda connection: connection.execute(statement).mappings().one())
        return Session.model_validate(unescape_row(row))

    def append(self, session_id: str, *, question: str, answered: JsonValue) -> int:
        """Add a turn, and return its number. Raises UnknownSession when the session is gone."""
        row = {"question": escape(question), "answered": escape(_finite.validate_python(answered))}
        titled = func.coalesce(chat_sessions.c.title, row["question"])
        # the lock of this row makes two writers number their turns one after the other
        touched = update(chat_sessions).where(chat_sessions.c.id == session_id)
        last = select(func.coalesce(func.max(chat_turns.c.n), 0)).where(chat_turns.c.session_id == session_id)

        def add(connection: Connection) -> int:
            """Insert the turn and return its number. Raises UnknownSession when the session is gone."""
            if connection.execute(touched.values(updated_at=func.clock_timestamp(), title=titled)).rowcount == 0:
                raise UnknownSession(f"session {session_id} is no longer there; start a new one")
            n = cast(int, connection.execute(last).scalar_one()) + 1
            connection.execute(insert(chat_turns).values({"session_id": session_id, "n": n, **row}))
            return n

        return self._database.run(add)

    def turns(self, session_id: str) -> tuple[StoredTurn, ...]:
        """Return the turns of a session, in order; none where there is no such session."""
        columns = [chat_turns.c[name] for name in StoredTurn.model_fields]
        query = select(*columns).where(chat_turns.c.session_id == session_id).order_by(chat_turns.c.n)
        return tuple(StoredTurn.model_validate(unescape_row(row)) for row in self._database.rows(query))

    def latest(self, index: str) -> Session | None:
        """Return the session on this index that was used last; None where there is none with a question."""
        rows = self._database.rows(_select_sessions().where(chat_sessions.c.index_path == escape(index)).limit(1))
        return Session.model_validate(unescape_row(rows[0])) if rows else None

    def recent(self, n: int, *, words: str = "") -> tuple[Session, ...]:
        """Return the `n` sessions of any index used last with a question, and a turn that holds `words` in any case."""
        query = _select_sessions().limit(n)
        if words:
            turn_text = chat_turns.c.question + "\n" + chat_turns.c.answered["answer"].astext
            matches = turn_text.icontains(escape(words), autoescape=True)
            query = query.where(exists().where(chat_turns.c.session_id == chat_sessions.c.id, matches))
        return tuple(Session.model_validate(unescape_row(row)) for row in self._database.rows(query))

    def get(self, prefix: str) -> Session:
        """Return the session whose id is, or begins with, `prefix`. Raises UnknownSession."""
        beginning = prefix.strip().lower()
        if not ID.fullmatch(beginning):
            raise UnknownSession(
                f"{prefix[:80]!r} is no session id; an id is hex digits such as 1f0c9a3e; {self._latest_sessions()}"
            )
        query = select(chat_sessions).where(chat_sessions.c.id.startswith(beginning)).limit(LISTED_SESSIONS)
        rows = self._database.rows(query)
        if not rows:
            raise UnknownSession(f"no session has an id that begins with {prefix}; {self._latest_sessions()}")
        if len(rows) > 1:
            ids = ", ".join(row["id"] for row in rows)
            raise UnknownSession(f"{len(rows)} or more sessions begin with {prefix}: {ids}; give more of the id")
        return Session.model_validate(unescape_row(rows[0]))

    def _latest_sessions(self) -> str:
        names = ", ".join(f"{session.short_id} ({session.title})" for session in self.recent(LISTED_SESSIONS))
        return f"the latest are {names}" if names else "none has been kept yet"


def _select_sessions() -> Select[Any]:
    """Return the query of the sessions that have a question, the one used last before the others."""
    query = select(chat_sessions).where(chat_sessions.c.title.is_not(None))
    return query.order_by(chat_sessions.c.updated_at.desc(), chat_sessions.c.id)
