"""The judge that answers, how it is prompted, and the encoder that embeds images and questions.

The prompt is the one with which OpenFlamingo and IDEFICS are evaluated: `<image>Question:… Short answer:…`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Literal, TypeVar

from pydantic import Field, model_validator

from models.chats import is_in_process, revision_of
from models.protocols import ChatRequest, Image, Message, Text
from models.registry import press_of
from storage.records import Record, Ref
from tasks.calls import CallSettings, Limits
from tasks.lever.lever_records import VqaItem
from tasks.resources import artifacts, vision

if TYPE_CHECKING:
    from typing import Self

    from models.protocols import Chat, VisionEmbedder


Model = TypeVar("Model")

DIGITS = "digits"
WEIGHTS = "digits-judge"
"""Kind of the artifact that holds the weights of the digits' judge."""
CUE = re.compile("Question|Answer|Short")
"""Words at which an answer ends: the model begins a question of its own there."""
_opening = Lock()


class JudgeSpec(Record):
    """The frozen vision-language model that answers questions."""

    name: str
    """`openai:MODEL` at the endpoint of vision models, `hf:FOLDER` or `vllm:FOLDER` in process with arguments behind a
    comma, `digits`, `scripted`, `scripted:FILE`."""
    weights: Ref | None = None
    """Weights of the judge `digits`, which is trained here."""
    fingerprint: str = ""
    """Digest of local weights or of a local script; other content under the same name is another judge."""

    @model_validator(mode="after")
    def _digits_has_weights(self) -> Self:
        if (self.name == DIGITS) != (self.weights is not None):
            raise ValueError("the judge `digits` has weights of its own, and no other judge has")
        return self

    @property
    def in_process(self) -> bool:
        """True when it needs the device of the process that asks it."""
        return self.name == DIGITS or is_in_process(self.name)


class EncoderSpec(Record):
    """The model whose embeddings the selector reads."""

    name: str
    """`clip` (ViT-B/32), the name or path of another CLIP (`hf:…` is the same), or `digits`."""
    weights: Ref | None = None
    """Weights of the encoder `digits`: the vision tower of its judge."""
    adapters: Path | None = None
    """Folder of LoRA weights for a CLIP (v2_lora)."""
    fingerprint: str = ""
    """Digest of the weights; other weights under the same name are another encoder."""


def fingerprint_of_judge(name: str) -> str:
    """Digest of a judge's local weights or script; empty for an endpoint, which is known by its name alone.

    Raises models.model_errors.ModelUnavailable.
    """
    return "" if name == DIGITS else revision_of(name)


def encoder_spec(name: str, *, adapters: Path | None) -> EncoderSpec:
    """A CLIP as it lies on this disk. Raises models.model_errors.ModelUnavailable."""
    from models.weight_files import find_clip

    return EncoderSpec(name=name, adapters=adapters, fingerprint=find_clip(name, adapters=adapters).fingerprint)


def open_judge(spec: JudgeSpec) -> Chat:
    """The judge. Raises models.model_errors.ModelUnavailable."""
    if spec.weights is None:
        return vision(spec.name, revision=spec.fingerprint)
    from tasks.lever.digits.digits_judge import DigitsJudge

    with _opening:
        return _opened(DigitsJudge, spec.weights.digest, spec.weights.size)


def open_encoder(spec: EncoderSpec) -> VisionEmbedder:
    """The encoder; a CLIP is its caller's alone, so that a device is free for the judge when that has done with it.

    Raises models.model_errors.ModelUnavailable.
    """
    if spec.weights is None:
        from models.clip import ClipEmbedder

        return ClipEmbedder(spec.name, adapters=spec.adapters)
    from tasks.lever.digits.digits_judge import DigitsEncoder

    with _opening:
        return _opened(DigitsEncoder, spec.weights.digest, spec.weights.size)


@cache
def _opened(kind: Callable[[bytes], Model], digest: str, size: int) -> Model:
    return kind(artifacts().get(Ref(kind=WEIGHTS, digest=digest, size=size)))


@cache
def limits_of(name: str, *, concurrency: int) -> Limits:
    """Rates, retries and concurrency, shared by all threads that ask this judge; its entry may allow fewer at once."""
    press = press_of(name)
    at_once = min(concurrency, press.pop("concurrency", concurrency))
    return Limits(CallSettings(concurrency=at_once).model_copy(update=press), rng=random.Random())


Shown = TypeVar("Shown")
Picture = Callable[[VqaItem], Image]


class PromptSettings(Record):
    """How the judge is prompted."""

    style: Literal["completion", "chat"] = "completion"
    """`completion`: one message of images and texts; `chat`: each demonstration is a turn of user and assistant."""
    latest_pick: Literal["first", "last"] = "last"
    """Position of the demonstration picked last; `last`: next to the question."""
    instruction: str | None = None
    """System message; unset: none."""
    max_new_tokens: int = Field(default=5, ge=1)
    """Largest number of tokens in an answer."""
    template: bool = True
    """Apply the chat template; false: plain completion, which few backends support with images."""
    longest_side_px: int | None = Field(default=None, ge=1)
    """Downscale larger images to this size; unset: keep their size."""


def prompt(
    query: VqaItem, demonstrations: Sequence[VqaItem], settings: PromptSettings, pictures: Picture
) -> ChatRequest:
    """The request that asks `query`; demonstrations come in the order of their picks. Raises what `pictures` raises."""
    shown = in_prompt_order(demonstrations, settings)
    turns: list[Message] = []
    if settings.instruction is not None:
        turns.append(Message(role="system", content=(Text(text=settings.instruction),)))
    parts: list[Text | Image] = []
    for item in shown:
        if settings.style == "chat":
            turns.append(Message(role="user", content=(pictures(item), Text(text=_question(item)))))
            turns.append(Message(role="assistant", content=(Text(text=item.shown_answer),)))
        else:
            parts += [pictures(item), Text(text=_question(item) + item.shown_answer)]
    turns.append(Message(role="user", content=(*parts, pictures(query), Text(text=_question(query)))))
    return ChatRequest(messages=tuple(turns), max_tokens=settings.max_new_tokens, template=settings.template)


def in_prompt_order(demonstrations: Sequence[Shown], settings: PromptSettings) -> tuple[Shown, ...]:
    """Demonstrations, or their ids, as they stand in the prompt."""
    return tuple(demonstrations if settings.latest_pick == "last" else demonstrations[::-1])


def _question(item: VqaItem) -> str:
    return f"Question:{item.question} Short answer:"


def answer_in(text: str) -> str:
    """The answer in what a model wrote: up to the first cue word, and of that up to the first comma and space."""
    return CUE.split(text, maxsplit=1)[0].split(", ", 1)[0].strip()
