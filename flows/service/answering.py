"""A question of a client on its way to an answer: its body, its turn, the thread that answers, and what is sent back.

body ─► Question ─► Places (its turn) ─► Work (a thread) ─► Begun, events, Answered or Refusal ─► JSON or events
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from threading import Event as Flag
from threading import Thread
from typing import Any, NamedTuple

from fastapi import HTTPException, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import Field
from starlette.types import Receive, Scope, Send

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

MOST_BODY_BYTES = 1_000_000
DRAINED_BYTES = 8 * MOST_BODY_BYTES
"""Most bytes read from a request that is too large, so that its client gets the error."""


async def body_of(request: Request) -> bytes:
    """The body. Raises HTTPException 413 when it is too large."""
    kept, size = bytearray(), 0
    async for part in request.stream():
        size += len(part)
        if size > DRAINED_BYTES:
            break
        if size <= MOST_BODY_BYTES:
            kept += part
    if size > MOST_BODY_BYTES:
        raise HTTPException(413, f"the body has more than {MOST_BODY_BYTES:,} bytes; ask a shorter question")
    return bytes(kept)


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


LOOKED_FOR_S = 0.25
"""Seconds between two checks whether the client has disconnected."""
CLIENT_GONE = 499
"""Status of a request whose client has disconnected; the log of a proxy may show it."""
MOST_WAITING = 100
"""Questions that wait for their turn; one more is refused."""
STOPPING = Refusal(503, "the server is stopping; ask again when it is back")
SESSION_HEADER = "X-Trivet-Session"


class Busy(Exception):
    """As many questions are being answered, and wait, as are allowed."""


class Places:
    """Room for questions that are answered side by side; others wait for their turn, as many as there is room for."""

    def __init__(self, at_once: int, waiting: int = MOST_WAITING) -> None:
        self._at_once, self._room, self._waiting = at_once, waiting, 0
        self._free = asyncio.Semaphore(at_once)

    async def take(self, gone: Callable[[], Awaitable[bool]]) -> bool:
        """Whether there is a place, which `leave` gives back; False for a client that went first. Raises Busy."""
        if self._free.locked() and self._waiting >= self._room:
            raise Busy(f"{self._at_once} questions are being answered and {self._waiting} wait; ask again in a moment")
        self._waiting += 1
        turn, taken = asyncio.ensure_future(self._free.acquire()), False
        try:
            while not turn.done():
                if await gone():
                    return False
                await asyncio.wait([turn], timeout=LOOKED_FOR_S)
            taken = True
            return True
        finally:
            self._waiting -= 1
            if not taken and not turn.cancel():  # it came as the client went
                self.leave()

    def leave(self) -> None:
        """Give a place back."""
        self._free.release()


@dataclass(frozen=True)
class Asking:
    """What answers the questions of all clients: the sessions, and the places for questions at once."""

    sessions: Sessions
    stopping: Callable[[], bool]
    places: Places

    async def items(self, request: Request | None, question: Question, live: LiveIndex) -> AsyncGenerator[Item]:
        """Start to answer from an index when it is this question's turn; to stop reading abandons it. Raises Busy.

        request: that of the client; the work ends when it is gone. None: a client that is never gone.
        """

        async def gone() -> bool:
            return self.stopping() or bool(request and await request.is_disconnected())

        if not await self.places.take(gone):
            return _not_begun(self.stopping())
        work = Work(question, live=live, sessions=self.sessions, done=self.places.leave)
        work.start()
        return _items(request, work, self.stopping)

    async def answer(self, request: Request | None, question: Question, live: LiveIndex) -> Answered | Refusal:
        """The answer, or why there is none; a client that is gone gets a refusal. Raises Busy."""
        async with aclosing(await self.items(request, question, live)) as items:
            async for item in items:
                if isinstance(item, Answered | Refusal):
                    return item
        return Refusal(CLIENT_GONE, "the client is gone")


async def _not_begun(stopping: bool) -> AsyncGenerator[Item]:
    """Of a question that had to wait longer than its client or the server was there."""
    if stopping:
        yield STOPPING


async def _items(request: Request | None, work: Work, stopping: Callable[[], bool]) -> AsyncGenerator[Item]:
    """The items of the work, until it ends or the client is gone; to stop reading abandons the work."""
    try:
        while True:
            item = await work.next(within_s=LOOKED_FOR_S)
            if stopping() and not isinstance(item, Answered):
                item = STOPPING
            if item is not None:
                yield item
            if isinstance(item, Answered | Refusal) or (request and await request.is_disconnected()):
                return
    finally:
        work.abandon()


async def respond(items: AsyncGenerator[Item], *, stream: bool) -> Response:
    """The whole answer, or a stream of events; a failure before the first event has its own status."""
    first = await anext(items, None)
    headers = {SESSION_HEADER: first.session} if isinstance(first, Begun) and first.session else {}
    if stream and isinstance(first, Begun):
        return Stream(items, headers | {"Cache-Control": "no-store"})
    async with aclosing(items):
        last = first
        while isinstance(last, Begun | Event):
            last = await anext(items, None)
    match last:
        case Answered():
            return JSONResponse(last.model_dump(mode="json"), headers=headers)
        case Refusal(status, sentence):
            return JSONResponse({"error": sentence}, status)
        case None:
            return Response(status_code=CLIENT_GONE)


class Stream(StreamingResponse):
    """The items as events; a client may be gone before the first one is looked at, and the work is abandoned too."""

    def __init__(
        self,
        items: AsyncGenerator[Item],
        headers: Mapping[str, str],
        events: Callable[[AsyncGenerator[Item]], AsyncGenerator[str]] | None = None,
    ) -> None:
        """events: writes the items; None: as `POST /ask` does."""
        super().__init__((events or _events)(items), media_type="text/event-stream", headers=headers)
        self._items = items

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._items.aclose()


async def _events(items: AsyncGenerator[Item]) -> AsyncGenerator[str]:
    draft = ""
    async with aclosing(items):
        async for item in items:
            match item:
                case Begun():
                    pass
                case Event("stage", name):
                    yield event("stage", {"name": name})
                case Event(_, text):
                    if text != draft:
                        yield event("draft", change(draft, text))
                    draft = text
                case Answered():
                    yield event("answer", item.model_dump(mode="json"))
                case Refusal(status, sentence):
                    yield event("error", {"error": sentence, "status": status})


def change(before: str, now: str) -> dict[str, str]:
    """The change of a draft: text to append, or a replacement."""
    return {"delta": now[len(before) :]} if now.startswith(before) else {"replace": now}


def event(name: str, data: Mapping[str, Any]) -> str:
    """A server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
