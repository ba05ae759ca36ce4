"""A place that is asked over HTTP for what one model says, and what its failures mean.

Requests go through urllib3: httpx, on which OpenAI's SDK rests, takes three times its CPU. The SDK decodes streams, and
takes .6 s to be imported, which the first stream does.
"""

from __future__ import annotations

import base64
import json
import logging
import math
import re
import ssl
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from functools import cached_property, partial
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import certifi
import urllib3
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

OPENAI_BASE_URL = "https://api.openai.com/v1"
OVERFLOW = re.compile(
    r"context.{0,20}(length|window|size)|maximum.{0,20}(context|model) len|too many tokens|prompt is too long"
    r"|token count.{0,40}exceeds|inputs. tokens .{0,20}max_new_tokens. must be",
    re.I,
)
"""The messages by which OpenAI, vLLM, llama.cpp, LM Studio, Anthropic, Gemini and TGI refuse a prompt as too long."""
CONTENT = re.compile("content_filter|content_policy|responsible_ai|data_inspection|safety")
"""Matches the codes of a content filter: OpenAI's, Azure's and those of gateways to other providers."""
MOST_CONNECTIONS = 1000
CONNECT_S = 5.0
"""Longest wait for a connection: a host that is gone answers nothing, and a model that is slow takes it at once."""
PIECE_BYTES = 65_536  # most of a stream that is read at once
PERMANENT_LIMITS = ("insufficient_quota", "billing_hard_limit_reached")  # codes of status 429 that no wait mends
PERMANENT_FAILURES = ("invalid", "image", "unsupported", "empty_image", "failed_to_download_image")  # starts of codes


class AnswerFailed(Exception):
    """The endpoint took the request, and reported its failure inside the answer."""

    def __init__(self, error: object) -> None:
        inner: object = cast("Mapping[str, Any]", error).get("error", error) if isinstance(error, Mapping) else error
        details: Mapping[str, Any] = inner if isinstance(inner, Mapping) else {"message": inner}
        self.message, self.code = details.get("message"), str(details.get("code"))
        super().__init__(str(self.message))


class Endpoint:
    """An HTTP endpoint that serves one model; its failures come as ModelError.

    base_url: None is OpenAI's own; its login and query travel in no URL that anything logs. timeout_s: for each wait,
    also between two pieces of a stream. Raises ModelUnavailable for what is no URL, without showing it.
    """

    def __init__(
        self, model: str, *, base_url: str | None = None, api_key: SecretStr | None = None, timeout_s: float = 120.0
    ) -> None:
        self.model, self._timeout_s = model, timeout_s
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
        self._headers = {"Content-Type": "application/json", "User-Agent": "trivet"}
        if basic or self._key:
            self._headers["Authorization"] = f"Basic {basic}" if basic else f"Bearer {self._key}"
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
        """Return this model's entry in the list (GET /models); empty where there is none. Raises ModelError."""
        with self.name_failures(), suppress(ValueError):  # a web page
            response = self._request("GET", "/models")
            listed: Any = json.loads(response.data) if response.status == 200 else None
            entries = listed.get("data") if isinstance(listed, dict) else None
            if isinstance(entries, list):
                return next((entry for entry in entries if entry.get("id") == self.model), {})
        return {}

    def events(self, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the events of an answer, or the whole if `body` asks no `stream`; read them inside `name_failures`."""
        plain = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        streams = "stream" in body
        response = self._request("POST", path, plain, preload_content=not streams)
        try:
            if not 200 <= response.status < 300:
                raise self._status_error(response.status, response.headers, response.data)
            kind = response.headers.get("content-type", "")
            if not streams or "html" in kind or "json" in kind:
                yield _read_fields(response.data.decode("utf-8-sig", "replace"))
                return
            from openai._streaming import SSEDecoder

            for event in SSEDecoder().iter_bytes(iter(partial(response.read1, PIECE_BYTES), b"")):
                if event.data.startswith("[DONE]"):
                    break
                yield _read_fields(event.data)
        finally:
            if streams:
                response.close()

    def _request(self, method: str, path: str, body: bytes | None = None, **options: bool) -> urllib3.BaseHTTPResponse:
        """Return the response, whatever its status; `path` begins behind the base URL. Raises urllib3's HTTPError."""
        query = f"?{urlencode(self._query)}" if self._query else ""
        pool = self._pool
        # a pool of one host is asked by the path, which spares a tenth of a request's CPU; a proxy is told the whole
        start = self._url if isinstance(pool, urllib3.PoolManager) else urlsplit(self._url).path
        return pool.urlopen(method, f"{start}{path}{query}", body=body, headers=self._headers, **options)

    def require_key(self) -> None:
        """Raise ModelUnavailable where OpenAI's own endpoint would be asked without a key."""
        if not self._key and self._url == OPENAI_BASE_URL:
            raise ModelUnavailable(
                f"{self._url} asks for a key and none is set; set OPENAI_API_KEY, or name the variable that has it "
                "(api_key_env), or your own server."
            )

    @cached_property
    def _pool(self) -> urllib3.HTTPConnectionPool | urllib3.ProxyManager:
        """Connections, through the proxy of the environment for this host. Raises ModelUnavailable: no key."""
        self.require_key()
        if self._query:  # it may hold a key, and whole URLs are logged
            logging.getLogger("urllib3").setLevel(logging.WARNING)
        parts, proxies = urlsplit(self._url), getproxies()
        timeout = urllib3.Timeout(connect=min(CONNECT_S, self._timeout_s), read=self._timeout_s)
        options: dict[str, Any] = {"timeout": timeout, "maxsize": MOST_CONNECTIONS, "retries": False}
        if parts.scheme == "https":  # the authorities of the system, or of SSL_CERT_FILE, and those of Mozilla
            options["ssl_context"] = ssl.create_default_context()
            options["ssl_context"].load_verify_locations(certifi.where())
        proxy = proxies.get(parts.scheme) or proxies.get("all")
        if not proxy or proxy_bypass(parts.netloc):
            return urllib3.connection_from_url(self._url, **options)
        login, _, _ = urlsplit(proxy).netloc.rpartition("@")
        headers = urllib3.make_headers(proxy_basic_auth=unquote(login)) if login else None
        return urllib3.ProxyManager(proxy if "://" in proxy else f"http://{proxy}", proxy_headers=headers, **options)

    @contextmanager
    def name_failures(self) -> Generator[None]:
        """Turn every failure inside the block into a ModelError, without the key in its text."""
        try:
            yield
        except urllib3.exceptions.HTTPError as error:
            raise self._connection_error(error) from None
        except AnswerFailed as error:
            message = f"{self._where} broke off: {self._clean(error)}"
            if failure := self._classify_failure(error.code, message):
                raise failure from None
            if error.code.startswith(PERMANENT_FAILURES):
                raise RequestRefused(f"{message}. The same request will be refused again.") from None
            raise TransientModelError(f"{message}.") from None
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise TransientModelError(
                f"{self._where} sent an answer that is not a completion ({self._clean(error)}); "
                "does the base URL end where the API begins (often `/v1`)?"
            ) from None

    def _connection_error(self, error: urllib3.exceptions.HTTPError) -> ModelError:
        """Return the error that one of urllib3 means."""
        cause = self._clean(error.__cause__ or error.args[-1])
        if isinstance(error, (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)):
            ask = f"`curl {self._url}/models` asks it too"
            return Unreachable(f"{self._where} cannot be reached ({cause}); is it running? {ask}.")
        if isinstance(error, urllib3.exceptions.TimeoutError):
            return TransientModelError(
                f"{self._where} did not answer within {self._timeout_s:g} s; raise the time-out if the model is slow "
                "(`timeout` among its arguments)."
            )
        return Unreachable(f"{self._where} hung up ({cause}); is it running?")

    def _classify_failure(self, code: str, message: str) -> ModelError | None:
        """Return the error that a failure's code or words mean, whatever its status; None where neither is known."""
        if code in PERMANENT_LIMITS:
            return ModelUnavailable(f"{message}. The account has nothing left to spend; top it up.")
        if CONTENT.search(code):
            return ContentRefused(f"{message}. Its content filter refuses this request, and no other for it.")
        if code == "context_length_exceeded" or OVERFLOW.search(message):
            return ContextOverflow(f"{message}. Shorten the request, or use a model with a longer context.")
        return None

    def _status_error(self, status: int, headers: Mapping[str, str], content: bytes) -> ModelError:
        """Return the error that an answer with a status of failure means, with its remedy and without the key."""
        plain, code = content.decode("utf-8", "replace"), ""
        with suppress(ValueError):
            failed = AnswerFailed(json.loads(plain))
            plain, code = failed.message if isinstance(failed.message, str) else plain, failed.code
        text = f"{self._where} answered {status}: {self._clean(plain or 'nothing')}"
        # vLLM, Ollama and OpenAI all write the word; a missing path is `Not Found`, `Invalid URL` or a web page
        is_model = code == "model_not_found" or re.search(r"\bmodel\b", plain, re.I) or self.model in plain
        match status:
            case 301 | 302 | 303 | 307 | 308:  # not followed: the base URL names the endpoint that answers
                return ModelUnavailable(f"{text}. It leads to {self._clean(headers.get('location'))}; ask there.")
            case 401 | 403:
                sent = "Check the key and what it may use; it is" if self._key else "No key was sent; it is"
                places = "the variable that api_key_env names, or else the provider's own (OPENAI_API_KEY …)"
                return ModelUnavailable(f"{text}. {sent} looked for in {places}.")
            case 404 if is_model:
                return ModelUnavailable(f"{text}. Check the model's name and the base URL.")
            case 404 | 405 | 501:
                return NoSuchPath(f"{text}. Check that the base URL ends where the API begins (often `/v1`).")
            case 429 if code not in PERMANENT_LIMITS:  # its words on tokens are about a rate
                return TransientModelError(f"{text}.", retry_after_s=_retry_after_s(headers))
            case 400 | 413 | 422 | 429 if failure := self._classify_failure(code, text):
                return failure
            case _ if status >= 500 or status in (408, 409, 425):  # as the SDK, and 425: Too Early, RFC 8470
                return TransientModelError(f"{text}.", retry_after_s=_retry_after_s(headers))
            case _:
                return RequestRefused(f"{text}. The same request will be refused again.")

    @property
    def _where(self) -> str:
        return f"The endpoint {self._url} (model {self.model})"

    def _clean(self, message: object) -> str:
        """Return the message, or its type where empty, on one short line without the key or what the base URL hides."""
        text = re.sub(r"<[^>]*>", " ", str(message))  # proxies answer with web pages
        for secret in sorted(self._secrets, key=len, reverse=True):  # one may stand inside another
            text = text.replace(secret, "***")
        return " ".join(text.split())[:300].rstrip(".") or type(message).__name__


def _read_fields(content: str) -> dict[str, Any]:
    """Return the fields of an answer. Raises ValueError for what is none, AnswerFailed for an error in its place."""
    try:
        fields = json.loads(content)
        if not isinstance(fields, dict):
            raise ValueError
    except ValueError:  # a web page, mostly
        raise ValueError(f"it begins with {content[:80]!r}") from None
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
