"""A process that asks an endpoint for many answers: `python -m tests.drills.asking BASE_URL DATABASE_URL COUNT`.

Prints a JSON object for each answer as it gets it, and at the end the trouble that the store had.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from models.openai import OpenAIChat
from models.protocols import ChatRequest, Message, Text
from storage.responses import OptionalResponses, Responses
from tasks.bulk import ask_all
from tasks.calls import Answer, CallSettings, Limits
from tests.models.server import MODEL

CONCURRENCY = 8


def requests(count: int) -> list[tuple[int, ChatRequest]]:
    """A question for each number."""
    return [
        (n, ChatRequest(messages=(Message(role="user", content=(Text(text=f"Question {n}"),)),))) for n in range(count)
    ]


def main(base_url: str, database_url: str, count: str) -> None:
    """Ask them all."""
    store = OptionalResponses(Responses(lambda: database_url), home=Path.cwd())
    limits = Limits(CallSettings(concurrency=CONCURRENCY), rng=random.Random(1))
    chat = OpenAIChat(MODEL, base_url=base_url)
    for tag, answer in ask_all(chat, requests(int(count)), responses=store, limits=limits):
        assert isinstance(answer, Answer), answer
        print(json.dumps({"tag": tag, "cached": answer.cached}), flush=True)
    print(json.dumps({"trouble": store.trouble}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
