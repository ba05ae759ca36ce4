"""Judges for tests: scripted answers, given in another order than they were asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from models.model_errors import ModelError
from models.protocols import ChatRequest, ChatResponse, Text
from models.scripted import ScriptedChat, read_rules
from tasks.calls import Answer, response_key
from tasks.evaluation.benchmarks.base import Judge, Tools
from tasks.evaluation.evaluation_records import Item, Reply, Response

SAMPLES = Path(__file__).parents[2] / "samples"
Speak = Callable[[str, ChatRequest], str | ModelError]


class Bench:
    """A judge that remembers what it was asked."""

    def __init__(self, speak: Speak) -> None:
        self.speak = speak
        self.asked: list[ChatRequest] = []
        self.most_pending = 0

    def ask_all(self, requests: Iterable[tuple[Any, ChatRequest]]) -> Iterator[tuple[Any, Answer | ModelError]]:
        pending = list(requests)
        self.most_pending = max(self.most_pending, len(pending))
        for tag, request in reversed(pending):
            self.asked.append(request)
            said = self.speak(prompt_of(request), request)
            yield tag, said if isinstance(said, ModelError) else answer_of(said, request)

    @property
    def tools(self) -> Tools:
        return Tools(math=cast("Any", None), judge=Judge("scripted:judge", self.ask_all))


def prompt_of(request: ChatRequest) -> str:
    return "\n".join(part.text for turn in request.messages for part in turn.content if isinstance(part, Text))


def answer_of(text: str, request: ChatRequest) -> Answer:
    response = ChatResponse(text=text, finish_reason="stop")
    return Answer(response, response_key("judge", request), cached=False, latency_s=0.0)


def says(*texts: str) -> Bench:
    """A judge that gives `texts` draw by draw, whatever it is asked."""
    return Bench(lambda prompt, request: texts[min(request.draw, len(texts) - 1)])


def follows(script: Path) -> Bench:
    """A judge that follows a script."""
    chat = ScriptedChat(read_rules(script))
    return Bench(lambda prompt, request: chat.complete(request).text)


def response(item: Item, *turns: str) -> Response:
    """An answer of `turns` with a key for each."""
    replies = tuple(Reply(text=text, key=f"answer-{number}") for number, text in enumerate(turns))
    return Response(item=item.id, turns=replies)
