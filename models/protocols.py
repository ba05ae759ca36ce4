"""What a backend must offer; tests/contracts holds one suite per protocol that every backend passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Text(_Value):
    """Words of a message."""

    type: Literal["text"] = "text"
    text: str


class Image(_Value):
    """A picture of a message, as PNG."""

    type: Literal["image"] = "image"
    png: bytes


class Message(_Value):
    """One turn."""

    role: Literal["system", "user", "assistant"]
    content: tuple[Text | Image, ...]


class ChatRequest(_Value):
    """Everything that can change the answer, save the model itself."""

    messages: tuple[Message, ...]
    temperature: float = 0.0
    max_tokens: int = 512
    """Most tokens of the answer."""
    seed: int | None = None


class ChatResponse(_Value):
    """An answer and what it cost."""

    text: str
    finish_reason: str
    """`stop`, `length`, …"""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Chat(Protocol):
    """Answers messages; a Vision backend is a Chat that takes images."""

    id: str
    """Backend, model and revision: `openai:gpt-5-mini`. Part of every response key."""

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """One answer. Raises models.errors.ModelError; only TransientModelError is worth a retry.

        on_text: called with all of the text so far, each time there is more; a backend that cannot stream calls it
        once, with the whole answer.
        """
        ...


class Embedder(Protocol):
    """Turns texts into unit vectors; a pure function of each text, whatever else is in the call."""

    id: str
    """Name, revision of the weights, and precision. An index opens only with the embedder that made it."""
    dimension: int

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), dimension), L2-normalised."""
        ...


class Reranker(Protocol):
    """Scores how well texts answer a question, reading both together."""

    id: str
    """Name and revision of the weights."""

    def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts),); higher answers better. A pure function of each pair."""
        ...
