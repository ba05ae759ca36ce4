"""Many model calls at once: looked up in groups, asked with all the concurrency there is, stored before they count."""

from __future__ import annotations

from _thread import LockType
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, NamedTuple, Self, TypeVar

from models.model_errors import ContextOverflow, ModelError, RequestRefused, TransientModelError
from models.protocols import BatchChat, Chat, ChatRequest, ChatResponse
from tasks.budget import Budget, BudgetSpent, Tokens
from tasks.call_thread import CallThread, Ended, refuse_when_stopped
from tasks.calls import Answer, Limits, ResponseStore, ask_anew, canonical, estimate, kept, key_of, recalled, used
from tasks.group_commit import GroupCommit

LOOKUP = 256
"""Requests that are looked up together."""
AHEAD = 2
"""Times the concurrency, requests that are not answered yet when the next ones are looked up: no thread runs dry."""
WINDOW = 512
"""Requests that an engine in this process gets together: enough that batches of like lengths come out full."""
UNSTORED = 16
"""Answers of such an engine that may wait for their transaction; a faster one waits for the store."""

OF_ONE = (TransientModelError, ContextOverflow)
"""What an endpoint says of one request, whose answer it is; all other errors end the asking."""
OF_ONE_IN_BATCH = (TransientModelError, RequestRefused)
"""The same of a model in this process, which has looked at each request by itself."""
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
    """The answers as they come, each with the tag of its request; those of the response store at once.

    requests: read some hundreds ahead by the thread that reads the answers; so they must not wait for one another's
    answers. Equal ones are asked once.
    An answer is stored before the next request takes its place among the `concurrency` under way: `kill -9` loses no
    more. A BatchChat gets the missing requests in windows, without rates, time-outs and retries; `kill -9` loses what
    it has under way and the last few answers that are being stored.

    A TransientModelError after the last try and a ContextOverflow are answers, and so is each RequestRefused of a
    BatchChat. What concerns all requests is raised once everything under way is answered, stored and given: an
    endpoint's RequestRefused, ModelUnavailable, BudgetSpent, and what the store raises (OptionalResponses raises
    nothing; show its `trouble` at the end). Closing the iterator ends what is under way at once.
    """
    lookup = _Lookup[Tag](chat, responses)
    if isinstance(chat, BatchChat):
        with _Engine(chat, responses, limits, budget or Budget()) as engine:
            yield from _in_windows(engine, lookup, requests)
    else:
        with _Pool(chat, responses, limits, budget or Budget()) as pool:
            yield from _at_once(pool, lookup, requests, ahead=AHEAD * limits.settings.concurrency)


class _Question(NamedTuple):
    key: str
    request: ChatRequest
    plain: dict[str, Any]
    """The request as the response store holds it."""


class _Outcome(NamedTuple):
    key: str
    answer: Answer | ModelError


class _Looked(NamedTuple, Generic[Tag]):
    known: list[tuple[Tag, Answer | ModelError]]
    new: list[_Question]


class _Lookup(Generic[Tag]):
    """What the response store knows, and whose answers are still to come."""

    def __init__(self, chat: Chat, responses: ResponseStore) -> None:
        self._chat = chat
        self._responses = responses
        self._waiting: dict[str, list[Tag]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def groups(self, requests: Iterable[tuple[Tag, ChatRequest]]) -> Iterator[_Looked[Tag]]:
        """The requests, group by group: answers that are known, and the questions that nobody has begun to ask."""
        coming = iter(requests)
        while group := list(islice(coming, LOOKUP)):
            keyed = [(tag, self._question(request)) for tag, request in group]
            stored = self._responses.many(list({question.key for _, question in keyed} - self._waiting.keys()))
            looked = _Looked[Tag]([], [])
            for tag, question in keyed:
                if (found := stored.get(question.key)) is not None:
                    looked.known.append((tag, recalled(question.key, found)))
                elif question.key in self._waiting:
                    self._waiting[question.key].append(tag)
                else:
                    self._waiting[question.key] = [tag]
                    looked.new.append(question)
            yield looked

    def _question(self, request: ChatRequest) -> _Question:
        plain = canonical(request)
        return _Question(key_of(self._chat.id, plain), request, plain)

    def told(self, outcomes: Iterable[_Outcome]) -> Iterator[tuple[Tag, Answer | ModelError]]:
        """An answer for each of those who wait for it; all but the first have it for nothing."""
        for key, answer in outcomes:
            first, *others = self._waiting.pop(key)
            yield first, answer
            for tag in others:
                yield tag, answer._replace(cached=True) if isinstance(answer, Answer) else answer


def _at_once(
    pool: _Pool, lookup: _Lookup[Tag], requests: Iterable[tuple[Tag, ChatRequest]], *, ahead: int
) -> Iterator[tuple[Tag, Answer | ModelError]]:
    for known, new in lookup.groups(requests):
        pool.begin(new)
        yield from known
        while len(lookup) > ahead and (outcomes := pool.next()):
            yield from lookup.told(outcomes)
        if pool.failed:
            break
    while len(lookup) and (outcomes := pool.next()):
        yield from lookup.told(outcomes)
    if pool.failed:
        raise pool.failed


class _Asked(NamedTuple):
    """An answer on its way into the store, and the lock on its question."""

    outcome: _Outcome
    alone: LockType


class _Pool:
    """Threads that ask, as many as may be under way at once; a context manager, at its end they have ended.

    A thread takes a slot before a question, and the slot comes free when the answer is stored. The first failure that
    concerns all requests ends the asking: what is under way is finished, and no more begun.
    """

    def __init__(self, chat: Chat, responses: ResponseStore, limits: Limits, budget: Budget) -> None:
        self.failed: BaseException | None = None
        self._chat = chat
        self._responses = responses
        self._limits = limits
        self._budget = budget
        self._commit = GroupCommit(responses, stored=self._stored)
        self._slots: SimpleQueue[None] = SimpleQueue()
        self._questions: SimpleQueue[_Question | None] = SimpleQueue()
        self._outcomes: SimpleQueue[list[_Outcome] | None] = SimpleQueue()
        """None: a thread has ended."""
        self._callers: list[CallThread] = []
        self._threads: list[Thread] = []
        self._running = 0
        self._finishing = False

    def begin(self, questions: Iterable[_Question]) -> None:
        """Have these asked."""
        for question in questions:
            self._questions.put(question)
            if len(self._threads) < self._limits.settings.concurrency:
                self._start()

    def next(self) -> list[_Outcome]:
        """Answers, as soon as there are some; none when there will be none any more, since something failed."""
        while self._running:
            if outcomes := self._outcomes.get():
                return outcomes
            self._running -= 1
        return []

    def __enter__(self) -> Self:
        self._commit.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            self._end()
            for thread in self._threads:
                thread.join()
        except BaseException:  # Ctrl-C, a second one too, ends the joins; it may come before all threads were told
            self._end()
            raise
        finally:
            self._commit.__exit__(*raised)

    def _end(self) -> None:
        self._finish()
        for caller in self._callers:
            caller.end()

    def _start(self) -> None:
        # Ctrl-C may come at any line, and who leaves joins what is listed: by then it has a slot, so that it can end
        caller = CallThread()
        thread = Thread(target=self._work, args=(caller,), daemon=True, name="model-calls")
        self._callers.append(caller)
        self._slots.put(None)
        thread.start()
        self._threads.append(thread)
        self._running += 1

    def _work(self, caller: CallThread) -> None:
        try:
            with caller:
                while True:
                    self._slots.get()
                    question = self._questions.get()
                    if question is None or self._finishing:
                        return
                    self._answer(question, caller)
        except Ended:
            pass
        except BaseException as error:  # noqa: BLE001 the thread that reads the answers raises it
            self._fail(error)
        finally:
            # with its slot: when all threads have ended, no answer is on its way into the store
            self._outcomes.put(None)

    def _answer(self, question: _Question, caller: CallThread) -> None:
        """Ask, while nobody else asks the same in this process, and begin to store the answer."""
        alone = self._limits.alone(question.key)
        asked_elsewhere = not alone.acquire(blocking=False)
        if asked_elsewhere:
            alone.acquire()
        begun = False
        try:
            if asked_elsewhere and (stored := self._responses.many([question.key]).get(question.key)):
                self._done(_Outcome(question.key, recalled(question.key, stored)))
            else:
                begun = self._ask(question, caller, alone)
        finally:
            if not begun:
                alone.release()

    def _ask(self, question: _Question, caller: CallThread, alone: LockType) -> bool:
        """True when there is an answer, which is on its way into the store then, with its slot and its lock."""
        key, request, plain = question
        try:
            answer = ask_anew(self._chat, request, key=key, limits=self._limits, budget=self._budget, thread=caller)
        except OF_ONE as error:
            self._done(_Outcome(key, error))
            return False
        stored = kept(self._chat.id, request, answer, plain=plain)
        self._commit.begin(key, stored, _Asked(_Outcome(key, answer), alone))
        return True

    def _stored(self, group: list[_Asked], error: Exception | None) -> None:
        """Give what has been stored, and what could not be: it was paid for."""
        if error is not None:
            self._fail(error)
        self._outcomes.put([asked.outcome for asked in group])
        for asked in group:
            asked.alone.release()
            self._slots.put(None)

    def _done(self, outcome: _Outcome) -> None:
        self._outcomes.put([outcome])
        self._slots.put(None)

    def _fail(self, error: BaseException) -> None:
        self.failed = self.failed or error
        self._finish()

    def _finish(self) -> None:
        """Begin nothing more: no other question, and no other try."""
        self._finishing = True
        for caller in list(self._callers):
            caller.finish()
        for _ in range(self._limits.settings.concurrency):
            self._questions.put(None)


def _in_windows(
    engine: _Engine, lookup: _Lookup[Tag], requests: Iterable[tuple[Tag, ChatRequest]]
) -> Iterator[tuple[Tag, Answer | ModelError]]:
    window: list[_Question] = []
    for known, new in lookup.groups(requests):
        window += new
        yield from known
        while len(window) >= WINDOW:
            for outcomes in engine.ask(window[:WINDOW]):
                yield from lookup.told(outcomes)
            del window[:WINDOW]
    for outcomes in engine.ask(window):
        yield from lookup.told(outcomes)


class _Engine:
    """A model in this process that takes many requests at once; its answers are stored while it goes on."""

    def __init__(self, chat: BatchChat, responses: ResponseStore, limits: Limits, budget: Budget) -> None:
        self._chat = chat
        self._limits = limits
        self._budget = budget
        self._commit = GroupCommit(responses, stored=lambda *group: self._came.put(group))
        self._came: SimpleQueue[tuple[list[_Outcome], Exception | None]] = SimpleQueue()
        self._storing = 0
        self._failed: Exception | None = None

    def ask(self, questions: list[_Question]) -> Iterator[list[_Outcome]]:
        """All outcomes, when they are stored. Raises what concerns all requests, once the rest is given."""
        affordable, spent = self._affordable(questions)
        unanswered = dict(enumerate(affordable))
        started = self._limits.clock()
        requests = [question.request for question in affordable]
        answers = self._chat.complete_many(requests) if requests else iter(())
        try:
            for number, response in answers:
                took_s = self._limits.clock() - started
                yield self._settled(unanswered.pop(number), response, latency_s=took_s)
                while not self._came.empty() or self._storing > UNSTORED:
                    yield self._next_stored()
                refuse_when_stopped()
                if self._failed:
                    break
        except Exception as error:  # noqa: BLE001 raised below, behind the answers that were paid for
            self._failed = self._failed or error
        finally:
            if isinstance(answers, Generator):
                answers.close()
            for question in unanswered.values():
                self._budget.settle(estimate(question.request), NOTHING)
        while self._storing:
            yield self._next_stored()
        if failed := self._failed or spent:
            raise failed
        if unanswered:
            raise RuntimeError(f"{self._chat.id} gave no answer to {len(unanswered)} of {len(requests)} requests")

    def __enter__(self) -> Self:
        self._commit.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._commit.__exit__(*raised)

    def _affordable(self, questions: list[_Question]) -> tuple[list[_Question], BudgetSpent | None]:
        """The questions that may be asked, and why not the others."""
        for count, question in enumerate(questions):
            try:
                self._budget.take(estimate(question.request))
            except BudgetSpent as error:
                return questions[:count], error
        return questions, None

    def _settled(self, question: _Question, response: ChatResponse | ModelError, *, latency_s: float) -> list[_Outcome]:
        """Books a response and begins to store it; an error that is passed on is an outcome at once."""
        key, request, plain = question
        expected = estimate(request)
        if isinstance(response, ModelError):
            self._budget.settle(expected, NOTHING)
            if isinstance(response, OF_ONE_IN_BATCH):
                return [_Outcome(key, response)]
            self._failed = self._failed or response
            return []
        self._budget.settle(expected, used(response, expected))
        answer = Answer(response, key, cached=False, latency_s=latency_s)
        self._storing += 1
        self._commit.begin(key, kept(self._chat.id, request, answer, plain=plain), _Outcome(key, answer))
        return []

    def _next_stored(self) -> list[_Outcome]:
        outcomes, error = self._came.get()
        self._storing -= len(outcomes)
        self._failed = self._failed or error
        return outcomes
