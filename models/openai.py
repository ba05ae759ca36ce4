"""Chat and embeddings over an OpenAI-compatible endpoint: OpenAI itself, vLLM, llama.cpp, Ollama and others."""

from __future__ import annotations

import base64
from collections.abc import Callable, Generator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import SecretStr

from models.errors import RequestRefused
from models.openai_endpoint import (
    REASONING_TOKENS,
    AnswerFailed,
    Endpoint,
    is_reasoning,
    reasoning_effort,
    whole_answer,
)
from models.protocols import ChatRequest, ChatResponse, Image, Message, Text

EMBEDDING_BATCH = 64


class OpenAIChat:
    """Answers through the Chat Completions API.

    `base_url` is no part of `id`: a model that moves to another port keeps its answers, so different weights must
    be served under different names. A reasoning model (gpt-5, o3 …) thinks with the least effort that it takes, and
    gets REASONING_TOKENS for that beyond `max_tokens`; its answer may be longer than `max_tokens` then.
    """

    def __init__(
        self, model: str, *, base_url: str | None = None, api_key: SecretStr | None = None, timeout_s: float = 120.0
    ) -> None:
        self.id = f"openai:{model}"
        self._model = model
        self._endpoint = Endpoint(model, base_url=base_url, api_key=api_key, timeout_s=timeout_s)

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """One answer. Raises models.errors.ModelError; half a stream is a TransientModelError.

        timeout_s holds for each wait: for the first words, and between two pieces of a stream.
        """
        body = _chat_body(self._model, request)
        if on_text is None:
            return self._endpoint.adapt(body, self._whole, optional=["reasoning_effort"])
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        return self._endpoint.adapt(
            body, lambda kept: self._streamed(kept, on_text), optional=["reasoning_effort", "stream", "stream_options"]
        )

    def _whole(self, body: dict[str, Any]) -> ChatResponse:
        return self._endpoint.call(lambda client: _chat_response(client.chat.completions.create(**body)))

    def _streamed(self, body: dict[str, Any], on_text: Callable[[str], None]) -> ChatResponse:
        if "stream" not in body:  # OpenAI streams some models to verified accounts only
            answer = self._whole({name: value for name, value in body.items() if name != "stream_options"})
            on_text(answer.text)
            return answer
        return self._endpoint.stream(lambda client: _read_chat(client.chat.completions.create(**body)), on_text)


class OpenAIEmbedder:
    """Unit vectors from the embeddings endpoint, in batches of 64.

    dimension: sent as the wanted length of the vectors; None takes the model's own, learnt from one short text.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: SecretStr | None = None,
        dimension: int | None = None,
        timeout_s: float = 120.0,
    ) -> None:
        self.id = f"openai:{model}" if dimension is None else f"openai:{model}:{dimension}"
        self._model = model
        self._wanted = dimension
        self._endpoint = Endpoint(model, base_url=base_url, api_key=api_key, timeout_s=timeout_s)

    @cached_property
    def dimension(self) -> int:
        """Length of a vector; asks the endpoint once when none was wanted. Raises ModelError."""
        return self._wanted if self._wanted is not None else self._batch(["dimension"]).shape[1]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), dimension), L2-normalised. Raises ModelError."""
        batches = [
            self._batch(texts[start : start + EMBEDDING_BATCH]) for start in range(0, len(texts), EMBEDDING_BATCH)
        ]
        vectors = np.concatenate(batches) if batches else np.zeros((0, self.dimension), np.float32)
        if vectors.shape[1] != self.dimension:
            raise RequestRefused(
                f"{self.id} gave vectors of {vectors.shape[1]} numbers, {self.dimension} were expected; "
                "set the dimension to what the model gives."
            )
        return vectors

    def _batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        # floats, not the SDK's base64: many compatible servers know only floats
        body: dict[str, Any] = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        if self._wanted is not None:
            body["dimensions"] = self._wanted
        return self._endpoint.call(lambda client: _vectors(client.embeddings.create(**body), count=len(texts)))


def _chat_body(model: str, request: ChatRequest) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "messages": [_message(message) for message in request.messages]}
    if is_reasoning(model):
        # and no temperature: they refuse any but their own
        body["max_completion_tokens"] = request.max_tokens + REASONING_TOKENS
        body["reasoning_effort"] = reasoning_effort(model)
    else:
        body |= {"max_tokens": request.max_tokens, "temperature": request.temperature}
    if request.seed is not None:
        body["seed"] = request.seed
    return body


def _message(message: Message) -> dict[str, Any]:
    if all(isinstance(part, Text) for part in message.content):
        # plain text: some servers take parts only where there is an image
        return {"role": message.role, "content": plain_text(message)}
    return {"role": message.role, "content": [_part(part) for part in message.content]}


def _part(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": sendable(part.text)}
    return {"type": "image_url", "image_url": {"url": data_url(part)}}


def plain_text(message: Message) -> str:
    """The words of a message, without its images."""
    return sendable("".join(part.text for part in message.content if isinstance(part, Text)))


def sendable(text: str) -> str:
    """The text with `?` for lone surrogates: UTF-8 has none, and a question from a shell may."""
    return text.encode("utf-8", "replace").decode()


def data_url(image: Image) -> str:
    """The picture, as it travels in a request."""
    return "data:image/png;base64," + base64.b64encode(image.png).decode()


def _chat_response(completion: Any) -> ChatResponse:
    if isinstance(completion, str):
        raise ValueError(f"it begins with {completion[:80]!r}")
    choice = completion.choices[0]
    refusal = getattr(choice.message, "refusal", None)
    return _response(choice.message.content, refusal, choice.finish_reason or "stop", completion.usage)


def _read_chat(stream: Any) -> Generator[str, None, ChatResponse]:
    """Yields all of the text so far, each time there is more."""
    from openai.types.chat import ChatCompletion

    said, refusal, finish_reason, usage = "", "", None, None
    with stream:
        if (whole := whole_answer(stream, ChatCompletion)) is not None:
            answer = _chat_response(whole)
            yield answer.text
            return answer
        for chunk in stream:
            usage = chunk.usage or usage
            for choice in (chunk.choices or [])[:1]:  # the chunk with the usage has none
                finish_reason = choice.finish_reason or finish_reason
                content, refused = choice.delta.content or "", getattr(choice.delta, "refusal", None) or ""
                said, refusal = said + content, refusal + refused
                if content or refused:
                    yield said or refusal
    if finish_reason is None:
        raise AnswerFailed(None, "the stream ended before the answer did")
    return _response(said, refusal, finish_reason, usage)


def _response(said: str | None, refusal: str | None, finish_reason: str, usage: Any) -> ChatResponse:
    return ChatResponse(
        text=said or refusal or "",
        finish_reason="refusal" if refusal and not said else finish_reason,
        prompt_tokens=usage.prompt_tokens if usage else None,
        completion_tokens=usage.completion_tokens if usage else None,
    )


def _vectors(answer: Any, *, count: int) -> NDArray[np.float32]:
    if isinstance(answer, str):
        raise ValueError(f"it begins with {answer[:80]!r}")
    rows = sorted(answer.data, key=lambda row: row.index)
    if [row.index for row in rows] != list(range(count)):
        raise ValueError(f"{len(rows)} vectors for {count} texts")
    vectors = np.array([row.embedding for row in rows], dtype=np.float32)  # (count, dimension)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(vectors).all() or not lengths.all():
        raise ValueError("a vector of zeros, or with a number that is not finite")
    return vectors / lengths
