"""Tasks for which demonstrations are chosen: each renders prompts and scores answers; and what an encoder embeds.

Two kinds of data are here: questions about pictures, answered in the judge's own words and compared with those of ten
people, and texts with classes, where the likeliest label is the answer. A new kind is a class with the methods of
`DemonstrationTask`, and a line in `open_task` and `open_views`; judging, pools, training and evaluation know no task.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.protocols import ChatRequest, Embedder, Image, Message, Text, VisionEmbedder
from storage.records import Record
from tasks.grading.exact import are_same_words
from tasks.grading.vqa_accuracy import ENOUGH, accuracy_among, prepare_answers
from tasks.lever.judge.judges import EncoderSpec, open_encoder
from tasks.lever.lever_errors import OptionUnusable
from tasks.lever.lever_records import Dataset, TextItem, VqaItem
from tasks.resources import embedder

Vectors = NDArray[np.float32]
Demonstration = TypeVar("Demonstration")
AnyItem = TypeVar("AnyItem", contravariant=True)


MAX_NEW_TOKENS, TEXT_TOKENS = 5, 20
"""Largest number of tokens in an answer, and in one to a text of a user's own dataset."""
Score = Callable[[str, Sequence[str]], float]
"""Returns the score of an answer, 0 to 1, given the right answers."""


class PromptSettings(Record):
    """Form of the judge's prompt: one message or turns, and where the last pick stands."""

    style: Literal["completion", "chat"] = "completion"
    """`completion`: one message of images and texts; `chat`: each demonstration is a turn of user and assistant."""
    latest_pick: Literal["first", "last"] = "last"
    """Position of the demonstration picked last; `last`: next to the question."""

    def in_order(self, demonstrations: Sequence[Demonstration]) -> tuple[Demonstration, ...]:
        """Return demonstrations, or their ids, given in the order of their picks, in the order of the prompt."""
        return tuple(demonstrations if self.latest_pick == "last" else demonstrations[::-1])


class View(NamedTuple):
    """One part of an item that an encoder embeds: its picture, its words or its answer."""

    name: str
    """Name of the part, in cache keys and on the screen: `pictures`, `questions`, `texts` or `answers`."""
    key: Callable[[Any], str]
    """Returns the key of an item; items with equal keys have equal vectors and are embedded once."""
    embed: Callable[[Sequence[Any]], Vectors]
    """Embeds items, a row for each."""


class Views(NamedTuple):
    """An encoder with the parts of a task's items that it embeds."""

    encoder: str
    """Id of the encoder."""
    dimension: int
    images: View | None
    texts: View
    answers: View | None = None
    """The answers that a selector sees of candidates beside their text; None: it sees candidates as it sees queries."""


class DemonstrationTask(Protocol[AnyItem]):
    """A kind of item that a judge answers with demonstrations of the same kind: its prompts and its scores."""

    prompts: PromptSettings
    choices: tuple[str, ...]
    """The possible answers, of which the judge's likeliest counts; empty: the judge answers in words of its own."""

    def request(self, query: AnyItem, demonstrations: Sequence[AnyItem]) -> ChatRequest:
        """Render the prompt, given demonstrations in the order of the picks. Raises DatasetUnusable."""
        ...

    def answer_in(self, text: str) -> str:
        """Extract the answer from what the judge wrote."""
        ...

    def accuracy(self, query: AnyItem, answer: str) -> float:
        """Score an answer to the query, 0 to 1."""
        ...

    def worth(self, query: AnyItem) -> Mapping[str, float]:
        """Return each right answer of the query with its worth, above 0 and at most 1."""
        ...


CUE = re.compile("Question|Answer|Short")
"""Words at which an answer ends: the model begins a question of its own there."""


class VqaTask:
    """The DemonstrationTask of questions about pictures, which the judge answers in words of its own."""

    choices: tuple[str, ...] = ()

    def __init__(
        self,
        prompts: PromptSettings,
        *,
        stem: bool = False,
        pictures: Callable[[VqaItem], Image] | None = None,
        score: Score | None = None,
    ) -> None:
        """stem: as in tasks.grading.vqa_accuracy. pictures: of items; unset: read from their files. score: in place of
        the VQA accuracy."""
        self.prompts, self._score = prompts, score or open_metric("vqa", stem=stem)
        if pictures is None:
            from tasks.lever.data.vqa_files import Pictures  # brings Pillow

            pictures = Pictures()
        self._pictures = pictures

    def request(self, query: VqaItem, demonstrations: Sequence[VqaItem]) -> ChatRequest:
        """Render pictures and questions in turn. Raises DatasetUnusable for a picture that cannot be shown."""
        turns, parts = list[Message](), list[Text | Image]()
        for item in self.prompts.in_order(demonstrations):
            if self.prompts.style == "chat":
                turns.append(Message(role="user", content=(self._pictures(item), Text(text=_question(item)))))
                turns.append(Message(role="assistant", content=(Text(text=item.shown_answer),)))
            else:
                parts += [self._pictures(item), Text(text=_question(item) + item.shown_answer)]
        turns.append(Message(role="user", content=(*parts, self._pictures(query), Text(text=_question(query)))))
        return ChatRequest(messages=tuple(turns), max_tokens=MAX_NEW_TOKENS)

    def answer_in(self, text: str) -> str:
        """Return the text before the first cue word, and of that the part before the first comma and space."""
        return CUE.split(text, maxsplit=1)[0].split(", ", 1)[0].strip()

    def accuracy(self, query: VqaItem, answer: str) -> float:
        """Return the VQA accuracy of an answer, or its score by the metric of the dataset, 0 to 1."""
        return self._score(answer, query.answers)

    def worth(self, query: VqaItem) -> Mapping[str, float]:
        """Return min(people / 3, 1) for each distinct answer of people."""
        return {answer: min(count / ENOUGH, 1.0) for answer, count in Counter(query.answers).items()}


def picture_views(encoder: VisionEmbedder) -> Views:
    """Return picture and question as the parts that an encoder of pictures and words embeds."""
    from tasks.lever.data.vqa_files import Pictures

    pictures = Pictures(most_bytes=0)  # each is needed once

    def embed_pictures(items: Sequence[VqaItem]) -> Vectors:
        return encoder.embed_images([pictures(item).png for item in items])

    def embed_questions(items: Sequence[VqaItem]) -> Vectors:
        return encoder.embed_texts([item.question for item in items])

    return Views(
        encoder=encoder.id,
        dimension=encoder.dimension,
        images=View("pictures", lambda item: item.image_sha256, embed_pictures),
        texts=View("questions", lambda item: item.question, embed_questions),
    )


def _question(item: VqaItem) -> str:
    return f"Question:{item.question} Short answer:"


class Wording(NamedTuple):
    """The words of a dataset's prompts."""

    instruction: str
    """First line of the prompt; empty: none."""
    text: str
    """The word before a text, such as `Review`."""
    label: str
    """The words before its class, such as `Answer Type`."""
    classes: Mapping[str, str]
    """Class in the dataset's files → the word for it."""


_TABLES = tomllib.loads(Path(__file__).with_name("wordings.toml").read_text("utf-8"))
WORDINGS = {name: Wording(**words) for name, words in _TABLES.items()}
"""The wording of each dataset of texts."""


class TextClassification:
    """The DemonstrationTask of texts with classes, of which the judge's likeliest label counts."""

    def __init__(self, wording: Wording, prompts: PromptSettings, *, score: Score | None = None) -> None:
        """score: of answers in the judge's own words; unset: the likeliest class is the answer."""
        self.prompts = prompts
        self.choices = () if score else tuple(wording.classes.values())
        self._wording, self._score = wording, score

    def request(self, query: TextItem, demonstrations: Sequence[TextItem]) -> ChatRequest:
        """Render one text that ends where the query's class is to follow; the judge gets it without a chat template."""
        blocks = [self._wording.instruction] if self._wording.instruction else []
        blocks += [f"{self._question_text(item)} {item.label}" for item in self.prompts.in_order(demonstrations)]
        text = "\n\n".join([*blocks, self._question_text(query)])
        message = Message(role="user", content=(Text(text=text),))
        return ChatRequest(
            messages=(message,), max_tokens=TEXT_TOKENS if self._score else MAX_NEW_TOKENS, template=False
        )

    def answer_in(self, text: str) -> str:
        """Return the first line of what the judge wrote."""
        return text.strip().partition("\n")[0].strip()

    def accuracy(self, query: TextItem, answer: str) -> float:
        """Return 1 for the right class, else 0, or the score of an answer in the judge's own words."""
        return self._score(answer, query.answers) if self._score else float(answer == query.label)

    def worth(self, query: TextItem) -> Mapping[str, float]:
        """Return each right answer with a worth of 1."""
        return dict.fromkeys(query.answers, 1.0)

    def _question_text(self, item: TextItem) -> str:
        return f"{self._wording.text}: {item.text}\n{self._wording.label}:"


def text_views(embedder: Embedder) -> Views:
    """Return text and class as the parts that an embedder embeds."""

    def view(name: str, words: Callable[[TextItem], str]) -> View:
        return View(name, words, lambda items: embedder.embed([words(item) for item in items]))

    texts, answers = view("texts", lambda item: item.text), view("answers", lambda item: item.label)
    return Views(embedder.id, embedder.dimension, images=None, texts=texts, answers=answers)


def open_views(dataset: Dataset, encoder: EncoderSpec) -> Views:
    """Return the parts of a dataset's items that this encoder embeds. Raises models.model_errors.ModelUnavailable."""
    if isinstance(dataset.items[0], VqaItem):
        return picture_views(open_encoder(encoder))
    return text_views(embedder(encoder.name))


def open_task(dataset: Dataset, prompts: PromptSettings, *, stem: bool = False) -> DemonstrationTask[Any]:
    """Return the task of a dataset: TextClassification for texts, else VqaTask. Raises OptionUnusable for a metric."""
    if not dataset.metric:
        wording = WORDINGS.get(dataset.name)
        return TextClassification(wording, prompts) if wording else VqaTask(prompts, stem=stem)
    if dataset.metric == "label":
        labels = sorted({item.shown_answer for item in dataset.items})
        return TextClassification(Wording("", "Text", "Label", {label: label for label in labels}), prompts)
    score = open_metric(dataset.metric, stem=stem)
    if isinstance(dataset.items[0], VqaItem):
        return VqaTask(prompts, stem=stem, score=score)
    return TextClassification(Wording("", "Text", "Answer", {}), prompts, score=score)


def open_metric(name: str, *, stem: bool = False) -> Score:
    """Return the metric `vqa`, `exact` or a user's `module.function(answer, answers)`. Both raise OptionUnusable."""
    if name == "vqa":
        return lambda answer, answers: accuracy_among(prepare_answers(tuple(answers), stem=stem), answer)
    if name == "exact":
        return lambda answer, answers: float(any(are_same_words(right, answer) for right in answers))
    module, _, function_name = name.rpartition(".")
    try:
        function: Callable[..., Any] | None = getattr(import_module(module), function_name) if module else None
    except (ImportError, AttributeError) as error:
        raise OptionUnusable(
            f"the metric {name} cannot be imported ({error}); name a function of a module that Python finds "
            "(PYTHONPATH), as module.function"
        ) from error
    if function is None:
        raise OptionUnusable(f"there is no metric {name!r}; choose vqa, exact, label, or name a module.function")

    def score(answer: str, answers: Sequence[str]) -> float:
        value = float(function(answer, answers))
        if not 0 <= value <= 1:
            raise OptionUnusable(f"the metric {name} gave {value} for {answer[:80]!r}; it has to be from 0 to 1")
        return value

    return score
