"""An endpoint that answers half of the questions only, until it is mended."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.drills.evaluating import adder
from tests.models.server import Reply, Server, error_reply, prompt_of

PARTS = 2
"""A run fails once, and its retry gets the other part of the answers."""
SAID = "no GPU is free"
SHOWN_ANSWER = re.compile(r"Short answer:(.+)")


@dataclass
class Fault:
    """What one model of the endpoint is asked, and how often it has answered."""

    begins: Callable[[], bool] = lambda: True
    """Whether it fails by now; what it is asked before is answered, and counts in no part."""
    mended: bool = False
    """Whether it answers the second part too."""
    answered: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    _places: dict[str, int] = field(default_factory=dict[str, int])
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, body: dict[str, Any]) -> Reply | None:
        """None: it answers. A server that is to be left alone for hours is not asked again by this run."""
        question = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        with self._guard:
            answers = self.mended or self._place(question) % PARTS == 0
            (self.answered if answers else self.refused)[question] += 1
        return None if answers else error_reply(503, SAID, headers={"Retry-After": "7200"})

    def _place(self, question: str) -> int:
        if question not in self._places and not self.begins():
            return 0
        return self._places.setdefault(question, len(self._places))


def misbehave(faults: Mapping[str, Fault]) -> Callable[[str, dict[str, Any]], Reply | None]:
    """By the name of the model that is asked; embeddings are given."""
    return lambda path, body: faults[body["model"]].reply(body) if path.endswith("/completions") else None


def answer(body: dict[str, Any]) -> str:
    """A sum, what a picture shows, or the answer of the last demonstration."""
    match body["model"]:
        case "sums":
            return adder(pause_s=0)(body)
        case "figures":
            return f"A bar chart of fares: {len(json.dumps(body))} in 2023, 12 in 2024."
        case _:
            shown = SHOWN_ANSWER.findall(prompt_of(body))
            return shown[-1] if shown else "zero"


def set_up(server: Server, faults: Mapping[str, Fault]) -> None:
    """Have the server play all these models."""
    server.models = (*faults, "vectors")
    server.answer, server.misbehave = answer, misbehave(faults)
