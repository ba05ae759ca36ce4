"""Many model calls at once: looked up in groups, asked with all the concurrency there is, stored before they count."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from models.model_errors import (
    ContentRefused,
    ContextOverflow,
    ModelError,
    RequestRefused,
    TransientModelError,
    Unreachable,
)
from models.protocols import BatchChat, Chat, ChatRequest, ChatResponse
from tasks.budget import Budget, BudgetSpent, Tokens
from tasks.calls import (
    AWAY_S,
    Answer,
    AskingEnded,
    Limits,
    ResponseStore,
    ask_model,
    canonical_form,
    count_as_asking,
    count_tokens,
    estimate_tokens,
    key_of,
    make_stored_response,
    refuse_when_stopped,
    restore_answer,
)

if TYPE_CHECKING:
    from storage.responses import StoredResponse

LOOKUP = 256
"""Number of requests that are looked up in the response store together."""
AHEAD = 2
"""Times the concurrency, requests that are not answered yet when the next ones are looked up: no thread runs dry."""
WINDOW = 512
"""Requests that an engine in this process gets together: enough that batches of like lengths come out full."""
UNSTORED, UNSTORED_S = 16, 0.25
"""Answers of such an engine that are stored, and given, together: so many, and what comes within such a time."""
FAILURES, PATIENCE_S = 20, 90.0
"""Requests in a row, of which nothing but failed ones for so many seconds, after which an endpoint is left alone."""

REFUSALS = 16
"""Refused requests after which an endpoint that has answered none is left alone: it refuses what all have in common."""
OF_ONE = (TransientModelError, RequestRefused)
"""Errors that concern one request, and are its answer; all others end the asking."""
NOTHING = Tokens(0, 0)

Tag = TypeVar("Tag")


def ask_all(
    chat: Chat,
    requests: Iterable[tuple[Tag, ChatRequest]],
    *,
    responses: ResponseStore,
    limits: Limits,
    budget: Budget | None = None,
) -> Iterator[tuple[Tag, Answer | ModelError]]:
    """Yield the answers as they come, each with the tag of its request; those of the response store at once.

    requests: read some hundreds ahead by the thread that reads the answers; so they must not wait for one another's
    answers. Equal ones are asked once.
    An answer is stored before the next request takes its place among the `concurrency` under way: `kill -9` loses no
    more. A BatchChat gets the missing requests in windows, without rates, time-outs and retries; `kill -9` loses what
    it has under way and the last few answers that are being stored.

    A TransientModelError after the last try and a RequestRefused are answers. What concerns all requests is raised once
    everything under way is answered, stored and given: ModelUnavailable, BudgetSpent, what the store raises, and the
    RequestRefused of an endpoint that has refused all it was asked. Closing the iterator begins no further request;
    what is under way then is stored by the thread that asked.
    """
    lookup, budget = _Lookup[Tag](chat, responses), budget or Budget()
    with count_as_asking():
        if isinstance(chat, BatchChat):
            yield from _ask_in_windows(_Engine(chat, responses, limits, budget), lookup, requests)
        else:
            with closing(_Sender(chat, responses, limits, budget)) as sender:
                yield from _ask_concurrently(sender, lookup, requests, ahead=AHEAD * limits.settings.concurrency)


class _Question(NamedTuple):
    key: str
    request: ChatRequest
    plain: dict[str, Any]
    """The request as the response store holds it."""


class _Outcome(NamedTuple):
    key: str
    answer: Answer | ModelError


class _LookedUp(NamedTuple, Generic[Tag]):
    stored: list[tuple[Tag, Answer | ModelError]]
    new: list[_Question]


class _Lookup(Generic[Tag]):
    """The requests that were looked up in the response store, and the tags that wait for each missing answer."""

    def __init__(self, chat: Chat, responses: ResponseStore) -> None:
        self._chat = chat
        self._responses = responses
        self._waiting: dict[str, list[Tag]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def look_up(self, requests: Iterable[tuple[Tag, ChatRequest]]) -> Iterator[_LookedUp[Tag]]:
        """Yield the requests in groups: the answers that are stored, and the questions that nobody has begun to ask."""
        unread = iter(requests)
        while group := list(islice(unread, LOOKUP)):
            keyed = list[tuple[Tag, _Question]]()
            for tag, request in group:
                plain = canonical_form(request)
                keyed.append((tag, _Question(key_of(self._chat.id, plain), request, plain)))
            stored = self._responses.many(list({question.key for _, question in keyed} - self._waiting.keys()))
            looked_up = _LookedUp[Tag]([], [])
            for tag, question in keyed:
                if (response := stored.get(question.key)) is not None:
                    looked_up.stored.append((tag, restore_answer(question.key, response)))
                elif question.key in self._waiting:
                    self._waiting[question.key].append(tag)
                else:
                    self._waiting[question.key] = [tag]
                    looked_up.new.append(question)
            yield looked_up

    def give_out(self, outcomes: Iterable[_Outcome]) -> Iterator[tuple[Tag, Answer | ModelError]]:
        """Yield the answer for each tag that waits for it; for all but the first it counts as cached."""
        for key, answer in outcomes:
            first, *further = self._waiting.pop(key)
            yield first, answer
            for tag in further:
                yield tag, answer._replace(cached=True) if isinstance(answer, Answer) else answer


def refuses_all_alike(error: ModelError) -> bool:
    """Return whether an endpoint that has answered nothing else may refuse every request for this error's reason."""
    return isinstance(error, RequestRefused) and not isinstance(error, (ContentRefused, ContextOverflow))


def _ask_concurrently(
    sender: _Sender, lookup: _Lookup[Tag], requests: Iterable[tuple[Tag, ChatRequest]], *, ahead: int
) -> Iterator[tuple[Tag, Answer | ModelError]]:
    """Yield answers as they come, then raise what failed; `ahead` may be unanswered when more are looked up."""
    for stored, new in lookup.look_up(requests):
        sender.begin(new, is_answering=bool(stored))
        yield from stored
        while len(lookup) > ahead and (outcomes := sender.wait()):
            yield from lookup.give_out(outcomes)
        if sender.failed:
            break
    while len(lookup) and (outcomes := sender.wait()):
        yield from lookup.give_out(outcomes)
    if sender.failed:
        raise sender.failed


class _Sender:
    """A pool of threads that ask one question after another and store the answers that came together.

    The first failure that concerns all requests ends the asking: what is under way is finished, and no more begun.
    """

    def __init__(self, chat: Chat, responses: ResponseStore, limits: Limits, budget: Budget) -> None:
        self.failed: BaseException | None = None
        self._chat = chat
        self._responses = responses
        self._limits = limits
        self._budget = budget
        self._guard = Lock()
        """Held while the fields below are changed."""
        self._outcomes: SimpleQueue[_Outcome | None] = SimpleQueue()
        """One for each question; None where an error that concerns all requests took its place."""
        self._unread = 0
        """Questions whose outcome was not read yet."""
        self._batches, self._abandoned, self._why = 0, 0, ""
        """Number of the last batch that was begun, of the last that is asked no more, and why it is not."""
        self._ended = Event()
        self._failures, self._failing_since = 0, 0.0
        self._refusals: int | None = 0  # None: it has answered, so that a refusal concerns its own request
        self._unstored: dict[str, StoredResponse] = {}
        self._stored = Event()
        """Answers that wait for the transaction under way, and the end of their own."""
        self._storing = Lock()
        """Held while a thread stores what has come."""
        self._threads = ThreadPoolExecutor(limits.settings.concurrency, thread_name_prefix="model-calls")

    def begin(self, questions: Sequence[_Question], *, is_answering: bool = False) -> None:
        """Queue the questions. is_answering: whether the endpoint has answered requests like these."""
        with self._guard:
            self._refusals = None if is_answering else self._refusals
            self._batches += 1
        self._unread += len(questions)
        for question in questions:
            self._threads.submit(self._work, question, self._batches)

    def wait(self) -> list[_Outcome]:
        """Wait for answers and return those that have come; empty when none is under way any more."""
        while self._unread:
            group = [self._outcomes.get()]
            with suppress(Empty):
                while True:
                    group.append(self._outcomes.get_nowait())
            self._unread -= len(group)
            if outcomes := [outcome for outcome in group if outcome]:
                return outcomes
        return []

    def close(self) -> None:
        """Begin no more questions."""
        self._ended.set()
        self._threads.shutdown(wait=False, cancel_futures=True)  # calls under way are paid: their threads store them

    def _work(self, question: _Question, batch: int) -> None:
        """Ask a question, unless none shall be begun any more, and queue its outcome."""
        outcome: _Outcome | None = None
        with count_as_asking():  # its own: the reader's ends with the reader
            try:
                if batch <= self._abandoned:
                    outcome = _Outcome(question.key, TransientModelError(self._why))
                elif not self._ended.is_set():
                    outcome = self._ask(question)
                    with self._guard:
                        self._count(outcome.answer)
            except AskingEnded:
                pass
            except BaseException as error:  # noqa: BLE001 the thread that reads the answers raises it
                self._fail(error)
            self._outcomes.put(outcome)

    def _count(self, answer: Answer | ModelError) -> None:
        """Count failures, which may end what waits, and refusals: many before any answer end the run with the error."""
        if isinstance(answer, Answer):
            self._refusals = None
        elif self._refusals is not None and refuses_all_alike(answer):
            self._refusals += 1
            if self._refusals >= REFUSALS:
                self._fail(answer)
        if not isinstance(answer, TransientModelError):
            self._failures = 0  # an answer, or an error that the request itself deserved
            return
        self._failing_since = self._failing_since if self._failures else self._limits.clock()
        self._failures += 1
        is_away = isinstance(answer, Unreachable) and self._limits.away_s >= AWAY_S
        has_failed_long = self._failures >= FAILURES and self._limits.clock() - self._failing_since >= PATIENCE_S
        if is_away or has_failed_long:
            self._why = f"{answer} It failed {self._failures} times in a row and is left alone."
            self._abandoned = self._batches

    def _fail(self, error: BaseException) -> None:
        """Remember the error, and begin neither another question nor another try."""
        self.failed = self.failed or error
        self._ended.set()

    def _ask(self, question: _Question) -> _Outcome:
        """Ask the model, unless another thread of this process was asking the same: then take its answer."""
        key, request, plain = question
        lock = self._limits.lock_for(key)
        asked_elsewhere = not lock.acquire(blocking=False)  # the key is asked under way by another `ask` or `ask_all`
        if asked_elsewhere:
            lock.acquire()
        try:
            stored = self._responses.many([key]).get(key) if asked_elsewhere else None  # it may have failed there
            if stored:
                return _Outcome(key, restore_answer(key, stored))
            answer = ask_model(
                self._chat, request, key=key, limits=self._limits, budget=self._budget, ended=self._ended
            )
            self._store(key, make_stored_response(self._chat.id, plain, answer))
            return _Outcome(key, answer)
        except OF_ONE as error:
            return _Outcome(key, error)
        finally:
            lock.release()

    def _store(self, key: str, row: StoredResponse) -> None:
        """Store an answer, in one transaction with all others that have come while the last ones were stored.

        One that cannot be stored is given all the same: it was paid for.
        """
        with self._guard:
            is_first, stored = not self._unstored, self._stored
            self._unstored[key] = row
        if not is_first:
            stored.wait()  # the first one's thread stores them all; 32 threads that take turns at its lock cost a tenth
            return
        with self._storing:
            with self._guard:
                rows, self._unstored, self._stored = self._unstored, {}, Event()
            try:
                self._responses.put_many(rows)
            except Exception as error:  # noqa: BLE001 raised when all that is under way is given
                self._fail(error)
            finally:
                stored.set()


def _ask_in_windows(
    engine: _Engine, lookup: _Lookup[Tag], requests: Iterable[tuple[Tag, ChatRequest]]
) -> Iterator[tuple[Tag, Answer | ModelError]]:
    """Yield answers as they come, stored ones at once; a model in this process gets WINDOW requests at a time."""
    window: list[_Question] = []
    for stored, new in lookup.look_up(requests):
        window += new
        yield from stored
        while len(window) >= WINDOW:
            for outcomes in engine.ask(window[:WINDOW]):
                yield from lookup.give_out(outcomes)
            del window[:WINDOW]
    for outcomes in engine.ask(window):
        yield from lookup.give_out(outcomes)


class _Engine:
    """A model in this process that takes many requests at once."""

    def __init__(self, chat: BatchChat, responses: ResponseStore, limits: Limits, budget: Budget) -> None:
        self._chat = chat
        self._responses = responses
        self._limits = limits
        self._budget = budget
        self._failed: Exception | None = None
        self._unstored: list[tuple[_Outcome, StoredResponse]] = []

    def ask(self, questions: list[_Question]) -> Iterator[list[_Outcome]]:
        """Yield the outcomes of all questions, in groups, each once it is stored.

        An error that concerns all requests is raised once the rest is given; RuntimeError where answers are missing.
        """
        if questions:
            refuse_when_stopped()
        affordable, spent = self._reserve_affordable(questions)
        unanswered = dict(enumerate(affordable))
        started = stored_at = self._limits.clock()
        requests = [question.request for question in affordable]
        answers = self._chat.complete_many(requests) if requests else iter(())
        try:
            for number, response in answers:
                yield self._settle(unanswered.pop(number), response, latency_s=self._limits.clock() - started)
                if len(self._unstored) >= UNSTORED and self._limits.clock() - stored_at >= UNSTORED_S:
                    yield self._store_waiting()
                    stored_at = self._limits.clock()
                refuse_when_stopped()
                if self._failed:
                    break
        except Exception as error:  # noqa: BLE001 raised below, behind the answers that were paid for
            self._failed = self._failed or error
        finally:
            if isinstance(answers, Generator):
                answers.close()  # so that the engine ends what it has begun
            for question in unanswered.values():
                self._budget.settle(estimate_tokens(question.request), NOTHING)  # reserved, and never asked
            last = self._store_waiting()
        yield last
        if failed := self._failed or spent:
            raise failed
        if unanswered:
            raise RuntimeError(f"{self._chat.id} gave no answer to {len(unanswered)} of {len(requests)} requests")

    def _reserve_affordable(self, questions: list[_Question]) -> tuple[list[_Question], BudgetSpent | None]:
        """Return the questions that the budget allows, and the BudgetSpent that stops the others, None if none is."""
        for count, question in enumerate(questions):
            try:
                self._budget.take(estimate_tokens(question.request))
            except BudgetSpent as error:
                return questions[:count], error
        return questions, None

    def _settle(self, question: _Question, response: ChatResponse | ModelError, *, latency_s: float) -> list[_Outcome]:
        """Book the cost of a response; an error of one request is an outcome at once, an answer once it is stored."""
        key, request, plain = question
        expected = estimate_tokens(request)
        if isinstance(response, ModelError):
            self._budget.settle(expected, NOTHING)
            if isinstance(response, OF_ONE):
                return [_Outcome(key, response)]
            self._failed = self._failed or response
            return []
        self._budget.settle(expected, count_tokens(response, expected))
        answer = Answer(response, key, cached=False, latency_s=latency_s)
        self._unstored.append((_Outcome(key, answer), make_stored_response(self._chat.id, plain, answer)))
        return []

    def _store_waiting(self) -> list[_Outcome]:
        """Store the waiting answers and return them, which were paid for; an error is kept for `ask` to raise."""
        group = self._unstored
        try:
            if group:
                self._responses.put_many({outcome.key: row for outcome, row in group})
        except Exception as error:  # noqa: BLE001 raised when the rest is given
            self._failed = self._failed or error
        self._unstored = []  # only now: after Ctrl-C they are stored by who leaves
        return [outcome for outcome, _ in group]
