"""Plan, routing, both searches and fusion beside LangChain's retriever stack, and answers without a model.

Both sides get the same chunks, words and vectors, fp32 exact on theirs and our own file format on ours; the vector of
the question costs nothing on either side. CPU milliseconds on one thread, medians. Theirs: EnsembleRetriever over
FAISS similarity, FAISS mmr and BM25Retriever, 30 each, c = 60. Ours: what `trivet rag search --strategy rrf` does.
The answer is `--llm none` over the same index: graph, retrieval, sentences, citations.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

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
from tests.benchmarks.measuring import Figures, median_ms, read_json

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


def measure(documents: Path | None = None, peers: Path | None = None, chunks: int = 100_000) -> Figures:
    """documents: folder of English PDFs. peers: python of an environment with LangChain."""
    sentences = sentences_of(documents)
    texts, rows = recombined(sentences, chunks), hard_vectors(chunks)
    drawn = random.Random(1).choices(sentences, k=QUESTIONS)
    questions = list(dict.fromkeys(" ".join(text.split()[:14]) for text in drawn))
    asked = hard_vectors(len(questions), seed=1)
    words = tokenize(texts, tokenizer="bigram")

    def name_of(digest: str) -> str:  # that can be asked for
        return f"COMPANY{int(digest, 16)}_{2015 + int(digest, 16) % 9}_10K.pdf"

    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        publish_chunks(work / "index", texts, rows, words, name_of=name_of)
        embedder = Given(dict(zip(questions, asked, strict=True)))
        with open_index(work / "index") as index:
            yield "retrieval p50, ms", retrieval_ms(index, questions, embedder)
            yield "answer without a model p50, ms", answer_ms(index, questions, embedder)
        if peers:
            given = {"chunks": texts, "tokens": words, "questions": questions}
            given["asked"] = tokenize(questions, tokenizer="bigram")
            for name, value in given.items():
                (work / f"{name}.json").write_text(json.dumps(value))
            np.save(work / "vectors.npy", rows)
            np.save(work / "asked.npy", asked)
            theirs = read_json([peers, PEER, work])
            yield "LangChain p50, ms", theirs["p50_ms"]
            yield from theirs["versions"].items()


def retrieval_ms(index: Index, questions: Sequence[str], embedder: Embedder) -> float:
    """Plan, route, both searches, fusion."""
    router = Router(index.catalogue)

    def search(question: str) -> None:
        plan = make_plan(question, filters=router.route(question), strategy="rrf", top_k=10)
        retrieve(index, question, plan, embedder=lambda: embedder)

    return median_ms(search, questions, warm_up=WARM_UP)


def answer_ms(index: Index, questions: Sequence[str], embedder: Embedder) -> float:
    """The whole graph."""
    assistant = Assistant(index, embedder=lambda: embedder)
    return median_ms(assistant.ask, questions, warm_up=WARM_UP)
