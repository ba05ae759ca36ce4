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
from models.protocols import ChatRequest, ChatResponse, Message, Text
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
OLDER, NEWER = "max_tokens", "max_completion_tokens"
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
NO_SUCH_PATH = {
    "/completions": " A raw prompt needs the Completions API there; leave out `--apply_chat_template False`.",
    "/responses": " There is no Responses API there: name the model openai:{model}.",
}

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
        self._refused, self._wants_newer = set[str](), False  # as this endpoint has said so far
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
        text = cut(answer.said or answer.refusal, request.stop)
        ended = "refusal" if answer.refusal and not answer.said else answer.finish_reason or "stop"
        if len(text) < len(answer.said or answer.refusal):
            ended = "stop"
        if listener:
            listener.end(text)
        return ChatResponse(
            text=text,
            finish_reason=ENDS.get(ended, ended),
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            top_logprobs=dict(answer.top_logprobs),
            sent=sent,
        )

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
            return "/completions", body | {"prompt": raw_prompt(request), OLDER: most} | freedom | stop | seed
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
        body |= {NEWER if thinks else OLDER: most} | freedom | stop | seed
        if request.top_logprobs is not None and not thinks:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        body |= {"response_format": self._format} if self._format else {}
        return "/chat/completions", body | ({"reasoning_effort": effort} if effort else {})

    def _adapted(
        self, path: str, body: dict[str, Any], listener: Listener | None
    ) -> tuple[_Part, dict[str, JsonValue]]:
        """The answer to a body, as far as the server knows its fields, and the sampling fields that were sent."""
        is_chat = path == "/chat/completions"
        while True:
            sent = {name: value for name, value in body.items() if name not in self._refused}
            if "stream" not in sent:  # OpenAI streams some models to verified accounts only
                sent.pop("stream_options", None)
            if self._wants_newer and is_chat and OLDER in sent:
                sent = {NEWER if name == OLDER else name: value for name, value in sent.items()}
            try:
                answer = self._send(path, sent, listener)
            except NoSuchPath as error:
                raise NoSuchPath(f"{error}{NO_SUCH_PATH.get(path, '').format(model=self._model)}") from None
            except RequestRefused as error:
                refused = {name for name in self._optional & sent.keys() if _names(error, name)}
                wants_newer = is_chat and OLDER in sent and _names(error, OLDER, NEWER)
                if not refused and not wants_newer:
                    raise
                log.info("asked again without=%s model=%s", refused or OLDER, self._model)
                self._refused |= refused
                self._wants_newer |= wants_newer
            else:
                return answer, {name: value for name, value in sent.items() if name not in NOT_SAMPLING}

    def _send(self, path: str, body: dict[str, Any], listener: Listener | None) -> _Part:
        # what the listener raises comes through as it is, and closes the stream
        answer = _Part()
        with closing(self._so_far(path, body)) as parts:
            for answer in parts:
                if listener and "stream" in body and not answer.is_whole:
                    listener(answer.said or answer.refusal)
        return answer

    def _so_far(self, path: str, body: dict[str, Any]) -> Generator[_Part]:
        """The answer after each piece of it; the last one is the whole."""
        read, so_far = _read_responses if path == "/responses" else _read_completion, _Part()
        with self._endpoint.failures_named():
            for event in self._endpoint.events(path, body):
                so_far = so_far.followed_by(read(event))
                yield so_far
            if "stream" in body and so_far.finish_reason is None and not so_far.is_whole:
                raise AnswerFailed({"message": "the stream ended before the answer did"})
            if not (so_far.finish_reason or so_far.said or so_far.refusal):
                raise ValueError("there is no message in it")


def _turn(message: Message, *, words: str) -> dict[str, Any]:
    """A message as an API takes it; words: its type of a part of text. Raises RequestRefused for what is no picture."""
    # plain text where it can be: some servers take parts only where there is an image
    if all(isinstance(part, Text) for part in message.content):
        return {"role": message.role, "content": plain_text(message)}
    content: list[dict[str, Any]] = []
    for part in message.content:
        if isinstance(part, Text):
            content.append({"type": words, "text": sendable(part.text)})
            continue
        picture_size(part.png)
        url = "data:image/png;base64," + base64.b64encode(part.png).decode()
        is_flat = words == "input_text"
        content.append(
            {"type": "input_image", "image_url": url, "detail": "auto"}
            if is_flat
            else {"type": "image_url", "image_url": {"url": url}}
        )
    return {"role": message.role, "content": content}


class _Part(NamedTuple):
    """What an event of a stream adds to an answer, or a whole answer."""

    said: str = ""
    refusal: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    top_logprobs: Mapping[str, float] = {}
    is_whole: bool = False

    def followed_by(self, part: _Part) -> _Part:
        """Both together."""
        if part.is_whole:  # some do not repeat at the end what they have said
            return part._replace(said=part.said or self.said, refusal=part.refusal or self.refusal)
        counts = self if part.completion_tokens is None else part
        said, refusal = self.said + part.said, self.refusal + part.refusal
        ended = part.finish_reason or self.finish_reason
        return _Part(said, refusal, ended, counts.prompt_tokens, counts.completion_tokens)


def _read_completion(answer: Any) -> _Part:
    """An answer of Chat Completions or Completions, or a piece of its stream; reasoning is part of neither."""
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
    said = "".join(part["text"] for part in parts if part["type"] == "output_text")
    refusal = "".join(part["refusal"] for part in parts if part["type"] == "refusal")
    counts = event.get("usage") or {}
    return _Part(said, refusal, ended, counts.get("input_tokens"), counts.get("output_tokens"), is_whole=True)


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
            (answer,) = self._endpoint.events("/embeddings", body)
            # a few servers leave the numbers out, and give the vectors in the order of the texts
            placed = {row.get("index", place): row["embedding"] for place, row in enumerate(answer["data"])}
            if sorted(placed) != list(range(len(texts))):
                raise ValueError(f"vectors with the numbers {sorted(placed)[:5]} … for {len(texts)} texts")
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

    base_url: None is OpenAI's own; its login and query travel in no URL that anything logs. timeout_s: for each wait,
    also between two pieces of a stream. Raises ModelUnavailable for what is no URL, without showing it.
    """

    def __init__(
        self, model: str, *, base_url: str | None = None, api_key: SecretStr | None = None, timeout_s: float = 120.0
    ) -> None:
        self._model, self._timeout_s = model, timeout_s
        self._key = api_key.get_secret_value().strip() if api_key else ""
        try:
            parts = urlsplit(base_url or OPENAI_BASE_URL)
            place = parts.netloc.rpartition("@")[2]
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
                raise ValueError
        except ValueError:
            raise ModelUnavailable("The base URL of the model is not a URL; write http://HOST:PORT/v1.") from None
        self._url = f"{parts.scheme}://{place}{parts.path}".rstrip("/")
        self._query: dict[str, object] = dict(parse_qsl(parts.query))
        login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        basic = "" if login == ":" else base64.b64encode(login.encode()).decode()
        self._headers = {"Authorization": f"Basic {basic}"} if basic else {}
        # by words: an error quotes a key with a line break inside in another spelling
        secrets = [*self._key.split(), parts.password or parts.username, login.strip(":").rpartition(":")[2], basic]
        self._secrets = [str(one) for one in (*secrets, *self._query.values()) if one and len(str(one)) > 3]

    def events(self, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The events of a streamed answer; the whole answer alone where none is asked for, or the server has none."""
        from openai import Stream

        if "stream" not in body:
            # plain JSON: the SDK's own objects cost as much again as the request
            yield _fields(self._client.post(path, body=body, cast_to=object))
            return
        with self._client.post(path, body=body, cast_to=object, stream=True, stream_cls=Stream[object]) as stream:
            kind = stream.response.headers.get("content-type", "")
            if "html" in kind or "json" in kind:
                yield _fields(json.loads(stream.response.read()))
            else:
                yield from map(_fields, stream)

    @cached_property
    def _client(self) -> OpenAI:
        from openai import OpenAI

        if not self._key and self._url == OPENAI_BASE_URL:
            raise ModelUnavailable(
                f"{self._url} asks for a key and none is set; set OPENAI_API_KEY, or name the variable that has it "
                "(api_key_env), or your own server."
            )
        if self._query:
            for library in ("httpx", "httpx2", "openai"):  # they log whole URLs, and a query may hold a key
                logging.getLogger(library).setLevel(logging.WARNING)
        client = OpenAI(
            base_url=self._url,
            default_headers=self._headers,
            default_query=self._query,
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
        except (openai.APIError, AnswerFailed) as error:  # the SDK's is an event of a stream
            failed = AnswerFailed(error.body or error.message) if isinstance(error, openai.APIError) else error
            said = f"{self._where} broke off: {self._clean(failed)}"
            if known := self._known(failed.code, said):
                raise known from None
            if failed.code.startswith(PERMANENT_FAILURES):
                raise RequestRefused(f"{said}. The same request will be refused again.") from None
            raise TransientModelError(f"{said}.") from None
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
                "raise the time-out if the model is slow (`timeout` among its arguments)."
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
                places = "the variable that api_key_env names, or else the provider's own (OPENAI_API_KEY …)"
                return ModelUnavailable(f"{said}. {sent} looked for in {places}.")
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
        return f"The endpoint {self._url} (model {self._model})"

    def _clean(self, message: object) -> str:
        """The message on one line, short, and without the key or what the base URL hides."""
        text = re.sub(r"<[^>]*>", " ", str(message))
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return " ".join(text.split())[:300].rstrip(".") or type(message).__name__


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
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
