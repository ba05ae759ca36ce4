"""Chat and embeddings over an OpenAI-compatible endpoint: OpenAI itself, vLLM, llama.cpp, Ollama and others."""

from __future__ import annotations

import base64
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from models import request_fields as fields
from models.model_errors import ModelUnavailable, RequestRefused
from models.openai_endpoint import AnswerFailed, End, Endpoint, NoSuchPath, whole_answer
from models.prompt_pictures import picture_size
from models.prompts import Listener, plain_text, raw_prompt, sendable
from models.protocols import ChatRequest, ChatResponse, Image, Message, Text
from models.request_fields import BRIEFLY, LEAST, Thinking

if TYPE_CHECKING:
    from openai import OpenAI

NEWER_NAMES = {"max_tokens": "max_completion_tokens"}
"""OpenAI's newer models take the second name alone, and many servers of others the first."""
ENDS = {"eos": "stop", "eos_token": "stop", "stop_sequence": "stop", "max_tokens": "length", "model_length": "length"}
"""Why an answer ended, in the words of Together, TGI and Mistral, and in OpenAI's."""
EMBEDDING_BATCH = 64


class OpenAIChat:
    """Answers through the Chat Completions API; raw prompts (`template` False) through the Completions API.

    The address is no part of `id`: a model that moves to another port keeps its answers, so different weights need
    different names. thinking: by default the least effort that a reasoning model (gpt-5, o3 …) takes, with tokens for
    it beyond `max_tokens`. response_format: see models.request_fields; raw prompts are then refused.
    place: base_url, api_key and timeout_s, as Endpoint takes them.
    """

    def __init__(
        self,
        model: str,
        *,
        thinking: Thinking = BRIEFLY,
        response_format: Mapping[str, JsonValue] | None = None,
        **place: Any,
    ) -> None:
        self.id = f"openai:{model}{fields.thinking_in_id(model, thinking)}{fields.format_in_id(response_format)}"
        self._model = model
        self._thinking = thinking
        self._format: dict[str, Any] = {}
        if response_format is not None:
            self._format = {"response_format": fields.with_name(response_format)}
        self._optional = ["stream", "stream_options", "logprobs", "top_logprobs"]
        """Fields that are left out once the endpoint has refused them by name."""
        if thinking.effort == LEAST:  # an effort that somebody chose is not left out
            self._optional += ["reasoning_effort", "reasoning"]
        self._endpoint = Endpoint(model, **place)

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """One answer. Raises models.model_errors.ModelError; half a stream is a TransientModelError.

        timeout_s holds for each wait: for the first words, and between two pieces of a stream.
        """
        fields.refuse_named_template(request)
        listener = Listener(on_text, request.stop) if on_text else None
        answer = self._raw(request, listener) if request.template is False else self._chat(request, listener)
        if listener:
            listener.end(answer.text)
        return answer

    def _chat(self, request: ChatRequest, listener: Listener | None) -> ChatResponse:
        body = {
            "model": self._model,
            "messages": [message_with(message, text="text", picture=_picture) for message in request.messages],
            **fields.sampling(self._model, request, self._thinking),
            **self._format,
        }
        with fields.advised(self._format):
            return self._ask(CHAT, body, request, listener)

    def _raw(self, request: ChatRequest, listener: Listener | None) -> ChatResponse:
        if self._format:
            raise RequestRefused(
                "A format is for chats, and this is a raw prompt; leave out response_format, or "
                "`--apply_chat_template False`."
            )
        body = {"model": self._model, "prompt": raw_prompt(request), **fields.raw_sampling(self._model, request)}
        try:
            return self._ask(COMPLETIONS, body, request, listener)
        except NoSuchPath as error:
            raise ModelUnavailable(
                f"{error} A raw prompt needs the Completions API there; leave out `--apply_chat_template False`."
            ) from None

    def _ask(self, api: _API, body: dict[str, Any], request: ChatRequest, listener: Listener | None) -> ChatResponse:
        if listener is not None:
            body |= {"stream": True, "stream_options": {"include_usage": True}}

        def send(kept: dict[str, Any]) -> ChatResponse:
            return fields.as_answered(self._send(api, kept, listener), request, kept)

        return self._endpoint.adapt(body, send, optional=self._optional, renamed=api.renamed)

    def _send(self, api: _API, body: dict[str, Any], listener: Listener | None) -> ChatResponse:
        if listener is not None and "stream" in body:
            return self._endpoint.stream(lambda client: _read(api, api.streams(client).create(**body)), listener)
        # OpenAI streams some models to verified accounts only
        whole = {name: value for name, value in body.items() if name != "stream_options"}
        # as plain JSON: the SDK's own objects cost as much again as the request
        return self._endpoint.call(lambda client: _answered(api, client.post(api.path, body=whole, cast_to=object)))


class OpenAIEmbedder:
    """Unit vectors from the embeddings endpoint, in batches of 64; place: as Endpoint takes it."""

    def __init__(self, model: str, **place: Any) -> None:
        self.id = f"openai:{model}"
        self._model = model
        self._endpoint = Endpoint(model, **place)

    @cached_property
    def dimension(self) -> int:
        """Length of a vector, learnt from one short text. Raises ModelError."""
        return self._batch(["dimension"]).shape[1]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), dimension), L2-normalised. Raises ModelError."""
        batches = [
            self._batch(texts[start : start + EMBEDDING_BATCH]) for start in range(0, len(texts), EMBEDDING_BATCH)
        ]
        vectors = np.concatenate(batches) if batches else np.zeros((0, self.dimension), np.float32)
        if vectors.shape[1] != self.dimension:
            raise RequestRefused(
                f"{self.id} gave vectors of {vectors.shape[1]} numbers, {self.dimension} were expected; "
                "see that the endpoint serves one model under this name."
            )
        return vectors

    def _batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        clean = [sendable(text) for text in texts]
        # floats, not the SDK's base64: many compatible servers know only floats
        body: dict[str, Any] = {"model": self._model, "input": clean, "encoding_format": "float"}
        return self._endpoint.call(lambda client: _vectors(client.embeddings.create(**body), count=len(texts)))


def message_with(message: Message, *, text: str, picture: Callable[[Image], dict[str, Any]]) -> dict[str, Any]:
    """A message as an API takes it; text: its type of a part of words, picture: a part with a picture."""
    content: str | list[dict[str, Any]] = plain_text(message)
    # plain text where it can be: some servers take parts only where there is an image
    if not all(isinstance(part, Text) for part in message.content):
        content = [
            {"type": text, "text": sendable(part.text)} if isinstance(part, Text) else picture(part)
            for part in message.content
        ]
    return {"role": message.role, "content": content}


def _picture(image: Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(image)}}


def data_url(image: Image) -> str:
    """The picture, as it travels in a request. Raises RequestRefused for what is none, or is too large."""
    picture_size(image.png)
    return "data:image/png;base64," + base64.b64encode(image.png).decode()


class _API(NamedTuple):
    """One way to ask: where a request is sent, and how an answer is read, whole and as a stream."""

    path: str
    streams: Callable[[OpenAI], Any]  # the part of the SDK that streams
    said: Callable[[dict[str, Any]], tuple[str, str]]  # the answer and the refusal in a choice
    added: Callable[[Any], tuple[str, str]]  # what a piece of a stream adds to them
    renamed: Mapping[str, str]  # fields, and the names that some models want for them


def _said(choice: dict[str, Any]) -> tuple[str, str]:
    message = choice["message"]
    return _words(message.get("content")), message.get("refusal") or ""


def _added(choice: Any) -> tuple[str, str]:
    """Reasoning is part of neither."""
    if choice.delta is None:  # the last piece of a few servers
        return "", ""
    return _words(choice.delta.content), getattr(choice.delta, "refusal", None) or ""


CHAT = _API("/chat/completions", lambda client: client.chat.completions, _said, _added, NEWER_NAMES)
COMPLETIONS = _API(
    "/completions",
    lambda client: client.completions,
    said=lambda choice: (choice["text"], ""),
    added=lambda choice: (choice.text or "", ""),
    renamed={},
)


def _answered(api: _API, completion: Any) -> ChatResponse:
    if not isinstance(completion, dict):
        raise ValueError(f"it begins with {str(completion)[:80]!r}")
    answer = cast("dict[str, Any]", completion)
    if not answer.get("choices") and (error := answer.get("error")):  # some say so with status 200
        about: dict[str, Any] = error if isinstance(error, dict) else {"message": error}
        raise AnswerFailed(about.get("code"), about.get("message"))
    choice: dict[str, Any] = answer["choices"][0]
    response = _response(*api.said(choice), choice.get("finish_reason"), answer.get("usage"))
    first = ((choice.get("logprobs") or {}).get("content") or [{}])[0] if api is CHAT else {}
    told = {one["token"]: one["logprob"] for one in first.get("top_logprobs") or ()}
    return response.model_copy(update={"top_logprobs": told}) if told else response


def _read(api: _API, stream: Any) -> Generator[str, None, ChatResponse]:
    """Yields all of the text so far, each time there is more."""
    said, refusal, finish_reason, usage = "", "", None, None
    with stream:
        if (answer := whole_answer(stream)) is not None:
            return _answered(api, answer)
        end = End(stream)
        for chunk in stream:
            usage = chunk.usage or usage
            for choice in (chunk.choices or [])[:1]:  # the piece with the usage has none
                finish_reason = choice.finish_reason or finish_reason
                more, refused = api.added(choice)
                said, refusal = said + more, refusal + refused
                if more or refused:
                    yield said or refusal
    if finish_reason is None and not (end.was_said and (said or refusal)):
        raise AnswerFailed(None, "the stream ended before the answer did")
    return _response(said, refusal, finish_reason, usage and vars(usage))


def _words(content: Any) -> str:
    """The text of an answer; a few servers send it in parts, with reasoning in separate ones."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part.get("type") in ("text", "output_text"))
    return content or ""


def _response(said: str, refusal: str, finish_reason: str | None, usage: Any) -> ChatResponse:
    """usage: as a server gives it; a few give none."""
    counts: dict[str, Any] = usage if isinstance(usage, dict) else {}
    ended = finish_reason or "stop"
    return ChatResponse(
        text=said or refusal or "",
        finish_reason="refusal" if refusal and not said else ENDS.get(ended, ended),
        prompt_tokens=counts.get("prompt_tokens"),
        completion_tokens=counts.get("completion_tokens"),
    )


def _vectors(answer: Any, *, count: int) -> NDArray[np.float32]:
    if isinstance(answer, str):
        raise ValueError(f"it begins with {answer[:80]!r}")
    # a few servers leave the numbers out, and give the vectors in the order of the texts
    placed = {place if row.index is None else row.index: row.embedding for place, row in enumerate(answer.data)}
    if sorted(placed) != list(range(count)):
        raise ValueError(f"{len(answer.data)} vectors, with the numbers {sorted(placed)[:5]} …, for {count} texts")
    vectors = np.array([placed[place] for place in range(count)], dtype=np.float32)  # (count, dimension)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(vectors).all() or not lengths.all():
        raise ValueError("a vector of zeros, or with a number that is not finite")
    return vectors / lengths
