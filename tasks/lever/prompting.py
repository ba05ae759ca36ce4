"""How a question is asked after its demonstrations, and where in the model's words the answer ends.

The words are those in which OpenFlamingo and IDEFICS are evaluated: `<image>Question:… Short answer:…`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from pydantic import Field

from models.protocols import ChatRequest, Image, Message, Text
from storage.records import Record
from tasks.lever.records import VqaItem

CUE = re.compile("Question|Answer|Short")
"""Where a model goes on to a question of its own."""

Shown = TypeVar("Shown")
Picture = Callable[[VqaItem], Image]
Turns = tuple[Message, ...]


class PromptSettings(Record):
    """How demonstrations are shown."""

    style: Literal["completion", "chat"] = "completion"
    """completion: one message, pictures and texts in turn; chat: the model itself has answered the demonstrations."""
    latest_pick: Literal["first", "last"] = "last"
    """Where the demonstration stands that was picked last; `last`: beside the question."""
    instruction: str | None = None
    """What the system says before all; nothing unless set."""
    max_new_tokens: int = Field(default=5, ge=1)
    """Of an answer."""
    template: bool = True
    """False: without the chat template, to a model that only continues texts; few backends take pictures so."""
    longest_side_px: int | None = Field(default=None, ge=1)
    """Larger pictures are shown smaller; unset: as they are."""


def prompt(
    query: VqaItem, demonstrations: Sequence[VqaItem], settings: PromptSettings, pictures: Picture
) -> ChatRequest:
    """The request that asks `query`; demonstrations come in the order of their picks. Raises what `pictures` raises."""
    shown = in_prompt_order(demonstrations, settings)
    turns = _chat(query, shown, pictures) if settings.style == "chat" else _completion(query, shown, pictures)
    if settings.instruction is not None:
        turns = (Message(role="system", content=(Text(text=settings.instruction),)), *turns)
    return ChatRequest(messages=turns, max_tokens=settings.max_new_tokens, template=settings.template)


def in_prompt_order(demonstrations: Sequence[Shown], settings: PromptSettings) -> tuple[Shown, ...]:
    """Demonstrations, or their ids, as they stand in the prompt."""
    return tuple(demonstrations if settings.latest_pick == "last" else demonstrations[::-1])


def _completion(query: VqaItem, shown: Sequence[VqaItem], pictures: Picture) -> Turns:
    parts: list[Text | Image] = []
    for item in shown:
        parts += [pictures(item), Text(text=_question(item) + item.shown_answer)]
    parts += [pictures(query), Text(text=_question(query))]
    return (Message(role="user", content=tuple(parts)),)


def _chat(query: VqaItem, shown: Sequence[VqaItem], pictures: Picture) -> Turns:
    turns: list[Message] = []
    for item in shown:
        turns.append(Message(role="user", content=(pictures(item), Text(text=_question(item)))))
        turns.append(Message(role="assistant", content=(Text(text=item.shown_answer),)))
    turns.append(Message(role="user", content=(pictures(query), Text(text=_question(query)))))
    return tuple(turns)


def _question(item: VqaItem) -> str:
    return f"Question:{item.question} Short answer:"


def answer_in(text: str) -> str:
    """The answer in what a model wrote: up to the first cue word, and of that up to the first comma and space."""
    return CUE.split(text, maxsplit=1)[0].split(", ", 1)[0].strip()
