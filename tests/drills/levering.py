"""A run of the lever on a small CPU world that can be killed and counts its judge's questions outside the store.

`python -m tests.drills.levering QUESTIONS ARGUMENTS…` is `trivet ARGUMENTS…` whose judge writes a line into the file
QUESTIONS for each question that it is really asked, before it answers.
"""

from __future__ import annotations

import os
import sys
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


if __name__ == "__main__":
    count_questions(Path(sys.argv[1]))
    sys.argv[1:] = sys.argv[2:]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from flows.cli import main
    from flows.running import command_server

    command_server.IDLE_S = 0

    main()
