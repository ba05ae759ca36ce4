"""The same chunks in a folder and in PostgreSQL with pgvector: publishing, one change, searches, disk.

    python -m tests.benchmarks.bench_engines [--chunks 20000 100000] [--at DIR] [--json]

Chunks and questions of bench_large. Seconds and milliseconds are those of the clock, for a server's CPU is not ours;
PostgreSQL is the embedded one, on a socket, as it starts without settings.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from storage.embedded import Cluster
from storage.engines import place_of
from storage.index import Index, open_index
from storage.publishing import publish_segments
from storage.records import Ref
from storage.segments import Segment, pack_segment
from tasks.language.tokens import tokenize
from tasks.rag.retrieval.retrievers import word_scores
from tests.benchmarks.bench_large import OF_DOCUMENT, Corpus, topical

QUESTIONS = 40


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures of each size and place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, nargs="+", default=(20_000, 100_000))
    parser.add_argument("--at", type=Path, help="folder for the indexes; a temporary one by default")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each size and place")
    options = parser.parse_args(arguments)
    corpus = Corpus(None)
    for chunks in options.chunks:
        with tempfile.TemporaryDirectory(dir=options.at) as folder:
            Path(folder).chmod(0o755)  # the server's account passes
            cluster = Cluster(Path(folder))
            try:
                for figures in measured(corpus, Path(folder), cluster, chunks):
                    print(json.dumps(figures) if options.json else figures, flush=True)
            finally:
                cluster.remove()


def measured(corpus: Corpus, folder: Path, cluster: Cluster, chunks: int) -> list[dict[str, Any]]:
    """The figures of each place."""
    documents = chunks // OF_DOCUMENT
    (folder / "made").mkdir()
    first, second = (_segments(corpus, folder, documents, changed=changed) for changed in (None, 7))
    places = {
        "folder": (folder / "index", folder / "index"),
        "postgresql": (place_of(cluster.start(), folder), folder / "postgres"),
    }
    told: list[dict[str, Any]] = []
    for name, (place, kept) in places.items():
        figures: dict[str, Any] = {"chunks": chunks, "place": name}
        empty = _megabytes(kept)
        figures["publish, s"] = _published(corpus, place, first, documents, folder)
        figures["disk, MB"] = round(_megabytes(kept) - empty, 1)
        figures["one change, s"] = _published(corpus, place, second, documents, folder, changed=7)
        with open_index(place) as index, open_index(folder / "index") as exact:
            told.append(figures | _asked(corpus, index, exact))
    return told


def _segments(corpus: Corpus, folder: Path, documents: int, *, changed: int | None) -> list[Segment]:
    made: list[Segment] = []
    for leaf in corpus.leaves(documents, changed=changed):
        key = folder / "made" / f"leaf-{hash(tuple(leaf))}"
        if not key.exists():
            packed = pack_segment([corpus.content(*one) for one in leaf])
            for ref, data in packed.files.items():
                (folder / "made" / ref.digest).write_bytes(data)
            key.write_text(packed.segment.model_dump_json())
        made.append(Segment.model_validate_json(key.read_bytes()))
    return made


def _published(
    corpus: Corpus, place: Path, segments: list[Segment], documents: int, folder: Path, *, changed: int | None = None
) -> float:
    def path_of(ref: Ref) -> Path:
        return folder / "made" / ref.digest

    entries, started = corpus.entries(documents, changed=changed), time.perf_counter()
    publish_segments(
        place,
        segments=segments,
        path_of=path_of,
        catalogue=entries,
        embedder="bench",
        tokenizer="bigram",
        settings={},
    )
    return round(time.perf_counter() - started, 2)


def _asked(corpus: Corpus, index: Index, exact: Index) -> dict[str, Any]:
    """Medians of searches, and how much of the folder's first ten is found."""
    drawn = random.Random(1).choices(corpus.sentences, k=QUESTIONS)
    questions = [words[:10] for words in tokenize(drawn, tokenizer="bigram")]
    queries = list(topical(range(QUESTIONS), seed=f"{5:064x}"))
    allowed = index.rows_of([entry.document for entry in index.catalogue[:5]])
    lexical, other = index.lexical, exact.lexical
    assert lexical is not None
    assert other is not None
    rows = index.document_of_row

    def by_documents(words: Sequence[str]) -> object:
        return word_scores(lexical, dict.fromkeys(words, 1.0), rows, document_share=0.2)

    figures = {
        "bm25 p50, ms": _median(lambda words: lexical.search(words, 10), questions),
        "bm25 in 5 documents p50, ms": _median(lambda words: lexical.search(words, 10, allowed=allowed), questions),
        "words p50, ms": _median(by_documents, questions),
        "dense p50, ms": _median(lambda query: index.vectors.search(query, 10), queries),
        "dense in 5 documents p50, ms": _median(lambda one: index.vectors.search(one, 10, allowed=allowed), queries),
        "chunk p50, ms": _median(index.chunk, list(range(0, len(index), max(len(index) // 50, 1)))),
    }
    shared = [
        len({*index.vectors.search(query, 10).rows} & {*exact.vectors.search(query, 10).rows}) / 10 for query in queries
    ]
    same = [np.allclose(lexical.search(one, 10).scores, other.search(one, 10).scores, atol=1e-6) for one in questions]
    return figures | {"dense recall@10": float(np.mean(shared)), "equal bm25 scores": f"{sum(same)} of {len(same)}"}


def _median(ask: Callable[[Any], object], each: Sequence[Any]) -> float:
    taken: list[float] = []
    ask(each[0])
    for one in each:
        started = time.perf_counter()
        ask(one)
        taken.append(time.perf_counter() - started)
    return round(float(np.median(taken)) * 1e3, 2)


def _megabytes(folder: Path) -> float:
    told = subprocess.run(["du", "-sk", folder], capture_output=True, text=True, check=False).stdout
    return int(told.split()[0]) / 1000 if told else 0.0


if __name__ == "__main__":
    main()
