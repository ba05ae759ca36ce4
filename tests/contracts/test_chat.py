"""What every backend promises that answers, whatever stands behind it; pictures are in test_vision.py."""

from __future__ import annotations

import contextlib
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from models.model_errors import ContextOverflow, ModelError, ModelUnavailable, RequestRefused
from models.protocols import BatchChat, Chat, ChatRequest, ChatResponse, Message, Text
from tests.contracts.backends import (
    BATCHES,
    CHAT,
    CONTEXT_TOKENS,
    CONVERSATION,
    COUNTS,
    CUTS,
    DRAWS,
    HALF_A_PAIR,
    LONG,
    NUMBERED,
    OVERFLOWS,
    PROMPTS,
    STOPS,
    STREAMS,
    TOO_LONG,
    those,
)

EVERY = those(CHAT)
SHORT = 16
"""Tokens of a short answer: the Responses API takes no lower limit."""


def request(prompt: str = "Say it", **fields: Any) -> ChatRequest:
    message = Message(role="user", content=(Text(text=prompt),))
    return ChatRequest.model_validate({"messages": (message,), "max_tokens": 25, **fields})


def answers(chat: BatchChat, requests: list[ChatRequest]) -> list[ChatResponse | ModelError]:
    found = dict(chat.complete_many(requests))
    assert len(found) == len(requests)
    return [found[number] for number in range(len(requests))]


def stop_in(text: str) -> str:
    """Two letters behind its first quarter, and not in it where there are such."""
    pairs = re.findall(r"(?=([0-9A-Za-z]{2}))", text[len(text) // 4 :])
    assert pairs, f"no two letters behind the first quarter of {text!r}"
    return next((pair for pair in pairs if pair not in text[: len(text) // 4 + 1]), pairs[0])


@EVERY
def test_an_answer_has_text_and_says_why_it_ended_and_is_the_same_at_temperature_zero(backend: Chat):
    answer = backend.complete(request())
    assert answer.text
    assert answer.finish_reason in ("stop", "length")
    assert backend.complete(request()) == answer


@those(CHAT, DRAWS)
def test_a_seed_repeats_what_was_drawn_and_another_draws_anew(backend: Chat):
    drawn = [backend.complete(request(temperature=1.0, seed=seed)).text for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


@those(CHAT, DRAWS)
def test_without_a_temperature_a_seed_changes_nothing(backend: Chat):
    assert len({backend.complete(request(seed=seed)).text for seed in (None, 1, 2)}) == 1


@those(CHAT, CUTS)
def test_a_longer_answer_than_allowed_is_cut_and_says_so(backend: Chat):
    whole, short = (backend.complete(request(f"Say it: {LONG}", max_tokens=most)) for most in (25, SHORT))
    assert short.finish_reason == "length"
    assert short.completion_tokens in (SHORT, None)
    assert whole.text.startswith(short.text.rstrip("�"))  # the last character may be half of one
    assert len(short.text) < len(whole.text)


@those(CHAT, STOPS)
def test_a_stop_ends_the_answer_and_is_no_part_of_it(backend: Chat):
    whole = backend.complete(request()).text
    stop = stop_in(whole)
    answer = backend.complete(request(stop=(stop, "never said")))
    assert (answer.text, answer.finish_reason) == (whole[: whole.index(stop)], "stop")


@those(CHAT, STOPS)
def test_a_stop_that_comes_first_leaves_nothing(backend: Chat):
    first = backend.complete(request()).text[:1]
    answer = backend.complete(request(stop=(first,)))
    assert (answer.text, answer.finish_reason) == ("", "stop")


@those(CHAT, STOPS, STREAMS)
def test_no_part_of_a_stop_is_told(backend: Chat):
    stop, heard = stop_in(backend.complete(request()).text), list[str]()
    answer = backend.complete(request(stop=(stop,)), on_text=heard.append)
    assert heard[-1] == answer.text
    assert all(answer.text.startswith(text) for text in heard)


@EVERY
def test_an_empty_prompt_is_answered_or_refused(backend: Chat):
    with contextlib.suppress(RequestRefused):
        assert isinstance(backend.complete(request("")), ChatResponse)


@EVERY
def test_a_request_without_messages_is_refused(backend: Chat):
    with pytest.raises(RequestRefused):
        backend.complete(ChatRequest(messages=()))


@those(CHAT, OVERFLOWS)
@pytest.mark.parametrize("template", [True, False], ids=["chat template", "as it stands"])
def test_a_prompt_that_is_too_long_is_named_and_the_next_is_answered(backend: Chat, template: bool):
    with pytest.raises(ContextOverflow):
        backend.complete(request(TOO_LONG, template=template))
    assert backend.complete(request(template=template)).text


@those(CHAT, BATCHES, OVERFLOWS)
def test_an_answer_ends_where_the_context_does(backend: Chat):
    answer = backend.complete(request("a" * (CONTEXT_TOKENS - 40), max_tokens=2 * CONTEXT_TOKENS))
    assert answer.prompt_tokens
    assert answer.completion_tokens
    assert CONTEXT_TOKENS - 40 < answer.prompt_tokens + answer.completion_tokens <= CONTEXT_TOKENS


@EVERY
def test_any_writing_is_taken(backend: Chat):
    assert all(backend.complete(request(prompt, max_tokens=SHORT)).text for prompt in (*PROMPTS[2:], HALF_A_PAIR))


@EVERY
def test_a_system_message_and_earlier_turns_are_taken(backend: Chat):
    messages = [Message.model_validate({"role": role, "content": [Text(text=text)]}) for role, text in CONVERSATION]
    assert backend.complete(ChatRequest(messages=tuple(messages), max_tokens=25)).text


@EVERY
def test_a_prompt_is_taken_as_it_stands(backend: Chat):
    assert backend.complete(request(template=False)).text


@those(CHAT, OVERFLOWS)
def test_a_chat_template_that_is_not_there_is_an_error(backend: Chat):
    with pytest.raises((RequestRefused, ModelUnavailable), match="no_such_template"):
        backend.complete(request(template="no_such_template"))


@those(CHAT, COUNTS)
def test_usage_is_counted(backend: Chat):
    answer = backend.complete(request(max_tokens=SHORT))
    assert answer.prompt_tokens
    assert answer.completion_tokens in range(1, SHORT + 1)


@those(CHAT, without=COUNTS)
def test_usage_that_nobody_counts_is_not_made_up(backend: Chat):
    answer = backend.complete(request())
    assert (answer.prompt_tokens, answer.completion_tokens) == (None, None)


@EVERY
def test_threads_may_share_a_backend(backend: Chat):
    expected = [backend.complete(request(prompt)).text for prompt in NUMBERED]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda prompt: backend.complete(request(prompt)).text, NUMBERED)) == expected


@those(CHAT, STREAMS)
def test_a_stream_grows_until_it_is_the_answer(backend: Chat):
    heard: list[str] = []
    answer = backend.complete(request(), on_text=heard.append)
    assert heard[-1] == answer.text
    assert len(heard) > 2
    assert all(after.startswith(before) and after != before for before, after in pairwise(heard))


@EVERY
def test_a_listener_hears_the_answer_that_is_given_without_one(backend: Chat):
    asked, heard = request(f"Say it: {LONG}", max_tokens=SHORT), list[str]()
    answer = backend.complete(asked, on_text=heard.append)
    assert answer == backend.complete(asked)
    assert heard[-1] == answer.text


@EVERY
def test_what_a_listener_raises_ends_the_answer_and_leaves_the_backend_whole(backend: Chat):
    def stumble(text: str) -> None:
        raise ValueError("the screen is gone")  # which an endpoint does not take for its own

    before = backend.complete(request())
    with pytest.raises(ValueError, match="the screen is gone"):
        backend.complete(request(), on_text=stumble)
    assert backend.complete(request()) == before


@those(CHAT, BATCHES)
def test_a_batch_gets_the_answers_of_its_requests_in_any_order(backend: BatchChat):
    asked = [
        request(f"{prompt} {'and on' * number}", max_tokens=3 + 4 * number) for number, prompt in enumerate(NUMBERED)
    ]
    alone = [backend.complete(one) for one in asked]
    assert answers(backend, asked) == alone
    assert answers(backend, asked[::-1]) == alone[::-1]


@those(CHAT, DRAWS, BATCHES)
def test_what_is_drawn_depends_on_its_seed_and_not_on_its_batch(backend: BatchChat):
    asked = [request(temperature=1.0, seed=seed, max_tokens=9) for seed in (1, 2, 1, 3)]
    assert answers(backend, asked) == [backend.complete(one) for one in asked]


@those(CHAT, BATCHES)
def test_threads_may_ask_batches_at_once(backend: BatchChat):
    batches = [[request(prompt) for prompt in NUMBERED[start::2]] for start in (0, 1)]
    expected = [[backend.complete(one) for one in batch] for batch in batches]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda batch: answers(backend, batch), batches)) == expected


@those(CHAT, BATCHES)
def test_another_question_is_answered_while_a_batch_is_under_way(backend: BatchChat):
    asked = [request(prompt) for prompt in NUMBERED]
    expected = [backend.complete(one) for one in asked]
    under_way = backend.complete_many(asked)
    found = dict([next(under_way)])
    assert backend.complete(asked[0]) == expected[0]
    found |= dict(under_way)
    assert [found[number] for number in range(len(asked))] == expected


@those(CHAT, BATCHES)
def test_a_batch_gives_refusals_beside_the_answers(backend: BatchChat):
    empty, refused, answered = answers(backend, [request("", template=False), ChatRequest(messages=()), request()])
    assert isinstance(empty, ChatResponse | RequestRefused)
    assert isinstance(refused, RequestRefused)
    assert answered == backend.complete(request())
    assert list(backend.complete_many([])) == []


@those(CHAT, BATCHES)
def test_a_batch_that_is_left_halfway_leaves_the_backend_whole(backend: BatchChat):
    expected, under_way = backend.complete(request()), backend.complete_many([request(prompt) for prompt in NUMBERED])
    next(under_way)
    under_way.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert backend.complete(request()) == expected
