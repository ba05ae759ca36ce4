"""Models that follow a script: for tests, demonstrations and dry runs, without weights and without a network.

They pass the same contract tests as the real backends. Their answers are pure functions of the request.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from models.model_errors import ModelUnavailable, RequestRefused
from models.prompts import Listener, cut, picture_size, pictures_of
from models.protocols import ChatRequest, ChatResponse, Message, Text


class Rule(BaseModel):
    """An answer, and the requests that get it; what is not set matches everything."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    answer: str
    top_logprobs: dict[str, float] = Field(default_factory=dict)
    """First token → its log-probability, told where a request asks for them."""
    prompt: str | None = None
    """Regular expression, searched in the texts of all messages, one per line."""

    @field_validator("prompt")
    @classmethod
    def _compiles(cls, prompt: str | None) -> str | None:
        try:
            re.compile(prompt or "")
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
        return prompt


class ScriptedChat:
    """Answers by the first rule that fits; without one, describes the last image, or restates the question."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self.id = "scripted"
        if self.rules:  # names the script, so that answers of another one are not taken for its own
            # fields that came later or are gone leave the names of older scripts as they were
            gone = {"image_size": None, "image_sha256": None}
            left_out = [None if rule.top_logprobs else {"top_logprobs"} for rule in self.rules]
            told = [rule.model_dump(exclude=out) | gone for rule, out in zip(self.rules, left_out, strict=True)]
            digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
            self.id = f"scripted:{digest[:16]}"
        self.calls = 0
        """Requests answered so far, by all threads together; an answer whose likelihood was asked for is one too."""
        self._lock = threading.Lock()

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """The scripted answer, cut at a stop and to `max_tokens` words.

        Raises RequestRefused for a request without messages, and for a picture that is none.
        on_text: called with one word more each time.
        """
        if not request.messages:
            raise RequestRefused("The request has no messages; give at least one.")
        for png in pictures_of(request.messages):
            picture_size(png)
        with self._lock:
            self.calls += 1
        answer = cut(self._answer(request).rstrip(), request.stop)
        words = _words(answer)
        kept = words[: request.max_tokens]
        text = answer if kept == words else "".join(kept).rstrip()
        if on_text is not None:
            listener = Listener(on_text, ())
            for count in range(1, len(kept) + 1):
                listener("".join(kept[:count]).rstrip())
            listener.end(text)
        return ChatResponse(
            text=text,
            finish_reason="stop" if kept == words else "length",
            prompt_tokens=len(_words(_prompt(request.messages))),
            completion_tokens=len(kept),
            top_logprobs=rule.top_logprobs if request.top_logprobs and (rule := self._rule(request)) else {},
        )

    def answer_log_probs(self, asked: Sequence[tuple[ChatRequest, str]]) -> Iterator[tuple[int, float]]:
        """One half for the scripted answer; all other texts share the rest, the shorter the more (2⁻⁹ for a byte)."""
        for number, (request, answer) in enumerate(asked):
            with self._lock:
                self.calls += 1
            size = len(answer.encode("utf-8", "replace"))
            yield number, -math.log(2) * (1 if answer == self._answer(request) else 9 * size + 2)

    def _answer(self, request: ChatRequest) -> str:
        if rule := self._rule(request):
            return rule.answer
        pngs = list(pictures_of(request.messages))
        return describe_image(pngs[-1]) if pngs else f"You said: {_prompt(request.messages)}"

    def _rule(self, request: ChatRequest) -> Rule | None:
        prompt = _prompt(request.messages)
        return next((rule for rule in self.rules if rule.prompt is None or re.search(rule.prompt, prompt)), None)


class ScriptedReranker:
    """Scores a text by the share of the question's words that it has."""

    id = "scripted"

    def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts),); 1 where every word of the question occurs."""
        wanted = _vocabulary(question)
        shares = [len(wanted & _vocabulary(text)) / max(1, len(wanted)) for text in texts]
        return np.array(shares, dtype=np.float32)


def read_rules(path: Path) -> tuple[Rule, ...]:
    """The rules of a JSON file: a list of objects with the fields of `Rule`. Raises ModelUnavailable."""
    try:
        return TypeAdapter(tuple[Rule, ...]).validate_json(path.read_bytes())
    except OSError as error:
        raise ModelUnavailable(f"The script {path} cannot be read ({error.strerror}); check the path.") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise ModelUnavailable(
            f"The script {path} is not a JSON list of rules (at {list(first['loc'])}: {first['msg']}); "
            'write it like [{"prompt": "budget", "answer": "…"}].'
        ) from error


def describe_image(png: bytes) -> str:
    """A made-up description with a title, a period and a table; the same bytes always give the same one."""
    seed = hashlib.sha256(png).digest()
    height, width = picture_size(png)
    rows = "\n".join(f"| {2020 + year} | {100 + seed[year]} |" for year in range(3))
    return (
        f"Title: Scripted figure {seed.hex()[:8]} ({width} × {height} px)\nPeriod: 2020–2022\nLegend: none\n\n"
        f"| Year | Amount (million) |\n|---|---|\n{rows}"
    )


def _prompt(messages: Sequence[Message]) -> str:
    return "\n".join(part.text for message in messages for part in message.content if isinstance(part, Text))


def _words(text: str) -> list[str]:
    """Words with the blanks behind them: joined they give the text again."""
    return re.findall(r"\s*\S+\s*", text)


def _vocabulary(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))
