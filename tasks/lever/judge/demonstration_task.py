"""What demonstrations are chosen for: a task renders prompts, scores answers, and says what an encoder sees of items.

A new kind of data is a class with these methods, and a line in `opened_worlds.open_task`; judging, pools, training
and evaluation know no task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from models.protocols import ChatRequest
from storage.records import Record
from tasks.lever.judge.judges import EncoderSpec

Vectors = NDArray[np.float32]
Shown = TypeVar("Shown")
AnyItem = TypeVar("AnyItem", contravariant=True)


class PromptSettings(Record):
    """How the judge is prompted."""

    style: Literal["completion", "chat"] = "completion"
    """`completion`: one message of images and texts; `chat`: each demonstration is a turn of user and assistant."""
    latest_pick: Literal["first", "last"] = "last"
    """Position of the demonstration picked last; `last`: next to the question."""
    instruction: str | None = None
    """System message, or the first line of a completion of text alone; unset: none, or the task's own."""
    max_new_tokens: int = Field(default=5, ge=1)
    """Largest number of tokens in an answer."""
    template: bool = True
    """Apply the chat template; false: plain completion, which few backends support with images."""
    longest_side_px: int | None = Field(default=None, ge=1)
    """Downscale larger images to this size; unset: keep their size."""

    def in_order(self, demonstrations: Sequence[Shown]) -> tuple[Shown, ...]:
        """Demonstrations, or their ids, from the order of their picks to that in which they stand in the prompt."""
        return tuple(demonstrations if self.latest_pick == "last" else demonstrations[::-1])


class View(NamedTuple):
    """One thing that an encoder sees of an item: its picture, or its words."""

    name: str
    """What is embedded, in keys and on the screen: `pictures`, `questions` or `texts`."""
    key: Callable[[Any], str]
    """What decides the vector of an item; equal ones are embedded once."""
    embed: Callable[[Sequence[Any]], Mapping[str, Vectors | None]]
    """Items → `vectors`, a row for each, and perhaps `classes`, what the encoder takes them for."""


class Views(NamedTuple):
    """An encoder, and what it sees of the items of a task."""

    encoder: str
    """Its id."""
    dimension: int
    images: View | None
    texts: View
    answers: View | None = None
    """What a selector sees of a candidate beside the text; None: of candidates it sees what it sees of queries."""


class DemonstrationTask(Protocol[AnyItem]):
    """A kind of item that a judge answers with demonstrations of the same kind."""

    prompts: PromptSettings
    choices: tuple[str, ...]
    """Answers of which the one that the judge finds likeliest counts; empty: it answers in words of its own."""
    screens_beams: bool
    """What a demonstration is worth alone tells enough of its worth beside others to search beams by it."""

    def request(self, query: AnyItem, shown: Sequence[AnyItem]) -> ChatRequest:
        """The prompt; `shown` in the order of the picks. Raises DatasetUnusable for an item that cannot be shown."""
        ...

    def answer_in(self, text: str) -> str:
        """The answer in what the judge wrote."""
        ...

    def accuracy(self, query: AnyItem, answer: str) -> float:
        """0 to 1."""
        ...

    def worth(self, query: AnyItem) -> Mapping[str, float]:
        """Each right answer, with its worth from 0 to 1."""
        ...

    def views(self, encoder: EncoderSpec) -> Views:
        """What this encoder sees. Raises models.model_errors.ModelUnavailable."""
        ...
