"""A run of indexing that embeds slowly and writes down what it has kept.

`python -m tests.drills.embedding LOG PAUSE_S ARGUMENTS…` is `trivet ARGUMENTS…` whose embedder takes PAUSE_S longer for
each call, and writes a line into LOG for each text once its vector is kept.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def embed_slowly(log: Path, pause_s: float) -> None:
    """From here on vectors take their time, and those that are kept leave a line."""
    from models.minilm import MiniLM
    from storage.embeddings import EmbeddingCache

    embed, put_many = MiniLM.embed, EmbeddingCache.put_many

    def embed_later(self: MiniLM, texts: Sequence[str]) -> Any:
        vectors = embed(self, texts)
        time.sleep(pause_s)
        return vectors

    def put_and_tell(self: EmbeddingCache, embedder_id: str, texts: Sequence[str], vectors: Any) -> None:
        put_many(self, embedder_id, texts, vectors)
        with log.open("a") as file:
            file.writelines(f"{hashlib.sha256(text.encode()).hexdigest()}\n" for text in texts)

    MiniLM.embed, EmbeddingCache.put_many = embed_later, put_and_tell


if __name__ == "__main__":
    embed_slowly(Path(sys.argv[1]), float(sys.argv[2]))
    sys.argv[1:] = sys.argv[3:]
    from flows.cli import main
    from flows.running import command_server

    command_server.IDLE_S = 0

    main()
