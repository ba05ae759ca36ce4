"""Requests to the digits' judge, built without any picture file."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from models.protocols import ChatRequest, Image, Message, Text
from tasks.lever.digits.scenes import QUESTIONS, Digits, lexicon, load_digits, render, seeded_generator, to_png

SAMPLES = Path(__file__).parents[2] / "samples"
Style = Literal["completion", "chat"]


class Question(NamedTuple):
    """A question about a picture, with its answer."""

    png: bytes
    text: str
    answer: str


def weights() -> bytes:
    """The judge of the demo, which was trained before."""
    torch.set_num_threads(1)
    return (SAMPLES / "lever" / "judge.safetensors").read_bytes()


@cache
def _held_out() -> Digits:
    return load_digits()["test"]


@cache
def picture(left: int, right: int, seed: int = 0) -> bytes:
    """A picture of these two digits."""
    digits, generator = _held_out(), seeded_generator(seed, f"picture {left} {right}")
    rows = [torch.nonzero(digits.labels == digit)[:, 0] for digit in (left, right)]
    pair = [int(of_digit[int(torch.randint(len(of_digit), (1,), generator=generator))]) for of_digit in rows]
    return to_png(render(digits.ink[None, pair], generator)[0].numpy())


def question(kind: int, left: int, right: int, *, seed: int = 0, names: tuple[str, ...] = lexicon(0)) -> Question:
    """A question about these digits, and what it is answered where digits have these names."""
    answer = (names[left], names[right], f"{names[left]} {names[right]}")[kind]
    return Question(picture(left, right, seed), QUESTIONS[kind], answer)


def request(asked: Question, *shown: Question, style: Style = "completion", max_tokens: int = 5) -> ChatRequest:
    """The request that asks one question after these demonstrations."""
    items = [*((one, one.answer) for one in shown), (asked, "")]
    images = [Image(png=one.png) for one, _ in items]
    cues = [f"Question:{one.text} Short answer:" for one, _ in items]
    texts = [Text(text=cue + answer) for cue, (_, answer) in zip(cues, items, strict=True)]
    if style == "chat":
        turns: list[Message] = []
        for image, cue, (_, answer) in zip(images, cues, items, strict=True):
            turns.append(Message(role="user", content=(image, Text(text=cue))))
            if answer:
                turns.append(Message(role="assistant", content=(Text(text=answer),)))
        return ChatRequest(messages=tuple(turns), max_tokens=max_tokens)
    content = [part for pair in zip(images, texts, strict=True) for part in pair]
    return ChatRequest(messages=(Message(role="user", content=tuple(content)),), max_tokens=max_tokens)
