"""Indexes of 100,000 to millions of chunks: the price of making one, of one change, of opening and of searching it.

Documents of 100 chunks from recombined sentences, as in bench_retrieval, with vectors of 384 numbers around topics.
CPU seconds and milliseconds on one thread; peaks and resident memory of a process that does nothing else. bm25s runs
beside ours while its index fits into memory. A million chunks take 2.2 GB of disk and, for
their texts above all, a quarter of an hour.
"""

from __future__ import annotations

import hashlib
import random
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.index import open_index
from storage.lexical import Lexical
from storage.publishing import publish_segments
from storage.records import Record, Ref
from storage.segments import CatalogueEntry, DocumentContent, Packed, Segment, pack_segment, split_documents
from storage.vectors import EXACT_UP_TO, PER_CENTRE, Centres, Vectors, count_lists, open_faiss, train_centres
from tasks.language.tokens import tokenize
from tests.benchmarks.bench_retrieval import chunk_of, of_bm25s, recombined, sentences_of
from tests.benchmarks.measuring import Figures, median_ms, part, peak_mb, status_mb

SIZES = [100_000, 300_000, 1_000_000]
OF_DOCUMENT, QUESTIONS, DIMENSION, TOPIC_CHUNKS = 100, 200, 384, 250
PEER_UP_TO = 300_000
"""Chunks: bm25s makes its index in memory, from all tokens."""


class Made(Record):
    """An index that a benchmark made."""

    segments: tuple[Segment, ...]
    centres: Ref | None


def measure(
    chunks: list[int] = SIZES, documents: Path | None = None, peers: Path | None = None, at: Path | None = None
) -> Figures:
    """Every part of a size in a process that does nothing else, for its peak.

    documents: folder of English PDFs; without them words of a Zipf distribution. peers: python of an environment with
    bm25s. at: folder for the indexes; a temporary one by default.
    """
    with tempfile.TemporaryDirectory(dir=at) as folder:
        for size in chunks:
            place = Path(folder, str(size))
            for figures in (
                part(make, documents, place, size),
                part(change, documents, place, size),
                part(ask, documents, place, size, peers),
            ):
                yield from ((f"{size:,} chunks: {name}", value) for name, value in figures.items())


class Corpus:
    """Documents that depend on their number alone."""

    def __init__(self, documents: str | None = None) -> None:
        self.sentences = sentences_of(Path(documents) if documents else None)

    def digest(self, number: int, edition: int = 0) -> str:
        return hashlib.sha256(f"{number}/{edition}".encode()).hexdigest()

    def content(self, number: int, edition: int) -> DocumentContent:
        digest = self.digest(number, edition)
        texts = recombined(self.sentences, OF_DOCUMENT, seed=digest)
        chunks = [chunk_of(at, text, digest).model_dump_json().encode() for at, text in enumerate(texts)]
        vectors = topical(range(number * OF_DOCUMENT, (number + 1) * OF_DOCUMENT), seed=digest)
        return DocumentContent(digest, chunks, vectors.astype(np.float16), tokenize(texts, tokenizer="bigram"))

    def entries(self, documents: int, *, changed: int | None = None) -> list[CatalogueEntry]:
        digests = [(self.digest(at, int(at == changed)), at) for at in range(documents)]
        return [
            CatalogueEntry(document=digest, name=f"folder {at % 97}/document {at}.pdf", pages=40, chunks=OF_DOCUMENT)
            for digest, at in sorted(digests)
        ]

    def leaves(self, documents: int, *, changed: int | None = None) -> list[list[tuple[int, int]]]:
        """Number and edition of the documents of each segment."""
        told = ((self.digest(at, int(at == changed)), OF_DOCUMENT, (at, int(at == changed))) for at in range(documents))
        return split_documents(sorted(told))


def topical(rows: Sequence[int], *, seed: str) -> NDArray[np.float32]:
    """Unit vectors: chunks lie around topics, topics around fields, as embeddings of texts do (mean cosine .7)."""
    noise = np.random.default_rng(int(seed[:12], 16))
    topics = noise.integers(0, max(2_000_000 // TOPIC_CHUNKS, 1), len(rows))
    vectors = np.stack([_topic(int(topic)) for topic in topics])
    spread = noise.standard_normal(vectors.shape, dtype=np.float32)
    vectors += spread * (0.9 / DIMENSION**0.5)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@cache
def _topic(number: int) -> NDArray[np.float32]:
    field = np.random.default_rng([1, number % 60]).standard_normal(DIMENSION, dtype=np.float32)
    own = np.random.default_rng([2, number]).standard_normal(DIMENSION, dtype=np.float32)
    vector = 0.7 * field + own
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def make(sources: str | None, place: str, chunks: int) -> dict[str, Any]:
    """All segments, one after the other, and a generation of them."""
    corpus, folder = Corpus(sources), Path(place)
    documents = chunks // OF_DOCUMENT
    (folder / "made").mkdir(parents=True)
    started = time.process_time()
    centres = _train(corpus, folder, documents) if chunks > EXACT_UP_TO else None
    opened = None if centres is None else Centres.open(folder / "made" / centres.digest)
    trained = time.process_time()
    segments: list[Segment] = []
    packing = 0.0
    for leaf in corpus.leaves(documents):
        contents = [corpus.content(*one) for one in leaf]
        began = time.process_time()
        segments.append(write_segment(pack_segment(contents, centres=opened), folder))
        packing += time.process_time() - began
    began = time.process_time()
    publish_from(folder, folder / "index", segments, corpus.entries(documents), centres=centres)
    published_s = time.process_time() - began
    (folder / "made.json").write_text(Made(segments=tuple(segments), centres=centres).model_dump_json())
    written = sum(path.stat().st_size for path in (folder / "made").iterdir())
    return {
        "segments": len(segments),
        "train centres, CPU s": round(trained - started, 1),
        "make segments, CPU s": round(packing, 1),
        "first generation, CPU s": round(published_s, 2),
        "bytes per chunk": round(written / chunks),
        "peak of making, MB": round(peak_mb()),
    }


def change(sources: str | None, place: str, chunks: int) -> dict[str, Any]:
    """One document becomes another: two segments, and a generation."""
    corpus, folder = Corpus(sources), Path(place)
    made = Made.model_validate_json((folder / "made.json").read_bytes())
    documents, changed = chunks // OF_DOCUMENT, 7
    opened = None if made.centres is None else Centres.open(folder / "made" / made.centres.digest)
    before, after = corpus.leaves(documents), corpus.leaves(documents, changed=changed)
    known = {tuple(leaf): segment for leaf, segment in zip(before, made.segments, strict=True)}
    contents = {tuple(leaf): [corpus.content(*one) for one in leaf] for leaf in after if tuple(leaf) not in known}
    entries = corpus.entries(documents, changed=changed)
    written, started = _written(folder), time.process_time()
    segments = [
        known.get(tuple(leaf)) or write_segment(pack_segment(contents[tuple(leaf)], centres=opened), folder)
        for leaf in after
    ]
    packed = time.process_time()
    publish_from(folder, folder / "index", segments, entries, centres=made.centres)
    ended = time.process_time()
    return {
        "one change: segments made": len(contents),
        "one change: segments, CPU s": round(packed - started, 2),
        "one change: generation, CPU s": round(ended - packed, 2),
        "one change: MB written": round((_written(folder) - written) / 1e6, 1),
        "one change: peak, MB": round(peak_mb()),
    }


def ask(sources: str | None, place: str, chunks: int, peers: str | None) -> dict[str, Any]:
    """Open the index and search it both ways."""
    corpus, out = Corpus(sources), Path(place) / "index"
    drawn = random.Random(1).choices(corpus.sentences, k=QUESTIONS)
    questions = [words[:10] for words in tokenize(drawn, tokenizer="bigram")]
    open_faiss()  # the time of its import is not that of opening
    started = time.process_time()
    with open_index(out) as index:
        _ = index.vectors, index.lexical, index.chunk(len(index) - 1)
        figures: dict[str, Any] = {"open, CPU s": round(time.process_time() - started, 3)}
        lexical, vectors = index.lexical, index.vectors
        assert isinstance(lexical, Lexical)
        assert isinstance(vectors, Vectors)
        queries = topical(range(QUESTIONS), seed=f"{5:064x}")
        # asked once before, the pages that are read are in memory
        bm25_ms = median_ms(lambda words: lexical.search(words, 10), questions, warm_up=QUESTIONS)
        figures["bm25 p50, ms"] = round(bm25_ms, 2)
        dense_ms = median_ms(lambda query: vectors.search(query, 10), queries, warm_up=QUESTIONS)
        figures["dense p50, ms"] = round(dense_ms, 2)
        figures["its own memory after both, MB"] = round(status_mb("RssAnon"))
        figures["mapped pages, MB"] = round(status_mb("RssFile"))
        figures["lists probed"] = f"{vectors.probes} of {vectors.lists}" if vectors.lists else "exact"
        exact = [set(vectors.search(query, 10, allowed=np.ones(len(index), np.bool_)).rows) for query in queries]
        found = [set(vectors.search(query, 10).rows) for query in queries]
        figures["dense recall@10"] = float(
            np.mean([len(one & other) / 10 for one, other in zip(found, exact, strict=True)])
        )
        started = time.process_time()
        full = [lexical.scores(words) for words in questions[:20]]
        figures["bm25 of all rows, ms"] = round((time.process_time() - started) * 50, 2)
        best = [np.lexsort((np.arange(len(index)), -scores))[:10].tolist() for scores in full[:5]]
        assert best == [lexical.search(words, 10).rows.tolist() for words in questions[:5]]
    if peers and chunks <= PEER_UP_TO:
        leaves = corpus.leaves(chunks // OF_DOCUMENT)
        tokens = [words for leaf in leaves for one in leaf for words in corpus.content(*one).tokens or ()]
        figures |= of_bm25s(tokens, questions, Path(peers))
    return figures


def _train(corpus: Corpus, folder: Path, documents: int) -> Ref:
    """Centres from a sample of as many documents as are needed, a tenth of the chunks of each."""
    rows = documents * OF_DOCUMENT
    wanted = PER_CENTRE * count_lists(rows)
    share = max(1, wanted // documents + 1)
    digests = [corpus.digest(at) for at in range(documents)]
    drawn = [topical(range(share), seed=digest) for digest in digests]
    data = train_centres(np.concatenate(drawn)[:wanted].astype(np.float16), rows).pack()
    ref = Ref.of("centres", data)
    (folder / "made" / ref.digest).write_bytes(data)
    return ref


def write_segment(packed: Packed, folder: Path) -> Segment:
    """Keep the files of a segment in the folder of the benchmark."""
    for ref, data in packed.files.items():
        (folder / "made" / ref.digest).write_bytes(data)
    return packed.segment


def publish_from(
    folder: Path, out: Path, segments: Sequence[Segment], entries: list[CatalogueEntry], *, centres: Ref | None = None
) -> None:
    """Publish segments whose files the folder of the benchmark holds."""
    publish_segments(
        out,
        segments=segments,
        path_of=lambda ref: folder / "made" / ref.digest,
        catalogue=entries,
        embedder="bench",
        tokenizer="bigram",
        settings={},
        centres=centres,
    )


def _written(folder: Path) -> int:
    """Bytes of all files, a file of several names counted once."""
    facts = [path.stat() for path in folder.rglob("*") if path.is_file()]
    return sum({one.st_ino: one.st_size for one in facts}.values())
