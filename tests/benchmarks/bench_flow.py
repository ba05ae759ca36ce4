"""What starting costs: an unchanged run over 1,000 small documents, and commands until their first answer."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

SAMPLES = Path(__file__).parents[1] / "samples" / "documents"
TRIVET = [sys.executable, "-c", "from flows.cli import main; main()"]


class Run(NamedTuple):
    """One command."""

    wall_s: float
    answer: dict[str, Any]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1000, help="how many small documents")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    chosen = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="trivet-bench-"))
    try:
        figures = measure_unchanged(place, chosen.documents) | measure_search(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if chosen.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:<66}{value:>8.2f}")


def measure_unchanged(place: Path, count: int) -> dict[str, float]:
    """First and unchanged run over `count` documents of a page each."""
    folder = place / "small"
    folder.mkdir()
    for number in range(count):
        text = f"Notice {number}\n\nThe bridge at kilometre {number} was inspected. Repairs cost {number * 17} dollars."
        (folder / f"notice-{number:05d}.txt").write_text(text)
    index = ["rag", "index", str(folder), "--index", str(place / "small-index"), "--json"]
    first, again = _run(place, index), _run(place, index)
    assert again.answer["documents"]["unchanged"] == count
    return {
        f"{count:,} small documents, first: flow, s": first.answer["seconds"],
        f"{count:,} small documents, unchanged: flow, s": again.answer["seconds"],
        f"{count:,} small documents, unchanged: command with Prefect's start, s": again.wall_s,
    }


def measure_search(place: Path) -> dict[str, float]:
    """Commands on the sample documents, each in a new process; the second of two runs counts."""
    index = str(place / "samples-index")
    _run(place, ["rag", "index", str(SAMPLES), "--index", index, "--json"])
    english, korean = "What was the operating margin?", "통합관제시스템 사업 금액은 얼마인가?"
    commands = {
        "trivet --help, s": ["--help"],
        "search, English bm25, to the first hit, s": ["rag", "search", english, "--strategy", "bm25"],
        "search, English similarity, to the first hit, s": ["rag", "search", english, "--strategy", "similarity"],
        "search, Korean rrf, to the first hit, s": ["rag", "search", korean, "--strategy", "rrf"],
    }
    figures: dict[str, float] = {}
    for name, command in commands.items():
        arguments = command if command == ["--help"] else [*command, "--index", index, "--json"]
        figures[name] = [_run(place, arguments).wall_s for _ in range(2)][1]
    return figures


def _run(home: Path, arguments: list[str]) -> Run:
    started = time.monotonic()
    environment = os.environ | {"TRIVET_HOME": str(home / "home"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([*TRIVET, *arguments], env=environment, capture_output=True, text=True, check=False)
    wall_s = time.monotonic() - started
    if done.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr}")
    return Run(wall_s, json.loads(done.stdout) if "--json" in arguments else {})


if __name__ == "__main__":
    main()
