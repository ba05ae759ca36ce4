"""Every model call of every pipeline: asked once, retried when that helps, within rate limits and a budget."""

from __future__ import annotations

import hashlib
import logging
import random
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

from pydantic import Field, JsonValue

from models.model_errors import ModelUnavailable, TransientModelError, Unreachable
from models.protocols import Chat, ChatRequest, ChatResponse, Image, Text
from storage.records import Record
from tasks.budget import Budget, Tokens
from tasks.keys import digest

if TYPE_CHECKING:
    from storage.responses import StoredResponse

log = logging.getLogger(__name__)

CHARS_PER_TOKEN = 2  # errs on the high side: English has about 4, Korean about 1.5
ALWAYS_IN_KEY = ("temperature", "max_tokens", "seed")  # the first keys had them; later fields stand there only if set
_DEFAULTS = {name: field.default for name, field in ChatRequest.model_fields.items() if name != "messages"}
"""Fields that came later leave the key as it was while they are unset, so that older answers are still found."""
CHECK_INTERVAL_S = 0.5
"""Seconds between looks at whether the process ends, while something is waited for."""
TWIN_WAIT_S = 0.2
TOKENS_PER_IMAGE = 1500  # a chart as wide as a page, in the usual vision models

_checksums: WeakKeyDictionary[Image, str] = WeakKeyDictionary()

Result = TypeVar("Result")
OnText = Callable[[str], None]


class ResponseStore(Protocol):
    """The methods of the response store that asking needs; storage.responses.Responses is the real one."""

    def many(self, keys: list[str]) -> dict[str, StoredResponse]:
        """Return the stored answers to these keys, by key; keys without one are left out."""
        ...

    def put_many(self, rows: Mapping[str, StoredResponse]) -> None:
        """Store all of the answers, or none of them."""
        ...


class Answer(NamedTuple):
    """A model's response, its key in the response store, and whether it came from there."""

    response: ChatResponse
    key: str
    cached: bool
    latency_s: float
    """Seconds of the original call, including the wait for its turn."""


class CallSettings(Record):
    """Rates, retries and time-outs of an endpoint."""

    tries: int = Field(default=5, ge=1)
    """Requests for one answer, the first included."""
    first_delay_s: float = Field(default=1.0, ge=0)
    """Most seconds before the second try; doubled for each further one, and drawn from zero up to that."""
    most_delay_s: float = Field(default=60.0, ge=0)
    """Most seconds between tries; a server that asks for a longer pause is not waited for."""
    timeout_s: float = Field(default=300.0, gt=0)
    """Seconds that an endpoint may say nothing; without effect on a model in this process."""
    concurrency: int = Field(default=8, ge=1)
    """Requests under way at once."""
    requests_per_minute: int | None = Field(default=None, ge=1)
    """Limit of requests in a minute, as the endpoint allows."""
    tokens_per_minute: int | None = Field(default=None, ge=1)
    """Limit on prompt and completion tokens together."""


STARTING_S = 6.0
"""Seconds in which an endpoint may start to listen at its address, before each request to it is given up."""
AWAY_S = 12.0
"""Seconds for which an endpoint that has answered may be away, as while its server restarts; then each request gets one
try. The waits of the usual five tries come to as much."""
WHILE_SOMEBODY_WAITS = CallSettings(tries=2, most_delay_s=5.0)
"""For questions of people: a word that the model is away, now, is worth more than its answer in ten minutes."""


def ask(
    chat: Chat,
    request: ChatRequest,
    *,
    responses: ResponseStore,
    limits: Limits,
    budget: Budget | None = None,
    on_text: OnText | None = None,
) -> Answer:
    """Return the answer to a request, from the response store if it was given before.

    on_text: called with all of the text so far, once for an answer of the store; a retry starts over.
    Raises models.model_errors.ModelError (a TransientModelError only after the last try), BudgetSpent, and what on_text
    raises.
    """
    plain = canonical_form(request)
    key = key_of(chat.id, plain)
    with limits.lock_for(key):  # the second of two equal questions finds the answer of the first
        if stored := responses.many([key]).get(key):
            answer = restore_answer(key, stored)
            if on_text:
                on_text(answer.response.text)
            return answer
        with count_as_asking():
            answer = ask_model(chat, request, key=key, limits=limits, budget=budget, on_text=on_text)
            responses.put_many({key: make_stored_response(chat.id, plain, answer)})
        return answer


def ask_model(
    chat: Chat,
    request: ChatRequest,
    *,
    key: str,
    limits: Limits,
    budget: Budget | None,
    on_text: OnText | None = None,
    ended: threading.Event | None = None,
) -> Answer:
    """Return a new answer, whatever the response store holds; raises as `ask` does, and AskingEnded.

    ended: set when no other try is wanted.
    """
    budget, expected, spent = budget or Budget(), estimate_tokens(request), Tokens(0, 0)
    started = limits.clock()
    budget.take(expected)
    try:
        response = limits.run(lambda: chat.complete(request, on_text=on_text), expected=expected, ended=ended)
        spent = count_tokens(response, expected)
    finally:
        budget.settle(expected, spent)  # a call that failed gives its reserve back
    return Answer(response, key, cached=False, latency_s=limits.clock() - started)


class AskingEnded(Exception):
    """The asking was ended, so that this request gets no other try."""


_stopped = threading.Event()
_confirmations: list[Callable[[], object]] = []
"""Called before each request; each raises, or stops the asking, where this process shall send none."""
_asking: list[object] = []
"""A token for each `ask` and `ask_all` that has requests under way."""


@contextmanager
def count_as_asking() -> Generator[None]:
    """Count the block as asking, so that `is_asking` is true while its answers are on their way into the store."""
    token = object()
    _asking.append(token)
    try:
        yield
    finally:
        _asking.remove(token)


def stop_asking() -> None:
    """Begin no request of this process any more, for good: it ends when those under way are answered and stored."""
    _stopped.set()


def has_stopped() -> bool:
    """Return whether `stop_asking` was called, so that this process sends no further request."""
    return _stopped.is_set()


def is_asking() -> bool:
    """Return whether a request is under way whose answer will be stored."""
    return bool(_asking)


@contextmanager
def confirming(confirm: Callable[[], object]) -> Generator[None]:
    """Have `confirm` called before each request, in the thread that sends it: it may call `stop_asking`."""
    _confirmations.append(confirm)
    try:
        yield
    finally:
        _confirmations.remove(confirm)


def refuse_when_stopped() -> None:
    """Call what `confirming` was given, and raise ModelUnavailable once `stop_asking` was called."""
    for confirm in () if has_stopped() else tuple(_confirmations):
        confirm()
    if has_stopped():
        raise ModelUnavailable("The program is ending; the model is not asked any more. Run it again to go on.")


def is_answered(chat: Chat, request: ChatRequest, responses: ResponseStore) -> bool:
    """Return whether the answer is in the response store, so that asking costs nothing."""
    return bool(responses.many([response_key(chat.id, request)]))


def make_stored_response(backend: str, request: dict[str, Any], answer: Answer) -> StoredResponse:
    """Return the row of the response store for the answer to a request in canonical form."""
    from storage.responses import StoredResponse  # brings SQLAlchemy

    kind, _, model = backend.partition(":")
    response = answer.response
    fields = {"text", "finish_reason", "sent"} | ({"top_logprobs"} if response.top_logprobs else set[str]())
    return StoredResponse(
        backend=kind,
        model=model,
        request=request,
        response=response.model_dump(include=fields),
        prompt_tokens=response.prompt_tokens,
        completion_tokens=response.completion_tokens,
        latency_s=answer.latency_s,
    )


def restore_answer(key: str, stored: StoredResponse) -> Answer:
    """Return the answer that the response store holds under `key`."""
    tokens = {"prompt_tokens": stored.prompt_tokens, "completion_tokens": stored.completion_tokens}
    response = ChatResponse.model_validate({**cast("dict[str, Any]", stored.response), **tokens})
    return Answer(response, key, cached=True, latency_s=stored.latency_s)


def response_key(backend: str, request: ChatRequest) -> str:
    """Return the SHA-256 (hex) of all that can change the answer."""
    return key_of(backend, canonical_form(request))


def key_of(backend: str, request: dict[str, Any]) -> str:
    """Return the response key of a request in canonical form."""
    return digest({"backend": backend, "request": request})


def canonical_form(request: ChatRequest) -> dict[str, Any]:
    """Return the request as plain JSON, of unset fields ALWAYS_IN_KEY alone; an image is the SHA-256 of its bytes."""
    plain: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value
        for name, default in _DEFAULTS.items()
        if (value := getattr(request, name)) != default or name in ALWAYS_IN_KEY
    }
    plain["messages"] = [
        {"role": turn.role, "content": [_part(part) for part in turn.content]} for turn in request.messages
    ]
    return plain


def _part(part: Text | Image) -> dict[str, str]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {"type": "image", "sha256": _sha256(part)}


def _sha256(image: Image) -> str:
    """Return the SHA-256 (hex) of a picture; computed once, since it may be in thousands of requests."""
    if (checksum := _checksums.get(image)) is None:
        checksum = _checksums[image] = hashlib.sha256(image.png).hexdigest()
    return checksum


def identify_endpoint(chat: Chat, responses: ResponseStore, *, ask: bool = True) -> tuple[str, tuple[str, ...]]:
    """Return a digest of the weights that answer at an endpoint, and remarks on it; "" for what is no endpoint.

    Fingerprints lie in the response store, one after another, under address and name. ask: whether the endpoint may be
    asked; else its weights are those seen last, "" if none were. Raises ModelError.
    """
    from models.endpoint_identity import Fingerprint, identify
    from models.openai import OpenAIChat
    from storage.responses import StoredResponse

    if not isinstance(chat, OpenAIChat):
        return "", ()
    place: dict[str, JsonValue] = {"address": chat.endpoint.address, "model": chat.id}
    known = list[Fingerprint]()
    while stored := responses.many([key := digest(place | {"fingerprint": len(known)})]):
        known.append(Fingerprint.model_validate(stored[key].response))
    if not ask:
        return (known[-1].digest if known else ""), ()
    identity = identify(chat, known)
    if identity.is_new:
        row = StoredResponse(
            backend="fingerprint",
            model=chat.endpoint.model,
            request=place | {"number": len(known)},
            response=identity.fingerprint.model_dump(mode="json"),
            latency_s=0.0,
        )
        responses.put_many({key: row})
    return identity.fingerprint.digest, identity.remarks


def wait_for_twin() -> None:
    """Pause while another process does the same work, whose answers will be stored. Raises ModelUnavailable."""
    refuse_when_stopped()
    time.sleep(TWIN_WAIT_S)


def estimate_tokens(request: ChatRequest) -> Tokens:
    """Return an estimate of the tokens of a request, on the high side."""
    parts = [part for turn in request.messages for part in turn.content]
    chars = sum(len(part.text) for part in parts if isinstance(part, Text))
    images = sum(isinstance(part, Image) for part in parts)
    return Tokens(prompt=chars // CHARS_PER_TOKEN + images * TOKENS_PER_IMAGE + 1, answer=request.max_tokens)


def count_tokens(response: ChatResponse, expected: Tokens) -> Tokens:
    """Return the tokens that an answer took, by the server's count; what it does not count is taken as expected."""
    prompt, answer = response.prompt_tokens, response.completion_tokens
    return Tokens(expected.prompt if prompt is None else prompt, expected.answer if answer is None else answer)


class Limits:
    """The retries, rates and concurrency of one endpoint, shared by all threads that ask it."""

    def __init__(
        self,
        settings: CallSettings,
        *,
        rng: random.Random,
        sleep: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self._rng = rng
        self._sleep = sleep
        self._slots = threading.BoundedSemaphore(settings.concurrency)
        self._requests = _Rate(settings.requests_per_minute, clock)
        self._tokens = _Rate(settings.tokens_per_minute, clock)
        self._guard = threading.Lock()
        self._closed_until = clock()
        self._has_answered = False
        self._away_since: float | None = None
        """Time of the first try that did not reach the endpoint; None while the last one did."""
        self._in_flight: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()  # gone with its last user

    def lock_for(self, key: str) -> threading.Lock:
        """Return the lock shared by threads with the same question: the second finds the answer of the first."""
        with self._guard:
            return self._in_flight.setdefault(key, threading.Lock())

    def run(self, call: Callable[[], Result], *, expected: Tokens, ended: threading.Event | None = None) -> Result:
        """Return what `call` returns; it is tried again while it raises TransientModelError, whose last one is raised.

        ended: set when no other try is wanted. Raises AskingEnded then, and ModelUnavailable when the process ends.
        """

        for number in count(1):
            try:
                return self._try(call, expected, ended)
            except TransientModelError as error:
                is_away = isinstance(error, Unreachable)
                delay_s = self._delay_s(number, error.retry_after_s or 0.0, least=0.8 if is_away else 0.0)
                if number == self.settings.tries or delay_s is None or (is_away and self.away_s >= AWAY_S):
                    raise
                log.warning("model call failed try=%d wait_s=%.1f error=%s", number, delay_s, error)
            self._pause(delay_s, ended)
        raise AssertionError  # count has no end

    def _try(self, call: Callable[[], Result], expected: Tokens, ended: threading.Event | None) -> Result:
        """Return what `call` returns, once rates and concurrency allow it. Raises AskingEnded, ModelError."""
        with self._guard:
            closed_s = self._closed_until - self.clock()
        tokens = expected.prompt + expected.answer
        if (wait_s := max(closed_s, self._requests.take(1), self._tokens.take(tokens))) > 0:
            self._pause(wait_s, ended)
        while not self._slots.acquire(timeout=CHECK_INTERVAL_S):  # others may hold them all for long
            _refuse_when_ended(ended)
        try:
            _refuse_when_ended(ended)
            result = call()
        except Unreachable as error:
            self._away_since = self.clock() if self._away_since is None else self._away_since
            if self.away_s >= STARTING_S and not self._has_answered:
                raise ModelUnavailable(str(error)) from error
            raise
        except TransientModelError:
            self._away_since = None
            raise
        finally:
            self._slots.release()
        self._has_answered, self._away_since = True, None
        return result

    @property
    def away_s(self) -> float:
        """Seconds since the first of the tries in a row that did not reach the endpoint; 0 while the last one did."""
        since = self._away_since
        return 0.0 if since is None else self.clock() - since

    def _delay_s(self, number: int, requested_s: float, *, least: float) -> float | None:
        """Return the seconds before the next try: what the server asked for (of all threads) and a growing random part.

        least: the smallest share of that part. None where the server asked for more than there is patience for.
        """
        most_s = self.settings.most_delay_s
        if requested_s > most_s:
            return None
        with self._guard:
            self._closed_until = max(self._closed_until, self.clock() + requested_s)  # for all threads
            # full jitter, so that threads that failed together do not come back together
            grown_s = min(most_s, self.settings.first_delay_s * 2 ** (number - 1))
            return requested_s + self._rng.uniform(least * grown_s, grown_s)

    def _pause(self, seconds: float, ended: threading.Event | None) -> None:
        """Wait for some seconds. Raises AskingEnded and ModelUnavailable as soon as nothing more is to be asked."""
        if self._sleep:
            self._sleep(seconds)
        latest = time.monotonic() + seconds
        while not self._sleep and (left_s := latest - time.monotonic()) > 0:
            (ended or _stopped).wait(min(left_s, CHECK_INTERVAL_S))  # each half second both events are looked at
            _refuse_when_ended(ended)
        _refuse_when_ended(ended)


def _refuse_when_ended(ended: threading.Event | None) -> None:
    refuse_when_stopped()
    if ended and ended.is_set():
        raise AskingEnded


class _Rate:
    """A token bucket: holds one minute's allowance, starts full, may go into debt, which the taker waits off."""

    def __init__(self, per_minute: int | None, clock: Callable[[], float]) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._level = float(per_minute or 0)
        self._updated_at = clock()
        self._lock = threading.Lock()

    def take(self, amount: int) -> float:
        """Take `amount` from the allowance, and return the seconds to wait before using it."""
        if self._per_minute is None:
            return 0.0
        with self._lock:
            now = self._clock()
            per_second = self._per_minute / 60
            self._level = min(self._per_minute, self._level + (now - self._updated_at) * per_second) - amount
            self._updated_at = now
            return max(0.0, -self._level / per_second)
