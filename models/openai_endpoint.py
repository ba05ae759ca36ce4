"""An OpenAI-compatible endpoint: the SDK's client, and every failure of it as a ModelError that names no secret.

The SDK takes a second to import, so the first call does. Retries are left to tasks/calls.py.
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
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import SecretStr

from models.model_errors import ContextOverflow, ModelError, ModelUnavailable, RequestRefused, TransientModelError

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

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

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class NoSuchPath(ModelUnavailable):
    """The endpoint has no such API; the model may be there all the same."""


class AnswerFailed(Exception):
    """The endpoint took the request and then said, in its answer, that it failed."""

    def __init__(self, code: object, message: object) -> None:
        super().__init__(str(message))
        self.code = str(code)


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
        self._refused: set[str] = set()
        self._renamed: set[str] = set()

    def call(self, ask: Callable[[OpenAI], Result]) -> Result:
        """What `ask` gets from the endpoint. Every failure comes as a ModelError without the key in its text."""
        with self._failures_named():
            return ask(self._client)

    def stream(self, read: Callable[[OpenAI], Generator[str, None, Result]], on_text: Callable[[str], None]) -> Result:
        """What `read` returns; each text that it yields before goes to `on_text`. Fails as `call` does.

        An exception of `on_text` comes through as it is, and closes the stream.
        """

        def guarded() -> Generator[str, None, Result]:
            with self._failures_named():
                return (yield from read(self._client))

        with closing(guarded()) as texts:
            while True:
                try:
                    text = next(texts)
                except StopIteration as end:
                    return end.value
                on_text(text)

    def adapt(
        self,
        body: dict[str, Any],
        send: Callable[[dict[str, Any]], Result],
        *,
        optional: Sequence[str] = (),
        renamed: Mapping[str, str] | None = None,
    ) -> Result:
        """What `send` gets for `body`, as far as the server knows its fields.

        optional: fields to leave out once the server has refused them by name. renamed: fields to rename once the
        server has asked for the other name.
        """
        renamed = renamed or {}
        while True:
            known = {name: value for name, value in body.items() if name not in self._refused}
            kept = {renamed[name] if name in self._renamed & renamed.keys() else name: known[name] for name in known}
            try:
                return send(kept)
            except RequestRefused as error:
                refused = {name for name in optional if name in kept and _names(error, name)}
                asked = {
                    old for old, new in renamed.items() if old in kept and _names(error, old) and _names(error, new)
                }
                if not refused and not asked:
                    raise
                log.info("asked again without=%s renamed=%s model=%s", refused, asked, self._model)
                self._refused |= refused
                self._renamed |= asked

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
    def _failures_named(self) -> Generator[None]:
        import openai

        try:
            yield
        except openai.APIStatusError as error:
            raise self._status_error(error) from None
        except openai.APITimeoutError:
            raise self._timed_out() from None
        except openai.APIConnectionError as error:
            raise self._hung_up(error.__cause__ or error) from None
        except openai.APIError as error:
            raise self._failed(str(error.code), error.message) from None
        except AnswerFailed as error:
            raise self._failed(error.code, error) from None
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
        except _http_errors() as error:
            # an SDK before 3 lets them through in the middle of a stream
            raise self._timed_out() if "Timeout" in type(error).__name__ else self._hung_up(error) from None

    def _timed_out(self) -> ModelError:
        return TransientModelError(
            f"{self._where} did not answer within {self._timeout_s:g} s; "
            "raise the time-out if the model is slow (TRIVET_LLM_TIMEOUT_S for language models)."
        )

    def _hung_up(self, cause: BaseException) -> ModelError:
        return TransientModelError(f"{self._where} cannot be reached or hung up ({self._clean(cause)}); is it running?")

    def _failed(self, code: str, message: object) -> ModelError:
        said = f"{self._where} broke off: {self._clean(message)}"
        if code.startswith(PERMANENT_FAILURES):
            return self._known(code, said) or RequestRefused(f"{said}. The same request will be refused again.")
        return self._known(code, said) or TransientModelError(f"{said}.")

    def _known(self, code: str, said: str) -> ModelError | None:
        """What the code or the words of a failure say, whatever its status."""
        if code in PERMANENT_LIMITS:
            return ModelUnavailable(f"{said}. The account has nothing left to spend; top it up.")
        if code == "context_length_exceeded" or OVERFLOW.search(said):
            return ContextOverflow(f"{said}. Shorten the request, or use a model with a longer context.")
        return None

    def _status_error(self, error: APIStatusError) -> ModelError:
        said = f"{self._where} answered {error.status_code}: {self._clean(_said(error))}"
        match error.status_code:
            case 401 | 403:
                sent = "Check the key and what it may use; it is" if self._key else "No key was sent; it is"
                return ModelUnavailable(f"{said}. {sent} looked for in {KEY_PLACE}.")
            case 404 if self._is_about_the_model(error):
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

    def _is_about_the_model(self, error: APIStatusError) -> bool:
        # vLLM, Ollama and OpenAI all write the word; a missing path is `Not Found`, `Invalid URL` or a web page
        said = _said(error)
        return error.code == "model_not_found" or bool(re.search(r"\bmodel\b", said, re.I)) or self._model in said

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


def _names(error: Exception, *fields: str) -> bool:
    return all(re.search(rf"\b{field}\b", str(error)) for field in fields)


class End:
    """Whether a stream says that it is at its end: the SDK stops at `[DONE]` and keeps it to itself."""

    def __init__(self, stream: Any) -> None:
        self.was_said = False
        self._events: Callable[[], Any] = stream._iter_events
        stream._iter_events = self._watched

    def _watched(self) -> Generator[Any]:
        for event in self._events():
            self.was_said = self.was_said or event.data.startswith("[DONE]")
            yield event


def whole_answer(stream: Any) -> Any | None:
    """The answer as JSON, from a server that was asked to stream and sends it whole; None from one that streams."""
    content_type = stream.response.headers.get("content-type", "")
    if "html" in content_type:
        raise ValueError(f"it begins with {stream.response.read()[:80].decode(errors='replace')!r}")
    return json.loads(stream.response.read()) if "json" in content_type else None


def _http_errors() -> tuple[type[Exception], ...]:
    libraries: list[Any] = [sys.modules[name] for name in ("httpx", "httpx2") if name in sys.modules]
    return tuple(library.HTTPError for library in libraries)


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
