"""What every chat backend promises, whatever stands behind it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import PIL.Image
import pytest

from models.openai import OpenAIChat
from models.openai_responses import OpenAIResponses
from models.protocols import Chat, ChatRequest, Image, Message, Text
from models.scripted import Rule, ScriptedChat
from tests.models.server import MODEL, serving

LONG = " ".join(f"word{n}" for n in range(30))


@pytest.fixture(params=["openai", "responses", "responses without the API", "scripted", "scripted with rules"])
def chat(request: pytest.FixtureRequest) -> Iterator[Chat]:
    match request.param:
        case "openai":
            with serving() as server:
                yield OpenAIChat(MODEL, base_url=server.base_url, timeout_s=10)
        case "responses":
            with serving() as server:
                yield OpenAIResponses(MODEL, base_url=server.base_url, timeout_s=10)
        case "responses without the API":
            with serving() as server:
                server.responses_status = 404
                yield OpenAIResponses(MODEL, base_url=server.base_url, timeout_s=10)
        case "scripted":
            yield ScriptedChat()
        case _:
            yield ScriptedChat([Rule(prompt="Say it", answer=LONG)])


def request(prompt: str = "Say it", *, image: bytes | None = None, max_tokens: int = 512) -> ChatRequest:
    parts = (Text(text=prompt), *((Image(png=image),) if image else ()))
    return ChatRequest(messages=(Message(role="user", content=parts),), max_tokens=max_tokens)


def png(colour: str = "red") -> bytes:
    file = io.BytesIO()
    PIL.Image.new("RGB", (8, 6), colour).save(file, "PNG")
    return file.getvalue()


def test_an_answer_has_text_and_says_why_it_ended(chat: Chat):
    answer = chat.complete(request())
    assert answer.text
    assert answer.finish_reason == "stop"


def test_the_same_request_gets_the_same_answer_at_temperature_zero(chat: Chat):
    assert chat.complete(request()) == chat.complete(request())


def test_a_longer_answer_than_allowed_is_cut_and_says_so(chat: Chat):
    answer = chat.complete(request(f"Say it: {LONG}", max_tokens=16))
    assert (len(answer.text.split()), answer.finish_reason, answer.completion_tokens) == (16, "length", 16)


def test_an_image_is_taken(chat: Chat):
    assert chat.complete(request("Read it", image=png())).text


def test_another_image_gets_another_answer(chat: Chat):
    assert chat.complete(request("Read it", image=png("red"))) != chat.complete(request("Read it", image=png("blue")))


def test_a_system_message_and_earlier_turns_are_taken(chat: Chat):
    turns = [("system", "Be brief"), ("user", "Hello"), ("assistant", "Hello."), ("user", "Say it")]
    messages = tuple(Message.model_validate({"role": role, "content": [Text(text=text)]}) for role, text in turns)
    assert chat.complete(ChatRequest(messages=messages)).text


def test_hangul_and_signs_beyond_the_basic_plane_are_taken(chat: Chat):
    assert chat.complete(request("예산은 ₩35,750,000 😀 입니까?")).text


def test_usage_is_counted(chat: Chat):
    answer = chat.complete(request())
    assert answer.prompt_tokens
    assert answer.completion_tokens


def test_threads_may_share_a_backend(chat: Chat):
    expected = chat.complete(request("Say it 7")).text
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda n: chat.complete(request(f"Say it {n}")).text, range(12)))
    assert answers[7] == expected


def test_the_id_names_backend_and_model(chat: Chat):
    assert chat.id.partition(":")[0] in ("openai", "responses", "scripted")


def test_a_stream_grows_until_it_is_the_answer(chat: Chat):
    heard: list[str] = []
    answer = chat.complete(request(), on_text=heard.append)
    assert heard[-1] == answer.text
    assert len(heard) == len(answer.text.split())
    assert all(after.startswith(before) for before, after in pairwise(heard))


@pytest.mark.parametrize("max_tokens", [512, 16], ids=["whole", "cut"])
def test_a_stream_ends_in_the_answer_that_is_given_without_one(chat: Chat, max_tokens: int):
    asked = request(f"Say it: {LONG}", max_tokens=max_tokens)
    assert chat.complete(asked, on_text=lambda text: None) == chat.complete(asked)


def test_what_a_listener_raises_comes_through(chat: Chat):
    def stumble(text: str) -> None:
        raise ValueError("the screen is gone")

    with pytest.raises(ValueError, match="the screen is gone"):
        chat.complete(request(), on_text=stumble)


def test_a_half_of_a_surrogate_pair_is_taken(chat: Chat):
    assert chat.complete(request("Say \ud83d")).text
