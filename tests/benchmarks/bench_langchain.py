"""Plan, routing, both searches and fusion beside LangChain's retriever stack, and answers without a model.

    python -m tests.benchmarks.bench_langchain --documents DIR --peers PYTHON [--chunks N] [--json]

Both sides get the same chunks, words and vectors, fp32 exact on theirs and our own file format on ours; the vector of
the question costs nothing on either side. CPU milliseconds on one thread, medians. Theirs: EnsembleRetriever over
FAISS similarity, FAISS mmr and BM25Retriever, 30 each, c = 60. Ours: what `trivet rag search --strategy rrf` does.
The answer is `--llm none` over the same index: graph, retrieval, sentences, citations.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1"}  # read at import

import numpy as np
from numpy.typing import NDArray

from models.protocols import Embedder
from storage.index import Index, open_index
from storage.segments import CatalogueEntry
from tasks.language.tokens import tokenize
from tasks.rag.answering.assistant import Assistant
from tasks.rag.indexing.chunks import tokenize_chunks
from tasks.rag.planning.plan import make_plan
from tasks.rag.planning.routing import Router
from tasks.rag.retrieval.search import retrieve
from tests.benchmarks.bench_retrieval import chunk_of, hard_vectors, pdf_sentences, recombined, zipfian_sentences
from tests.storage.publishing import publish

PEER = Path(__file__).parent / "peers" / "langchain_retrieve.py"
QUESTIONS, WARM_UP = 60, 5


class Given:
    """Vectors that were computed before."""

    id = "bench"
    dimension = 384

    def __init__(self, by_text: dict[str, NDArray[np.float32]]) -> None:
        self._by_text = by_text

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([self._by_text[text] for text in texts])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure everything once and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=Path, help="folder of English PDFs")
    parser.add_argument("--peers", type=Path, help="python of an environment with LangChain")
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args(arguments)
    sentences = list(pdf_sentences(options.documents)) if options.documents else zipfian_sentences()
    texts = recombined(sentences, options.chunks)
    questions = [" ".join(text.split()[:14]) for text in random.Random(1).choices(sentences, k=QUESTIONS)]
    with tempfile.TemporaryDirectory() as folder:
        figures = compare(Path(folder), texts, list(dict.fromkeys(questions)), options.peers)
    print(json.dumps(figures) if options.json else "\n".join(f"{name:44} {value}" for name, value in figures.items()))


def compare(work: Path, texts: list[str], questions: list[str], peers: Path | None) -> dict[str, Any]:
    """The figures of both sides."""
    rows = hard_vectors(len(texts))
    asked = hard_vectors(len(questions), seed=1)
    words = make_index(work / "index", texts, rows)
    embedder = Given(dict(zip(questions, asked, strict=True)))
    with open_index(work / "index") as index:
        ours = retrieval_ms(index, questions, embedder)
        figures: dict[str, Any] = {
            "chunks": len(texts),
            "retrieval p50, ms": ours,
            "answer without a model p50, ms": answer_ms(index, questions, embedder),
        }
    if peers:
        _hand_over(work, texts, words, rows, questions, asked)
        theirs = json.loads(subprocess.check_output([peers, PEER, work], text=True))
        figures["LangChain p50, ms"] = round(theirs["p50_ms"], 1)
        figures["LangChain / ours"] = round(theirs["p50_ms"] / ours, 1)
        figures |= theirs["versions"]
    return figures


def make_index(out: Path, texts: list[str], rows: NDArray[np.float32]) -> list[list[str]]:
    """Publish the chunks, a hundred to a document, with names that can be asked for; gives the words of each."""
    documents = [f"{row // 100:064x}" for row in range(len(texts))]
    chunks = [chunk_of(row, text, documents[row]) for row, text in enumerate(texts)]
    words = tokenize_chunks(chunks, tokenizer="bigram")
    names = {name: f"COMPANY{int(name, 16)}_{2015 + int(name, 16) % 9}_10K.pdf" for name in documents}
    publish(
        out,
        chunks=chunks,
        vectors=rows.astype(np.float16),
        tokens=words,
        catalogue=[CatalogueEntry(document=digest, name=name) for digest, name in names.items()],
        embedder=Given.id,
        tokenizer="bigram",
    )
    return words


def retrieval_ms(index: Index, questions: Sequence[str], embedder: Embedder) -> float:
    """Plan, route, both searches, fusion."""
    router = Router(index.catalogue)

    def search(question: str) -> None:
        plan = make_plan(question, filters=router.route(question), strategy="rrf", top_k=10)
        retrieve(index, question, plan, embedder=lambda: embedder)

    return median_ms(search, questions)


def answer_ms(index: Index, questions: Sequence[str], embedder: Embedder) -> float:
    """The whole graph."""
    assistant = Assistant(index, embedder=lambda: embedder)
    return median_ms(assistant.ask, questions)


def median_ms(work: Callable[[str], object], questions: Sequence[str]) -> float:
    """CPU milliseconds, after a few that warm up."""
    times: list[float] = []
    for question in questions:
        started = time.process_time()
        work(question)
        times.append(time.process_time() - started)
    return round(float(np.median(times[WARM_UP:])) * 1e3, 2)


def _hand_over(
    work: Path,
    texts: list[str],
    words: list[list[str]],
    rows: NDArray[np.float32],
    questions: list[str],
    asked: NDArray[np.float32],
) -> None:
    given = {"chunks": texts, "tokens": words, "questions": questions}
    given["asked"] = tokenize(questions, tokenizer="bigram")
    for name, value in given.items():
        (work / f"{name}.json").write_text(json.dumps(value))
    np.save(work / "vectors.npy", rows)
    np.save(work / "asked.npy", asked)


if __name__ == "__main__":
    main()
