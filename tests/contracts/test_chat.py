"""What every chat backend promises, whatever stands behind it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import PIL.Image
import pytest

from models.openai import OpenAIChat
from models.protocols import Chat, ChatRequest, Image, Message, Text
from models.scripted import Rule, ScriptedChat
from tests.models.server import MODEL, serving


@pytest.fixture(params=["openai", "scripted", "scripted with rules"])
def chat(request: pytest.FixtureRequest) -> Iterator[Chat]:
    match request.param:
        case "openai":
            with serving() as server:
                yield OpenAIChat(MODEL, base_url=server.base_url, timeout_s=10)
        case "scripted":
            yield ScriptedChat()
        case _:
            yield ScriptedChat([Rule(prompt="Say it", answer="one two three four five six")])


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
    answer = chat.complete(request(max_tokens=3))
    assert (len(answer.text.split()), answer.finish_reason, answer.completion_tokens) == (3, "length", 3)


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
    assert chat.id.partition(":")[0] in ("openai", "scripted")
