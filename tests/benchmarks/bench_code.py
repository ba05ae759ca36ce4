"""Generated code in our sandbox beside openai/human-eval's harness without one, and beside a fresh interpreter each.

Both sides execute the same canonical solutions, two at a time, each side in a process of its own: from before it
imports its harness until every process of its own has ended, all of them counted. Figures are medians of rounds in
which the two sides take turns; memory is that of a round more, watched from outside.

    HumanEval   164 solutions with their checks, beside human-eval's `check_correctness`
    MBPP        500 solutions with their asserts, beside an interpreter each (`python -I -c`, this one)
    CruxEval    800 functions with the assertion of their output, beside the same
"""

from __future__ import annotations

import gzip
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.measuring import Figures, part_command, processor_s, read_json, run

DATA = Path(__file__).parents[3] / "shared" / "data" / "benchmarks"
HUMAN_EVAL = Path(__file__).parent / "peers" / "human_eval_check.py"
WORKERS = 2
TIMEOUT_S = 30


class Comparison(NamedTuple):
    """What is executed by whom."""

    task: str
    file: str
    peer: str
    passing: int
    """Programs that must pass on both sides, or more."""


class Case(NamedTuple):
    """A program and its tests."""

    source: str
    tests: str


COMPARISONS = (
    Comparison("HumanEval", "HumanEval.jsonl.gz", "human-eval", passing=164),
    Comparison("MBPP", "mbpp_test.jsonl", "fresh", passing=499),  # 367 wants a class that it does not define
    Comparison("CruxEval", "cruxeval.jsonl", "fresh", passing=800),
)
TASKS = [one.task for one in COMPARISONS]


def measure(data: Path = DATA, peers: Path | None = None, rounds: int = 3, task: list[str] = TASKS) -> Figures:
    """peers: python of an environment with human-eval. Raises ValueError where fewer programs pass than must."""
    for name, file, peer, passing in (one for one in COMPARISONS if one.task in task):
        path = data / file
        commands = {"ours": part_command(execute, "trivet", path), "theirs": part_command(execute, peer, path)}
        if peer == "human-eval":
            commands["theirs"] = [str(peers), str(HUMAN_EVAL), str(path), str(WORKERS)]
            if not peers:
                del commands["theirs"]
        figures = [{side: read_json(command) for side, command in commands.items()} for _ in range(rounds)]
        for side, command in commands.items():
            if (passed := min(one[side]["passed"] for one in figures)) < passing:
                raise ValueError(f"{name}: only {passed} passed of {side}, expected {passing}")
            yield f"{name}: {side}, wall s", statistics.median(one[side]["wall_s"] for one in figures)
            yield f"{name}: {side}, CPU s", statistics.median(one[side]["cpu_s"] for one in figures)
            yield f"{name}: {side}, peak memory, MB", run(command, watched=True).memory_mb


def cases(path: Path) -> Iterator[Case]:
    """The canonical solutions of a published file."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for row in map(json.loads, text.splitlines()):
        match row:
            case {"canonical_solution": solution}:
                yield Case(row["prompt"] + solution, f"{row['test']}\ncheck({row['entry_point']})")
            case {"input": given, "output": output}:
                yield Case(row["code"], f"assert f({given}) == {output}")
            case _:
                yield Case(row["code"], "\n".join(row["test" if "test" in row else "test_list"]))


def execute(side: str, path: str) -> dict[str, float]:
    """Seconds and passed programs of a side, `trivet` or `fresh`; everything that it starts has ended behind it."""
    compared = list(cases(Path(path)))
    before, started = processor_s(), time.monotonic()
    passed = (_trivet if side == "trivet" else _fresh)(compared)
    return {"wall_s": time.monotonic() - started, "cpu_s": processor_s() - before, "passed": passed}


def _trivet(compared: Sequence[Case]) -> int:
    from tasks.sandbox import Program, Sandbox

    with Sandbox(workers=WORKERS) as sandbox:
        return sum(sandbox.map(lambda case: sandbox.run(Program(case.source, tests=case.tests)).passed, compared))


def _fresh(compared: Sequence[Case]) -> int:
    def passes(case: Case) -> bool:
        command = [sys.executable, "-I", "-c", f"{case.source}\n{case.tests}"]
        return subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False).returncode == 0

    with ThreadPoolExecutor(WORKERS) as threads:
        return sum(threads.map(passes, compared))
