"""`/v1/chat/completions` and `/v1/models`: any chat client talks to the documents.

The text carries its sources itself, since clients drop fields that they do not know: each mark is a link to the
picture of the cited page, each unsupported sentence is marked, and the sources stand below. A stream begins when the
answer is whole, because a draft may still be replaced, and what a client has shown cannot be taken back.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Collection
from itertools import pairwise
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flows.service.answering import Asking, Busy, Question, Refusal, body_of
from flows.service.served_collections import Collections
from flows.service.web.answer_parts import markdown_of
from flows.service.web.page_pictures import address_of
from flows.service.web.signing_in import Keys
from tasks.rag.answers import Answered, Citation, Turn, cited_place

MODEL = "trivet"
ALIVE_S = 10.0
"""Seconds between signs of life before a stream has content."""
LINK = re.compile(r"\[\\\[(\d+)\\\]\]\([^)\s]*\)")
SOURCES = re.compile(r"\n- \\\[\d+\\\] .*", re.DOTALL)
DOUBT = " (⚠ not supported)"


class ContentPart(BaseModel):
    """A part of a message; text alone is read."""

    type: str
    text: str = ""


class Message(BaseModel):
    """A message of the conversation; those of the system are not read."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None

    @property
    def said(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.type == "text")
        return self.content or ""


class ChatRequest(BaseModel):
    """The body; parameters of sampling are accepted and not used."""

    model_config = ConfigDict(extra="ignore")

    model: str = MODEL
    messages: list[Message] = Field(min_length=1)
    stream: bool = False


class _Refused(Exception):
    """A request gets an error in OpenAI's form."""

    def __init__(self, status: int, sentence: str, kind: str = "invalid_request_error") -> None:
        super().__init__(sentence)
        self.status, self.kind = status, kind


class Written(NamedTuple):
    """An answer as a chat client gets it."""

    text: str
    annotations: list[dict[str, Any]]
    usage: dict[str, int]


def routes(asking: Asking, collections: Collections, keys: Keys) -> APIRouter:
    """The routes; each asks for the auth string as OpenAI's API key."""
    router = APIRouter(prefix="/v1", tags=["OpenAI-compatible"])
    models = {name: name for name in collections.names} or {MODEL: None}
    schema = {"requestBody": {"content": {"application/json": {"schema": ChatRequest.model_json_schema()}}}}

    @router.get("/models", summary="A model for each collection; trivet where there is one")
    async def listed(request: Request) -> Response:
        if refused := _unauthorized(request, keys):
            return refused
        data = [{"id": name, "object": "model", "owned_by": "trivet"} for name in models]
        return JSONResponse({"object": "list", "data": data})

    @router.post("/chat/completions", summary="Answer with sources", openapi_extra=schema)
    async def chat(request: Request) -> Response:
        if refused := _unauthorized(request, keys):
            return refused
        try:
            asked = _read(await body_of(request), models)
            question, written = _question(asked), _writer(request, keys)
            answer = asking.answer(request, question, collections.named(models[asked.model]).live)
            if asked.stream:
                answering = asyncio.ensure_future(answer)
                return StreamingResponse(_stream(asked.model, answering, written), media_type="text/event-stream")
            return JSONResponse(_whole(asked.model, _given(await answer), written))
        except Busy as busy:
            return _error(_Refused(503, str(busy), "server_error"))
        except _Refused as refused:
            return _error(refused)

    return router


def _unauthorized(request: Request, keys: Keys) -> Response | None:
    if keys.is_bearer(request.headers.get("Authorization", "")):
        return None
    return _error(_Refused(401, "send the server's auth string as the API key", "authentication_error"))


def _error(refused: _Refused) -> Response:
    told = {"message": str(refused), "type": refused.kind, "param": None, "code": None}
    return JSONResponse({"error": told}, refused.status)


def _read(body: bytes, models: Collection[str]) -> ChatRequest:
    try:
        asked = ChatRequest.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise _Refused(400, f"{'.'.join(map(str, first['loc'])) or 'the body'}: {first['msg']}") from error
    if asked.model not in models:
        raise _Refused(404, f"there is no model {asked.model[:80]!r}; here is {', '.join(map(repr, models))}")
    return asked


def _question(asked: ChatRequest) -> Question:
    """The last message as the question, after the pairs of question and answer before it."""
    spoken = [message for message in asked.messages if message.role in ("user", "assistant") and message.said.strip()]
    if not spoken or spoken[-1].role != "user":
        raise _Refused(400, "the last message must be the user's, with text; it is the question")
    pairs = pairwise(spoken)
    turns = [
        Turn(question=one.said, answer=_plain(two.said))
        for one, two in pairs
        if one.role == "user" and two.role == "assistant"
    ]
    return Question(question=spoken[-1].said, history=tuple(turns))


def _plain(answer: str) -> str:
    """An answer of ours without its links and sources."""
    return SOURCES.sub("", LINK.sub(r"[\1]", answer)).replace(DOUBT, "")


def _writer(request: Request, keys: Keys) -> Callable[[Answered], Written]:
    base = str(request.base_url).rstrip("/")

    def link(citation: Citation) -> str | None:
        path = address_of(keys, citation)
        return path and base + path

    def write(answered: Answered) -> Written:
        text = markdown_of(answered, link=link)
        calls = [(call.prompt_tokens or 0, call.completion_tokens or 0) for call in answered.calls]
        prompt, completion = (sum(counts) for counts in zip(*calls, strict=True)) if calls else (0, 0)
        usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        return Written(text, _annotations(answered, text, link), usage)

    return write


def _annotations(answered: Answered, text: str, link: Callable[[Citation], str | None]) -> list[dict[str, Any]]:
    """`url_citation`s: where in the text each mark with a link stands."""
    cited = {str(one.n): (one, link(one)) for one in answered.citations}
    made: list[dict[str, Any]] = []
    for mark in LINK.finditer(text):
        citation, url = cited[mark[1]]
        title = cited_place(citation)
        place = {"start_index": mark.start(), "end_index": mark.end(), "url": url, "title": title}
        made.append({"type": "url_citation", "url_citation": place})
    return made


def _given(answer: Answered | Refusal) -> Answered:
    if isinstance(answer, Refusal):
        kind = "invalid_request_error" if answer.status < 500 else "server_error"
        raise _Refused(answer.status, answer.sentence, kind)
    return answer


def _whole(model: str, answered: Answered, write: Callable[[Answered], Written]) -> dict[str, Any]:
    written = write(answered)
    message = {"role": "assistant", "content": written.text, "refusal": None, "annotations": written.annotations}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    return _frame("chat.completion", model) | {"choices": [choice], "usage": written.usage}


def _frame(kind: str, model: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}


async def _stream(
    model: str, answering: asyncio.Future[Answered | Refusal], write: Callable[[Answered], Written]
) -> AsyncGenerator[str]:
    """The answer line by line, once it is whole; comments meanwhile, so that no proxy gives up."""
    frame = _frame("chat.completion.chunk", model)

    def chunk(delta: dict[str, Any], ends: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": ends, "logprobs": None}
        return f"data: {json.dumps(frame | {'choices': [choice]}, ensure_ascii=False)}\n\n"

    try:
        yield chunk({"role": "assistant", "content": ""})
        while not (await asyncio.wait([answering], timeout=ALIVE_S))[0]:
            yield ": answering\n\n"
        written = write(_given(answering.result()))
    except (_Refused, Busy) as refused:
        kind = refused.kind if isinstance(refused, _Refused) else "server_error"
        yield f"data: {json.dumps({'error': {'message': str(refused), 'type': kind}}, ensure_ascii=False)}\n\n"
        return
    finally:
        answering.cancel()
    for line in written.text.splitlines(keepends=True):
        yield chunk({"content": line})
    yield chunk({"annotations": written.annotations}, "stop")
    yield "data: [DONE]\n\n"
