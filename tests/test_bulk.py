"""Many model calls at once."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pytest

from models.model_errors import (
    ContentRefused,
    ContextOverflow,
    ModelError,
    ModelUnavailable,
    RequestRefused,
    TransientModelError,
    Unreachable,
)
from models.openai import OpenAIChat
from models.protocols import ChatRequest, ChatResponse, Message, Text
from models.scripted import ScriptedChat
from storage.responses import StoredResponse
from storage.storage_errors import DatabaseUnavailable
from tasks import calls
from tasks.budget import Budget, BudgetSpent, Spending
from tasks.bulk import LOOKUP, WINDOW, ask_all
from tasks.calls import Answer, CallSettings, Limits, ask, is_asking, stop_asking
from tests.kept_responses import Kept
from tests.models.server import MODEL, error_reply, prompt_of, serving, too_many


class Store(Kept):
    """A response store that counts how many keys each look was for, and may be away."""

    def __init__(self) -> None:
        super().__init__()
        self.lookups: list[int] = []
        self.broken = False

    def many(self, keys: Iterable[str]) -> dict[str, StoredResponse]:
        keys = list(keys)
        self.lookups.append(len(keys))
        return super().many(keys)

    def put_many(self, rows: Mapping[str, StoredResponse]) -> None:
        if self.broken:
            raise DatabaseUnavailable("the database is away")
        super().put_many(rows)


class Scripted:
    """Answers as `say` does, and counts how many requests it holds at once."""

    id = "scripted:test"

    def __init__(self, say: Callable[[str], str] = lambda prompt: f"to {prompt}", *, takes_s: float = 0.0) -> None:
        self.say = say
        self.takes_s = takes_s
        self.asked: list[str] = []
        self.at_once = self.most = 0
        self._lock = threading.Lock()

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        with self._lock:
            self.asked.append(text_of(request))
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        try:
            time.sleep(self.takes_s)
            return ChatResponse(text=self.say(text_of(request)), finish_reason="stop")
        finally:
            with self._lock:
                self.at_once -= 1


class Batched(Scripted):
    """The same as an engine: it gets many requests at once and answers them shortest first."""

    def __init__(self, say: Callable[[str], str] = lambda prompt: f"to {prompt}") -> None:
        super().__init__(say)
        self.windows: list[int] = []

    def complete_many(self, requests: Sequence[ChatRequest]) -> Iterator[tuple[int, ChatResponse | ModelError]]:
        self.windows.append(len(requests))
        for number in sorted(range(len(requests)), key=lambda at: len(text_of(requests[at]))):
            try:
                yield number, self.complete(requests[number])
            except (RequestRefused, TransientModelError) as error:
                yield number, error


BOTH = pytest.mark.parametrize("kind", [Scripted, Batched], ids=["threads", "batches"])


def text_of(request: ChatRequest) -> str:
    (part,) = request.messages[-1].content
    assert isinstance(part, Text)
    return part.text


def request(text: object) -> ChatRequest:
    return ChatRequest(messages=(Message(role="user", content=(Text(text=str(text)),)),))


def questions(count: int) -> list[tuple[int, ChatRequest]]:
    return [(n, request(n)) for n in range(count)]


def limits(**settings: object) -> Limits:
    usual = {"concurrency": 4, "first_delay_s": 0}
    return Limits(CallSettings.model_validate(usual | settings), rng=random.Random(1))


def texts(answers: Iterable[tuple[int, Answer | ModelError]]) -> dict[int, str]:
    return {tag: answer.response.text if isinstance(answer, Answer) else str(answer) for tag, answer in answers}


def give(answers: Iterable[tuple[int, Answer | ModelError]], given: list[int]) -> None:
    """Reads the answers until they end, or something is raised."""
    for tag, _ in answers:
        given.append(tag)


def raising(errors: Mapping[str, Exception]) -> Callable[[str], str]:
    def say(prompt: str) -> str:
        if prompt in errors:
            raise errors[prompt]
        return f"to {prompt}"

    return say


@BOTH
def test_every_request_is_answered_once_and_stored(kind: type[Scripted]):
    chat, store = kind(), Store()
    answers = texts(ask_all(chat, questions(1500), responses=store, limits=limits()))
    assert answers == {n: f"to {n}" for n in range(1500)}
    assert (len(chat.asked), len(store.rows)) == (1500, 1500)


@BOTH
def test_what_is_stored_is_recalled_in_groups(kind: type[Scripted]):
    chat, store = kind(), Store()
    list(ask_all(chat, questions(600), responses=store, limits=limits()))
    store.lookups.clear()
    again = list(ask_all(chat, questions(600), responses=store, limits=limits()))
    assert {answer.cached for _, answer in again if isinstance(answer, Answer)} == {True}
    assert (len(again), len(chat.asked), store.lookups) == (600, 600, [LOOKUP, LOOKUP, 600 - 2 * LOOKUP])


@BOTH
def test_equal_requests_are_asked_once_and_paid_once(kind: type[Scripted]):
    chat = kind()
    asked = [(n, request(n % 3)) for n in range(900)]
    answers = list(ask_all(chat, asked, responses=Store(), limits=limits()))
    assert Counter(chat.asked) == {"0": 1, "1": 1, "2": 1}
    assert Counter(answer.cached for _, answer in answers if isinstance(answer, Answer)) == {False: 3, True: 897}
    assert texts(answers) == {n: f"to {n % 3}" for n in range(900)}


def test_ask_finds_what_ask_all_stored():
    chat, store = ScriptedChat(), Store()
    [(_, first)] = ask_all(chat, [(0, request("a"))], responses=store, limits=limits())
    assert isinstance(first, Answer)
    assert ask(chat, request("a"), responses=store, limits=limits()) == first._replace(cached=True)


def test_no_more_are_under_way_than_allowed_and_no_fewer():
    chat = Scripted(takes_s=0.01)
    list(ask_all(chat, questions(40), responses=Store(), limits=limits(concurrency=7)))
    assert chat.most == 7


def test_an_answer_is_stored_before_the_next_request_takes_its_place():
    class Waiting(Store):
        """Commits only when told to."""

        def __init__(self) -> None:
            super().__init__()
            self.go = threading.Event()

        def put_many(self, rows: Mapping[str, StoredResponse]) -> None:
            self.go.wait(10)
            super().put_many(rows)

    chat, store, answers = Scripted(), Waiting(), dict[int, str]()

    def read() -> None:
        answers.update(texts(ask_all(chat, questions(50), responses=store, limits=limits(concurrency=4))))

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(0.2)
    held = (len(chat.asked), len(answers))
    store.go.set()
    reader.join()
    assert held == (4, 0)
    assert len(answers) == 50


@BOTH
def test_requests_are_read_no_further_ahead_than_some_hundreds(kind: type[Scripted]):
    read = 0

    def lazily() -> Iterator[tuple[int, ChatRequest]]:
        nonlocal read
        for read in range(1, 5001):
            yield read, request(read)

    ahead = [
        read - given for given, _ in enumerate(ask_all(kind(), lazily(), responses=Store(), limits=limits()), start=1)
    ]
    assert len(ahead) == 5000
    assert max(ahead) <= (WINDOW + LOOKUP if kind is Batched else LOOKUP + 2 * 4)


@BOTH
@pytest.mark.parametrize(
    "error", [TransientModelError("busy"), ContextOverflow("too long"), RequestRefused("an odd shape")]
)
def test_an_error_of_one_request_is_its_answer(kind: type[Scripted], error: ModelError):
    chat, store = kind(raising({"3": error})), Store()
    answers = dict(ask_all(chat, questions(10), responses=store, limits=limits(tries=2)))
    assert answers[3] is error
    assert (len(answers), len(store.rows)) == (10, 9)


def test_an_endpoint_that_refuses_all_it_was_asked_is_left_alone():
    chat, store = Scripted(raising({str(number): RequestRefused("400") for number in range(100)})), Store()
    with pytest.raises(RequestRefused, match="400"):
        list(ask_all(chat, questions(100), responses=store, limits=limits()))
    assert len(chat.asked) < 40


@pytest.mark.parametrize("error", [ContextOverflow("long"), ContentRefused("filter"), RequestRefused("400")])
def test_an_endpoint_that_refuses_some_requests_is_asked_the_others(error: ModelError):
    """As many in a row as it may refuse, and more of those that are refused for the sake of what stands in them."""
    first = 15 if type(error) is RequestRefused else 60
    chat, store = Scripted(raising({str(number): error for number in range(first)})), Store()
    answers = dict(ask_all(chat, questions(100), responses=store, limits=limits()))
    assert [number for number, answer in sorted(answers.items()) if answer is error] == list(range(first))
    assert len(store.rows) == 100 - first


@BOTH
def test_what_concerns_all_requests_is_raised_once_what_was_under_way_is_given(kind: type[Scripted]):
    chat, store, given = kind(raising({"20": ModelUnavailable("401")})), Store(), list[int]()
    with pytest.raises(ModelUnavailable, match="401"):
        give(ask_all(chat, questions(5000), responses=store, limits=limits()), given)
    assert len(given) == len(store.rows) == len(chat.asked) - chat.asked.count("20")
    assert len(chat.asked) < 600


@BOTH
def test_a_spent_budget_is_raised_once_what_it_paid_for_is_given(kind: type[Scripted]):
    chat, store, given, budget = kind(), Store(), list[int](), Budget(Spending(max_calls=30))
    with pytest.raises(BudgetSpent, match="30 model calls"):
        give(ask_all(chat, questions(100), responses=store, limits=limits(), budget=budget), given)
    assert (len(given), len(chat.asked), len(store.rows)) == (30, 30, 30)


@BOTH
def test_an_answer_that_the_store_does_not_take_is_given_before_that_is_raised(kind: type[Scripted]):
    chat, store, given = kind(), Store(), list[int]()
    store.broken = True
    with pytest.raises(DatabaseUnavailable):
        give(ask_all(chat, questions(100), responses=store, limits=limits()), given)
    assert sorted(map(str, given)) == sorted(chat.asked)


@BOTH
def test_a_bug_of_a_backend_comes_out(kind: type[Scripted]):
    with pytest.raises(ZeroDivisionError):
        list(ask_all(kind(raising({"2": ZeroDivisionError()})), questions(5), responses=Store(), limits=limits()))


def test_an_engine_gets_windows_that_fill_its_batches():
    chat = Batched()
    list(ask_all(chat, questions(1200), responses=Store(), limits=limits()))
    assert chat.windows == [WINDOW, WINDOW, 1200 - 2 * WINDOW]


def test_an_engine_that_forgets_a_request_is_found_out():
    class Forgetful(Batched):
        def complete_many(self, requests: Sequence[ChatRequest]) -> Iterator[tuple[int, ChatResponse | ModelError]]:
            yield from super().complete_many(requests[1:])

    with pytest.raises(RuntimeError, match="no answer to 1 of 5"):
        list(ask_all(Forgetful(), questions(5), responses=Store(), limits=limits()))


def test_a_reader_that_has_enough_waits_for_nothing_and_what_was_under_way_is_stored():
    go, chat, store = threading.Event(), Scripted(), Store()
    chat.say = lambda prompt: (int(prompt) < 3 or go.wait(10), "fine")[1]
    answers = ask_all(chat, questions(50), responses=store, limits=limits())
    next(answers)
    time.sleep(0.1)
    answers.close()  # pyright: ignore[reportAttributeAccessIssue]
    asked = len(chat.asked)
    assert is_asking(), "a process that ends waits for what is under way"
    go.set()
    while is_asking():
        time.sleep(0.001)
    assert len(store.rows) == asked
    assert len(chat.asked) == asked, "nothing else is begun"


def test_a_reader_that_has_enough_waits_for_no_other_try():
    chat = Scripted(raising({str(n): TransientModelError("busy") for n in range(1, 50)}))
    answers = ask_all(chat, questions(50), responses=Store(), limits=limits(first_delay_s=60))
    next(answers)
    started = time.monotonic()
    answers.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert time.monotonic() - started < 10


def test_a_process_that_is_told_to_end_asks_no_more_and_keeps_what_is_under_way(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(calls, "_stopped", threading.Event())  # for good, but for this process of tests
    go, store, given = threading.Event(), Store(), list[int]()

    def held(prompt: str) -> str:
        assert go.wait(10)
        return prompt

    chat = Scripted(held)

    def tell() -> None:
        while chat.at_once < 4:
            time.sleep(0.001)
        stop_asking()
        assert is_asking()
        go.set()

    teller = threading.Thread(target=tell)
    teller.start()
    with pytest.raises(ModelUnavailable, match="is ending"):
        give(ask_all(chat, questions(100), responses=store, limits=limits()), given)
    teller.join()
    assert sorted(map(int, chat.asked)) == sorted(given) == [0, 1, 2, 3]
    assert len(store.rows) == 4
    while is_asking():  # threads end a moment after their answers are given
        time.sleep(0.001)


@BOTH
def test_a_process_that_was_told_to_end_begins_nothing(kind: type[Scripted], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(calls, "_stopped", threading.Event())
    stop_asking()
    chat = kind()
    with pytest.raises(ModelUnavailable, match="is ending"):
        list(ask_all(chat, questions(5), responses=Store(), limits=limits()))
    assert not chat.asked


def test_ctrl_c_ends_the_asking_at_once():
    over, chat = threading.Event(), Scripted()
    waiting = threading.get_ident()

    def say(prompt: str) -> str:
        if prompt == "2":
            signal.pthread_kill(waiting, signal.SIGINT)
        over.wait(30 if int(prompt) > 2 else 0)
        return "fine"

    chat.say = say
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(ask_all(chat, questions(50), responses=Store(), limits=limits()))
    assert time.monotonic() - started < 10
    over.set()


def test_ctrl_c_while_an_engines_answers_are_stored_loses_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tasks.bulk.UNSTORED_S", 0.0)  # so quick an engine is at its end before the first are stored

    class Interrupted(Store):
        interrupted = 0

        def put_many(self, rows: Mapping[str, StoredResponse]) -> None:
            self.interrupted += 1
            if self.interrupted == 1:
                raise KeyboardInterrupt
            super().put_many(rows)

    chat, store, bounds = Batched(), Interrupted(), limits()
    with pytest.raises(KeyboardInterrupt):
        list(ask_all(chat, questions(50), responses=store, limits=bounds))
    assert len(store.rows) == len(chat.asked) > 0
    assert len(texts(ask_all(chat, questions(50), responses=store, limits=bounds))) == 50, "no question is locked"


def test_an_endpoint_that_stumbles_is_asked_again():
    with serving() as server:
        server.answer = prompt_of
        server.script = [too_many(0.01), error_reply(500, "oops"), error_reply(503, "busy")]
        chat = OpenAIChat(MODEL, base_url=server.base_url, timeout_s=10)
        answers = texts(ask_all(chat, questions(20), responses=Store(), limits=limits(first_delay_s=0.01)))
        assert answers == {n: str(n) for n in range(20)}
        assert len(server.requests) == 23


def test_two_at_once_with_the_same_questions_share_their_answers():
    chat, store, shared = Scripted(takes_s=0.1), Store(), limits()
    both = [
        threading.Thread(target=lambda: list(ask_all(chat, questions(4), responses=store, limits=shared)))
        for _ in range(2)
    ]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert Counter(chat.asked) == {str(n): 1 for n in range(4)}


@pytest.mark.parametrize(
    "failure", [TransientModelError("500."), Unreachable("Nothing listens.")], ids=["fails", "away"]
)
def test_an_endpoint_that_fails_every_request_for_long_is_left_alone(failure: TransientModelError):
    clock, chat = iter(range(0, 100_000, 10)), Scripted(raising({str(n): failure for n in range(1, 999)}))
    shared = Limits(CallSettings(tries=1, concurrency=4), rng=random.Random(1), clock=lambda: float(next(clock)))
    ask(chat, next(iter(questions(1)))[1], responses=Store(), limits=shared)  # it has answered once
    answers = dict(ask_all(chat, questions(999), responses=Store(), limits=shared))
    assert len(answers) == 999
    assert len(chat.asked) < (100 if failure.args == ("500.",) else 20)
    assert "in a row and is left alone" in str(answers[998])
