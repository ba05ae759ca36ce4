"""What lineage costs: the share of a run that noting takes, and the way from a vector to its file among many edges."""

from __future__ import annotations

import os
import statistics
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from storage.lineage import FILE, Edge, Lineage, StepRun
from tests.benchmarks.measuring import Figures, read_json, scratch_home, write_notices

STEPS = ("scan", "parse", "find_figures", "extract_figures", "chunk", "embed")
SHARD = 64
ASKED = 50
COUNTED = """
import time
import tasks.step as step
from tasks import resources
from storage.lineage import Lineage

spent = 0.0
def timed(function):
    def wrapped(*given, **named):
        global spent
        started = time.thread_time()
        try:
            return function(*given, **named)
        finally:
            spent += time.thread_time() - started
    return wrapped

step._record_lineage = timed(step._record_lineage)
from flows.cli import app
try:
    app()
except SystemExit as ended:
    assert not ended.code
    print([spent, time.process_time()])
"""


def measure(documents: int = 300, edges: int = 1_000_000) -> Figures:
    """documents: how many small ones are indexed. edges: about how many are asked."""
    with scratch_home() as place:
        yield from recording(place, documents).items()
        yield from asking(place, edges).items()


def recording(place: Path, count: int) -> dict[str, float]:
    """The share of the CPU seconds of an index run that noting takes."""
    folder = write_notices(place / "small", count)
    command = [sys.executable, "-c", COUNTED, "rag", "index", folder, "--index", place / "index"]
    noting, whole = read_json(command, os.environ | {"TRIVET_HOME": str(place / "home"), "HF_HUB_OFFLINE": "1"})
    return {"small documents: CPU s of the run": whole, "… share that noting takes": noting / whole}


def asking(place: Path, edges: int) -> dict[str, float]:
    """Milliseconds from a vector to its file, where six steps made it."""
    lineage, documents = Lineage(None, place / FILE), edges // 15
    written, started, took = 0, time.process_time(), list[float]()
    for first in range(0, documents, SHARD):
        for at, name in enumerate(STEPS):
            edges_of_step: list[Edge] = []
            for item in range(SHARD):
                made = Edge(item, True, name, _digest(at, first + item), "content")
                used = [
                    Edge(item, False, STEPS[one], _digest(one, first + item), "content")
                    for one in range(max(0, at - 2), at)
                ]
                edges_of_step += [made, *used]
            now, key = datetime.now(UTC), f"{name}{first}"
            step = StepRun(key=key, step=name, version=1, run="bench", code="bench", at=now, seconds=1, parameters={})
            lineage.record(step, edges_of_step)
            written += len(edges_of_step)
    seconds = time.process_time() - started
    for number in range(0, documents, max(1, documents // ASKED)):
        begun = time.perf_counter()
        assert len(lineage.origins([_digest(len(STEPS) - 1, number)], most=100)) == len(STEPS)
        took.append(1000 * (time.perf_counter() - begun))
    return {
        "edges": written,
        "… MB on disk": (place / FILE).stat().st_size / 1e6,
        "… CPU microseconds to note one": 1e6 * seconds / written,
        "way to the file, median, ms": statistics.median(took),
        "way to the file, longest, ms": max(took),
    }


def _digest(step: int, number: int) -> str:
    return f"{step:02x}{number:062x}"
