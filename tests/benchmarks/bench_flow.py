"""What starting costs: an unchanged run over 1,000 small documents, and commands until their first answer."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.measuring import TRIVET, options, scratch_home, show, write_notices

SAMPLES = Path(__file__).parents[1] / "samples" / "documents"


def main() -> None:
    """Print the figures."""
    parser = options(__doc__)
    parser.add_argument("--documents", type=int, default=1000, help="how many small documents")
    chosen = parser.parse_args()
    with scratch_home() as place:
        figures = dict([*measure_unchanged(place, chosen.documents), *measure_search(place)])
    show(figures, as_json=chosen.json)


def measure_unchanged(place: Path, count: int) -> Iterator[tuple[str, float]]:
    """First and unchanged run over `count` documents of a page each."""
    folder = write_notices(place / "small", count)
    index = ["rag", "index", str(folder), "--index", str(place / "small-index"), "--json"]
    (_, first), (wall_s, again) = _run(place, index), _run(place, index)
    assert again["documents"]["unchanged"] == count
    yield f"{count:,} small documents, first: flow, s", first["seconds"]
    yield f"{count:,} small documents, unchanged: flow, s", again["seconds"]
    yield f"{count:,} small documents, unchanged: command with Prefect's start, s", wall_s


def measure_search(place: Path) -> Iterator[tuple[str, float]]:
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


if __name__ == "__main__":
    main()
