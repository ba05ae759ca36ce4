"""How questions are asked after demonstrations, and what of the model's words counts as the answer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from models.protocols import ChatRequest, Image, Text
from tasks.lever.judge.demonstration_task import PromptSettings, VqaTask
from tasks.lever.lever_records import VqaItem


def item(name: str, *answers: str) -> VqaItem:
    return VqaItem(
        id=name,
        image_id=name,
        image=f"{name}.png",
        image_sha256="0" * 64,
        question=f"What is {name}?",
        answers=answers or (f"a {name}",),
    )


def picture(of: VqaItem) -> Image:
    return Image(png=of.id.encode())


DOG, CAT, COW = item("dog", "dog", "puppy", "puppy"), item("cat"), item("cow")


def prompt(query: VqaItem, demonstrations: Sequence[VqaItem], settings: PromptSettings) -> ChatRequest:
    return VqaTask(settings, pictures=picture).request(query, demonstrations)


def answer_in(text: str) -> str:
    return VqaTask(PromptSettings()).answer_in(text)


def shown(request: ChatRequest) -> list[tuple[str, str]]:
    """Role and content of each part; a picture as <name>."""
    return [
        (turn.role, part.text if isinstance(part, Text) else f"<{part.png.decode()}>")
        for turn in request.messages
        for part in turn.content
    ]


def test_a_completion_is_one_message_of_pictures_and_texts_in_turn() -> None:
    request = prompt(COW, (DOG, CAT), PromptSettings(style="completion"))
    assert len(request.messages) == 1
    assert shown(request) == [
        ("user", "<dog>"),
        ("user", "Question:What is dog? Short answer:puppy"),
        ("user", "<cat>"),
        ("user", "Question:What is cat? Short answer:a cat"),
        ("user", "<cow>"),
        ("user", "Question:What is cow? Short answer:"),
    ]


def test_in_a_chat_the_model_itself_has_answered_the_demonstrations() -> None:
    request = prompt(COW, (DOG, CAT), PromptSettings(style="chat"))
    assert shown(request) == [
        ("user", "<dog>"),
        ("user", "Question:What is dog? Short answer:"),
        ("assistant", "puppy"),
        ("user", "<cat>"),
        ("user", "Question:What is cat? Short answer:"),
        ("assistant", "a cat"),
        ("user", "<cow>"),
        ("user", "Question:What is cow? Short answer:"),
    ]
    assert [turn.role for turn in request.messages] == ["user", "assistant", "user", "assistant", "user"]


@pytest.mark.parametrize("style", ["completion", "chat"])
def test_the_latest_pick_stands_first_on_demand(style: str) -> None:
    settings = PromptSettings.model_validate({"style": style, "latest_pick": "first"})
    usual = settings.model_copy(update={"latest_pick": "last"})
    assert prompt(COW, (DOG, CAT), settings) == prompt(COW, (CAT, DOG), usual)
    assert prompt(COW, (DOG, CAT), settings) != prompt(COW, (DOG, CAT), usual)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("red", "red"),
        (" red\n", "red"),
        ("red Question:What", "red"),
        ("red Short answer:", "red"),
        ("red\n\nAnswer: blue", "red"),
        ("red, blue", "red"),
        ("1,000", "1,000"),
        ("red, Question", "red"),
        ("Question: red", ""),
        ("short question", "short question"),
        ("", ""),
    ],
)
def test_the_answer_ends_at_a_cue_or_at_a_comma(text: str, answer: str) -> None:
    assert answer_in(text) == answer
