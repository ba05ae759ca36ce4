"""Chat over OpenAI's Responses API, which vLLM and others offer too; over Chat Completions where there is none."""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import Any

from models.openai import OpenAIChat, data_url, message_with
from models.openai_endpoint import AnswerFailed, NoSuchPath, whole_answer
from models.prompts import Listener, plain_text
from models.protocols import ChatRequest, ChatResponse, Image
from models.request_fields import Thinking, advised, as_answered, freedom, is_reasoning, most_tokens, reasoning_effort

log = logging.getLogger(__name__)

LEAST_OUTPUT_TOKENS = 16  # OpenAI refuses a lower `max_output_tokens`; a request for fewer may get up to so many


class OpenAIResponses(OpenAIChat):
    """Answers through the Responses API, or through Chat Completions once the endpoint has said that it lacks it.

    `id` differs from that of OpenAIChat: this API takes no seed and has its own defaults, so its answers may differ.
    Which of the two an endpoint speaks is no part of the id. Nothing is stored at the endpoint (`store: false`).
    """

    def __init__(self, model: str, **chosen: Any) -> None:
        """chosen: arguments of OpenAIChat."""
        super().__init__(model, **chosen)
        self.id = f"responses:{self.id.removeprefix('openai:')}"
        self._text: dict[str, Any] = {}
        if named := self._format.get("response_format"):  # this API has the fields of json_schema beside the type
            self._text = {"text": {"format": {"type": named["type"], **named.get("json_schema", {})}}}
        self._has_responses = True

    def _chat(self, request: ChatRequest, listener: Listener | None) -> ChatResponse:
        if self._has_responses:
            try:
                return self._respond(request, listener)
            except NoSuchPath as error:
                log.info("no Responses API, asking Chat Completions model=%s said=%s", self._model, error)
                self._has_responses = False
        return super()._chat(request, listener)

    def _respond(self, request: ChatRequest, listener: Listener | None) -> ChatResponse:
        body = _body(self._model, request, self._thinking) | self._text | ({"stream": True} if listener else {})

        def send(kept: dict[str, Any]) -> ChatResponse:
            if listener is not None and "stream" in kept:
                answer = self._endpoint.stream(lambda client: _read(client.responses.create(**kept)), listener)
            else:  # OpenAI streams some models to verified accounts only
                answer = self._endpoint.call(lambda client: _response(client.responses.create(**kept)))
            return as_answered(answer, request, kept)

        with advised(self._format):
            return self._endpoint.adapt(body, send, optional=self._optional)


def _body(model: str, request: ChatRequest, thinking: Thinking) -> dict[str, Any]:
    instructions = [plain_text(message) for message in request.messages if message.role == "system"]
    body: dict[str, Any] = {
        "model": model,
        "input": [
            message_with(message, text="input_text", picture=_picture)
            for message in request.messages
            if message.role != "system"
        ],
        "max_output_tokens": max(most_tokens(model, request, thinking), LEAST_OUTPUT_TOKENS),
        "store": False,
    }
    if instructions:
        body["instructions"] = "\n\n".join(instructions)
    if not is_reasoning(model):
        body |= freedom(request)
    if effort := reasoning_effort(model, thinking):
        body["reasoning"] = {"effort": effort}
    return body


def _picture(image: Image) -> dict[str, Any]:
    return {"type": "input_image", "image_url": data_url(image), "detail": "auto"}


def _read(stream: Any) -> Generator[str, None, ChatResponse]:
    """Yields all of the text so far, each time there is more."""
    from openai.types.responses import Response

    said = refusal = ""
    with stream:
        if (whole := whole_answer(stream)) is not None:
            return _response(Response.construct(**whole))
        for event in stream:
            match event.type:
                case "response.output_text.delta":
                    said += event.delta
                    yield said
                case "response.refusal.delta":
                    refusal += event.delta
                    yield said or refusal
                case "response.completed" | "response.incomplete" | "response.failed":
                    answer = _response(event.response, said=said, refusal=refusal)
                    if answer.text != (said or refusal):
                        yield answer.text
                    return answer
                case "error":
                    raise AnswerFailed(event.code, event.message)
                case _:
                    pass  # created, in progress, parts that begin and end, reasoning
    raise AnswerFailed(None, "the stream ended before the answer did")


def _response(answer: Any, *, said: str = "", refusal: str = "") -> ChatResponse:
    """said, refusal: what a stream has given, for servers that do not repeat it at the end."""
    if isinstance(answer, str):
        raise ValueError(f"it begins with {answer[:80]!r}")
    if answer.status == "failed":
        raise AnswerFailed(getattr(answer.error, "code", None), getattr(answer.error, "message", "no reason given"))
    parts = [part for item in answer.output if item.type == "message" for part in item.content]
    said = "".join(part.text for part in parts if part.type == "output_text") or said
    refusal = "".join(part.refusal for part in parts if part.type == "refusal") or refusal
    finish_reason = "refusal" if refusal and not said else _finish_reason(answer)
    if finish_reason == "stop" and not parts and not said:
        raise ValueError("there is no message in it")
    return ChatResponse(
        text=said or refusal,
        finish_reason=finish_reason,
        prompt_tokens=answer.usage.input_tokens if answer.usage else None,
        completion_tokens=answer.usage.output_tokens if answer.usage else None,
    )


def _finish_reason(answer: Any) -> str:
    """In the words of Chat Completions."""
    match answer.status:
        case "completed":
            return "stop"
        case "incomplete":
            reason = getattr(answer.incomplete_details, "reason", None) or "incomplete"
            return "length" if reason == "max_output_tokens" else reason
        case status:
            raise ValueError(f"its status is {status!r}")
