"""The judge that answers, and the encoder that embeds items: what they are, and how they are opened."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from models.backends import is_in_process, revision_of
from models.registry import rates_of
from storage.records import Record, Ref
from tasks.calls import CallSettings, Limits, identify_endpoint
from tasks.lever.lever_errors import FileUnusable
from tasks.resources import artifacts, open_once, responses, vision

if TYPE_CHECKING:
    from models.protocols import Chat, VisionEmbedder


Model = TypeVar("Model")

DIGITS = "digits"
CPU_WORLDS = (DIGITS, "crowded")
"""Datasets that are drawn here, with a judge and an encoder that are trained here."""
WEIGHTS = "digits-judge"
"""Kind of the artifact that holds the weights of the digits' judge."""
CONCURRENCY = 16
"""Requests under way at an endpoint."""


class JudgeSpec(Record):
    """The frozen vision-language model that answers questions."""

    name: str
    """`openai:MODEL` at the endpoint of vision models, `hf:FOLDER` or `vllm:FOLDER` in process with arguments behind a
    comma, `digits`, `scripted`, `scripted:FILE`."""
    weights: Ref | None = None
    """Weights of the judge `digits`, which is trained here."""
    fingerprint: str = ""
    """Digest of its weights or of a local script, see `identify_judge`; others under the name are another judge."""

    @property
    def in_process(self) -> bool:
        """True when it needs the device of the process that asks it."""
        return self.name == DIGITS or is_in_process(self.name)


class EncoderSpec(Record):
    """The model whose embeddings the selector reads."""

    name: str
    """`clip` (ViT-B/32), the name or path of another CLIP (`hf:…` is the same), or `digits`; for texts an embedder:
    `minilm`, `e5`, `openai:MODEL` or the name of another."""
    weights: Ref | None = None
    """Weights of the encoder `digits`: the vision tower of its judge."""
    adapters: Path | None = None
    """Folder of LoRA weights for a CLIP (v2_lora)."""
    fingerprint: str = ""
    """Digest of the weights; other weights under the same name are another encoder."""


def specify_encoder(name: str) -> EncoderSpec:
    """Return how an encoder is opened: `NAME`, `CLIP,adapters=FOLDER`, or `FILE.safetensors`.

    The last is a judge of the CPU worlds, whose tower embeds. Raises FileUnusable.
    """
    if name.endswith(".safetensors"):
        try:
            return EncoderSpec(name=DIGITS, weights=artifacts().put(WEIGHTS, Path(name).read_bytes()))
        except OSError as error:
            raise FileUnusable(f"{name}: {error.strerror}; name a file that is there") from error
    name, _, adapters = name.partition(",adapters=")
    return EncoderSpec(name=name, adapters=Path(adapters) if adapters else None)


def identify_judge(name: str) -> tuple[str, tuple[str, ...]]:
    """Return a digest of a judge's weights, on this disk or behind an endpoint, and remarks on it; "" for `digits`.

    What other weights judged is another judge's. Raises models.model_errors.ModelError.
    """
    if name == DIGITS:
        return "", ()
    revision = revision_of(name)
    return (revision, ()) if revision else identify_endpoint(vision(name), responses())


def open_judge(spec: JudgeSpec) -> Chat:
    """Open the judge of a specification. Raises models.model_errors.ModelUnavailable."""
    if spec.weights is None:
        return vision(spec.name, revision=spec.fingerprint)
    from tasks.lever.digits.digits_judge import DigitsJudge

    return _open_cached(DigitsJudge, spec.weights.digest, spec.weights.size)


def open_encoder(spec: EncoderSpec) -> VisionEmbedder:
    """Open the encoder of a specification. Raises models.model_errors.ModelUnavailable.

    A CLIP is opened for its caller alone and not cached, so that the device is free for the judge afterwards.
    """
    if spec.weights is None:
        from models.clip import ClipEmbedder

        return ClipEmbedder(spec.name, adapters=spec.adapters)
    from tasks.lever.digits.digits_judge import DigitsEncoder

    return _open_cached(DigitsEncoder, spec.weights.digest, spec.weights.size)


@open_once
def _open_cached(kind: Callable[[bytes], Model], digest: str, size: int) -> Model:
    return kind(artifacts().get(Ref(kind=WEIGHTS, digest=digest, size=size)))


@cache
def limits_of(name: str) -> Limits:
    """Return the rates, retries and concurrency of a judge's entry, shared by all threads that ask it."""
    # the generator draws the waits between retries, on which no answer depends: it needs no seed
    return Limits(CallSettings(concurrency=CONCURRENCY).model_copy(update=rates_of(name)), rng=random.Random())
