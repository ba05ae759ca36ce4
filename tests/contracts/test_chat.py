"""What every backend promises that answers, whatever stands behind it; pictures are in test_vision.py."""

from __future__ import annotations

import contextlib
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from models.errors import ContextOverflow, ModelError, ModelUnavailable, RequestRefused
from models.protocols import BatchChat, Chat, ChatRequest, ChatResponse, Message, Text
from tests.contracts.backends import (
    BATCHES,
    CHAT,
    CONVERSATION,
    COUNTS,
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
KINDS = ("scripted", "replay", "lm_eval", "openai", "responses", "hf", "vllm")


def request(prompt: str = "Say it", **fields: Any) -> ChatRequest:
    message = Message(role="user", content=(Text(text=prompt),))
    return ChatRequest.model_validate({"messages": (message,), "max_tokens": 25, **fields})


def answers(chat: BatchChat, requests: list[ChatRequest]) -> list[ChatResponse | ModelError]:
    found = dict(chat.complete_many(requests))
    assert len(found) == len(requests)
    return [found[number] for number in range(len(requests))]


@EVERY
def test_an_answer_has_text_and_says_why_it_ended(backend: Chat):
    answer = backend.complete(request())
    assert answer.text
    assert answer.finish_reason in ("stop", "length")


@EVERY
def test_the_same_request_gets_the_same_answer_at_temperature_zero(backend: Chat):
    assert backend.complete(request()) == backend.complete(request())


@those(CHAT, DRAWS)
def test_a_seed_repeats_what_was_drawn_and_another_draws_anew(backend: Chat):
    drawn = [backend.complete(request(temperature=1.0, seed=seed)).text for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


@those(CHAT, DRAWS)
def test_without_a_temperature_a_seed_changes_nothing(backend: Chat):
    assert len({backend.complete(request(seed=seed)).text for seed in (None, 1, 2)}) == 1


@those(CHAT, COUNTS)
def test_a_longer_answer_than_allowed_is_cut_and_says_so(backend: Chat):
    whole, short = (backend.complete(request(f"Say it: {LONG}", max_tokens=most)) for most in (25, SHORT))
    assert (short.finish_reason, short.completion_tokens) == ("length", SHORT)
    assert whole.text.startswith(short.text.rstrip("�"))  # the last character may be half of one
    assert len(short.text) < len(whole.text)


@those(CHAT, STOPS)
def test_a_stop_ends_the_answer_and_is_no_part_of_it(backend: Chat):
    whole = backend.complete(request()).text
    found = re.search(r"[0-9A-Za-z]{2}", whole[len(whole) // 4 :])
    assert found, f"no two letters behind the first quarter of {whole!r}"
    answer = backend.complete(request(stop=(found[0], "never said")))
    assert (answer.text, answer.finish_reason) == (whole[: whole.index(found[0])], "stop")


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


@EVERY
@pytest.mark.parametrize("prompt", [*PROMPTS[2:], HALF_A_PAIR], ids=["hangul", "right to left", "nul", "half a pair"])
def test_any_writing_is_taken(backend: Chat, prompt: str):
    assert backend.complete(request(prompt)).text


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


@those(CHAT, COUNTS, BATCHES)
def test_a_longer_prompt_counts_for_more(backend: Chat):
    short, long = (backend.complete(request(prompt, max_tokens=1)).prompt_tokens for prompt in ("Say", "Say" * 5))
    assert short
    assert long == short + 12  # letters: all tokens here


@EVERY
def test_threads_may_share_a_backend(backend: Chat):
    expected = [backend.complete(request(prompt)).text for prompt in NUMBERED]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda prompt: backend.complete(request(prompt)).text, NUMBERED)) == expected


@EVERY
def test_the_id_names_backend_and_model(backend: Chat):
    assert backend.id.partition(":")[0] in KINDS


@those(CHAT, STREAMS)
def test_a_stream_grows_until_it_is_the_answer(backend: Chat):
    heard: list[str] = []
    answer = backend.complete(request(), on_text=heard.append)
    assert heard[-1] == answer.text
    assert len(heard) > 2
    assert all(after.startswith(before) and after != before for before, after in pairwise(heard))


@EVERY
@pytest.mark.parametrize("max_tokens", [40, SHORT], ids=["whole", "cut"])
def test_a_listener_hears_the_answer_that_is_given_without_one(backend: Chat, max_tokens: int):
    asked, heard = request(f"Say it: {LONG}", max_tokens=max_tokens), list[str]()
    answer = backend.complete(asked, on_text=heard.append)
    assert answer == backend.complete(asked)
    assert heard[-1] == answer.text


@EVERY
@pytest.mark.parametrize("raised", [ValueError, KeyboardInterrupt])
def test_what_a_listener_raises_ends_the_answer_and_leaves_the_backend_whole(
    backend: Chat, raised: type[BaseException]
):
    def stumble(text: str) -> None:
        raise raised("the screen is gone")

    before = backend.complete(request())
    with pytest.raises(raised, match="the screen is gone"):
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


@those(CHAT, BATCHES)
def test_a_batch_gives_a_refusal_beside_the_answers(backend: BatchChat):
    refused, answered = answers(backend, [ChatRequest(messages=()), request()])
    assert isinstance(refused, RequestRefused)
    assert answered == backend.complete(request())


@those(CHAT, BATCHES, OVERFLOWS)
def test_a_prompt_that_is_too_long_costs_its_batch_nothing(backend: BatchChat):
    refused, answered = answers(backend, [request(TOO_LONG), request()])
    assert isinstance(refused, ContextOverflow)
    assert answered == backend.complete(request())


@those(CHAT, BATCHES)
def test_a_batch_that_is_left_halfway_leaves_the_backend_whole(backend: BatchChat):
    expected, under_way = backend.complete(request()), backend.complete_many([request(prompt) for prompt in NUMBERED])
    next(under_way)
    under_way.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert backend.complete(request()) == expected


@those(CHAT, BATCHES)
def test_an_empty_batch_has_no_answers(backend: BatchChat):
    assert list(backend.complete_many([])) == []
