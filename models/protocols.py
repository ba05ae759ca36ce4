"""The protocols of model backends; tests/contracts holds one suite for each, which every backend passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from models.model_errors import ModelError


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Text(_Value):
    """A piece of text inside a message."""

    type: Literal["text"] = "text"
    text: str


class Image(_Value):
    """A picture inside a message, as the bytes of a PNG."""

    type: Literal["image"] = "image"
    png: bytes


class Message(_Value):
    """One turn of a conversation: its role, and its texts and pictures in order."""

    role: Literal["system", "user", "assistant"]
    content: tuple[Text | Image, ...]


class ChatRequest(_Value):
    """A request to a model: everything that can change the answer, except the model itself."""

    messages: tuple[Message, ...]
    temperature: float = 0.0
    max_tokens: int = 512
    """The largest number of tokens that the answer may have."""
    seed: int | None = None
    top_p: float | None = None
    """Draw from the most likely tokens that hold this much probability together; None: the model's own default."""
    stop: tuple[str, ...] = ()
    """Texts that end the answer; they are no part of it."""
    draw: int = 0
    """Number of this draw, where the same question is asked several times. Part of the key; sent to nobody."""
    top_logprobs: int | None = None
    """Tell how likely as many of the likeliest first tokens are; None: they are not asked for."""
    template: bool | str = True
    """The model's own chat template, one of its templates by name, or False: the words go to it as they stand."""


class ChatResponse(_Value):
    """An answer, why it ended, and its tokens; None where the backend does not count them."""

    text: str
    finish_reason: str
    """Why the answer ended: `stop`, `length`, or another reason that the backend names."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    top_logprobs: dict[str, float] = Field(default_factory=dict)
    """First token → its natural log-probability, of the likeliest; empty where not asked for, or not told."""
    sent: dict[str, JsonValue] = Field(default_factory=dict)
    """Sampling parameters under the names and with the values that the model got; empty where nothing tells."""


class Chat(Protocol):
    """A model that answers messages; one that sees takes images among them."""

    id: str
    """Backend, model and revision: `openai:gpt-5-mini`. Part of every response key."""

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """Answer one request. Raises models.model_errors.ModelError; only TransientModelError is worth a retry.

        on_text: called with all of the text so far, each time there is more; a backend that cannot stream calls it
        once, with the whole answer.
        """
        ...


@runtime_checkable
class BatchChat(Chat, Protocol):
    """A Chat that is faster with many requests at once: an engine in this process."""

    def complete_many(self, requests: Sequence[ChatRequest]) -> Iterator[tuple[int, ChatResponse | ModelError]]:
        """Yield answers with their number in `requests`, each as soon as it is ready, in whatever order is fastest.

        A request that cannot be answered yields its RequestRefused; an error that ends all of them is raised.
        """
        ...


class LogProb(NamedTuple):
    """The log-probability of a continuation given its context."""

    total: float  # sum of the natural log-probabilities of its tokens
    greedy: bool  # True when every token is the most likely one


@runtime_checkable
class LogLikelihood(Protocol):
    """A model that tells how likely a given text is; endpoints mostly do not."""

    id: str

    def loglikelihood(self, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[int, LogProb]]:
        """Yield the log-probability of each (context, continuation), with its position; in any order.

        No chat template is applied. A context that is too long loses its beginning.
        """
        ...

    def loglikelihood_rolling(self, texts: Sequence[str]) -> Iterator[tuple[int, float]]:
        """Yield the log-probability of whole texts, with their position, in windows as long as the context."""
        ...


@runtime_checkable
class AnswerLikelihood(Protocol):
    """A model that tells how likely an answer to a request is, pictures and chat template included."""

    id: str

    def answer_log_probs(self, pairs: Sequence[tuple[ChatRequest, str]]) -> Iterator[tuple[int, float]]:
        """Yield the log-probability (natural) of each answer, its end token included, with its number; in any order.

        Only the messages and the template of a request matter. The first RequestRefused is raised after all results.
        """
        ...


class Embedder(Protocol):
    """A model that turns each text into a unit vector, independently of the other texts of the call."""

    id: str
    """Name, revision of the weights, and precision. An index opens only with the embedder that made it."""
    dimension: int

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the L2-normalised vectors of texts, (len(texts), dimension), in their order; no rows for no texts.

        Raises models.model_errors.ModelError.
        """
        ...


class VisionEmbedder(Protocol):
    """Turns pictures and texts into unit vectors of one space; a pure function of each, whatever is asked with it."""

    id: str
    """Name of the model, revision of its weights, and precision."""
    dimension: int

    def embed_images(self, pngs: Sequence[bytes]) -> NDArray[np.float32]:
        """Return L2-normalised vectors, (len(pngs), dimension), in order. Raises RequestRefused: unreadable picture."""
        ...

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the L2-normalised vectors of texts, (len(texts), dimension); of a long text, that of its beginning."""
        ...


class Reranker(Protocol):
    """A model that scores how well each text answers a question, reading both together."""

    id: str
    """Name of the model and revision of its weights."""

    def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one score for each text, (len(texts),): higher answers better. Each depends on its own pair alone."""
        ...
