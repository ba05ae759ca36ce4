"""Judging demonstrations: the VQA metric beside a plain one, and judgments beside the bare client on the same requests.

The endpoint runs in a process of its own and answers everything after a fixed time. Each round measures the bare client
with threads, ours with its store in PostgreSQL, and ours again by what is stored. Medians over the rounds. Each request
shows three pictures, the third under the question; the bare client gets the same pictures from memory. CPU seconds are
those of this process, PostgreSQL's not among them.
"""

from __future__ import annotations

import base64
import hashlib
import io
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from models.openai import OpenAIChat
from models.protocols import ChatRequest, ChatResponse
from storage.responses import Responses
from tasks.calls import CallSettings, Limits
from tasks.grading.vqa_accuracy import CONTRACTIONS, vqa_accuracy
from tasks.lever.judge.demonstration_task import PromptSettings, VqaTask
from tasks.lever.judge.judging import Judging, PromptedQuery
from tasks.lever.lever_records import VqaItem
from tests.benchmarks.bench_calls import MODEL, ask_bare, endpoint, store
from tests.benchmarks.measuring import Figures, cost_of, medians, take_turns
from tests.benchmarks.peers.plain_vqa import plain_accuracy

ANSWERS = 5_000
ITEMS, QUERIES = 800, 200
SIDE_PX = 32
WORDS = (
    *("the", "red", "Ferry,", "2", "dogs;", "dont", "know"),
    *("O'Clock", "1,000", "left-hand", "St.", "seven", "a", "cat?"),
)

Answered = tuple[str, tuple[str, ...]]


class Bench(NamedTuple):
    """What is measured, and on what."""

    base_url: str
    responses: Responses
    items: dict[str, VqaItem]
    concurrency: int

    def judging(self, judge: Any) -> Judging:
        """A judge that remembers nothing yet."""
        limits = Limits(CallSettings(concurrency=self.concurrency), rng=random.Random(0))
        task = VqaTask(PromptSettings())
        return Judging(judge, self.items, task, threshold=0.5, responses=self.responses, limits=limits)


def measure(judgments: int = 5000, latency_ms: float = 20, concurrency: int = 64, rounds: int = 3) -> Figures:
    """Answers and questions are made up."""
    yield from measure_metric(make_answers()).items()
    with (
        tempfile.TemporaryDirectory(prefix="trivet-bench-") as folder,
        endpoint(latency_ms) as base_url,
        store() as responses,
    ):
        bench = Bench(base_url, responses, items_in(Path(folder)), concurrency)
        yield from measure_instant(bench, judgments).items()
        yield from measure_endpoint(bench, judgments, rounds=rounds).items()
    yield "latencies one behind the other, s", judgments / concurrency * latency_ms / 1000


def make_answers() -> list[Answered]:
    """Answers to questions about which ten people mostly agree."""
    rng = random.Random(0)
    answered: list[Answered] = []
    for number in range(ANSWERS):
        kinds = [f"{' '.join(rng.choices(WORDS, k=rng.randint(1, 4)))} {number}" for _ in range(4)]
        given = tuple(rng.choices(kinds, weights=(8, 4, 2, 1), k=10))
        answered.append((rng.choice(given), given))
    return answered


def measure_metric(answered: Sequence[Answered]) -> dict[str, float]:
    """CPU seconds of scoring them all, caches empty."""

    def ours() -> None:
        scores[:] = [vqa_accuracy(said, given) for said, given in answered]

    def plain() -> None:
        others[:] = [plain_accuracy(said, given, CONTRACTIONS) for said, given in answered]

    scores: list[float] = []
    others: list[float] = []
    cost, beside = cost_of(ours), cost_of(plain)
    assert not [one for one, other in zip(scores, others, strict=True) if abs(one - other) > 1e-9]
    return {"VQA accuracy: ours, CPU s": cost.cpu_s, "VQA accuracy: plain, CPU s": beside.cpu_s}


def items_in(folder: Path) -> dict[str, VqaItem]:
    """Questions, each with a picture of noise of its own."""
    from PIL import Image

    rng, items = random.Random(0), dict[str, VqaItem]()
    for number in range(ITEMS):
        file = io.BytesIO()
        Image.frombytes("RGB", (SIDE_PX, SIDE_PX), rng.randbytes(3 * SIDE_PX**2)).save(file, "PNG")
        path = folder / f"{number}.png"
        path.write_bytes(file.getvalue())
        items[str(number)] = VqaItem(
            id=str(number),
            image_id=str(number),
            image=str(path),
            image_sha256=hashlib.sha256(file.getvalue()).hexdigest(),
            question=f"What is in the left half of picture {number}?",
            answers=("a ferry", "ferry", "boat", *["ship"] * 7),
        )
    return items


def asked_in(round_number: int, count: int) -> list[PromptedQuery]:
    """Other demonstrations in each round: nothing of an earlier one is in the store."""
    rng, asked = random.Random(round_number), dict[PromptedQuery, None]()
    while len(asked) < count:
        asked[PromptedQuery(str(rng.randrange(QUERIES)), tuple(map(str, rng.sample(range(QUERIES, ITEMS), 2))))] = None
    return list(asked)


class Instant:
    """A judge in this process that takes no time."""

    id = "instant:1"

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        return ChatResponse(text="a ferry", finish_reason="stop")

    def complete_many(self, requests: Sequence[ChatRequest]) -> Iterator[tuple[int, ChatResponse]]:
        return ((number, self.complete(request)) for number, request in enumerate(requests))

    def answer_log_probs(self, pairs: Sequence[tuple[ChatRequest, str]]) -> Iterator[tuple[int, float]]:
        return ((number, -1.0) for number in range(len(pairs)))


def measure_instant(bench: Bench, count: int) -> dict[str, float]:
    """CPU microseconds of a judgment beside the judge's own time."""
    judging, asked = bench.judging(Instant()), asked_in(0, count)
    judging.judge(asked_in(-1, count))  # the pictures are read
    again = bench.judging(Instant())
    ways: dict[str, Callable[[], object]] = {
        "a new judgment": lambda: judging.judge(asked),
        "a stored one, pictures read anew": lambda: again.judge(asked),
    }
    return {f"{name}: CPU, µs": 1e6 * cost_of(way).cpu_s / count for name, way in ways.items()}


def measure_endpoint(bench: Bench, count: int, *, rounds: int) -> dict[str, float]:
    """Wall and CPU seconds of the same judgments, by the bare client, ours, and ours by what is stored."""
    bare(bench, asked_in(-2, bench.concurrency))
    ours(bench, asked_in(-2, bench.concurrency))
    nobody = bench._replace(base_url="http://127.0.0.1:9/v1")
    asked = [asked_in(number, count) for number in range(rounds + 1)]
    ways = {
        "bare client, threads": lambda number: bare(bench, asked[number]),
        "ours, stored": lambda number: ours(bench, asked[number]),
        "ours, again": lambda number: ours(nobody, asked[number]),  # a new run that has everything in the store
    }
    return medians(take_turns(ways, rounds=rounds))


def bare(bench: Bench, asked: Sequence[PromptedQuery]) -> None:
    """What a script would do, the pictures in memory, no store."""
    pictures = {
        one.id: "data:image/png;base64," + base64.b64encode(Path(one.image).read_bytes()).decode()
        for one in bench.items.values()
    }
    bodies = (_body(bench.items, one, pictures) for one in asked)
    ask_bare(bench.base_url, bodies, concurrency=bench.concurrency)


def _body(items: dict[str, VqaItem], asked: PromptedQuery, pictures: dict[str, str]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for name in (*asked.demonstrations, asked.query):
        words = f"Question:{items[name].question} Short answer:"
        words += "" if name == asked.query else items[name].shown_answer
        parts += [{"type": "image_url", "image_url": {"url": pictures[name]}}, {"type": "text", "text": words}]
    return {"messages": [{"role": "user", "content": parts}], "max_tokens": 5, "temperature": 0}


def ours(bench: Bench, asked: Sequence[PromptedQuery]) -> None:
    """With the response store, time-outs, retries and the metric."""
    judged = bench.judging(OpenAIChat(MODEL, base_url=bench.base_url)).judge(asked)
    assert not [one for one in judged if one.failed]
