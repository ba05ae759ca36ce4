"""An answer on its way to a client: its items as they come, whole, or as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from flows.service.serving_work import Begun, Item, LiveIndex, Question, Refusal, Work
from storage.sessions import Sessions
from tasks.rag.answering.assistant import Event
from tasks.rag.answers import Answered

LOOKED_FOR_S = 0.25
"""Seconds between two checks whether the client has disconnected."""
CLIENT_GONE = 499
"""Status of a request whose client has disconnected; the log of a proxy may show it."""
SESSION_HEADER = "X-Trivet-Session"


class Busy(Exception):
    """As many questions are being answered as are allowed at once."""


@dataclass(frozen=True)
class Asking:
    """What answers the questions of all clients: the index, the sessions, and the places for questions at once."""

    live: LiveIndex
    sessions: Sessions
    stopping: Callable[[], bool]
    places: asyncio.Semaphore
    at_once: int

    async def items(self, request: Request | None, question: Question) -> AsyncGenerator[Item]:
        """Start to answer; to stop reading abandons the work. Raises Busy.

        request: that of the client; the work ends when it is gone. None: a client that is never gone.
        """
        if self.places.locked():
            raise Busy(f"{self.at_once} questions are being answered; ask again in a moment")
        await self.places.acquire()
        work = Work(question, live=self.live, sessions=self.sessions, done=self.places.release)
        work.start()
        return _items(request, work, self.stopping)

    async def answer(self, request: Request | None, question: Question) -> Answered | Refusal:
        """The answer, or why there is none; a client that is gone gets a refusal. Raises Busy."""
        async with aclosing(await self.items(request, question)) as items:
            async for item in items:
                if isinstance(item, Answered | Refusal):
                    return item
        return Refusal(CLIENT_GONE, "the client is gone")


async def _items(request: Request | None, work: Work, stopping: Callable[[], bool]) -> AsyncGenerator[Item]:
    """The items of the work, until it ends or the client is gone; to stop reading abandons the work."""
    try:
        while True:
            item = await work.next(within_s=LOOKED_FOR_S)
            if stopping() and not isinstance(item, Answered):
                item = Refusal(503, "the server is stopping; ask again when it is back")
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
