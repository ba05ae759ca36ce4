"""The same chunks in a folder and in PostgreSQL with pgvector: publishing, one change, searches, disk.

Chunks and questions of bench_large. Seconds and milliseconds are those of the clock, for a server's CPU is not ours;
PostgreSQL is the embedded one, on a socket, as it starts without settings.
"""

from __future__ import annotations

import random
import statistics
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from storage.embedded import Cluster
from storage.engines import place_of
from storage.index import Index, open_index
from storage.segments import Segment, pack_segment
from tasks.language.tokens import tokenize
from tasks.rag.retrieval.retrievers import word_scores
from tests.benchmarks.bench_large import OF_DOCUMENT, Corpus, publish_from, topical, write_segment
from tests.benchmarks.measuring import Figures, cost_of, scratch_home

QUESTIONS = 40


def measure(chunks: int = 100_000, at: Path | None = None) -> Figures:
    """The figures of each place. at: folder for the indexes; a temporary one by default."""
    corpus = Corpus()
    with scratch_home(at) as folder:
        documents = chunks // OF_DOCUMENT
        (folder / "made").mkdir()
        first, second = (_segments(corpus, folder, documents, changed=changed) for changed in (None, 7))
        places = {
            "folder": (folder / "index", folder / "index"),
            "postgresql": (place_of(Cluster(folder).start(), folder), folder / "postgres"),
        }
        before, after = (corpus.entries(documents, changed=changed) for changed in (None, 7))
        for name, (place, kept) in places.items():
            empty = _megabytes(kept)
            yield f"{name}: publish, s", cost_of(partial(publish_from, folder, place, first, before)).wall_s
            yield f"{name}: disk, MB", _megabytes(kept) - empty
            yield f"{name}: one change, s", cost_of(partial(publish_from, folder, place, second, after)).wall_s
            with open_index(place) as index, open_index(folder / "index") as exact:
                for figure, value in _asked(corpus, index, exact).items():
                    yield f"{name}: {figure}", value


def _segments(corpus: Corpus, folder: Path, documents: int, *, changed: int | None) -> list[Segment]:
    made: list[Segment] = []
    for leaf in corpus.leaves(documents, changed=changed):
        key = folder / "made" / f"leaf-{hash(tuple(leaf))}"
        if not key.exists():
            segment = write_segment(pack_segment([corpus.content(*one) for one in leaf]), folder)
            key.write_text(segment.model_dump_json())
        made.append(Segment.model_validate_json(key.read_bytes()))
    return made


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
    ask(each[0])
    return 1000 * statistics.median(cost_of(partial(ask, one)).wall_s for one in each)


def _megabytes(folder: Path) -> float:
    told = subprocess.run(["du", "-sk", folder], capture_output=True, text=True, check=False).stdout
    return int(told.split()[0]) / 1000 if told else 0.0
