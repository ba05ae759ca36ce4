"""Judges by rule, and five questions with pictures, to put them together."""

from __future__ import annotations

import hashlib
import io
import math
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from PIL import Image as Decoder

from models.model_errors import ModelError, RequestRefused
from models.protocols import ChatRequest, ChatResponse, Text
from storage.responses import Responses
from tasks.budget import Budget
from tasks.calls import CallSettings, Limits
from tasks.lever.judge.demonstration_task import PromptSettings, VqaTask
from tasks.lever.judge.judging import Judging, PromptedQuery
from tasks.lever.lever_records import VqaItem
from tests.kept_responses import Kept

ANSWERS = ("ferry", "ferry", "a boat", *["ship"] * 7)
NAMES = "qabcd"
ODD = RequestRefused("an odd shape")


class Endpoint:
    """Answers as `say` does, which gets the questions in the prompt, the last one being asked."""

    id = "endpoint:1"

    def __init__(self, say: Callable[[str], str] = lambda names: "ferry") -> None:
        self.say = say
        self.asked: list[str] = []

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        self.asked.append(names_in(request))
        return ChatResponse(text=self.say(names_in(request)), finish_reason="stop")


class Engine(Endpoint):
    """The same in this process, many at once; the longer an answer, the less likely."""

    id = "engine:1"

    def __init__(self, say: Callable[[str], str] = lambda names: "ferry", *, refuses: Collection[str] = ()) -> None:
        super().__init__(say)
        self.refuses = refuses
        self.weighed: list[tuple[str, str]] = []
        self.batches: list[int] = []
        self.dies_after = math.inf

    def complete_many(self, requests: Sequence[ChatRequest]) -> Iterator[tuple[int, ChatResponse | ModelError]]:
        for number, request in enumerate(requests):
            refused = names_in(request) in self.refuses
            yield number, ODD if refused else self.complete(request)

    def answer_log_probs(self, pairs: Sequence[tuple[ChatRequest, str]]) -> Iterator[tuple[int, float]]:
        self.batches.append(len(pairs))
        taken = [number for number, (request, _) in enumerate(pairs) if names_in(request) not in self.refuses]
        for number in reversed(taken):
            if len(self.weighed) >= self.dies_after:
                raise RuntimeError("out of memory")
            request, answer = pairs[number]
            self.weighed.append((names_in(request), answer))
            yield number, self.log_prob(answer)
        if len(taken) < len(pairs):
            raise ODD

    def log_prob(self, answer: str) -> float:
        return -math.log(2) * len(answer)


def names_in(request: ChatRequest) -> str:
    """The letters of the questions in a prompt."""
    texts = [part.text for turn in request.messages for part in turn.content if isinstance(part, Text)]
    return "".join(text.removeprefix("Question:What is ")[0] for text in texts if text.startswith("Question:"))


def five_questions(folder: Path) -> dict[str, VqaItem]:
    """Each with a picture of its own."""
    found: dict[str, VqaItem] = {}
    for number, name in enumerate(NAMES):
        file = io.BytesIO()
        Decoder.new("RGB", (4, 4), (number, 0, 0)).save(file, "PNG")
        path = folder / f"{name}.png"
        path.write_bytes(file.getvalue())
        found[name] = VqaItem(
            id=name,
            image_id=name,
            image=str(path),
            image_sha256=hashlib.sha256(file.getvalue()).hexdigest(),
            question=f"What is {name}?",
            answers=ANSWERS,
        )
    return found


def limits() -> Limits:
    return Limits(CallSettings(concurrency=1, tries=1), rng=random.Random(0))


def judging(
    chat: Endpoint,
    items: Mapping[str, VqaItem],
    responses: Kept | Responses | None = None,
    *,
    threshold: float = 0.5,
    prompts: PromptSettings | None = None,
    budget: Budget | None = None,
    stem: bool = False,
) -> Judging:
    return Judging(
        chat,
        items,
        VqaTask(prompts or PromptSettings(), stem=stem),
        threshold=threshold,
        responses=responses or Kept(),
        limits=limits(),
        budget=budget,
    )


def asked(*words: str) -> list[PromptedQuery]:
    """`abq`: question q after a and b."""
    return [PromptedQuery(word[-1], tuple(word[:-1])) for word in words]


def forget(item: VqaItem) -> None:
    """Its picture is gone."""
    Path(item.image).unlink()
