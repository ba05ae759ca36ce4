"""Questions about pictures: the judge answers in its own words, which are compared with those of ten people.

The prompt is the one with which OpenFlamingo and IDEFICS are evaluated: `<image>Question:… Short answer:…`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from models.protocols import ChatRequest, Image, Message, Text, VisionEmbedder
from tasks.grading.vqa_accuracy import ENOUGH, accuracy_among, people
from tasks.lever.data.dataset_pictures import Pictures
from tasks.lever.judge.demonstration_task import PromptSettings, Vectors, View, Views
from tasks.lever.judge.judges import EncoderSpec, open_encoder
from tasks.lever.lever_records import VqaItem

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
        self._pictures = pictures or Pictures(longest_side_px=prompts.longest_side_px)

    def request(self, query: VqaItem, shown: Sequence[VqaItem]) -> ChatRequest:
        """Pictures and questions in turn. Raises DatasetUnusable for a picture that cannot be shown."""
        settings = self.prompts
        turns: list[Message] = []
        if settings.instruction is not None:
            turns.append(Message(role="system", content=(Text(text=settings.instruction),)))
        parts: list[Text | Image] = []
        for item in settings.in_order(shown):
            if settings.style == "chat":
                turns.append(Message(role="user", content=(self._pictures(item), Text(text=_question(item)))))
                turns.append(Message(role="assistant", content=(Text(text=item.shown_answer),)))
            else:
                parts += [self._pictures(item), Text(text=_question(item) + item.shown_answer)]
        turns.append(Message(role="user", content=(*parts, self._pictures(query), Text(text=_question(query)))))
        return ChatRequest(messages=tuple(turns), max_tokens=settings.max_new_tokens, template=settings.template)

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
    pictures = Pictures(most_bytes=0)  # each is needed once

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
