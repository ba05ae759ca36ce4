"""Conversations in the database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from storage import connections
from storage.sessions import Sessions
from storage.storage_errors import UnknownSession


@pytest.fixture
def sessions(url: str) -> Sessions:
    """An empty store."""
    store = Sessions(lambda: url)
    store.recent(1)
    with connections.connected(connections.engine(url)) as connection:
        connection.execute(text("truncate chat_sessions cascade"))
    return store


def talk(sessions: Sessions, index: str, *questions: str) -> str:
    session = sessions.start(index)
    for question in questions:
        sessions.append(session.id, question=question, answered={"answer": f"to {question}"})
    return session.id


@pytest.mark.postgres
def test_turns_come_back_in_the_order_they_were_added(sessions: Sessions) -> None:
    kept = sessions.turns(talk(sessions, "/an/index", "one?", "two?"))
    assert [(turn.n, turn.question, turn.answered) for turn in kept] == [
        (1, "one?", {"answer": "to one?"}),
        (2, "two?", {"answer": "to two?"}),
    ]


@pytest.mark.postgres
def test_the_latest_is_the_one_talked_in_last_on_this_index(sessions: Sessions) -> None:
    first = talk(sessions, "/an/index", "one?")
    talk(sessions, "/an/index", "two?")
    sessions.append(first, question="three?", answered=None)
    talk(sessions, "/another", "four?")
    latest = sessions.latest("/an/index")
    assert latest
    assert latest.id == first


@pytest.mark.postgres
def test_a_session_is_found_by_the_beginning_of_its_id(sessions: Sessions) -> None:
    started = sessions.start("/an/index")
    assert sessions.get(f" {started.short_id.upper()} ") == started


@pytest.mark.postgres
def test_an_unknown_id_is_refused_and_the_latest_are_named(sessions: Sessions) -> None:
    known = talk(sessions, "/an/index", "one?")
    with pytest.raises(UnknownSession, match=rf"{known[:8]} \(one\?\)"):
        sessions.get("0" * 36)


@pytest.mark.postgres
def test_a_turn_of_a_session_that_is_gone_is_refused(sessions: Sessions) -> None:
    with pytest.raises(UnknownSession, match="no longer there"):
        sessions.append("0" * 36, question="?", answered=None)


@pytest.mark.postgres
def test_writers_at_once_number_their_turns_one_after_the_other(sessions: Sessions) -> None:
    session = sessions.start("/an/index")
    with ThreadPoolExecutor(8) as threads:
        numbers = threads.map(lambda n: sessions.append(session.id, question=f"{n}?", answered=n), range(40))
        assert sorted(numbers) == list(range(1, 41))
