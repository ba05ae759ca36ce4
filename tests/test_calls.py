from __future__ import annotations

import io
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import PIL.Image
import pytest
from pydantic import SecretStr

from models.model_errors import (
    ContextOverflow,
    ModelError,
    ModelUnavailable,
    RequestRefused,
    TransientModelError,
    Unreachable,
)
from models.openai import OpenAIChat
from models.protocols import ChatRequest, ChatResponse, Image, Message, Text
from models.scripted import Rule, ScriptedChat
from tasks.budget import Budget, BudgetSpent, Prices, Spending, Tokens
from tasks.calls import AWAY_S, STARTING_S, Answer, CallSettings, Limits, ask, canonical_form, is_answered, response_key
from tests.kept_responses import Kept
from tests.models.server import MODEL, half_a_stream, serving


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Flaky:
    """Raises the given errors one by one, then answers."""

    id = "flaky:1"

    def __init__(self, *errors: ModelError) -> None:
        self.errors = list(errors)
        self.calls = 0

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return ChatResponse(text="fine", finish_reason="stop", prompt_tokens=100, completion_tokens=50)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def limits(clock: Clock, **settings: object) -> Limits:
    return Limits(CallSettings.model_validate(settings), rng=random.Random(1), sleep=clock.sleep, clock=clock)


def request(text: str = "Hello", *, image: bytes | None = None, **changes: object) -> ChatRequest:
    parts = (Text(text=text), *((Image(png=image),) if image else ()))
    message = Message(role="user", content=parts)
    return ChatRequest.model_validate({"messages": (message,), **changes})


def test_a_question_is_asked_once(clock: Clock):
    chat, store = ScriptedChat(), Kept()
    first = ask(chat, request(), responses=store, limits=limits(clock))
    second = ask(chat, request(), responses=store, limits=limits(clock))
    assert (first.cached, second.cached, chat.calls) == (False, True, 1)
    assert first.response == second.response
    assert first.key == second.key


def test_threads_with_the_same_question_ask_once(clock: Clock):
    chat, store, shared = ScriptedChat(), Kept(), limits(clock)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ask(chat, request(), responses=store, limits=shared), range(32)))
    assert (chat.calls, len({answer.key for answer in answers})) == (1, 1)


def test_answered_tells_what_would_cost_nothing(clock: Clock):
    chat, store = ScriptedChat(), Kept()
    ask(chat, request(), responses=store, limits=limits(clock))
    assert is_answered(chat, request(), store)
    assert not is_answered(chat, request("Other"), store)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(request("Hello "), id="text"),
        pytest.param(request(temperature=0.1), id="temperature"),
        pytest.param(request(max_tokens=9), id="length"),
        pytest.param(request(seed=1), id="seed"),
        pytest.param(request(image=b"a"), id="image"),
        pytest.param(ChatRequest(messages=(Message(role="system", content=(Text(text="Hello"),)),)), id="role"),
        pytest.param(
            ChatRequest(messages=(Message(role="user", content=(Text(text="Hel"), Text(text="lo"))),)), id="parts"
        ),
    ],
)
def test_whatever_can_change_the_answer_changes_the_key(other: ChatRequest):
    assert response_key("m:1", other) != response_key("m:1", request())


def test_another_model_has_another_key():
    assert response_key("m:1", request()) != response_key("m:2", request())


def test_another_image_has_another_key():
    assert response_key("m:1", request(image=b"a")) != response_key("m:1", request(image=b"b"))


def test_the_key_stays_the_same_for_ever():
    # a change of this value throws away every answer that users have paid for
    assert response_key("m:1", request("안녕", image=b"a", seed=3)) == (
        "2737a14939948d1230dbaac9029e2cf79b51ab44b63b3a380695e222550d5bd1"
    )


def test_a_lone_surrogate_has_a_key_too():
    assert response_key("m:1", request("\ud800")) != response_key("m:1", request("\ud801"))


def test_the_stored_request_holds_the_image_by_its_hash(clock: Clock):
    store, file = Kept(), io.BytesIO()
    PIL.Image.effect_noise((40, 40), 50).save(file, "PNG")
    asked = request(image=file.getvalue())
    ask(ScriptedChat(), asked, responses=store, limits=limits(clock))
    (kept,) = store.rows.values()
    assert kept.request == canonical_form(asked)
    assert '"sha256"' in kept.model_dump_json()
    assert len(kept.model_dump_json()) < 900


def test_texts_that_end_an_answer_are_stored_with_it(clock: Clock):
    store = Kept()
    ask(ScriptedChat(), request(stop=("\n", "Q:")), responses=store, limits=limits(clock))
    (kept,) = store.rows.values()
    assert '"stop":["\\n","Q:"]' in kept.model_dump_json()


def test_usage_comes_back_from_the_store(clock: Clock):
    store, chat = Kept(), Flaky()
    ask(chat, request(), responses=store, limits=limits(clock))
    again = ask(chat, request(), responses=store, limits=limits(clock))
    assert (again.response.prompt_tokens, again.response.completion_tokens) == (100, 50)


def test_log_probabilities_come_back_from_the_store(clock: Clock):
    store, chat = Kept(), ScriptedChat([Rule(answer="m", top_logprobs={"m": -0.1})])
    asked = [ask(chat, request(top_logprobs=5), responses=store, limits=limits(clock)) for _ in range(2)]
    assert [answer.response.top_logprobs for answer in asked] == [{"m": -0.1}] * 2
    assert asked[1].cached


def test_what_may_pass_is_tried_again_with_growing_jitter(clock: Clock):
    chat = Flaky(*[TransientModelError("busy")] * 3)
    answer = ask(chat, request(), responses=Kept(), limits=limits(clock, tries=4, first_delay_s=10, most_delay_s=25))
    rng = random.Random(1)
    assert answer.response.text == "fine"
    assert clock.slept == [rng.uniform(0, most) for most in (10, 20, 25)]


def test_an_address_where_nothing_ever_listened_is_given_up_after_some_seconds(clock: Clock):
    away = [Unreachable("nothing listens") for _ in range(9)]
    asked = Flaky(*away)
    shared = limits(clock, tries=9, first_delay_s=4)
    with pytest.raises(ModelUnavailable, match="nothing listens"):
        ask(asked, request(), responses=Kept(), limits=shared)
    assert STARTING_S <= clock.now < STARTING_S + 60
    with pytest.raises(ModelUnavailable):
        ask(asked, request("Again"), responses=Kept(), limits=shared)
    assert asked.calls < len(away)


def test_an_address_that_has_answered_may_be_away_while_it_restarts(clock: Clock):
    shared = limits(clock, tries=5)
    ask(Flaky(), request(), responses=Kept(), limits=shared)
    ask(Flaky(*(Unreachable("restarts") for _ in range(4))), request("Again"), responses=Kept(), limits=shared)
    assert clock.now >= AWAY_S
    away = Flaky(*(Unreachable("gone") for _ in range(9)))
    for question in ("Once more", "And again"):  # the first is tried as often, and the second once
        with pytest.raises(Unreachable):
            ask(away, request(question), responses=Kept(), limits=shared)
    assert away.calls == 6


def test_the_last_try_raises_what_it_met(clock: Clock):
    chat = Flaky(*[TransientModelError("busy")] * 9)
    with pytest.raises(TransientModelError, match="busy"):
        ask(chat, request(), responses=Kept(), limits=limits(clock, tries=3))
    assert chat.calls == 3


@pytest.mark.parametrize("error", [ModelUnavailable("no key"), RequestRefused("bad"), ContextOverflow("long")])
def test_what_cannot_get_better_is_not_tried_again(clock: Clock, error: ModelError):
    chat = Flaky(error)
    with pytest.raises(type(error)):
        ask(chat, request(), responses=Kept(), limits=limits(clock))
    assert (chat.calls, clock.slept) == (1, [])


def test_the_servers_word_on_when_to_come_back_is_kept(clock: Clock):
    chat = Flaky(TransientModelError("429", retry_after_s=30))
    ask(chat, request(), responses=Kept(), limits=limits(clock, first_delay_s=1))
    assert 30 <= sum(clock.slept) <= 31


def test_a_pause_beyond_patience_is_not_waited_for(clock: Clock):
    chat = Flaky(TransientModelError("429", retry_after_s=3600))
    with pytest.raises(TransientModelError):
        ask(chat, request(), responses=Kept(), limits=limits(clock, most_delay_s=60))
    assert clock.slept == []


def test_a_pause_that_one_thread_was_told_holds_the_others_too(clock: Clock):
    shared = limits(clock, tries=1)
    with pytest.raises(TransientModelError):
        ask(Flaky(TransientModelError("429", retry_after_s=30)), request(), responses=Kept(), limits=shared)
    ask(Flaky(), request("Other"), responses=Kept(), limits=shared)
    assert clock.now == 30


def test_requests_per_minute_are_kept(clock: Clock):
    shared = limits(clock, requests_per_minute=2)
    for n in range(4):
        ask(Flaky(), request(str(n)), responses=Kept(), limits=shared)
    assert clock.now == pytest.approx(60)  # two at once, one after 30 s, one after 60 s


def test_tokens_per_minute_are_kept(clock: Clock):
    shared = limits(clock, tokens_per_minute=600)
    for n in range(3):  # each may take 1 token of prompt and 299 of answer
        ask(Flaky(), request(str(n), max_tokens=299), responses=Kept(), limits=shared)
    assert clock.now == pytest.approx(30)


def test_a_request_larger_than_a_minutes_tokens_goes_through(clock: Clock):
    shared = limits(clock, tokens_per_minute=100)
    assert ask(Flaky(), request("a", max_tokens=299), responses=Kept(), limits=shared).response.text == "fine"
    assert clock.now == pytest.approx(120)


def test_a_kept_answer_waits_for_no_rate(clock: Clock):
    shared, store = limits(clock, requests_per_minute=1), Kept()
    for _ in range(5):
        ask(Flaky(), request(), responses=store, limits=shared)
    assert clock.now == 0


class Slow:
    """Holds every request until it is let go, and counts how many it holds."""

    id = "slow:1"

    def __init__(self) -> None:
        self.go = threading.Event()
        self.at_once = self.most = 0
        self._lock = threading.Lock()

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        with self._lock:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        self.go.wait(5)
        with self._lock:
            self.at_once -= 1
        return ChatResponse(text="late", finish_reason="stop")


@pytest.fixture
def slow() -> Iterator[Slow]:
    chat = Slow()
    yield chat
    chat.go.set()


def test_no_more_requests_are_under_way_than_allowed(clock: Clock, slow: Slow):
    shared, store = limits(clock, concurrency=2), Kept()
    with ThreadPoolExecutor(6) as pool:
        answers = [pool.submit(ask, slow, request(str(n)), responses=store, limits=shared) for n in range(6)]
        time.sleep(0.05)
        slow.go.set()
        assert {answer.result().response.text for answer in answers} == {"late"}
    assert slow.most == 2


PRICES = Prices(prompt=1_000_000, answer=2_000_000)  # 1 per token of prompt, 2 per token of answer


def spend(clock: Clock, budget: Budget, *texts: str) -> list[Answer]:
    store = Kept()
    return [
        ask(Flaky(), request(text, max_tokens=60), responses=store, limits=limits(clock), budget=budget)
        for text in texts
    ]


def test_calls_beyond_the_budget_are_not_made(clock: Clock):
    budget = Budget(Spending(max_calls=2))
    with pytest.raises(BudgetSpent, match="2 model calls"):
        spend(clock, budget, "a", "b", "c")
    assert budget.calls == 2


def test_kept_answers_cost_nothing(clock: Clock):
    budget = Budget(Spending(max_calls=1))
    assert [answer.cached for answer in spend(clock, budget, "a", "a", "a")] == [False, True, True]


def test_the_cost_is_what_the_server_counted(clock: Clock):
    budget = Budget(Spending(max_cost=1000, prices=PRICES))
    spend(clock, budget, "a")
    assert budget.cost == pytest.approx(100 + 2 * 50)


def test_a_call_that_might_exceed_the_cost_is_not_made(clock: Clock):
    budget = Budget(Spending(max_cost=300, prices=PRICES))
    with pytest.raises(BudgetSpent, match="200 of 300 is spent and the next call may cost 1"):
        spend(clock, budget, "a", "b")
    assert budget.calls == 1


def test_a_failed_call_costs_no_money(clock: Clock):
    budget = Budget(Spending(max_cost=1000, prices=PRICES))
    with pytest.raises(RequestRefused):
        ask(Flaky(RequestRefused("no")), request(max_tokens=9), responses=Kept(), limits=limits(clock), budget=budget)
    assert (budget.cost, budget.calls) == (0, 1)


def test_threads_share_one_budget():
    budget = Budget(Spending(max_calls=10))

    def take(_: int) -> bool:
        try:
            budget.take(Tokens(1, 1))
        except BudgetSpent:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(take, range(100))) == 10


def test_a_limit_on_the_cost_needs_prices():
    with pytest.raises(ValueError, match="prices"):
        Spending(max_cost=1)


class Streaming:
    """Tells words one by one; raises the given errors one by one after the first word, then answers."""

    id = "streaming:1"

    def __init__(self, *errors: ModelError, words: str = "fine and well") -> None:
        self.errors = list(errors)
        self.words = words.split()
        self.ended: list[BaseException] = []
        """What the listener raised."""
        self.over = threading.Event()

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        if on_text is not None:
            on_text(self.words[0])
        if self.errors:
            raise self.errors.pop(0)
        try:
            for count in range(2, len(self.words) + 1):
                time.sleep(0.001)
                if on_text is not None:
                    on_text(" ".join(self.words[:count]))
        except BaseException as error:
            self.ended.append(error)
            raise
        finally:
            self.over.set()
        return ChatResponse(text=" ".join(self.words), finish_reason="stop")


def test_the_words_are_told_while_they_come(clock: Clock):
    heard: list[str] = []
    ask(Streaming(), request(), responses=Kept(), limits=limits(clock), on_text=heard.append)
    assert heard == ["fine", "fine and", "fine and well"]


def test_a_kept_answer_is_told_once(clock: Clock):
    heard: list[str] = []
    store, shared = Kept(), limits(clock)
    ask(Streaming(), request(), responses=store, limits=shared)
    ask(Streaming(), request(), responses=store, limits=shared, on_text=heard.append)
    assert heard == ["fine and well"]


def test_a_retry_after_half_a_stream_starts_over(clock: Clock):
    heard: list[str] = []
    chat = Streaming(TransientModelError("hung up"))
    answer = ask(chat, request(), responses=Kept(), limits=limits(clock), on_text=heard.append)
    assert heard == ["fine", "fine", "fine and", "fine and well"]
    assert answer.response.text == heard[-1]


def test_listening_changes_no_key(clock: Clock):
    store = Kept()
    listened = ask(Streaming(), request(), responses=store, limits=limits(clock), on_text=lambda text: None)
    assert ask(Streaming(), request(), responses=store, limits=limits(clock)) == listened._replace(cached=True)


@pytest.mark.parametrize("error", [ValueError("the screen is gone"), KeyboardInterrupt()], ids=["bug", "interrupt"])
def test_what_a_listener_raises_ends_the_call_and_keeps_nothing(clock: Clock, error: BaseException):
    def stumble(text: str) -> None:
        raise error

    store = Kept()
    with pytest.raises(type(error)):
        ask(Streaming(), request(), responses=store, limits=limits(clock), on_text=stumble)
    assert (store.rows, clock.slept) == ({}, [])


def test_ctrl_c_ends_the_stream_and_leaves_the_question_free(clock: Clock):
    chat, store, shared = Streaming(words="word " * 5_000), Kept(), limits(clock)
    waiting = threading.get_ident()  # a terminal's Ctrl-C comes to the main thread, too

    def interrupt(text: str) -> None:
        if len(text) == 49:  # ten words
            signal.pthread_kill(waiting, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        ask(chat, request(), responses=store, limits=shared, on_text=interrupt)
    assert chat.over.wait(5)
    assert store.rows == {}
    chat.words = ["fine"]
    assert ask(chat, request(), responses=store, limits=shared).response.text == "fine"


def test_a_real_stream_that_breaks_half_way_is_asked_for_again(clock: Clock):
    heard: list[str] = []
    with serving() as server:
        server.answer = lambda body: "All of it"
        broken = iter([True])
        server.misbehave = lambda path, body: half_a_stream(body, "All of") if next(broken, False) else None
        chat = OpenAIChat(MODEL, base_url=server.base_url, timeout_s=10)
        ask(chat, request(), responses=Kept(), limits=limits(clock), on_text=heard.append)
    assert heard == ["All ", "All of", "All ", "All of ", "All of it"]


def test_no_secret_is_kept(clock: Clock):
    store = Kept()
    with serving() as server:
        url = server.base_url.replace("//", "//someone:pass-word@") + "?key=key-in-the-query"
        chat = OpenAIChat(MODEL, base_url=url, api_key=SecretStr("sk-secret"), timeout_s=10)
        ask(chat, request(), responses=store, limits=limits(clock))
    kept = " ".join(response.model_dump_json() for response in store.rows.values())
    assert [secret for secret in ("pass-word", "key-in-the-query", "sk-secret") if secret in kept] == []
