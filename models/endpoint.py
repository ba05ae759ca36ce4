"""A place that is asked over HTTP for what one model says, and what its failures mean.

The SDK takes a second to import, so the first request does.
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
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import SecretStr

from models.model_errors import (
    ContentRefused,
    ContextOverflow,
    ModelError,
    ModelUnavailable,
    NoSuchPath,
    RequestRefused,
    TransientModelError,
    Unreachable,
)

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

OPENAI_BASE_URL = "https://api.openai.com/v1"
OVERFLOW = re.compile(
    r"context.{0,20}(length|window|size)|maximum.{0,20}(context|model) len|too many tokens|prompt is too long"
    r"|token count.{0,40}exceeds|inputs. tokens .{0,20}max_new_tokens. must be",
    re.I,
)
"""The messages by which OpenAI, vLLM, llama.cpp, LM Studio, Anthropic, Gemini and TGI refuse a prompt as too long."""
CONTENT = re.compile("content_filter|content_policy|responsible_ai|data_inspection|safety")
"""Matches the codes of a content filter: OpenAI's, Azure's and those of gateways to other providers."""
PERMANENT_LIMITS = ("insufficient_quota", "billing_hard_limit_reached")  # codes of status 429 that no wait mends
PERMANENT_FAILURES = ("invalid", "image", "unsupported", "empty_image", "failed_to_download_image")  # starts of codes


class AnswerFailed(Exception):
    """The endpoint took the request, and reported its failure inside the answer."""

    def __init__(self, error: object) -> None:
        inner: object = cast("Mapping[str, Any]", error).get("error", error) if isinstance(error, Mapping) else error
        details: Mapping[str, Any] = inner if isinstance(inner, Mapping) else {"message": inner}
        super().__init__(str(details.get("message")))
        self.code = str(details.get("code"))


class Endpoint:
    """An HTTP endpoint that serves one model; its failures come as ModelError.

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
        # a shorter one, such as the `x` that servers of one's own are given, stands in ordinary words
        self._secrets = [str(secret) for secret in (*secrets, *self._query.values()) if len(str(secret or "")) >= 8]

    @property
    def address(self) -> str:
        """The base URL without login and query, its host in lower case, `localhost` as a number."""
        parts = urlsplit(self._url)
        host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return f"{parts.scheme}://{host}:{port}{parts.path}"

    def read_card(self) -> dict[str, Any]:
        """Return the entry of this model in the list of models (GET /models); empty where there is none."""
        import openai

        with self.name_failures(), suppress(openai.APIStatusError):
            listed: Any = self._client.get("/models", cast_to=object)
            entries = listed.get("data") if isinstance(listed, dict) else None
            if isinstance(entries, list):
                return next((entry for entry in entries if entry.get("id") == self._model), {})
        return {}

    def events(self, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the events of a streamed answer; the whole answer alone where there is no stream."""
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
        # The client is a cycle of objects: left to the garbage collector its sockets would be lost, and at the end of
        # the process it would print a traceback, since it asks its own module, which is gone, whether it is closed.
        weakref.finalize(self, _close, client)
        return client

    @contextmanager
    def name_failures(self) -> Generator[None]:
        """Turn every failure inside the block into a ModelError, without the key in its text."""
        import openai

        try:
            yield
        except openai.APIStatusError as error:
            raise self._status_error(error) from None
        except openai.APIConnectionError as error:
            timed_out = isinstance(error, openai.APITimeoutError)
            raise self._connection_error(error.__cause__ or error, timed_out=timed_out) from None
        except (openai.APIError, AnswerFailed) as error:  # the SDK's is an event of a stream
            failed = AnswerFailed(error.body or error.message) if isinstance(error, openai.APIError) else error
            message = f"{self._where} broke off: {self._clean(failed)}"
            if failure := self._classify_failure(failed.code, message):
                raise failure from None
            if failed.code.startswith(PERMANENT_FAILURES):
                raise RequestRefused(f"{message}. The same request will be refused again.") from None
            raise TransientModelError(f"{message}.") from None
        except (openai.OpenAIError, ValueError, TypeError, AttributeError, LookupError) as error:
            # the SDK hands HTML through as text and fails on broken JSON with whatever the decoder raises
            raise TransientModelError(
                f"{self._where} sent an answer that is not a completion ({self._clean(error)}); "
                "does the base URL end where the API begins (often `/v1`)?"
            ) from None
        except tuple(sys.modules[name].HTTPError for name in ("httpx", "httpx2") if name in sys.modules) as error:
            # an SDK before 3 lets them through in the middle of a stream
            raise self._connection_error(error, timed_out="Timeout" in type(error).__name__) from None

    def _connection_error(self, cause: BaseException, *, timed_out: bool) -> ModelError:
        if type(cause).__name__ == "ConnectError":
            ask = f"`curl {self._url}/models` asks it too"
            return Unreachable(f"{self._where} cannot be reached ({self._clean(cause)}); is it running? {ask}.")
        reason = f"hung up ({self._clean(cause)}); is it running?"
        if timed_out:
            reason = f"did not answer within {self._timeout_s:g} s; raise the time-out if the model is slow "
            reason += "(`timeout` among its arguments)."
        return TransientModelError(f"{self._where} {reason}")

    def _classify_failure(self, code: str, message: str) -> ModelError | None:
        """Return the error that a failure's code or words mean, whatever its status; None where neither is known."""
        if code in PERMANENT_LIMITS:
            return ModelUnavailable(f"{message}. The account has nothing left to spend; top it up.")
        if CONTENT.search(code):
            return ContentRefused(f"{message}. Its content filter refuses this request, and no other for it.")
        if code == "context_length_exceeded" or OVERFLOW.search(message):
            return ContextOverflow(f"{message}. Shorten the request, or use a model with a longer context.")
        return None

    def _status_error(self, error: APIStatusError) -> ModelError:
        body = error.body
        detail = cast("Mapping[str, Any]", body).get("message") if isinstance(body, Mapping) else None
        plain = detail if isinstance(detail, str) else error.response.text or error.message
        text = f"{self._where} answered {error.status_code}: {self._clean(plain)}"
        # vLLM, Ollama and OpenAI all write the word; a missing path is `Not Found`, `Invalid URL` or a web page
        is_model = error.code == "model_not_found" or re.search(r"\bmodel\b", plain, re.I) or self._model in plain
        match error.status_code:
            case 401 | 403:
                sent = "Check the key and what it may use; it is" if self._key else "No key was sent; it is"
                places = "the variable that api_key_env names, or else the provider's own (OPENAI_API_KEY …)"
                return ModelUnavailable(f"{text}. {sent} looked for in {places}.")
            case 404 if is_model:
                return ModelUnavailable(f"{text}. Check the model's name and the base URL.")
            case 404 | 405 | 501:
                return NoSuchPath(f"{text}. Check that the base URL ends where the API begins (often `/v1`).")
            case 429 if str(error.code) not in PERMANENT_LIMITS:  # its words on tokens are about a rate
                return TransientModelError(f"{text}.", retry_after_s=_retry_after_s(error.response.headers))
            case 400 | 413 | 422 | 429 if failure := self._classify_failure(str(error.code), text):
                return failure
            case status if status >= 500 or status in (408, 409, 425):  # as the SDK, and 425: Too Early, RFC 8470
                return TransientModelError(f"{text}.", retry_after_s=_retry_after_s(error.response.headers))
            case _:
                return RequestRefused(f"{text}. The same request will be refused again.")

    @property
    def _where(self) -> str:
        return f"The endpoint {self._url} (model {self._model})"

    def _clean(self, message: object) -> str:
        """Return the message on one line, short, and without the key or what the base URL hides."""
        text = re.sub(r"<[^>]*>", " ", str(message))  # proxies answer with web pages
        for secret in sorted(self._secrets, key=len, reverse=True):  # one may stand inside another
            text = text.replace(secret, "***")
        return " ".join(text.split())[:300].rstrip(".") or type(message).__name__


def _fields(answer: Any) -> dict[str, Any]:
    """Return the fields of an answer. Raises ValueError for what is none, AnswerFailed for an error in its place."""
    if not isinstance(answer, dict):
        raise ValueError(f"it begins with {str(answer)[:80]!r}")
    fields = cast("dict[str, Any]", answer)
    # some say so with status 200; an answer of the Responses API has a field of that name, too
    if fields.get("error") and not fields.get("choices") and "status" not in fields:
        raise AnswerFailed(fields)
    return fields


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that Retry-After asks for, as seconds or date (RFC 9110, 10.2.3); None if it does not."""
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _close(client: OpenAI) -> None:
    with suppress(RuntimeError):  # the pool complains of requests that are still in flight when the process ends
        client.close()
    vars(client).pop("_client", None)  # private: at the end of the process its own `__del__` runs while modules live
