"""What starting costs: an unchanged run over 1,000 small documents, and commands until their first answer."""

from __future__ import annotations

import json
from pathlib import Path

from tests.benchmarks.measuring import Figures, scratch_home, trivet, write_notices

SAMPLES = Path(__file__).parents[1] / "samples" / "documents"


def measure(documents: int = 1000, samples: Path = SAMPLES) -> Figures:
    """First and unchanged run over small documents of a page each, then commands on the samples."""
    with scratch_home() as place:
        folder = write_notices(place / "small", documents)
        index = ["rag", "index", str(folder), "--index", str(place / "small-index"), "--json"]
        first, again = (trivet(place / "home", *index) for _ in range(2))
        flows = [json.loads(command.output) for command in (first, again)]
        assert flows[1]["documents"]["unchanged"] == documents
        yield "small documents, first: flow, s", flows[0]["seconds"]
        yield "small documents, unchanged: flow, s", flows[1]["seconds"]
        yield "small documents, unchanged: command with Prefect's start, s", again.wall_s
        yield from measure_search(place, samples)


def measure_search(place: Path, samples: Path) -> Figures:
    """Commands on documents, each in a new process; the second of two runs counts."""
    index = str(place / "samples-index")
    trivet(place / "home", "rag", "index", samples, "--index", index, accepted=(0, 3))
    asked = {
        "English bm25": ("What was the operating margin?", "bm25"),
        "English similarity": ("What was the operating margin?", "similarity"),
        "Korean rrf": ("통합관제시스템 사업 금액은 얼마인가?", "rrf"),
    }
    commands = {"trivet --help, s": ["--help"]}
    for name, (question, strategy) in asked.items():
        command = ["rag", "search", question, "--strategy", strategy, "--index", index, "--json"]
        commands[f"search, {name}, to the first hit, s"] = command
    question, strategy = asked["English bm25"]
    commands["ask, English bm25, s"] = ["rag", "ask", question, "--strategy", strategy, "--index", index, "--json"]
    for name, command in commands.items():
        yield name, [trivet(place / "home", *command, accepted=(0, 3)).wall_s for _ in range(2)][1]
