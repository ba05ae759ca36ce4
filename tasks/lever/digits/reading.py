"""Reads a request to the digits' judge as what it shows: pictures with questions, and answers to all but the last.

Any order of pictures and words will do, in one turn or in many: the first picture belongs to the first question.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from models.errors import ContextOverflow, RequestRefused
from models.protocols import ChatRequest, Image
from tasks.lever.digits.language import QUESTIONS, UNKNOWN, tokens_of

MOST_SHOWN = 4
"""Demonstrations."""
PLACEHOLDER = "<image>"
_ITEM = re.compile(r"Question:(.*?)Short answer:(.*?)(?=Question:|\Z)", re.DOTALL)
_KINDS = {question: kind for kind, question in enumerate(QUESTIONS)}


class Shown(NamedTuple):
    """A demonstration."""

    png: bytes
    kind: int
    """Number of the question."""
    answer: tuple[int, int]
    """Tokens."""


class Read(NamedTuple):
    """What a request shows and asks."""

    shown: tuple[Shown, ...]
    png: bytes
    kind: int


class Said(NamedTuple):
    """The words of a request."""

    kinds: tuple[int, ...]
    answers: tuple[tuple[int, int], ...]
    """Tokens; of all questions but the last."""


def read(request: ChatRequest) -> Read:
    """What `request` shows and asks. Raises RequestRefused, and ContextOverflow for too many demonstrations."""
    turns = [message for message in request.messages if message.role != "system"]
    parts = [part for message in turns for part in message.content]
    pngs = [part.png for part in parts if isinstance(part, Image)]
    said = _said("\n".join(part.text for part in parts if not isinstance(part, Image)))
    if isinstance(said, str):
        raise RequestRefused(said)
    if len(pngs) != len(said.kinds):
        raise RequestRefused(
            f"The request has {len(pngs)} pictures and {len(said.kinds)} questions; give each question its picture."
        )
    if len(said.answers) > MOST_SHOWN:
        raise ContextOverflow(
            f"The request shows {len(said.answers)} demonstrations; the digits' judge reads {MOST_SHOWN} at most."
        )
    # the last question has a picture, but no answer
    shown = zip(pngs, said.kinds, said.answers, strict=False)
    return Read(tuple(Shown(*one) for one in shown), pngs[-1], said.kinds[-1])


@lru_cache(maxsize=8192)
def _said(text: str) -> Said | str:
    """The words of a request, or why they cannot be read."""
    items = [(question.strip(), answer.strip()) for question, answer in _ITEM.findall(text.replace(PLACEHOLDER, ""))]
    if not items:
        return "The digits' judge reads requests of the form `Question:… Short answer:…`; this one has no question."
    unheard = [question for question, _ in items if question not in _KINDS]
    if unheard:
        return f"The digits' judge does not know the question {unheard[0]!r}; it knows {', '.join(QUESTIONS)}"
    *shown, last = [answer for _, answer in items]
    if last:
        return f"The last question of the request is already answered ({last!r}); leave its answer out."
    if not all(shown):
        return "A demonstration of the request has no answer; give one to each question but the last."
    answers = tuple(tokens_of(answer) or (UNKNOWN, UNKNOWN) for answer in shown)
    return Said(tuple(_KINDS[question] for question, _ in items), answers)
