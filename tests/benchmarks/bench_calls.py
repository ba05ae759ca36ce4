"""Many model calls: ours, stored in PostgreSQL, beside the bare OpenAI client on the same requests.

The endpoint runs in a process of its own. Each round measures the bare client with threads, ours, and the recall of
what ours has stored, one after the other; medians over the rounds. CPU seconds are those of this process, PostgreSQL's
not among them.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

from models.openai import OpenAIChat
from models.protocols import ChatRequest, Message, Text
from storage.embedded import Cluster
from storage.responses import Responses
from tasks.bulk import ask_all
from tasks.calls import CallSettings, Limits
from tests.benchmarks.measuring import Figures, medians, scratch_home, take_turns

MODEL = "bench"
WORDS = "A problem of about the length that competitions have, with a question at its end. " * 8


class Bench(NamedTuple):
    """What is measured, and on what."""

    base_url: str
    responses: Responses
    calls: int
    concurrency: int

    def texts(self, round_number: int) -> list[str]:
        """Other prompts in each round: nothing of an earlier one is in the store."""
        return [f"{round_number}-{number}: {WORDS}" for number in range(self.calls)]


def measure(calls: int = 1000, latency_ms: float = 50, concurrency: int = 64, rounds: int = 3) -> Figures:
    """Wall and CPU seconds of the same calls, made in two ways, and again by what is stored."""
    with endpoint(latency_ms) as base_url, store() as responses:
        bench = Bench(base_url, responses, calls, concurrency)
        few = bench._replace(calls=concurrency)
        for way in (bare, ours):  # warms up
            way(few, few.texts(0))
        ways = {
            "bare client, threads": lambda number: bare(bench, bench.texts(number)),
            "ours, stored": lambda number: ours(bench, bench.texts(number)),
            "ours, recalled": lambda number: ours(bench, bench.texts(number)),
        }
        yield from medians(take_turns(ways, rounds=rounds)).items()
    yield "latencies one behind the other, s", calls / concurrency * latency_ms / 1000


def bare(bench: Bench, texts: list[str]) -> None:
    """What a script would do."""
    settings = {"max_tokens": 1024, "temperature": 0.7, "seed": 0}
    bodies = ({"messages": [{"role": "user", "content": text}], **settings} for text in texts)
    ask_bare(bench.base_url, bodies, concurrency=bench.concurrency)


def ask_bare(base_url: str, bodies: Iterable[dict[str, Any]], *, concurrency: int) -> None:
    """Ask all by one client with a pool of threads."""
    from openai import OpenAI

    with (
        OpenAI(base_url=base_url, api_key="none", max_retries=0) as client,
        ThreadPoolExecutor(concurrency) as pool,
    ):
        list(pool.map(lambda body: client.chat.completions.create(model=MODEL, **body), bodies))


def ours(bench: Bench, texts: list[str]) -> None:
    """With the response store, time-outs and retries."""
    chat = OpenAIChat(MODEL, base_url=bench.base_url)
    limits = Limits(CallSettings(concurrency=bench.concurrency), rng=random.Random(0))
    answers = list(ask_all(chat, enumerate(map(request, texts)), responses=bench.responses, limits=limits))
    assert not [answer for _, answer in answers if isinstance(answer, Exception)]


def request(text: str) -> ChatRequest:
    """The same that the bare client sends."""
    return ChatRequest(
        messages=(Message(role="user", content=(Text(text=text),)),), temperature=0.7, max_tokens=1024, seed=0
    )


@contextmanager
def endpoint(latency_ms: float) -> Generator[str]:
    """The address of an endpoint that answers after a fixed time."""
    command = [sys.executable, "-m", "tests.benchmarks.endpoint", str(latency_ms)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        process.stdin.close()


@contextmanager
def store() -> Generator[Responses]:
    """An empty response store."""
    with scratch_home() as home:
        url = Cluster(home).start()
        yield Responses(lambda: url)
