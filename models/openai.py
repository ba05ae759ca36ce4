"""Chat and embeddings over an OpenAI-compatible endpoint: OpenAI itself, vLLM, llama.cpp, Ollama and others.

The SDK costs about a second to import, so it is imported with the first call. It does not retry here:
tasks/calls.py does, for every backend alike.
"""

from __future__ import annotations

import base64
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import SecretStr

from models.errors import ContextOverflow, ModelError, ModelUnavailable, RequestRefused, TransientModelError
from models.protocols import ChatRequest, ChatResponse, Image, Message, Text

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

OPENAI_BASE_URL = "https://api.openai.com/v1"
EMBEDDING_BATCH = 64
REASONING_MODELS = re.compile(r"^(gpt-5|o\d)")
OVERFLOW = re.compile(r"context.{0,20}(length|window|size)|maximum.{0,20}(context|model) len|too many tokens", re.I)
PERMANENT_LIMITS = ("insufficient_quota", "billing_hard_limit_reached")

Result = TypeVar("Result")


class OpenAIChat:
    """Answers through the Chat Completions API.

    `base_url` is no part of `id`: a model that moves to another port keeps its answers, so different weights must
    be served under different names.
    """

    def __init__(
        self, model: str, *, base_url: str | None = None, api_key: SecretStr | None = None, timeout_s: float = 120.0
    ) -> None:
        self.id = f"openai:{model}"
        self._model = model
        self._endpoint = _Endpoint(model, base_url=base_url, api_key=api_key, timeout_s=timeout_s)

    def complete(self, request: ChatRequest) -> ChatResponse:
        """One answer. Raises models.errors.ModelError."""
        body = _chat_body(self._model, request)
        return self._endpoint.call(lambda client: _chat_response(client.chat.completions.create(**body)))


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
        self._endpoint = _Endpoint(model, base_url=base_url, api_key=api_key, timeout_s=timeout_s)

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


class _Endpoint:
    """A place that serves one model, and what its failures mean."""

    def __init__(self, model: str, *, base_url: str | None, api_key: SecretStr | None, timeout_s: float) -> None:
        self._model = model
        self._base_url = base_url or OPENAI_BASE_URL
        self._api_key = api_key
        self._timeout_s = timeout_s

    @cached_property
    def _client(self) -> OpenAI:
        from openai import OpenAI

        if self._api_key is None and self._base_url == OPENAI_BASE_URL:
            raise ModelUnavailable(
                f"{self._base_url} asks for a key and none is set; set OPENAI_API_KEY, or name your own server."
            )
        return OpenAI(
            base_url=self._base_url,
            # the SDK refuses to start without a key; servers of one's own mostly want none
            api_key=self._api_key.get_secret_value() if self._api_key else "none",
            timeout=self._timeout_s,
            max_retries=0,
        )

    def call(self, ask: Callable[[OpenAI], Result]) -> Result:
        """What `ask` gets from the endpoint. Every failure comes as a ModelError without the key in its text."""
        import openai

        try:
            return ask(self._client)
        except openai.APIStatusError as error:
            raise self._status_error(error) from None
        except openai.APITimeoutError:
            raise TransientModelError(
                f"{self._where} did not answer within {self._timeout_s:g} s; raise the time-out if the model is slow."
            ) from None
        except openai.APIConnectionError as error:
            raise TransientModelError(
                f"{self._where} cannot be reached or hung up ({self._clean(error.__cause__ or error)}); is it running?"
            ) from None
        except openai.OpenAIError as error:
            raise TransientModelError(
                f"{self._where} sent an answer that is not valid ({self._clean(error)})."
            ) from None
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            # the SDK hands HTML through as text and fails on broken JSON with whatever the decoder raises
            raise TransientModelError(
                f"{self._where} sent an answer that is not a completion ({self._clean(error)}); "
                "does the base URL end where the API begins (often `/v1`)?"
            ) from None

    def _status_error(self, error: APIStatusError) -> ModelError:
        said = f"{self._where} answered {error.status_code}: {self._clean(_said(error))}"
        permanent = str(error.code) in PERMANENT_LIMITS
        match error.status_code:
            case 401 | 403:
                return ModelUnavailable(f"{said}. Check the key (OPENAI_API_KEY) and what it may use.")
            case 404:
                return ModelUnavailable(f"{said}. Check the model's name and the base URL.")
            case 429 if permanent:
                return ModelUnavailable(f"{said}. The account has nothing left to spend; top it up.")
            case 408 | 409 | 425 | 429:
                return TransientModelError(f"{said}.", retry_after_s=_retry_after_s(error.response.headers))
            case status if status >= 500:
                return TransientModelError(f"{said}.", retry_after_s=_retry_after_s(error.response.headers))
            case 400 | 413 | 422 if error.code == "context_length_exceeded" or OVERFLOW.search(said):
                return ContextOverflow(f"{said}. Shorten the request, or use a model with a longer context.")
            case _:
                return RequestRefused(f"{said}. The same request will be refused again.")

    @property
    def _where(self) -> str:
        return f"The endpoint {_without_credentials(self._base_url)} (model {self._model})"

    def _clean(self, message: object) -> str:
        """The message on one line, short, and without the key."""
        text = re.sub(r"<[^>]*>", " ", str(message))
        if self._api_key and (key := self._api_key.get_secret_value()):
            text = text.replace(key, "***")
        return " ".join(text.split())[:300].rstrip(".") or type(message).__name__


def _chat_body(model: str, request: ChatRequest) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "messages": [_message(message) for message in request.messages]}
    if REASONING_MODELS.match(model.rsplit("/", 1)[-1].removeprefix("ft:")):
        body["max_completion_tokens"] = request.max_tokens  # and no temperature: they refuse any but their own
    else:
        body |= {"max_tokens": request.max_tokens, "temperature": request.temperature}
    if request.seed is not None:
        body["seed"] = request.seed
    return body


def _message(message: Message) -> dict[str, Any]:
    if all(isinstance(part, Text) for part in message.content):
        # plain text: some servers take parts only where there is an image
        return {"role": message.role, "content": "".join(part.text for part in message.content if part.type == "text")}
    return {"role": message.role, "content": [_part(part) for part in message.content]}


def _part(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    url = "data:image/png;base64," + base64.b64encode(part.png).decode()
    return {"type": "image_url", "image_url": {"url": url}}


def _chat_response(completion: Any) -> ChatResponse:
    if isinstance(completion, str):
        raise ValueError(f"it begins with {completion[:80]!r}")
    choice = completion.choices[0]
    usage = completion.usage
    return ChatResponse(
        text=choice.message.content or getattr(choice.message, "refusal", None) or "",
        finish_reason=choice.finish_reason or "stop",
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


def _said(error: APIStatusError) -> str:
    body = error.body
    if isinstance(body, Mapping) and isinstance(message := body.get("message"), str):
        return message
    return error.response.text or error.message


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The server's word on when to come back: seconds, or a date (RFC 9110, 10.2.3)."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _without_credentials(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//", url)
