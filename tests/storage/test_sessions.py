"""Conversations in the database."""

from __future__ import annotations

import math
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import JsonValue, ValidationError
from sqlalchemy import text

from storage import connections
from storage.embedded import Cluster
from storage.sessions import Sessions
from storage.storage_errors import DatabaseUnavailable, UnknownSession


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


def rename(url: str, *, old: str, new: str) -> None:
    with connections.connected(connections.engine(url)) as connection:
        connection.execute(text("update chat_sessions set id = :new where id = :old"), {"old": old, "new": new})


@pytest.mark.postgres
def test_turns_come_back_in_the_order_they_were_added(sessions: Sessions) -> None:
    kept = sessions.turns(talk(sessions, "/an/index", "one?", "two?"))
    assert [(turn.n, turn.question, turn.answered) for turn in kept] == [
        (1, "one?", {"answer": "to one?"}),
        (2, "two?", {"answer": "to two?"}),
    ]


@pytest.mark.postgres
def test_the_title_is_the_first_question(sessions: Sessions) -> None:
    assert sessions.get(talk(sessions, "/an/index", "one?", "two?")).title == "one?"


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
def test_recent_gives_the_last_talked_in_first_and_none_without_a_question(sessions: Sessions) -> None:
    for name in ("a?", "b?", "c?"):
        talk(sessions, "/an/index", name)
    sessions.start("/an/index")
    assert [session.title for session in sessions.recent(2)] == ["c?", "b?"]


@pytest.mark.postgres
def test_an_index_without_a_session_has_no_latest(sessions: Sessions) -> None:
    assert sessions.latest("/never/asked") is None


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
def test_an_ambiguous_beginning_is_refused_with_the_whole_ids(sessions: Sessions, url: str) -> None:
    ids = ["abcd0000-1", "abcd0000-2"]
    for new in ids:
        rename(url, old=sessions.start("/an/index").id, new=new)
    with pytest.raises(UnknownSession, match="abcd0000-1, abcd0000-2; give more"):
        sessions.get("abcd")


@pytest.mark.postgres
@pytest.mark.parametrize("prefix", ["", " ", "%", "_", "x1", "a' or 1=1", "a" * 37, "\x00"])
def test_what_cannot_be_an_id_is_refused(sessions: Sessions, prefix: str) -> None:
    sessions.start("/an/index")
    with pytest.raises(UnknownSession, match="is no session id"):
        sessions.get(prefix)


@pytest.mark.postgres
def test_a_turn_of_a_session_that_is_gone_is_refused(sessions: Sessions) -> None:
    with pytest.raises(UnknownSession, match="no longer there"):
        sessions.append("0" * 36, question="?", answered=None)


@pytest.mark.postgres
def test_turns_go_with_their_session(sessions: Sessions, url: str) -> None:
    session = talk(sessions, "/an/index", "one?")
    with connections.connected(connections.engine(url)) as connection:
        connection.execute(text("delete from chat_sessions"))
    assert sessions.turns(session) == ()


@pytest.mark.postgres
def test_what_postgres_cannot_hold_comes_back_whole(sessions: Sessions) -> None:
    hostile: JsonValue = {"a\x00": ["\ud800", "\udfff\x00", "\ufdd00041", "😀 ㎡", 1.5, 10**20, None, True]}
    session = sessions.start("/한글/\udcff")
    sessions.append(session.id, question="\x00?", answered=hostile)
    [turn] = sessions.turns(session.id)
    latest = sessions.latest("/한글/\udcff")
    assert latest
    assert (turn.question, turn.answered, latest.title) == ("\x00?", hostile, "\x00?")


@pytest.mark.postgres
def test_writers_at_once_number_their_turns_one_after_the_other(sessions: Sessions) -> None:
    session = sessions.start("/an/index")
    with ThreadPoolExecutor(8) as threads:
        numbers = threads.map(lambda n: sessions.append(session.id, question=f"{n}?", answered=n), range(40))
        assert sorted(numbers) == list(range(1, 41))


@pytest.mark.postgres
def test_a_server_that_was_killed_is_started_again(home: Path) -> None:
    sessions = Sessions(lambda: connections.locate(None, home))
    session = talk(sessions, "/an/index", "before?")
    pid = Cluster(home).status().pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    assert sessions.append(session, question="after?", answered=None) == 2
    connections.engine(connections.locate(None, home)).dispose()


def test_nothing_is_started_before_the_first_use() -> None:
    located: list[str] = []
    Sessions(lambda: located.append("asked") or "postgresql://nowhere")
    assert located == []


def test_a_server_that_is_away_is_said_without_the_password() -> None:
    sessions = Sessions(lambda: "postgresql://me:secret@127.0.0.1:9/trivet")
    with pytest.raises(DatabaseUnavailable) as caught:
        sessions.recent(1)
    assert "127.0.0.1:9" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_an_answer_that_json_cannot_hold_is_refused() -> None:
    sessions = Sessions(lambda: pytest.fail("asked the database first"))
    with pytest.raises(ValidationError, match="finite"):
        sessions.append("0" * 36, question="?", answered={"score": math.nan})
