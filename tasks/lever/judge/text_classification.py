"""Texts with classes: the word for a class that the judge finds likeliest behind the text is its answer.

Prompts and words for the classes are those of Zhao et al. 2021, "Calibrate Before Use", arXiv:2102.09690; TREC's
abbreviations are written out. Likelihoods are compared as they are, without contextual calibration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from models.protocols import ChatRequest, Embedder, Message, Text
from tasks.lever.judge.demonstration_task import PromptSettings, View, Views
from tasks.lever.judge.judges import EncoderSpec
from tasks.lever.lever_records import TextItem
from tasks.resources import embedder


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
        self._instruction = wording.instruction if prompts.instruction is None else prompts.instruction

    def request(self, query: TextItem, shown: Sequence[TextItem]) -> ChatRequest:
        """One text that ends where the class of the query is to follow; it goes to the judge without a template."""
        blocks = [self._instruction] if self._instruction else []
        blocks += [f"{self._asked(item)} {item.label}" for item in self.prompts.in_order(shown)]
        text = "\n\n".join([*blocks, self._asked(query)])
        message = Message(role="user", content=(Text(text=text),))
        return ChatRequest(messages=(message,), max_tokens=self.prompts.max_new_tokens, template=False)

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

    def _asked(self, item: TextItem) -> str:
        return f"{self._wording.text}: {item.text}\n{self._wording.label}:"


def text_views(embedder: Embedder) -> Views:
    """What an embedder sees of a text, and of its class."""

    def view(name: str, words: Callable[[TextItem], str]) -> View:
        return View(name, words, lambda items: {"vectors": embedder.embed([words(item) for item in items])})

    texts, answers = view("texts", lambda item: item.text), view("answers", lambda item: item.label)
    return Views(embedder.id, embedder.dimension, images=None, texts=texts, answers=answers)
