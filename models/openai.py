"""OpenAI-compatible endpoints: OpenAI itself, vLLM, llama.cpp, Ollama, LM Studio, and providers by LiteLLM's names.

The SDK takes a second to import, so the first request does. Retries are left to tasks/calls.py.
"""

from __future__ import annotations

import base64
import json
import logging
import math
import re
import sys
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue, SecretStr

from models.model_errors import (
    ContextOverflow,
    ModelError,
    ModelUnavailable,
    NoSuchPath,
    RequestRefused,
    TransientModelError,
)
from models.prompts import Listener, cut, picture_size, plain_text, raw_prompt, sendable
from models.protocols import ChatRequest, ChatResponse, Image, Message, Text
from models.response_format import format_in_id, with_name

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

REASONING_MODELS = re.compile(r"^(gpt-([5-9]|\d\d)(?![\d.]*-chat)|o\d)")
MINIMAL_EFFORT = re.compile(r"^gpt-5(-mini|-nano)?(-\d{4}-\d\d-\d\d)?$")
REASONING_TOKENS = 8192
"""Allowed for reasoning beyond the answer: both count against one limit. At low effort a question takes up to 2000."""
LIMITED_MODELS = re.compile(r"^(chat)?gpt-4o")
MOST_TOKENS = 16_384  # most output tokens of the gpt-4o family, which refuses a request for more
LEAST_OUTPUT_TOKENS = 16  # the Responses API refuses a lower limit; a request for fewer may get up to so many
MOST_STOPS = 4  # OpenAI refuses more; the others are cut here
LEAST = "least"
NEWER_NAMES = {"max_tokens": "max_completion_tokens"}
"""OpenAI's newer models take the second name alone, and many servers of others the first."""
ENDS = {"eos": "stop", "eos_token": "stop", "stop_sequence": "stop", "max_tokens": "length", "model_length": "length"}
"""Why an answer ended, in the words of Together, TGI and Mistral, and in OpenAI's."""
NOT_SAMPLING = (*("model", "messages", "prompt", "input", "instructions"), *("stream", "stream_options", "store"))
EMBEDDING_BATCH = 64
OPENAI_BASE_URL = "https://api.openai.com/v1"
OVERFLOW = re.compile(
    r"context.{0,20}(length|window|size)|maximum.{0,20}(context|model) len|too many tokens|prompt is too long"
    r"|token count.{0,40}exceeds|inputs. tokens .{0,20}max_new_tokens. must be",
    re.I,
)
"""In the words of OpenAI, vLLM, llama.cpp, LM Studio, Anthropic, Gemini and TGI."""
PERMANENT_LIMITS = ("insufficient_quota", "billing_hard_limit_reached")
PERMANENT_FAILURES = ("invalid", "image", "unsupported", "empty_image", "failed_to_download_image")
KEY_PLACE = "the variable that api_key_env names, or else the provider's own (OPENAI_API_KEY …)"
"""Where keys come from; none gets here with its name."""
DONE: dict[str, Any] = {}
"""What stands for `[DONE]` among the events of a stream."""

log = logging.getLogger(__name__)


class Thinking(NamedTuple):
    """How a reasoning model thinks before it answers."""

    effort: str | None = LEAST
    """`least`: the least that it is known to take; None: its own default; else as the API names it."""
    tokens: int = REASONING_TOKENS  # added to the limit of the answer, since both count against one


BRIEFLY = Thinking()  # for an answer from a given context, which needs no long thought
AS_ASKED = Thinking(effort=None, tokens=0)
"""For measuring: the limit is the one that was asked for, and the effort the model's own."""


def is_reasoning(model: str) -> bool:
    """True for OpenAI's models that think before they answer: they take an effort and no temperature."""
    return bool(REASONING_MODELS.match(_plain_name(model)))


def reasoning_effort(model: str, thinking: Thinking = BRIEFLY) -> str | None:
    """The effort to send, `minimal`, `low` … as the API names it; None: no such field is sent."""
    if thinking.effort != LEAST:
        return thinking.effort
    if not is_reasoning(model):
        return None
    return "minimal" if MINIMAL_EFFORT.match(_plain_name(model)) else "low"


def _plain_name(model: str) -> str:
    return model.rsplit("/", 1)[-1].removeprefix("ft:")


class OpenAIChat:
    """Answers through the Chat Completions API, or through the Responses API; raw prompts through Completions.

    The address is no part of `id`: a model that moves to another port keeps its answers, so different weights need
    different names. The Responses API takes neither seed nor stops, and stores nothing at the endpoint (`store`).
    """

    def __init__(
        self,
        model: str,
        *,
        responses: bool = False,
        thinking: Thinking = BRIEFLY,
        response_format: Mapping[str, JsonValue] | None = None,
        **place: Any,
    ) -> None:
        """thinking: by default the least effort that a reasoning model (gpt-5, o3 …) takes.

        response_format: see models.response_format; raw prompts are then refused. place: as Endpoint takes it.
        """
        brief = thinking == BRIEFLY or (thinking.effort in (None, LEAST) and not is_reasoning(model))
        effort = "" if brief else f"@effort={thinking.effort or 'own'}"
        self.id = f"{'responses' if responses else 'openai'}:{model}{effort}{format_in_id(response_format)}"
        self._model, self._thinking, self._responses = model, thinking, responses
        self._format = None if response_format is None else with_name(response_format)
        self._optional = {"stream", "stream_options", "logprobs", "top_logprobs"}
        """Fields that are left out once the endpoint has refused them by name."""
        if thinking.effort == LEAST:  # an effort that somebody chose is not left out
            self._optional |= {"reasoning_effort", "reasoning"}
        self._refused, self._renamed = set[str](), set[str]()  # fields, as this endpoint has said so far
        self._endpoint = Endpoint(model, **place)

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """One answer. Raises models.model_errors.ModelError; half a stream is a TransientModelError.

        timeout_s holds for each wait: for the first words, and between two pieces of a stream.
        """
        if isinstance(request.template, str):
            raise RequestRefused(
                f"An endpoint cannot be asked for the chat template {request.template!r}; it uses its model's own. "
                "Give `--apply_chat_template` without a name, or `False` for raw prompts."
            )
        listener = Listener(on_text, request.stop) if on_text else None
        path, body = self._asked(request)
        if listener is not None:
            body |= {"stream": True} | ({} if "store" in body else {"stream_options": {"include_usage": True}})
        answer, sent = self._adapted(path, body, listener)
        text = cut(answer.text, request.stop)
        ended = "stop" if len(text) < len(answer.text) else answer.finish_reason
        answer = answer.model_copy(update={"text": text, "finish_reason": ended, "sent": sent})
        if listener:
            listener.end(answer.text)
        return answer

    def _asked(self, request: ChatRequest) -> tuple[str, dict[str, Any]]:
        """Path and body of a request; a reasoning model refuses temperature, top_p, stop and log-probabilities."""
        thinks = is_reasoning(self._model) and request.template is not False
        most = min(request.max_tokens, MOST_TOKENS) if LIMITED_MODELS.match(_plain_name(self._model)) else None
        most = (request.max_tokens if most is None else most) + (self._thinking.tokens if thinks else 0)
        freedom: dict[str, Any] = {} if thinks else {"temperature": request.temperature}
        if request.top_p is not None and not thinks:
            freedom["top_p"] = request.top_p
        stop = {"stop": list(request.stop[:MOST_STOPS])} if request.stop and not thinks else {}
        seed = {} if request.seed is None else {"seed": request.seed}
        body: dict[str, Any] = {"model": self._model}
        if request.template is False:
            if self._format:
                raise RequestRefused(
                    "A format is for chats, and this is a raw prompt; leave out response_format, or "
                    "`--apply_chat_template False`."
                )
            return "/completions", body | {"prompt": raw_prompt(request), "max_tokens": most} | freedom | stop | seed
        effort = reasoning_effort(self._model, self._thinking)
        if self._responses:
            turns = [message for message in request.messages if message.role != "system"]
            body |= {"input": [_turn(turn, words="input_text") for turn in turns], "store": False}
            if instructions := [plain_text(message) for message in request.messages if message.role == "system"]:
                body["instructions"] = "\n\n".join(instructions)
            body |= {"max_output_tokens": max(most, LEAST_OUTPUT_TOKENS)} | freedom
            if named := self._format:  # this API has the fields of json_schema beside the type
                body["text"] = {"format": {"type": named["type"], **named.get("json_schema", {})}}
            return "/responses", body | ({"reasoning": {"effort": effort}} if effort else {})
        body |= {"messages": [_turn(message, words="text") for message in request.messages]}
        body |= {"max_completion_tokens" if thinks else "max_tokens": most} | freedom | stop | seed
        if request.top_logprobs is not None and not thinks:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        body |= {"response_format": self._format} if self._format else {}
        return "/chat/completions", body | ({"reasoning_effort": effort} if effort else {})

    def _adapted(
        self, path: str, body: dict[str, Any], listener: Listener | None
    ) -> tuple[ChatResponse, dict[str, JsonValue]]:
        """The answer to a body, as far as the server knows its fields, and the sampling fields that were sent."""
        renamed = NEWER_NAMES if path == "/chat/completions" else {}
        while True:
            left = {name: value for name, value in body.items() if name not in self._refused}
            sent = {renamed[name] if name in self._renamed & renamed.keys() else name: left[name] for name in left}
            try:
                answer = self._send(path, sent, listener)
            except NoSuchPath as error:
                remedies = {
                    "/completions": " A raw prompt needs the Completions API there; leave out "
                    "`--apply_chat_template False`.",
                    "/responses": f" There is no Responses API there: name the model openai:{self._model}.",
                }
                raise NoSuchPath(f"{error}{remedies.get(path, '')}") from None
            except RequestRefused as error:
                refused = {name for name in self._optional & sent.keys() if _names(error, name)}
                wanted = {old for old, new in renamed.items() if old in sent and _names(error, old, new)}
                if not refused and not wanted:
                    raise
                log.info("asked again without=%s renamed=%s model=%s", refused, wanted, self._model)
                self._refused |= refused
                self._renamed |= wanted
            else:
                return answer, {name: value for name, value in sent.items() if name not in NOT_SAMPLING}

    def _send(self, path: str, body: dict[str, Any], listener: Listener | None) -> ChatResponse:
        read = _read_responses if path == "/responses" else _read_completions
        if listener is None or "stream" not in body:  # OpenAI streams some models to verified accounts only
            whole = {name: value for name, value in body.items() if name != "stream_options"}
            with self._endpoint.failures_named():
                answer = self._endpoint.post(path, whole)
                if not answer.get("choices", path == "/responses"):
                    raise ValueError("it has no choices")
                return _response(read(answer))

        def texts() -> Generator[str, None, ChatResponse]:
            with self._endpoint.failures_named():
                return (yield from _joined(map(read, self._endpoint.events(path, body))))

        # what the listener raises comes through as it is, and closes the stream
        with closing(texts()) as pieces:
            while True:
                try:
                    text = next(pieces)
                except StopIteration as end:
                    return end.value
                listener(text)


def _turn(message: Message, *, words: str) -> dict[str, Any]:
    """A message as an API takes it; words: its type of a part of text."""
    content: str | list[dict[str, Any]] = plain_text(message)
    # plain text where it can be: some servers take parts only where there is an image
    if not all(isinstance(part, Text) for part in message.content):
        content = [
            {"type": words, "text": sendable(part.text)} if isinstance(part, Text) else _picture(part, words)
            for part in message.content
        ]
    return {"role": message.role, "content": content}


def _picture(image: Image, words: str) -> dict[str, Any]:
    """Raises RequestRefused for what is no picture, or is too large."""
    picture_size(image.png)
    url = "data:image/png;base64," + base64.b64encode(image.png).decode()
    if words == "input_text":
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return {"type": "image_url", "image_url": {"url": url}}


class _Part(NamedTuple):
    """What an event of a stream adds to an answer, or a whole answer."""

    said: str = ""
    refusal: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    top_logprobs: Mapping[str, float] = {}
    is_whole: bool = False
    is_done: bool = False  # the stream has said that it is at its end


def _read_completions(answer: Any) -> _Part:
    """An answer of Chat Completions or Completions, or a piece of its stream; reasoning is part of neither."""
    if answer is DONE:
        return _Part(is_done=True)
    counts = answer.get("usage") if isinstance(answer.get("usage"), dict) else {}
    usage = (counts.get("prompt_tokens"), counts.get("completion_tokens"))
    if not (choices := answer.get("choices")):  # the piece with the usage has none
        return _Part("", "", None, *usage)
    choice: dict[str, Any] = choices[0]
    message = choice.get("message") or choice.get("delta") or {"content": choice.get("text")}
    content = message.get("content")
    if isinstance(content, list):  # a few servers send parts, with reasoning in separate ones
        content = "".join(part["text"] for part in content if part.get("type") in ("text", "output_text"))
    first = ((choice.get("logprobs") or {}).get("content") or [{}])[0] if "message" in choice else {}
    likely = {one["token"]: one["logprob"] for one in first.get("top_logprobs") or ()}
    ended, is_whole = choice.get("finish_reason"), "message" in choice
    return _Part(content or "", message.get("refusal") or "", ended, *usage, top_logprobs=likely, is_whole=is_whole)


def _read_responses(event: Any) -> _Part:
    """An answer of the Responses API, or an event of its stream: words, or the end, which repeats the answer."""
    if event is DONE:
        return _Part(is_done=True)
    match event.get("type"):
        case "response.output_text.delta":
            return _Part(said=event["delta"])
        case "response.refusal.delta":
            return _Part(refusal=event["delta"])
        case "error":
            raise AnswerFailed(event)
        case "response.completed" | "response.incomplete" | "response.failed":
            event = event["response"]
        case str():
            return _Part()  # created, in progress, parts that begin and end, reasoning
        case _:
            pass
    match event.get("status"):
        case "failed":
            raise AnswerFailed(event.get("error") or {"message": "no reason given"})
        case "completed":
            ended = "stop" if event["output"] else None
        case "incomplete":
            reason = (event.get("incomplete_details") or {}).get("reason") or "incomplete"
            ended = "length" if reason == "max_output_tokens" else reason
        case status:
            raise ValueError(f"its status is {status!r}")
    parts = [part for item in event["output"] if item["type"] == "message" for part in item["content"]]
    counts = event.get("usage") or {}
    return _Part(
        "".join(part["text"] for part in parts if part["type"] == "output_text"),
        "".join(part["refusal"] for part in parts if part["type"] == "refusal"),
        ended,
        counts.get("input_tokens"),
        counts.get("output_tokens"),
        is_whole=True,
    )


def _joined(parts: Iterator[_Part]) -> Generator[str, None, ChatResponse]:
    """Yields all of the text so far, each time there is more."""
    whole = _Part()
    for part in parts:
        more = bool(part.said or part.refusal)
        if part.is_whole:  # some do not repeat at the end what they have said
            return _response(part._replace(said=part.said or whole.said, refusal=part.refusal or whole.refusal))
        whole = _Part(
            whole.said + part.said,
            whole.refusal + part.refusal,
            part.finish_reason or whole.finish_reason,
            *((part if part.completion_tokens is not None else whole)[3:5]),
            is_done=part.is_done,
        )
        if more:
            yield whole.said or whole.refusal
    if whole.finish_reason is None and not (whole.is_done and (whole.said or whole.refusal)):
        raise AnswerFailed({"message": "the stream ended before the answer did"})
    return _response(whole)


def _response(part: _Part) -> ChatResponse:
    if part.is_whole and not (part.finish_reason or part.said or part.refusal):
        raise ValueError("there is no message in it")
    ended = part.finish_reason or "stop"
    return ChatResponse(
        text=part.said or part.refusal,
        finish_reason="refusal" if part.refusal and not part.said else ENDS.get(ended, ended),
        prompt_tokens=part.prompt_tokens,
        completion_tokens=part.completion_tokens,
        top_logprobs=dict(part.top_logprobs),
    )


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
        starts = range(0, len(texts), EMBEDDING_BATCH)
        batches = [self._batch(texts[start : start + EMBEDDING_BATCH]) for start in starts]
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
        with self._endpoint.failures_named():
            rows = self._endpoint.post("/embeddings", body)["data"]
            # a few servers leave the numbers out, and give the vectors in the order of the texts
            placed = {row.get("index", place): row["embedding"] for place, row in enumerate(rows)}
            if sorted(placed) != list(range(len(texts))):
                raise ValueError(f"{len(rows)} vectors, with the numbers {sorted(placed)[:5]} …, for {len(texts)}")
            vectors = np.array([placed[place] for place in range(len(texts))], dtype=np.float32)  # (texts, dimension)
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            if not np.isfinite(vectors).all() or not lengths.all():
                raise ValueError("a vector of zeros, or with a number that is not finite")
            return vectors / lengths


class AnswerFailed(Exception):
    """The endpoint took the request and then said, in its answer, that it failed."""

    def __init__(self, error: object) -> None:
        inner: object = cast("Mapping[str, Any]", error).get("error", error) if isinstance(error, Mapping) else error
        about: Mapping[str, Any] = inner if isinstance(inner, Mapping) else {"message": inner}
        super().__init__(str(about.get("message")))
        self.code = str(about.get("code"))


class Endpoint:
    """A place that serves one model, and what its failures mean.

    base_url: None is OpenAI's own. timeout_s: for each wait, also between two pieces of a stream.
    """

    def __init__(
        self, model: str, *, base_url: str | None = None, api_key: SecretStr | None = None, timeout_s: float = 120.0
    ) -> None:
        self._model = model
        self._address = parse_address(base_url or OPENAI_BASE_URL)
        self._key = api_key.get_secret_value().strip() if api_key else ""
        self._timeout_s = timeout_s

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer as plain JSON: the SDK's own objects cost as much again as the request."""
        return _fields(self._client.post(path, body=body, cast_to=object))

    def events(self, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The events of a streamed answer, and DONE; from a server that does not stream, the whole answer alone."""
        from openai import Stream

        with self._client.post(path, body=body, cast_to=object, stream=True, stream_cls=Stream[object]) as stream:
            kind = stream.response.headers.get("content-type", "")
            if "html" in kind or "json" in kind:
                said = stream.response.read()
                yield _fields(json.loads(said) if "json" in kind else said.decode(errors="replace"))
                return
            for event in stream._iter_events():  # the SDK's own loop keeps `[DONE]` to itself
                if event.data.startswith("[DONE]"):
                    yield DONE
                    return
                yield _fields(event.json())

    @cached_property
    def _client(self) -> OpenAI:
        from openai import OpenAI

        if not self._key and self._address.url == OPENAI_BASE_URL:
            raise ModelUnavailable(
                f"{self._address.url} asks for a key and none is set; set OPENAI_API_KEY, or name the variable that "
                "has it (api_key_env), or your own server."
            )
        if self._address.query:
            for library in ("httpx", "httpx2", "openai"):  # they log whole URLs, and a query may hold a key
                logging.getLogger(library).setLevel(logging.WARNING)
        client = OpenAI(
            base_url=self._address.url,
            default_headers=self._address.headers,
            default_query=self._address.query,
            # the SDK refuses to start without a key; servers of one's own mostly want none
            api_key=self._key or "none",
            timeout=self._timeout_s,
            max_retries=0,
        )
        # the client is a cycle of objects: left to the garbage collector, its sockets would be lost and not closed
        weakref.finalize(self, client.close).atexit = False
        return client

    @contextmanager
    def failures_named(self) -> Generator[None]:
        """Every failure inside the block comes as a ModelError without the key in its text."""
        import openai

        try:
            yield
        except openai.APIStatusError as error:
            raise self._status_error(error) from None
        except openai.APITimeoutError:
            raise self._hung_up(None) from None
        except openai.APIConnectionError as error:
            raise self._hung_up(error.__cause__ or error) from None
        except AnswerFailed as error:
            said = f"{self._where} broke off: {self._clean(error)}"
            final = RequestRefused(f"{said}. The same request will be refused again.")
            known = self._known(error.code, said)
            raise known or (
                final if error.code.startswith(PERMANENT_FAILURES) else TransientModelError(f"{said}.")
            ) from None
        except (openai.OpenAIError, ValueError, TypeError, AttributeError, LookupError) as error:
            # the SDK hands HTML through as text and fails on broken JSON with whatever the decoder raises
            raise TransientModelError(
                f"{self._where} sent an answer that is not a completion ({self._clean(error)}); "
                "does the base URL end where the API begins (often `/v1`)?"
            ) from None
        except tuple(sys.modules[name].HTTPError for name in ("httpx", "httpx2") if name in sys.modules) as error:
            # an SDK before 3 lets them through in the middle of a stream
            raise self._hung_up(None if "Timeout" in type(error).__name__ else error) from None

    def _hung_up(self, cause: BaseException | None) -> ModelError:
        """cause: None for a time-out."""
        if cause is None:
            return TransientModelError(
                f"{self._where} did not answer within {self._timeout_s:g} s; "
                "raise the time-out if the model is slow (TRIVET_LLM_TIMEOUT_S for language models)."
            )
        return TransientModelError(f"{self._where} cannot be reached or hung up ({self._clean(cause)}); is it running?")

    def _known(self, code: str, said: str) -> ModelError | None:
        """What the code or the words of a failure say, whatever its status."""
        if code in PERMANENT_LIMITS:
            return ModelUnavailable(f"{said}. The account has nothing left to spend; top it up.")
        if code == "context_length_exceeded" or OVERFLOW.search(said):
            return ContextOverflow(f"{said}. Shorten the request, or use a model with a longer context.")
        return None

    def _status_error(self, error: APIStatusError) -> ModelError:
        body = error.body
        message = cast("Mapping[str, Any]", body).get("message") if isinstance(body, Mapping) else None
        plain = message if isinstance(message, str) else error.response.text or error.message
        said = f"{self._where} answered {error.status_code}: {self._clean(plain)}"
        # vLLM, Ollama and OpenAI all write the word; a missing path is `Not Found`, `Invalid URL` or a web page
        is_model = error.code == "model_not_found" or re.search(r"\bmodel\b", plain, re.I) or self._model in plain
        match error.status_code:
            case 401 | 403:
                sent = "Check the key and what it may use; it is" if self._key else "No key was sent; it is"
                return ModelUnavailable(f"{said}. {sent} looked for in {KEY_PLACE}.")
            case 404 if is_model:
                return ModelUnavailable(f"{said}. Check the model's name and the base URL.")
            case 404 | 405 | 501:
                return NoSuchPath(f"{said}. Check that the base URL ends where the API begins (often `/v1`).")
            case 429 if str(error.code) not in PERMANENT_LIMITS:  # its words on tokens are about a rate
                return TransientModelError(f"{said}.", retry_after_s=_retry_after_s(error.response.headers))
            case 400 | 413 | 422 | 429 if known := self._known(str(error.code), said):
                return known
            case status if status >= 500 or status in (408, 409, 425):
                return TransientModelError(f"{said}.", retry_after_s=_retry_after_s(error.response.headers))
            case _:
                return RequestRefused(f"{said}. The same request will be refused again.")

    @property
    def _where(self) -> str:
        return f"The endpoint {self._address.url} (model {self._model})"

    def _clean(self, message: object) -> str:
        """The message on one line, short, and without the key or what the base URL hides."""
        text = re.sub(r"<[^>]*>", " ", str(message))
        # by words: an error quotes a key with a line break inside in another spelling
        for secret in sorted({*self._key.split(), *self._address.secrets}, key=len, reverse=True):
            text = text.replace(secret, "***")
        return " ".join(text.split())[:300].rstrip(".") or type(message).__name__


class Address(NamedTuple):
    """A base URL, taken apart so that its secrets travel in no URL that anything logs."""

    url: str
    headers: dict[str, str]
    query: dict[str, object]
    secrets: tuple[str, ...]


def parse_address(base_url: str) -> Address:
    """The parts of a base URL, login and query apart. Raises ModelUnavailable without scheme or host.

    Errors never show the URL itself, which may hold a password.
    """
    try:
        parts = urlsplit(base_url)
        place = parts.hostname or ""
        place = (f"[{place}]" if ":" in place else place) + (f":{parts.port}" if parts.port else "")
    except ValueError:
        raise ModelUnavailable("The base URL of the model is not a URL; write http://HOST:PORT/v1.") from None
    if parts.scheme not in ("http", "https") or not place:
        raise ModelUnavailable("The base URL of the model has no scheme or no host; write http://HOST:PORT/v1.")
    query = dict(parse_qsl(parts.query))
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    basic = base64.b64encode(f"{user}:{password}".encode()).decode() if user or password else ""
    login = (parts.password, password, basic) if password else (parts.username, user, basic)
    return Address(
        url=f"{parts.scheme}://{place}{parts.path}".rstrip("/"),
        headers={"Authorization": f"Basic {basic}"} if basic else {},
        query={**query},
        secrets=tuple(word for word in (*login, *query.values()) if word and len(word) > 3),
    )


def _fields(answer: Any) -> dict[str, Any]:
    """The fields of an answer. Raises ValueError for what is none, AnswerFailed for an error in its place."""
    if not isinstance(answer, dict):
        raise ValueError(f"it begins with {str(answer)[:80]!r}")
    fields = cast("dict[str, Any]", answer)
    # some say so with status 200; an answer of the Responses API has a field of that name, too
    if fields.get("error") and not fields.get("choices") and "status" not in fields:
        raise AnswerFailed(fields)
    return fields


def _names(error: Exception, *fields: str) -> bool:
    return all(re.search(rf"\b{field}\b", str(error)) for field in fields)


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
