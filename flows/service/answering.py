"""A question of a client on its way to an answer: its body, its turn, the thread that answers, and what is sent back.

body ─► Question ─► Asking (its turn, a thread) ─► Begun, events, Answered or Refusal ─► JSON or server-sent events
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Annotated, Any, NamedTuple, cast

from fastapi import HTTPException, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import Field
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import Receive, Scope, Send

from flows.running.answer_models import with_model
from flows.service.api import ApiFailed
from flows.service.live_index import LiveIndex
from flows.service.served_collections import UnknownCollection
from models.model_errors import ModelError
from storage.engines import lasting_name
from storage.records import Record
from storage.sessions import Session, Sessions
from storage.storage_errors import StorageError, UnknownRun, UnknownSession
from tasks.evaluation.evaluation_errors import EvaluationError
from tasks.nightly.night_records import NoIncident
from tasks.rag.answering.assistant import Answering, Assistant, Event
from tasks.rag.answers import Answered, Turn
from tasks.rag.planning.names import find_named_documents
from tasks.rag.planning.plan import history_of, parse_answers
from tasks.rag.rag_errors import UnknownDocument

log = logging.getLogger(__name__)

MOST_BODY_BYTES = 1_000_000
DRAINED_BYTES = 8 * MOST_BODY_BYTES
"""Most bytes read from a request that is too large, so that its client gets the error."""
NEW_SESSION = "new"
CHECK_S = 0.25
"""Seconds between two checks whether the client has disconnected."""
CLIENT_GONE = 499  # nginx's number; HTTP has none
"""Status of a request whose client has disconnected; the log of a proxy may show it."""
AT_ONCE, MOST_WAITING = 4, 100
"""Questions answered side by side, and those that wait for their turn; one more is refused."""
SESSION_HEADER = "X-Trivet-Session"


class Question(Record):
    """A question to the service with its conversation and filters: the JSON body of `POST /ask`."""

    question: str
    history: tuple[Turn, ...] = ()
    """Turns before this one, oldest first."""
    session: str | None = None
    """In place of `history`: the id of a kept session to go on with, or `new`; the answer is kept there."""
    documents: tuple[Annotated[str, Field(max_length=4_096)], ...] | None = Field(default=None, min_length=1)
    """Names of the documents to look in."""
    collection: str | None = None
    """Name of the collection to ask, where the server has several."""
    model: str | None = None
    """One of the models that the pages offer; None: the one that the server was started with."""
    stream: bool = False
    """Server-sent events `stage`, `draft` ({delta} or {replace}), then `answer` or `error`."""


class Begun(NamedTuple):
    """First item of every answer, sent when work on it begins."""

    session: str | None
    """ID of the session that keeps the answer."""


class Refusal(NamedTuple):
    """A status and a sentence that say why there is no answer."""

    status: int
    """HTTP status code of the response."""
    sentence: str


Item = Begun | Event | Answered | Refusal
STOPPING = Refusal(503, "the server is stopping; ask again when it is back")


class Busy(Exception):
    """The server has no room: as many questions are answered and wait as it allows. Ask again later."""


class OtherIndex(Exception):
    """The session is about another index."""


class _Abandoned(Exception):
    """Nobody reads the answer any more: the thread that works on it ends."""


async def body_of(request: Request) -> bytes:
    """Read the body of a request. Raises HTTPException 413 when it is larger than MOST_BODY_BYTES."""
    body, size = bytearray(), 0
    async for part in request.stream():
        size += len(part)
        if size > DRAINED_BYTES:
            break
        if size <= MOST_BODY_BYTES:
            body += part
    if size > MOST_BODY_BYTES:
        raise HTTPException(413, f"the body has more than {MOST_BODY_BYTES:,} bytes; ask a shorter question")
    return bytes(body)


class Asking:
    """Answers the questions of all clients, a few at once; the others wait for their turn."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        stopping: Callable[[], bool] = lambda: False,
        at_once: int = AT_ONCE,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self.sessions = sessions
        self._stopping = stopping
        self._at_once, self._most_waiting, self._waiting = at_once, most_waiting, 0
        self._places = asyncio.Semaphore(at_once)

    async def answer(self, request: Request | None, question: Question, live: LiveIndex) -> Answered | Refusal:
        """Return the answer, or why there is none; a client that is gone gets a refusal. Raises Busy."""
        async with aclosing(await self.items(request, question, live)) as items:
            async for item in items:
                if isinstance(item, Answered | Refusal):
                    return item
        return Refusal(CLIENT_GONE, "the client is gone")

    async def items(self, request: Request | None, question: Question, live: LiveIndex) -> AsyncGenerator[Item]:
        """Wait for the turn of a question, and return items of its answer; to stop reading abandons it. Raises Busy.

        request: that of the client; when it is gone, the items end without a last one. None: it is never gone.
        """

        async def is_gone() -> bool:
            return bool(request and await request.is_disconnected())

        if self._places.locked() and self._waiting >= self._most_waiting:
            raise Busy(f"{self._at_once} questions are being answered and {self._waiting} wait; ask again in a moment")
        work: _Work | None = None
        self._waiting += 1
        turn = asyncio.ensure_future(self._places.acquire())
        try:
            while not turn.done() and not (self._stopping() or await is_gone()):
                await asyncio.wait([turn], timeout=CHECK_S)
            if turn.done():
                work = self._start(question, live)
        finally:
            self._waiting -= 1
            if work is None and not turn.cancel():  # the turn came as the client went
                self._places.release()
        return self._items(is_gone, work)

    def _start(self, question: Question, live: LiveIndex) -> _Work:
        """Start a thread that answers; a daemon, so that one that hangs in a model does not keep the program alive."""
        loop, work = asyncio.get_running_loop(), _Work(asyncio.Queue[Item](), threading.Event())

        def call(function: Callable[..., Any], *values: Any) -> None:
            with suppress(RuntimeError):  # the server has stopped meanwhile, and its loop is closed
                loop.call_soon_threadsafe(function, *values)

        def tell(item: Item) -> None:
            if work.abandoned.is_set():
                raise _Abandoned
            call(work.items.put_nowait, item)

        def run() -> None:
            """Answer in this thread, store the turn, and tell the answer or the refusal; then free the place."""
            try:
                answered, session = self._answer(question, live, tell)
                if session and not work.abandoned.is_set():
                    record = answered.model_dump(mode="json")
                    self.sessions.append(session.id, question=answered.question, answered=record)
                tell(answered)
            except _Abandoned:
                log.info("question abandoned")
            except BaseException as error:  # noqa: BLE001 the client is told, and the thread ends here
                call(work.items.put_nowait, refusal_of(error))
            finally:
                call(self._places.release)

        threading.Thread(target=run, daemon=True, name="question").start()
        return work

    def _answer(
        self, question: Question, live: LiveIndex, tell: Callable[[Item], None]
    ) -> tuple[Answered, Session | None]:
        """Return answer and its session, if kept. Raises OtherIndex, UnknownSession, UnknownDocument, ValueError."""
        with live.borrow() as current:
            documents = (
                find_named_documents(question.documents, current.index.catalogue) if question.documents else None
            )
            session, history = None, cast("Sequence[Turn]", question.history)
            if question.session:
                index, is_new = lasting_name(live.folder), question.session == NEW_SESSION
                session = self.sessions.start(index) if is_new else self.sessions.get(question.session)
                if session.index_path != index:
                    problem = f"session {session.short_id} is about another index"
                    raise OtherIndex(f"{problem}; go on with it where that is served")
                history = history_of(parse_answers([turn.answered for turn in self.sessions.turns(session.id)]).answers)
            tell(Begun(session.id if session else None))
            answering: Answering = current
            if question.model and question.model != live.models[0]:
                if question.model not in live.models:
                    raise ValueError(f"{question.model[:80]} is no model here; there are {', '.join(live.models)}")
                answering = with_model(cast(Assistant, current), question.model)
            return answering.ask(question.question, history=history, documents=documents, on_event=tell), session

    async def _items(self, is_gone: Callable[[], Awaitable[bool]], work: _Work | None) -> AsyncGenerator[Item]:
        """Yield the items of the work until it ends, the client is gone, or the server stops, which STOPPING tells."""
        if work is None:
            if self._stopping():
                yield STOPPING
            return
        try:
            while True:
                item: Item | None = None
                with suppress(TimeoutError):
                    item = await asyncio.wait_for(work.items.get(), CHECK_S)
                if self._stopping() and not isinstance(item, Answered):
                    item = STOPPING
                if item is not None:
                    yield item
                if isinstance(item, Answered | Refusal) or await is_gone():
                    return
        finally:
            work.abandoned.set()


class _Work(NamedTuple):
    """A question that a thread answers."""

    items: asyncio.Queue[Item]
    abandoned: threading.Event
    """Ends the thread at its next event; it keeps nothing then."""


def refusal_of(error: BaseException) -> Refusal:
    """Return status and sentence with which a server responds to an error; one not foreseen is logged, and a 500."""
    match error:
        case StarletteHTTPException():
            return Refusal(error.status_code, error.detail)
        case (
            UnknownSession() | UnknownDocument() | UnknownCollection() | UnknownRun() | EvaluationError() | NoIncident()
        ):
            status = 404
        case OtherIndex():
            status = 409
        case ValueError():
            status = 422
        case ModelError():
            status = 502
        case StorageError() | ApiFailed() | Busy():
            status = 503
        case _:
            log.error("question failed", exc_info=error)
            return Refusal(500, f"the question failed ({type(error).__name__}); the server's log says more")
    return Refusal(status, str(error))


async def respond(items: AsyncGenerator[Item], *, stream: bool) -> Response:
    """Return the whole answer, or a stream of events; a failure before the first, or a client gone, by its status."""
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
    """A response of server-sent events. A client may leave before the first one; then the work is abandoned too."""

    def __init__(
        self,
        items: AsyncGenerator[Item],
        headers: Mapping[str, str],
        *,
        stage: Callable[[str], str] = str,
        answer: Callable[[Answered], Awaitable[Mapping[str, Any]]] | None = None,
    ) -> None:
        """stage: what a stage is called. answer: content of the event `answer`; None: the answer as JSON."""
        super().__init__(_events(items, stage, answer), media_type="text/event-stream", headers=headers)
        self._items = items

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._items.aclose()


async def _events(
    items: AsyncGenerator[Item],
    stage: Callable[[str], str],
    answer: Callable[[Answered], Awaitable[Mapping[str, Any]]] | None,
) -> AsyncGenerator[str]:
    """Yield items as server-sent events: `stage`, `draft` (what was added or replaces it), `answer`, `error`."""
    draft = ""

    def event(name: str, data: Mapping[str, Any]) -> str:
        return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"

    async with aclosing(items):
        async for item in items:
            match item:
                case Begun():
                    pass
                case Event("stage", name):
                    yield event("stage", {"name": stage(name)})
                case Event(_, text):
                    if text.startswith(draft) and text != draft:
                        yield event("draft", {"delta": text[len(draft) :]})
                    elif text != draft:
                        yield event("draft", {"replace": text})
                    draft = text
                case Answered():
                    yield event("answer", await answer(item) if answer else item.model_dump(mode="json"))
                case Refusal(status, sentence):
                    yield event("error", {"error": sentence, "status": status})
