"""The peer of bench_langchain.py: LangChain's BM25, FAISS and ensemble retrievers over chunks that are handed in.

    python langchain_retrieve.py FOLDER

FOLDER holds chunks.json (texts), tokens.json (words of each), vectors.npy, questions.json (texts), asked.json (words of
each), asked.npy. Prints one JSON object: median CPU milliseconds of a fused search, and what was measured.
"""

from __future__ import annotations

import importlib.metadata
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from langchain_classic.retrievers import EnsembleRetriever  # pyright: ignore[reportMissingImports]
from langchain_community.docstore.in_memory import InMemoryDocstore  # pyright: ignore[reportMissingImports]
from langchain_community.retrievers import BM25Retriever  # pyright: ignore[reportMissingImports]
from langchain_community.vectorstores import FAISS  # pyright: ignore[reportMissingImports]
from langchain_community.vectorstores.utils import DistanceStrategy  # pyright: ignore[reportMissingImports]
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

POOL, MMR_TRADE_OFF, RANK_CONSTANT = 30, 0.7, 60
WARM_UP = 3


class Given(Embeddings):
    """Vectors that were computed before: the embedder costs nothing on either side."""

    def __init__(self, by_text: dict[str, Any]) -> None:
        self._by_text = by_text

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self._by_text[text].tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self._by_text[text].tolist()


def main(folder: Path) -> None:
    """Build both stores, ask every question once, print the median."""
    faiss.omp_set_num_threads(1)
    texts, tokens = _json(folder / "chunks.json"), _json(folder / "tokens.json")
    questions, asked = _json(folder / "questions.json"), _json(folder / "asked.json")
    words = {**dict(zip(texts, tokens, strict=True)), **dict(zip(questions, asked, strict=True))}
    documents = [Document(page_content=text, metadata={"row": row}) for row, text in enumerate(texts)]
    bm25 = BM25Retriever.from_documents(documents, preprocess_func=words.__getitem__)
    bm25.k = POOL
    store = _store(documents, np.load(folder / "vectors.npy"), questions, np.load(folder / "asked.npy"))
    mmr = {"k": POOL, "fetch_k": POOL, "lambda_mult": MMR_TRADE_OFF}
    fused = EnsembleRetriever(
        retrievers=[
            store.as_retriever(search_kwargs={"k": POOL}),
            store.as_retriever(search_type="mmr", search_kwargs=mmr),
            bm25,
        ],
        weights=[1 / 3] * 3,
        c=RANK_CONSTANT,
    )
    for question in questions[:WARM_UP]:
        fused.invoke(question)
    times: list[float] = []
    for question in questions[WARM_UP:]:
        started = time.process_time()
        fused.invoke(question)
        times.append(time.process_time() - started)
    packages = ("langchain-classic", "langchain-community", "langchain-core", "rank-bm25", "faiss-cpu")
    versions = {name: importlib.metadata.version(name) for name in packages}
    print(json.dumps({"p50_ms": statistics.median(times) * 1e3, "questions": len(times), "versions": versions}))


def _store(documents: list[Document], vectors: Any, questions: list[str], asked: Any) -> FAISS:
    """Exact inner product, rows added at once: the store's own way in takes them one list of floats at a time."""
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    ids = [str(row) for row in range(len(documents))]
    return FAISS(
        embedding_function=Given(dict(zip(questions, asked, strict=True))),
        index=index,
        docstore=InMemoryDocstore(dict(zip(ids, documents, strict=True))),
        index_to_docstore_id=dict(enumerate(ids)),
        distance_strategy=DistanceStrategy.MAX_INNER_PRODUCT,
    )


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
