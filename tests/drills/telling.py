"""`trivet` that can be killed and writes down, outside of its stores, what it really does.

`python -m tests.drills.telling judge LOG ARGUMENTS…` is `trivet ARGUMENTS…` whose digits judge writes a line into LOG
for each question that it is really asked, before it answers; `… embed LOG PAUSE_S ARGUMENTS…` one whose embedder takes
PAUSE_S longer for each call, and writes a line for each text once its vector is kept.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

SMALL = (
    *("--set", "digits.judge_steps=60", "--set", "digits.candidates=90", "--set", "dataset.train_queries=80"),
    *("--set", "dataset.validation=20", "--set", "dataset.test=20", "--set", "pool_size=8"),
    *("--set", "beams.queries=20", "--set", "sft.epochs=2", "--set", "rce.epochs=2"),
    *("--set", "grpo.rounds=4", "--set", "grpo.draws=6", "--set", "oracle.most_judgments=400"),
)
"""Flags of a world that is through in seconds; its judge has learnt next to nothing, which is enough to be asked."""


def count_questions(log: Path) -> None:
    """From here on each question of the digits judge leaves a line, on the disk before the answer is given."""
    from tasks.calls import response_key
    from tasks.lever.digits.digits_judge import DigitsJudge

    ask: Callable[..., Iterator[Any]] = DigitsJudge.complete_many

    def ask_and_tell(self: DigitsJudge, requests: Sequence[Any]) -> Iterator[Any]:
        lines = [f"{response_key(self.id, request)}\n" for request in requests]
        with log.open("ab", buffering=0) as file:
            file.write("".join(lines).encode())  # at once: a process that is killed leaves whole lines
        yield from ask(self, requests)

    DigitsJudge.complete_many = ask_and_tell


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
    _, what, log, *arguments = sys.argv
    if what == "judge":
        count_questions(Path(log))
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    else:
        embed_slowly(Path(log), float(arguments.pop(0)))
    sys.argv[1:] = arguments
    from flows.cli import main
    from flows.running import command_server

    command_server.IDLE_S = 5
    main()
