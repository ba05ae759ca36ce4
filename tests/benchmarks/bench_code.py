"""Generated code in our sandbox beside openai/human-eval's harness without one, and beside a fresh interpreter each.

    python -m tests.benchmarks.bench_code [--data DIR] [--peers PYTHON] [--rounds N] [--json]

Both sides execute the same canonical solutions, two at a time, each side in a process of its own: from before it
imports its harness until every process of its own has ended, all of them counted. Figures are medians of rounds in
which the two sides take turns; memory is that of a round more, watched from outside.

    HumanEval   164 solutions with their checks, beside human-eval's `check_correctness`
    MBPP        500 solutions with their asserts, beside an interpreter each (`python -I -c`, this one)
    CruxEval    800 functions with the assertion of their output, beside the same
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks.measuring import options, processor_s, read_json, resident_bytes

HUMAN_EVAL = Path(__file__).parent / "peers" / "human_eval_check.py"
WORKERS = 2
TIMEOUT_S = 30
WATCH_S = 0.02


class Comparison(NamedTuple):
    """What is executed by whom."""

    task: str
    file: str
    peer: str
    passing: int
    """Programs that must pass on both sides, or more."""
    aim: float
    """Ours by theirs, at most."""


class Case(NamedTuple):
    """A program and its tests."""

    source: str
    tests: str


class Round(NamedTuple):
    """One side, once."""

    wall_s: float
    cpu_s: float
    passed: int


COMPARISONS = (
    Comparison("HumanEval", "HumanEval.jsonl.gz", "human-eval", passing=164, aim=1.0),
    Comparison("MBPP", "mbpp_test.jsonl", "fresh", passing=499, aim=0.5),  # 367 wants a class that it does not define
    Comparison("CruxEval", "cruxeval.jsonl", "fresh", passing=800, aim=0.3),
)


def main() -> int:
    """Print the table; the exit status says whether every program passed on both sides that must."""
    parser = options(__doc__)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[3] / "shared" / "data" / "benchmarks")
    parser.add_argument("--peers", help="python of an environment with human-eval")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", choices=list(_SIDES), help="only one side, of one task, once")
    parser.add_argument("--task", choices=[one.task for one in COMPARISONS])
    chosen = parser.parse_args()
    if chosen.run:
        task = next(one for one in COMPARISONS if one.task == chosen.task)
        print(json.dumps(measured(_SIDES[chosen.run], list(cases(chosen.data / task.file)))._asdict()))
        return 0
    if not chosen.json:
        print(f"{'':38}{'trivet':>8}{'peer':>8}{'ratio':>7}{'aim':>6}")
    failed = 0
    for one in COMPARISONS:
        if chosen.task not in (None, one.task):
            continue
        if not (chosen.data / one.file).is_file():
            print(f"{one.task}: skipped, {chosen.data} has no {one.file}")
        elif one.peer == "human-eval" and not chosen.peers:
            print(f"{one.task}: skipped, no --peers")
        else:
            failed += not _compare(one, chosen)
    return failed


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


def measured(execute: Callable[[Sequence[Case]], int], compared: Sequence[Case]) -> Round:
    """Of a side in this process; everything that it starts has ended behind it."""
    before, started = processor_s(), time.monotonic()
    passed = execute(compared)
    return Round(time.monotonic() - started, processor_s() - before, passed)


def _compare(one: Comparison, chosen: argparse.Namespace) -> bool:
    side = [sys.executable, "-m", "tests.benchmarks.bench_code", "--data", str(chosen.data), "--task", one.task]
    peer = [chosen.peers, str(HUMAN_EVAL), str(chosen.data / one.file), str(WORKERS)]
    commands = {
        "ours": [*side, "--run", "trivet"],
        "theirs": peer if one.peer == "human-eval" else [*side, "--run", one.peer],
    }
    rounds = [{name: read_json(command) for name, command in commands.items()} for _ in range(chosen.rounds)]
    memory = {name: _watched(command) for name, command in commands.items()}
    passed = {name: min(each[name]["passed"] for each in rounds) for name in commands}
    if chosen.json:
        print(json.dumps({"task": one.task, "rounds": rounds, "memory_bytes": memory}), flush=True)
    else:
        _show(one, passed, rounds, memory)
    for name, count in passed.items():
        if count < one.passing:
            print(f"{one.task}: only {count} passed of {name}, expected {one.passing}", file=sys.stderr)
    return all(count >= one.passing for count in passed.values())


def _show(
    one: Comparison, passed: dict[str, int], rounds: list[dict[str, dict[str, Any]]], memory: dict[str, int]
) -> None:
    print(f"{one.task}, {passed['ours']} and {passed['theirs']} passed, beside {one.peer}")
    for figure, name in (("wall_s", "wall, s"), ("cpu_s", "processor, s")):
        ours, theirs = (statistics.median(each[side][figure] for each in rounds) for side in ("ours", "theirs"))
        ratios = sorted(each["ours"][figure] / each["theirs"][figure] for each in rounds)
        spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        print(f"  {name:16}{spread:>20}{ours:8.2f}{theirs:8.2f}{ours / theirs:7.2f}{one.aim:6.1f}", flush=True)
    ours, theirs = (memory[side] / 2**20 for side in ("ours", "theirs"))
    print(f"  {'peak memory, MB':36}{ours:8.1f}{theirs:8.1f}{ours / theirs:7.2f}", flush=True)


def _watched(command: Sequence[str]) -> int:
    """Peak of the memory of a command with everything below it."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, resident_bytes(process.pid))
        time.sleep(WATCH_S)
    return peak


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


_SIDES: dict[str, Callable[[Sequence[Case]], int]] = {"trivet": _trivet, "fresh": _fresh}

if __name__ == "__main__":
    sys.exit(main())
