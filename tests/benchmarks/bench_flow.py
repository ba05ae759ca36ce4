"""What starting costs: an unchanged run over 1,000 small documents, and commands until their first answer."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.measuring import TRIVET, Figures, scratch_home, write_notices

SAMPLES = Path(__file__).parents[1] / "samples" / "documents"


def measure(documents: int = 1000) -> Figures:
    """First and unchanged run over small documents of a page each, then commands."""
    with scratch_home() as place:
        folder = write_notices(place / "small", documents)
        index = ["rag", "index", str(folder), "--index", str(place / "small-index"), "--json"]
        (_, first), (wall_s, again) = _run(place, index), _run(place, index)
        assert again["documents"]["unchanged"] == documents
        yield "small documents, first: flow, s", first["seconds"]
        yield "small documents, unchanged: flow, s", again["seconds"]
        yield "small documents, unchanged: command with Prefect's start, s", wall_s
        yield from measure_search(place)


def measure_search(place: Path) -> Figures:
    """Commands on the sample documents, each in a new process; the second of two runs counts."""
    index = str(place / "samples-index")
    _run(place, ["rag", "index", str(SAMPLES), "--index", index, "--json"])
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
        yield name, [_run(place, command)[0] for _ in range(2)][1]


def _run(place: Path, arguments: list[str]) -> tuple[float, dict[str, Any]]:
    """Wall seconds of a command, and what it says."""
    started = time.monotonic()
    environment = os.environ | {"TRIVET_HOME": str(place / "home"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([*TRIVET, *arguments], env=environment, capture_output=True, text=True, check=False)
    wall_s = time.monotonic() - started
    if done.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr}")
    return wall_s, json.loads(done.stdout) if "--json" in arguments else {}
