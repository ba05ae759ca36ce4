"""A reader of an index that is being built: `python -m tests.drills.reader INDEX` searches until its stdin closes.

One JSON object a line on stdout for each look: the generation and its digest, chunks and best hit, or the error.
"""

from __future__ import annotations

import json
import select
import sys
from pathlib import Path

from models.protocols import Embedder
from storage.index import open_index
from tasks.rag.retrieval.search import search

QUESTION = "account-based fare collection"
PAUSE_S = 0.05


def main(path: Path) -> None:
    """Look again and again."""
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        try:
            look = _look(path)
        except Exception as error:  # noqa: BLE001 whatever a reader meets is what the drill wants to know
            look = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(look), flush=True)


def _look(path: Path) -> dict[str, str | int]:
    with open_index(path) as index:
        index.verify()
        best = search(index, QUESTION, strategy="bm25", top_k=3, embedder=_no_embedder).hits[0]
        return {
            "generation": index.generation,
            "digest": index.digest,
            "chunks": len(index),
            "best": best.document_name,
        }


def _no_embedder() -> Embedder:
    raise AssertionError("BM25 compares no meaning")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
