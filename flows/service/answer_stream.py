"""An answer on its way to a client: its items as they come, whole, or as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from flows.service.live_index import LiveIndex
from flows.service.serving_work import Begun, Item, Question, Refusal, Work
from storage.sessions import Sessions
from tasks.rag.answering.assistant import Event
from tasks.rag.answers import Answered

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
