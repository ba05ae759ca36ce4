"""BM25 beside bm25s and rank-bm25, dense search beside fp32, and the opening of an index; CPU milliseconds, one thread.

Chunks are drawn from the sentences of the PDFs of a folder, with other numbers in each, so that words are as frequent
as in filings; without one they are drawn from words of a Zipf distribution. bm25s is asked with numba, its fastest
backend, in the same Python and numpy. Medians over 200 questions.
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from storage.index import open_index
from storage.lexical import IndexCounts, Lexical, count_postings
from storage.segments import CatalogueEntry
from storage.vectors import EXACT_UP_TO, Dense, Vectors, pack_vectors, train_centres
from tasks.language.tokens import tokenize
from tasks.rag.indexing.chunks import Chunk
from tests.benchmarks.measuring import Figures, import_from, median_ms, read_json
from tests.storage.publishing import publish

QUESTIONS, CHUNK_CHARS, DIMENSION, COMPARED = 200, 800, 384, 3_000
OPENING = """
import json, sys, time
started = time.process_time()
from pathlib import Path
from storage.index import open_index
imported = time.process_time()
with open_index(Path(sys.argv[1])) as index:
    index.vectors, index.lexical, index.catalogue, index.chunk(len(index) - 1)
    print(json.dumps([time.process_time() - imported, imported - started]))
"""


def measure(
    documents: Path | None = None, peers: Path | None = None, chunks: int = 100_000, grouped: int = 300_000
) -> Figures:
    """documents: folder of English PDFs. peers: python with bm25s. grouped: rows of the grouped vector files."""
    sentences = sentences_of(documents)
    texts = recombined(sentences, chunks)
    started = time.process_time()
    tokens = tokenize(texts, tokenizer="bigram")
    yield "tokenize, chunks a CPU s", len(texts) / (time.process_time() - started)
    questions = [words[:10] for words in tokenize(random.Random(1).choices(sentences, k=QUESTIONS), tokenizer="bigram")]
    with tempfile.TemporaryDirectory() as folder:
        yield from of_index(Path(folder), texts, tokens, questions).items()
        if peers:
            yield from of_bm25s(tokens, questions, peers).items()
        yield from of_grouped(Path(folder), grouped).items()


def of_index(out: Path, texts: list[str], tokens: list[list[str]], questions: list[list[str]]) -> dict[str, Any]:
    """Write a whole index, open it in a new process, and search it both ways."""
    rows = hard_vectors(len(texts))
    started = time.process_time()
    publish_chunks(out, texts, rows, tokens)
    figures: dict[str, Any] = {"publish, CPU s": time.process_time() - started}
    opened, imported = read_json([sys.executable, "-c", OPENING, out])
    figures |= {"open in a new process, CPU s": opened, "its imports before, CPU s": imported}
    with open_index(out) as index:
        lexical = index.lexical
        assert lexical is not None
        figures["bm25 p50, ms"] = _median_ms(lambda words: lexical.search(words, 10), questions)
        figures |= of_dense("dense", index.vectors, rows, hard_vectors(QUESTIONS, seed=1))
    return figures | of_rank_bm25(tokens[:COMPARED], questions)


def of_dense(name: str, index: Dense, rows: NDArray[np.float32], queries: NDArray[np.float32]) -> dict[str, Any]:
    """Time and recall of the ten nearest to the single-precision truth."""
    p50_ms = _median_ms(lambda query: index.search(query, 10), queries)
    return {f"{name} p50, ms": p50_ms, f"{name} recall@10": recall_at_10(index, rows, queries)}


def recall_at_10(index: Dense, rows: NDArray[np.float32], queries: NDArray[np.float32]) -> float:
    """Share of the ten nearest by single precision that are found, a mean over the queries."""
    found = [set(index.search(query, 10).rows) for query in queries]
    truth = np.argpartition(-(queries @ rows.T), 10, axis=1)[:, :10]
    return float(np.mean([len(one & set(nearest)) / 10 for one, nearest in zip(found, truth, strict=True)]))


def of_rank_bm25(tokens: list[list[str]], questions: list[list[str]]) -> dict[str, Any]:
    """The greatest difference of any row's score; on a part of the corpus, for rank-bm25 takes seconds for all."""
    from rank_bm25 import BM25Okapi

    postings = [count_postings(tokens)]
    ours, theirs = Lexical(postings, IndexCounts.of(postings)), BM25Okapi(tokens)
    differences = [np.abs(ours.scores(words) - theirs.get_scores(words)).max() for words in questions]
    return {"greatest difference to rank-bm25": float(max(differences))}


def of_bm25s(tokens: Sequence[Sequence[str]], questions: list[list[str]], python: Path) -> dict[str, Any]:
    """The peer, in this process, with its fastest backend."""
    import_from(python)
    import bm25s  # pyright: ignore[reportMissingImports]

    peer = bm25s.BM25(method="atire", k1=1.5, b=0.75, backend="numba")
    peer.index(tokens, show_progress=False)
    p50_ms = _median_ms(lambda words: peer.retrieve([words], k=10, show_progress=False), questions)
    return {"bm25s version": bm25s.__version__, "bm25s p50, numba, ms": p50_ms}


def of_grouped(folder: Path, count: int) -> dict[str, Any]:
    """Vector files above the bound of exact search: rows that can be grouped, and rows that cannot."""
    figures: dict[str, Any] = {"exact up to, rows": EXACT_UP_TO}
    for name, rows in (("grouped", alike_vectors(count)), ("ungroupable", hard_vectors(count, dimension=128))):
        started = time.process_time()
        halves = rows.astype(np.float16)
        centres = train_centres(halves[:: max(count // 50_000, 1)], count)
        (folder / name).write_bytes(pack_vectors(halves, centres))
        index = Vectors([folder / name], dimension=rows.shape[1], centres=centres)
        figures[f"{name}, build, CPU s"] = time.process_time() - started
        figures[f"{name}, lists probed"] = f"{index.probes} of {index.lists}" if index.lists else "exact"
        random_rows = np.random.default_rng(5).integers(0, count, QUESTIONS)
        queries = _unit(rows[random_rows] + hard_vectors(QUESTIONS, seed=6, dimension=rows.shape[1]))
        figures |= of_dense(name, index, rows, queries)
    return figures


def sentences_of(folder: Path | None) -> list[str]:
    """Of the PDFs of a folder; without one, of made-up words, the n-th about 1 / n as frequent as the first."""
    import pymupdf

    if folder is None:
        ranks = np.random.default_rng(0).zipf(1.2, 200_000)
        words = [f"w{rank:x}q" if rank < 50_000 else "the" for rank in ranks]
        return [" ".join(words[start : start + 20]) for start in range(0, len(words), 20)]
    found: list[str] = []
    for path in sorted(folder.glob("*.pdf")):
        with pymupdf.open(path) as document:
            text = " ".join(str(page.get_text()) for page in document)
        found += (sentence for sentence in re.split(r"(?<=[.;:])\s+", text) if 20 < len(sentence) < 600)
    return found


def publish_chunks(
    out: Path,
    texts: Sequence[str],
    vectors: NDArray[np.float32],
    tokens: Sequence[Sequence[str]] | None = None,
    *,
    name_of: Callable[[str], str] = lambda digest: f"{digest[-8:]}.pdf",
    embedder: str = "bench",
    settings: dict[str, JsonValue] | None = None,
) -> None:
    """An index of chunks, a hundred to a document. name_of: a document by its digest."""
    digests = [f"{row // 100:064x}" for row in range(len(texts))]
    publish(
        out,
        chunks=[chunk_of(row, text, digests[row]) for row, text in enumerate(texts)],
        vectors=vectors.astype(np.float16),
        tokens=tokens,
        catalogue=[CatalogueEntry(document=digest, name=name_of(digest)) for digest in dict.fromkeys(digests)],
        embedder=embedder,
        tokenizer="bigram",
        settings=settings,
    )


def recombined(sentences: Sequence[str], count: int, *, seed: object = 0) -> list[str]:
    """Chunks of randomly chosen sentences with random numbers in place of theirs."""
    drawn = random.Random(str(seed) if seed else 0)
    texts: list[str] = []
    for _ in range(count):
        text = ""
        while len(text) < CHUNK_CHARS:
            text += " " + drawn.choice(sentences)
        texts.append(re.sub(r"\d{2,}", lambda old: str(drawn.randrange(10 ** len(old.group()))), text[:CHUNK_CHARS]))
    return texts


def hard_vectors(count: int, *, seed: int = 0, dimension: int = DIMENSION) -> NDArray[np.float32]:
    """Directions without any likeness."""
    return _unit(np.random.default_rng(seed).standard_normal((count, dimension), dtype=np.float32))


def alike_vectors(count: int, *, dimension: int = 128) -> NDArray[np.float32]:
    """Directions that a few hidden ones explain, as embeddings of texts of one trade are."""
    random_numbers = np.random.default_rng(0)
    hidden = random_numbers.standard_normal((count, 12), dtype=np.float32)
    mixed = hidden @ random_numbers.standard_normal((12, dimension), dtype=np.float32)
    return _unit(mixed + 0.3 * random_numbers.standard_normal((count, dimension), dtype=np.float32))


def chunk_of(row: int, text: str, document: str) -> Chunk:
    return Chunk(id=f"{document[:16]}-{row:05d}", document=document, page=1, bbox=None, kind="text", text=text)


def _unit(rows: NDArray[Any]) -> NDArray[np.float32]:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _median_ms(search: Callable[[Any], object], questions: Iterable[Any]) -> float:
    return median_ms(search, questions, warm_up=20)
