"""What demonstrations are chosen for: a task renders prompts, scores answers, and says what an encoder sees of items.

Two kinds of data are here: questions about pictures, answered in the judge's own words and compared with those of ten
people, and texts with classes, where the likeliest label is the answer. A new kind is a class with the methods of
`DemonstrationTask`, and a line in `open_task`; judging, pools, training and evaluation know no task.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.protocols import ChatRequest, Embedder, Image, Message, Text, VisionEmbedder
from storage.records import Record
from tasks.grading.vqa_accuracy import ENOUGH, accuracy_among, people
from tasks.lever.judge.judges import EncoderSpec, open_encoder
from tasks.lever.lever_records import TextItem, VqaItem
from tasks.resources import embedder

Vectors = NDArray[np.float32]
Shown = TypeVar("Shown")
AnyItem = TypeVar("AnyItem", contravariant=True)


MAX_NEW_TOKENS = 5
"""Largest number of tokens in an answer."""


class PromptSettings(Record):
    """How the judge is prompted."""

    style: Literal["completion", "chat"] = "completion"
    """`completion`: one message of images and texts; `chat`: each demonstration is a turn of user and assistant."""
    latest_pick: Literal["first", "last"] = "last"
    """Position of the demonstration picked last; `last`: next to the question."""

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


CUE = re.compile("Question|Answer|Short")
"""Words at which an answer ends: the model begins a question of its own there."""


class VqaTask:
    """A DemonstrationTask."""

    choices: tuple[str, ...] = ()
    screens_beams = True

    def __init__(
        self, prompts: PromptSettings, *, stem: bool = False, pictures: Callable[[VqaItem], Image] | None = None
    ) -> None:
        """stem: as in tasks.grading.vqa_accuracy. pictures: of items; unset: read from their files."""
        self.prompts = prompts
        self._stem = stem
        if pictures is None:
            from tasks.lever.data.vqa_files import Pictures  # brings Pillow

            pictures = Pictures()
        self._pictures = pictures

    def request(self, query: VqaItem, shown: Sequence[VqaItem]) -> ChatRequest:
        """Pictures and questions in turn. Raises DatasetUnusable for a picture that cannot be shown."""
        turns, parts = list[Message](), list[Text | Image]()
        for item in self.prompts.in_order(shown):
            if self.prompts.style == "chat":
                turns.append(Message(role="user", content=(self._pictures(item), Text(text=_question(item)))))
                turns.append(Message(role="assistant", content=(Text(text=item.shown_answer),)))
            else:
                parts += [self._pictures(item), Text(text=_question(item) + item.shown_answer)]
        turns.append(Message(role="user", content=(*parts, self._pictures(query), Text(text=_question(query)))))
        return ChatRequest(messages=tuple(turns), max_tokens=MAX_NEW_TOKENS)

    def answer_in(self, text: str) -> str:
        """What stands before the first cue word, and of that before the first comma and space."""
        return CUE.split(text, maxsplit=1)[0].split(", ", 1)[0].strip()

    def accuracy(self, query: VqaItem, answer: str) -> float:
        """The VQA accuracy."""
        return accuracy_among(people(query.answers, stem=self._stem), answer)

    def worth(self, query: VqaItem) -> Mapping[str, float]:
        """min(people / 3, 1) for each answer of people."""
        return {answer: min(count / ENOUGH, 1.0) for answer, count in Counter(query.answers).items()}

    def views(self, encoder: EncoderSpec) -> Views:
        """Picture and question."""
        return views_of(open_encoder(encoder))


def views_of(encoder: VisionEmbedder) -> Views:
    """What an encoder of pictures and words sees of a question about a picture."""
    from tasks.lever.data.vqa_files import Pictures

    pictures = Pictures(most=0)  # each is needed once

    def look(items: Sequence[VqaItem]) -> Mapping[str, Vectors | None]:
        pngs = [pictures(item).png for item in items]
        return {"vectors": encoder.embed_images(pngs), "classes": encoder.embed_classes(pngs)}

    def read(items: Sequence[VqaItem]) -> Mapping[str, Vectors | None]:
        return {"vectors": encoder.embed_texts([item.question for item in items])}

    return Views(
        encoder=encoder.id,
        dimension=encoder.dimension,
        images=View("pictures", lambda item: item.image_sha256, look),
        texts=View("questions", lambda item: item.question, read),
    )


def _question(item: VqaItem) -> str:
    return f"Question:{item.question} Short answer:"


class Wording(NamedTuple):
    """How a dataset is asked about."""

    instruction: str
    """First line of the prompt; empty: none."""
    text: str
    """What stands before a text."""
    label: str
    """What stands before its class."""
    classes: Mapping[str, str]
    """Class in the dataset's files → the word for it."""


WORDINGS = {
    "trec": Wording(
        "Classify the questions based on whether their answer type is a Number, Location, Person, Description, Entity, "
        "or Abbreviation.",
        "Question",
        "Answer Type",
        {
            "NUM": "Number",
            "LOC": "Location",
            "HUM": "Person",
            "DESC": "Description",
            "ENTY": "Entity",
            "ABBR": "Abbreviation",
        },
    ),
    "sst2": Wording("", "Review", "Sentiment", {"1": "Positive", "0": "Negative"}),
    "agnews": Wording(
        "Classify the news articles into the categories of World, Sports, Business, and Technology.",
        "Article",
        "Answer",
        {"1": "World", "2": "Sports", "3": "Business", "4": "Technology"},
    ),
}
"""By dataset."""


class TextClassification:
    """A DemonstrationTask."""

    screens_beams = False
    """On ten questions of TREC, screening kept .91 of the beams' mean score, and no cheaper search above .94."""

    def __init__(self, wording: Wording, prompts: PromptSettings) -> None:
        self.prompts = prompts
        self.choices = tuple(wording.classes.values())
        self._wording = wording

    def request(self, query: TextItem, shown: Sequence[TextItem]) -> ChatRequest:
        """One text that ends where the class of the query is to follow; it goes to the judge without a template."""
        blocks = [self._wording.instruction] if self._wording.instruction else []
        blocks += [f"{self._question_text(item)} {item.label}" for item in self.prompts.in_order(shown)]
        text = "\n\n".join([*blocks, self._question_text(query)])
        message = Message(role="user", content=(Text(text=text),))
        return ChatRequest(messages=(message,), max_tokens=MAX_NEW_TOKENS, template=False)

    def answer_in(self, text: str) -> str:
        """The first line."""
        return text.strip().partition("\n")[0].strip()

    def accuracy(self, query: TextItem, answer: str) -> float:
        """1 for the right class."""
        return float(answer == query.label)

    def worth(self, query: TextItem) -> Mapping[str, float]:
        """The right class."""
        return {query.label: 1.0}

    def views(self, encoder: EncoderSpec) -> Views:
        """The text, and of candidates the class as well."""
        return text_views(embedder(encoder.name))

    def _question_text(self, item: TextItem) -> str:
        return f"{self._wording.text}: {item.text}\n{self._wording.label}:"


def text_views(embedder: Embedder) -> Views:
    """What an embedder sees of a text, and of its class."""

    def view(name: str, words: Callable[[TextItem], str]) -> View:
        return View(name, words, lambda items: {"vectors": embedder.embed([words(item) for item in items])})

    texts, answers = view("texts", lambda item: item.text), view("answers", lambda item: item.label)
    return Views(embedder.id, embedder.dimension, images=None, texts=texts, answers=answers)


def open_task(dataset: str, prompts: PromptSettings, *, stem: bool = False) -> DemonstrationTask[Any]:
    """What the items of a dataset are to the judge."""
    wording = WORDINGS.get(dataset)
    return TextClassification(wording, prompts) if wording else VqaTask(prompts, stem=stem)
