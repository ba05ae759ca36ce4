"""Many people ask one server at once, without a model: latency, errors, and memory from start to end.

The index is that of bench_retrieval (chunks recombined from the sentences of `documents`), with random directions
in place of embeddings; each question is embedded by MiniLM, planned, searched and answered. A user waits for the
answer and reads it for an exponentially distributed pause before the next question. Wall milliseconds on this machine.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil

from models.embedders import family_of, open_embedder
from tests.benchmarks.bench_retrieval import hard_vectors, publish_chunks, recombined, sentences_of
from tests.benchmarks.measuring import TRIVET, Figures, status_mb

TIMEOUT_S = 60.0
QUESTION_WORDS = 10


class Asked(NamedTuple):
    """One answer as its user saw it."""

    ms: float
    error: str | None


def measure(
    documents: Path | None = None,
    chunks: int = 100_000,
    users: int = 50,
    seconds: float = 300,
    pause_s: float = 10,
) -> Figures:
    """documents: folder of English PDFs. pause_s: mean of the time for which a user reads an answer."""
    sentences, embedder = sentences_of(documents), open_embedder("minilm")
    texts = recombined(sentences, chunks)
    vectors = hard_vectors(len(texts), dimension=embedder.dimension)
    with tempfile.TemporaryDirectory() as folder:
        # an index as `trivet rag index` makes it, but for the vectors
        settings: dict[str, Any] = {"embedder": "minilm"}
        publish_chunks(Path(folder) / "index", texts, vectors, embedder=family_of(embedder.id), settings=settings)
        yield from of_server(Path(folder), sentences, users=users, seconds=seconds, pause_s=pause_s).items()


def of_server(folder: Path, sentences: Sequence[str], *, users: int, seconds: float, pause_s: float) -> dict[str, Any]:
    """Ask a server of its own for some seconds."""
    command = [*TRIVET, "rag", "serve", "--index", str(folder / "index"), "--port", "0", "--json"]
    home = os.environ | {"TRIVET_HOME": str(folder / "home")}
    with subprocess.Popen(command, env=home, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout
            said = json.loads(server.stdout.readline())
            headers = {"Authorization": f"Bearer {Path(said['auth']).read_text().strip()}"}
            process = psutil.Process(server.pid)
            with httpx.Client(base_url=said["url"], headers=headers, timeout=TIMEOUT_S) as client:
                for user in range(3):  # models and pages of the index are loaded by then
                    ask(client, random.Random(-user), sentences)
                # memory without the pages of files that are mapped, such as the index
                before, spent = status_mb("RssAnon", server.pid), sum(process.cpu_times()[:2])
                asked = crowd(client, sentences, users=users, seconds=seconds, pause_s=pause_s)
                after, cpu_s = status_mb("RssAnon", server.pid), sum(process.cpu_times()[:2]) - spent
        finally:
            server.terminate()
    times = sorted(each.ms for each in asked)
    errors = [each.error for each in asked if each.error]
    return {
        "asked": len(asked),
        "asked a second": len(asked) / seconds,
        "p50, ms": times[len(times) // 2],
        "p95, ms": times[int(len(times) * 0.95)],
        "longest, ms": times[-1],
        "errors": len(errors),
        "first error": errors[0] if errors else None,
        "CPU ms an answer": 1000 * cpu_s / len(asked),
        "memory before, MB": before,
        "memory after, MB": after,
    }


def crowd(client: httpx.Client, sentences: Sequence[str], *, users: int, seconds: float, pause_s: float) -> list[Asked]:
    """What the users saw until the time is over."""
    ends, seen = time.monotonic() + seconds, list[Asked]()

    def use(number: int) -> None:
        chance = random.Random(number)
        time.sleep(chance.uniform(0, pause_s))  # they do not all come at once
        while time.monotonic() < ends:
            seen.append(ask(client, chance, sentences))
            time.sleep(chance.expovariate(1 / pause_s))

    with ThreadPoolExecutor(users) as threads:
        list(threads.map(use, range(users)))
    return seen


def ask(client: httpx.Client, chance: random.Random, sentences: Sequence[str]) -> Asked:
    """One question of words that stand together in a document."""
    question = " ".join(chance.choice(sentences).split()[:QUESTION_WORDS]) + "?"
    started = time.monotonic()
    try:
        answered = client.post("/ask", json={"question": question})
        error = None if answered.is_success else f"{answered.status_code} {answered.text[:200]}"
    except httpx.HTTPError as failed:
        error = repr(failed)
    return Asked(1000 * (time.monotonic() - started), error)
