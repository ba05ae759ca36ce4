"""Which model answers, and which one turns pictures into vectors."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from pydantic import model_validator

from models.chats import is_in_process, revision_of
from models.held import release_held
from models.registry import press_of
from storage.records import Record, Ref
from tasks.calls import CallSettings, Limits
from tasks.resources import artifacts, vision

if TYPE_CHECKING:
    from typing import Self

    from models.protocols import Chat, VisionEmbedder

DIGITS = "digits"
WEIGHTS = "digits-judge"
"""Kind of the artifact that holds them."""
_opening = Lock()


class JudgeSpec(Record):
    """The frozen vision-language model whose answers count."""

    name: str
    """`openai:MODEL` at the endpoint of vision models, `hf:FOLDER` or `vllm:FOLDER` in process with arguments behind a
    comma, `digits`, `scripted`, `scripted:FILE`."""
    weights: Ref | None = None
    """Of `digits`, which is trained here."""
    fingerprint: str = ""
    """Of weights or a script on this disk, so that others under the same name are not taken for them."""

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
    """The model whose vectors the selector sees."""

    name: str
    """`clip` (ViT-B/32), the name or path of another CLIP (`hf:…` is the same), or `digits`."""
    weights: Ref | None = None
    """Of `digits`: the vision tower of its judge."""
    adapters: Path | None = None
    """Folder of LoRA weights that a CLIP is trained with (v2_lora)."""
    fingerprint: str = ""
    """Of the weights, so that others of the same name are not taken for them."""


def fingerprint_of_judge(name: str) -> str:
    """What lies on this disk under a judge's name; an endpoint shows nothing: its name has to stand for it.

    Raises models.errors.ModelUnavailable.
    """
    return "" if name == DIGITS else revision_of(name)


def encoder_spec(name: str, *, adapters: Path | None) -> EncoderSpec:
    """A CLIP as it lies on this disk. Raises models.errors.ModelUnavailable."""
    from models.clip_weights import find_clip

    return EncoderSpec(name=name, adapters=adapters, fingerprint=find_clip(name, adapters=adapters).fingerprint)


def open_judge(spec: JudgeSpec) -> Chat:
    """The judge. Raises models.errors.ModelUnavailable."""
    if spec.weights is None:
        return vision(spec.name, revision=spec.fingerprint)
    with _opening:
        return _digits_judge(spec.weights.digest, spec.weights.size)


def open_encoder(spec: EncoderSpec) -> VisionEmbedder:
    """The encoder; a CLIP is its caller's alone, so that a device is free for the judge when that has done with it.

    Raises models.errors.ModelUnavailable.
    """
    if spec.weights is None:
        from models.clip import ClipEmbedder

        return ClipEmbedder(spec.name, adapters=spec.adapters)
    with _opening:
        return _digits_encoder(spec.weights.digest, spec.weights.size)


def release_judges() -> None:
    """Forget the models of this process."""
    for opened in (_digits_judge, _digits_encoder):
        opened.cache_clear()
    release_held()


@cache
def limits_of(name: str, *, concurrency: int) -> Limits:
    """Rates, retries and concurrency, shared by all threads that ask this judge; its entry may allow fewer at once."""
    press = press_of(name)
    at_once = min(concurrency, press.pop("concurrency", concurrency))
    return Limits(CallSettings(concurrency=at_once).model_copy(update=press), rng=random.Random())


@cache
def _digits_judge(digest: str, size: int) -> Chat:
    from tasks.lever.digits.judge import DigitsJudge

    return DigitsJudge(artifacts().get(Ref(kind=WEIGHTS, digest=digest, size=size)))


@cache
def _digits_encoder(digest: str, size: int) -> VisionEmbedder:
    from tasks.lever.digits.judge import DigitsEncoder

    return DigitsEncoder(artifacts().get(Ref(kind=WEIGHTS, digest=digest, size=size)))
