"""Plan, routing, both searches and fusion beside LangChain's retriever stack, and answers without a model.

    python -m tests.benchmarks.bench_langchain --documents DIR --peers PYTHON [--chunks N] [--json]

Both sides get the same chunks, words and vectors, fp32 exact on theirs and our own file format on ours; the vector of
the question costs nothing on either side. CPU milliseconds on one thread, medians. Theirs: EnsembleRetriever over
FAISS similarity, FAISS mmr and BM25Retriever, 30 each, c = 60. Ours: what `trivet rag search --strategy rrf` does.
The answer is `--llm none` over the same index: graph, retrieval, sentences, citations.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1"}  # read at import

import numpy as np
from numpy.typing import NDArray

from models.protocols import Embedder
from storage.index import Index, open_index
from tasks.language.tokens import tokenize
from tasks.rag.answering.assistant import Assistant
from tasks.rag.planning.plan import make_plan
from tasks.rag.planning.routing import Router
from tasks.rag.retrieval.search import retrieve
from tests.benchmarks.bench_retrieval import hard_vectors, publish_chunks, recombined, sentences_of
from tests.benchmarks.measuring import median_ms, options, read_json, show

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


def main() -> None:
    """Measure everything once and print it."""
    parser = options(__doc__)
    parser.add_argument("--documents", type=Path, help="folder of English PDFs")
    parser.add_argument("--peers", type=Path, help="python of an environment with LangChain")
    parser.add_argument("--chunks", type=int, default=100_000)
    chosen = parser.parse_args()
    sentences = sentences_of(chosen.documents)
    texts = recombined(sentences, chosen.chunks)
    questions = [" ".join(text.split()[:14]) for text in random.Random(1).choices(sentences, k=QUESTIONS)]
    with tempfile.TemporaryDirectory() as folder:
        show(compare(Path(folder), texts, list(dict.fromkeys(questions)), chosen.peers), as_json=chosen.json)


def compare(work: Path, texts: list[str], questions: list[str], peers: Path | None) -> dict[str, Any]:
    """The figures of both sides."""
    rows = hard_vectors(len(texts))
    asked = hard_vectors(len(questions), seed=1)
    words = tokenize(texts, tokenizer="bigram")

    def name_of(digest: str) -> str:  # that can be asked for
        return f"COMPANY{int(digest, 16)}_{2015 + int(digest, 16) % 9}_10K.pdf"

    publish_chunks(work / "index", texts, rows, words, name_of=name_of)
    embedder = Given(dict(zip(questions, asked, strict=True)))
    with open_index(work / "index") as index:
        ours = retrieval_ms(index, questions, embedder)
        figures: dict[str, Any] = {
            "chunks": len(texts),
            "retrieval p50, ms": ours,
            "answer without a model p50, ms": answer_ms(index, questions, embedder),
        }
    if peers:
        given = {"chunks": texts, "tokens": words, "questions": questions}
        given["asked"] = tokenize(questions, tokenizer="bigram")
        for name, value in given.items():
            (work / f"{name}.json").write_text(json.dumps(value))
        np.save(work / "vectors.npy", rows)
        np.save(work / "asked.npy", asked)
        theirs = read_json([peers, PEER, work])
        figures["LangChain p50, ms"] = round(theirs["p50_ms"], 1)
        figures["LangChain / ours"] = round(theirs["p50_ms"] / ours, 1)
        figures |= theirs["versions"]
    return figures


def retrieval_ms(index: Index, questions: Sequence[str], embedder: Embedder) -> float:
    """Plan, route, both searches, fusion."""
    router = Router(index.catalogue)

    def search(question: str) -> None:
        plan = make_plan(question, filters=router.route(question), strategy="rrf", top_k=10)
        retrieve(index, question, plan, embedder=lambda: embedder)

    return round(median_ms(search, questions, warm_up=WARM_UP), 2)


def answer_ms(index: Index, questions: Sequence[str], embedder: Embedder) -> float:
    """The whole graph."""
    assistant = Assistant(index, embedder=lambda: embedder)
    return round(median_ms(assistant.ask, questions, warm_up=WARM_UP), 2)


if __name__ == "__main__":
    main()
