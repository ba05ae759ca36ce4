"""Many people ask one server at once, without a model: latency, errors, and memory from start to end.

    python -m tests.benchmarks.bench_asking [--documents DIR] [--chunks N] [--users N] [--seconds N] [--pause S]

The index is that of bench_retrieval (chunks recombined from the sentences of the PDFs in DIR), with random directions
in place of embeddings; each question is embedded by MiniLM, planned, searched and answered. A user waits for the
answer and reads it for an exponentially distributed pause before the next question. Wall milliseconds on this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import psutil

from models.embedders import family, open_embedder
from storage.segments import CatalogueEntry
from tasks.language.tokens import tokenize
from tests.benchmarks.bench_retrieval import chunk_of, hard_vectors, pdf_sentences, recombined, zipfian_sentences
from tests.storage.publishing import publish

TIMEOUT_S = 60.0
QUESTION_WORDS = 10


class Asked(NamedTuple):
    """One answer as its user saw it."""

    ms: float
    error: str | None


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure once, print it, and give it back."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=Path, help="folder of English PDFs")
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--pause", type=float, default=10, help="mean seconds for which a user reads an answer")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    chosen = parser.parse_args(arguments)
    sentences = list(pdf_sentences(chosen.documents)) if chosen.documents else zipfian_sentences()
    with tempfile.TemporaryDirectory() as folder:
        make_index(Path(folder) / "index", recombined(sentences, chosen.chunks))
        figures = of_server(Path(folder), sentences, users=chosen.users, seconds=chosen.seconds, pause_s=chosen.pause)
    figures = {"chunks": chosen.chunks, "users": chosen.users, "pause, s": chosen.pause} | figures
    print(json.dumps(figures) if chosen.json else "\n".join(f"{name:24} {value}" for name, value in figures.items()))
    return figures


def make_index(out: Path, texts: Sequence[str]) -> None:
    """An index as `trivet rag index` makes it, but for the vectors."""
    embedder = open_embedder("minilm")
    documents = [f"{row // 100:064x}" for row in range(len(texts))]
    publish(
        out,
        chunks=(chunk_of(row, text, documents[row]) for row, text in enumerate(texts)),
        vectors=hard_vectors(len(texts), dimension=embedder.dimension).astype(np.float16),
        tokens=tokenize(texts, tokenizer="bigram"),
        catalogue=[CatalogueEntry(document=name, name=f"{name[-8:]}.pdf") for name in dict.fromkeys(documents)],
        embedder=family(embedder.id),
        tokenizer="bigram",
        settings={"embedder": "minilm"},
    )


def of_server(folder: Path, sentences: Sequence[str], *, users: int, seconds: float, pause_s: float) -> dict[str, Any]:
    """Ask a server of its own for some seconds."""
    command = [sys.executable, "-c", "from flows.cli import main; main()", "rag", "serve"]
    home = os.environ | {"TRIVET_HOME": str(folder / "home")}
    with subprocess.Popen(
        [*command, "--index", str(folder / "index"), "--port", "0", "--json"], env=home, stdout=subprocess.PIPE
    ) as server:
        try:
            assert server.stdout
            said = json.loads(server.stdout.readline())
            headers = {"Authorization": f"Bearer {Path(said['auth']).read_text().strip()}"}
            process = psutil.Process(server.pid)
            with httpx.Client(base_url=said["url"], headers=headers, timeout=TIMEOUT_S) as client:
                for user in range(3):  # models and pages of the index are loaded by then
                    ask(client, random.Random(-user), sentences)
                before, spent = own_bytes(process.pid), sum(process.cpu_times()[:2])
                asked = crowd(client, sentences, users=users, seconds=seconds, pause_s=pause_s)
                after, cpu_s = own_bytes(process.pid), sum(process.cpu_times()[:2]) - spent
        finally:
            server.terminate()
    times = sorted(each.ms for each in asked)
    errors = [each.error for each in asked if each.error]
    return {
        "asked": len(asked),
        "asked a second": round(len(asked) / seconds, 2),
        "p50, ms": round(times[len(times) // 2]),
        "p95, ms": round(times[int(len(times) * 0.95)]),
        "longest, ms": round(times[-1]),
        "errors": len(errors),
        "first error": errors[0] if errors else None,
        "CPU ms an answer": round(1000 * cpu_s / len(asked)),
        "memory before, MB": before >> 20,
        "memory after, MB": after >> 20,
    }


def own_bytes(pid: int) -> int:
    """Memory of a process without the pages of files that it has mapped, such as the index."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("RssAnon:")))


def crowd(client: httpx.Client, sentences: Sequence[str], *, users: int, seconds: float, pause_s: float) -> list[Asked]:
    """What the users saw until the time is over."""
    ends, seen = time.monotonic() + seconds, list[Asked]()

    def use(number: int) -> None:
        chance = random.Random(number)
        time.sleep(chance.uniform(0, pause_s))  # they do not all come at once
        while time.monotonic() < ends:
            seen.append(ask(client, chance, sentences))
            time.sleep(chance.expovariate(1 / pause_s))

    threads = [threading.Thread(target=use, args=(number,)) for number in range(users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
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


if __name__ == "__main__":
    main()
