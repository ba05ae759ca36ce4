"""A question of the server, answered in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event as Flag
from threading import Thread
from typing import NamedTuple

from pydantic import Field

from flows.service.api import ApiFailed
from flows.service.live_index import LiveIndex
from flows.service.served_collections import UnknownCollection
from models.model_errors import ModelError
from storage.engines import lasting_name
from storage.records import Record
from storage.sessions import Session, Sessions
from storage.storage_errors import StorageError, UnknownSession
from tasks.rag.answering.assistant import Event
from tasks.rag.answers import Answered, Turn
from tasks.rag.planning.names import documents_named
from tasks.rag.planning.plan import history_of, recall
from tasks.rag.rag_errors import UnknownDocument

log = logging.getLogger(__name__)

NEW_SESSION = "new"


class Question(Record):
    """The body of `POST /ask`."""

    question: str
    history: tuple[Turn, ...] = ()
    """Turns before this one, oldest first."""
    session: str | None = None
    """In place of `history`: the id of a kept session to go on with, or `new`; the answer is kept there."""
    documents: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Names of the documents to look in."""
    collection: str | None = None
    """Name of the collection to ask, where the server has several."""
    stream: bool = False
    """Server-sent events `stage`, `draft` ({delta} or {replace}), then `answer` or `error`."""


class Begun(NamedTuple):
    """First item of every answer."""

    session: str | None
    """ID of the session that keeps the answer."""


class Refusal(NamedTuple):
    """Why there is no answer."""

    status: int
    """HTTP status code."""
    sentence: str


class OtherIndex(Exception):
    """The session is about another index."""


class _Abandoned(Exception):
    """The client is gone."""


Item = Begun | Event | Answered | Refusal


class Work:
    """One question; gives `Begun`, events and `Answered`, or ends with a `Refusal`.

    done: called in the event loop when the thread has ended, however it did.
    """

    def __init__(self, asked: Question, *, live: LiveIndex, sessions: Sessions, done: Callable[[], None]) -> None:
        self._asked, self._live, self._sessions, self._done = asked, live, sessions, done
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[Item] = asyncio.Queue()
        self._abandoned = Flag()

    def start(self) -> None:
        """Start the thread; one that hangs in a model does not keep the program from ending."""
        Thread(target=self._run, daemon=True, name="question").start()

    def abandon(self) -> None:
        """Have the thread end at its next event, and keep nothing."""
        self._abandoned.set()

    async def next(self, *, within_s: float) -> Item | None:
        """The next item; None after a timeout."""
        with suppress(TimeoutError):
            return await asyncio.wait_for(self._items.get(), within_s)
        return None

    def _run(self) -> None:
        try:
            last = self._answer()
        except _Abandoned:
            log.info("question abandoned")
            return
        except BaseException as error:  # noqa: BLE001 the client is told, and the thread ends here
            last = refusal(error)
        finally:
            self._in_loop(self._done)
        self._in_loop(lambda: self._items.put_nowait(last))

    def _answer(self) -> Answered:
        with self._live.borrow() as current:
            names = self._asked.documents
            documents = documents_named(names, current.index.catalogue) if names else None
            session = self._session()
            history = self._history(session)
            self._hand_over(Begun(session.id if session else None))
            answered = current.ask(self._asked.question, history=history, documents=documents, on_event=self._hand_over)
        self._refuse_abandoned()
        if session:
            kept = answered.model_dump(mode="json")
            self._sessions.append(session.id, question=answered.question, answered=kept)
        return answered

    def _session(self) -> Session | None:
        index = lasting_name(self._live.folder)
        if self._asked.session is None:
            return None
        if self._asked.session == NEW_SESSION:
            return self._sessions.start(index)
        session = self._sessions.get(self._asked.session)
        if session.index_path != index:
            raise OtherIndex(f"session {session.short_id} is about another index; go on with it where that is served")
        return session

    def _history(self, session: Session | None) -> Sequence[Turn]:
        if session is None:
            return self._asked.history
        return history_of(recall([turn.answered for turn in self._sessions.turns(session.id)]).answers)

    def _hand_over(self, item: Item) -> None:
        self._refuse_abandoned()
        self._in_loop(lambda: self._items.put_nowait(item))

    def _refuse_abandoned(self) -> None:
        if self._abandoned.is_set():
            raise _Abandoned

    def _in_loop(self, call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the server has stopped meanwhile, and its loop is closed
            self._loop.call_soon_threadsafe(call)


def refusal(error: BaseException) -> Refusal:
    """The response to an error."""
    match error:
        case UnknownSession() | UnknownDocument():
            return Refusal(404, str(error))
        case UnknownCollection():
            return Refusal(404, str(error))
        case OtherIndex():
            return Refusal(409, str(error))
        case ValueError():
            return Refusal(422, str(error))
        case ModelError():
            return Refusal(502, str(error))
        case StorageError() | ApiFailed():
            return Refusal(503, str(error))
        case _:
            log.error("question failed", exc_info=error)
            return Refusal(500, f"the question failed ({type(error).__name__}); the server's log says more")
