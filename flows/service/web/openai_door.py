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
from collections.abc import AsyncGenerator, Callable
from itertools import pairwise
from typing import Any, Literal
from uuid import uuid4

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, Field

from flows.service.answering import Busy, Question, Refusal, refusal_of
from flows.service.web.answer_parts import markdown_of
from flows.service.web.doors import read_body
from flows.service.web.place_page import picture_link
from flows.service.web.visits import Workplace
from tasks.rag.answers import SHORT_FIELDS, Answered, Citation, Turn, cited_place

PREFIX, MODEL = "/v1", "trivet"
ALIVE_S = 10.0
"""Seconds between signs of life before a stream has content."""
LINK = re.compile(r"\[\\\[(\d+)\\\]\]\([^)\s[]*\)")  # these three: what `markdown_of` writes
HEADLINE = re.compile(r"\A\*\*[^\n]+\*\*\n\n")
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
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.type == "text")
        return self.content or ""


class ChatRequest(BaseModel):
    """The body; parameters of sampling are accepted and not used."""

    model: str = MODEL
    messages: list[Message] = Field(min_length=1)
    stream: bool = False


def error_body(status: int, sentence: str) -> dict[str, Any]:
    """Return an error in OpenAI's form."""
    kind = "authentication_error" if status == 401 else "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": sentence, "type": kind, "param": None, "code": None}}


def routes(workplace: Workplace) -> APIRouter:
    """Return the routes; each asks for the auth string as OpenAI's API key."""
    router = APIRouter(prefix=PREFIX, tags=["OpenAI-compatible"], dependencies=[Depends(workplace.authorize)])
    models = {name: name for name in workplace.collections.names} or {MODEL: None}
    schema = {"requestBody": {"content": {"application/json": {"schema": ChatRequest.model_json_schema()}}}}

    @router.get("/models", summary="A model for each collection; trivet where there is one")
    async def listed() -> Response:
        """List the models, one for each collection."""
        data = [{"id": name, "object": "model", "owned_by": "trivet"} for name in models]
        return JSONResponse({"object": "list", "data": data})

    @router.post("/chat/completions", summary="Answer with sources", openapi_extra=schema)
    async def chat(request: Request) -> Response:
        """Answer the last question of the conversation with sources; streamed if asked for."""
        body = await read_body(request, ChatRequest, status=400)
        if body.model not in models:
            choices = ", ".join(map(repr, models))
            raise HTTPException(404, f"there is no model {body.model[:80]!r}; here is {choices}")
        live = workplace.collections.find(models[body.model]).live
        answer = workplace.asking.answer(request, _read_question(body), live)
        base = str(request.base_url).rstrip("/")

        def link(citation: Citation) -> str | None:
            path = picture_link(workplace.keys, citation)
            return path and base + path

        if body.stream:
            stream = _stream(body.model, asyncio.ensure_future(answer), link)
            return StreamingResponse(stream, media_type="text/event-stream")
        return JSONResponse(_chat_completion(body.model, _require_answer(await answer), link))

    return router


def _read_question(body: ChatRequest) -> Question:
    """Return the last message as the question, after pairs of question and answer. Raises HTTPException if none is."""
    spoken = [message for message in body.messages if message.role in ("user", "assistant") and message.text.strip()]
    if not spoken or spoken[-1].role != "user":
        raise HTTPException(400, "the last message must be the user's, with text; it is the question")
    turns = [
        # without the short answer, links, marks of doubt and sources of an earlier answer of ours
        Turn(
            question=message.text,
            answer=SOURCES.sub("", LINK.sub(r"[\1]", HEADLINE.sub("", reply.text))).replace(DOUBT, ""),
        )
        for message, reply in pairwise(spoken)
        if message.role == "user" and reply.role == "assistant"
    ]
    return Question(question=spoken[-1].text, history=tuple(turns))


def _require_answer(answer: Answered | Refusal) -> Answered:
    if isinstance(answer, Refusal):
        raise HTTPException(answer.status, answer.sentence)
    return answer


Link = Callable[[Citation], str | None]


def _annotations(answered: Answered, text: str, link: Link) -> list[dict[str, Any]]:
    """Return `url_citation`s: where in the text each mark with a link stands."""
    cited = {str(citation.n): citation for citation in answered.citations}
    annotations: list[dict[str, Any]] = []
    for mark in LINK.finditer(text):
        citation = cited[mark[1]]
        place = {"start_index": mark.start(), "end_index": mark.end(), "url": link(citation)}
        annotations.append({"type": "url_citation", "url_citation": place | {"title": cited_place(citation)}})
    return annotations


def _short(answered: Answered) -> dict[str, Any]:
    """Return the short answer as a field of our own, which clients that do not know it drop."""
    return {"trivet": answered.model_dump(mode="json", include=set(SHORT_FIELDS))}


def _frame(kind: str, model: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}


def _chat_completion(model: str, answered: Answered, link: Link) -> dict[str, Any]:
    """Return an answer as a chat completion. link: gives the address of a citation's picture, or None."""
    text = markdown_of(answered, link=link)
    prompt = sum(call.prompt_tokens or 0 for call in answered.calls)
    completion = sum(call.completion_tokens or 0 for call in answered.calls)
    annotations = _annotations(answered, text, link)
    message = {"role": "assistant", "content": text, "refusal": None, "annotations": annotations, **_short(answered)}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return _frame("chat.completion", model) | {"choices": [choice], "usage": usage}


async def _stream(model: str, answering: asyncio.Future[Answered | Refusal], link: Link) -> AsyncGenerator[str]:
    """Yield the answer by lines once it is whole, or an error; comments meanwhile, so that no proxy gives up."""
    frame = _frame("chat.completion.chunk", model)

    def chunk(delta: dict[str, Any], ends: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": ends, "logprobs": None}
        return f"data: {json.dumps(frame | {'choices': [choice]}, ensure_ascii=False)}\n\n"

    try:
        yield chunk({"role": "assistant", "content": ""})
        while not (await asyncio.wait([answering], timeout=ALIVE_S))[0]:
            yield ": answering\n\n"
        answered = _require_answer(answering.result())
    except (HTTPException, Busy) as error:
        yield f"data: {json.dumps(error_body(*refusal_of(error)), ensure_ascii=False)}\n\n"
        return
    finally:
        answering.cancel()
    text = markdown_of(answered, link=link)
    for line in text.splitlines(keepends=True):
        yield chunk({"content": line})
    yield chunk({"annotations": _annotations(answered, text, link), **_short(answered)}, "stop")
    yield "data: [DONE]\n\n"
