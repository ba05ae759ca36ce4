"""What the engine of an evaluation costs beside the model: items that are answered at once, here and by two peers.

The cost of a run is its CPU seconds less those of the same command with one item: what stays is asking, storing,
grading and counting. The database server's share is not in it, neither is the peers' log viewer.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

PEERS = Path(__file__).parent / "peers"
TRIVET = [sys.executable, "-c", "from flows.cli import main; main()"]
ITEMS, MANY = 1_000, 10_000


class Cost(NamedTuple):
    """Of one command, its children included."""

    wall_s: float
    cpu_s: float
    memory_mb: float
    """Peak of the command itself."""


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inspect", help="python of the environment of inspect_ai")
    parser.add_argument("--items", type=int, default=ITEMS, help="items of the run that peers run too")
    parser.add_argument("--many", type=int, default=MANY, help="items of the large run")
    chosen = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="trivet-bench-"))
    place.chmod(0o755)
    try:
        for name, value in measure(place, chosen.inspect, items=chosen.items, many=chosen.many):
            print(f"{name:<66}{value:>8.2f}", flush=True)
    finally:
        subprocess.run([*TRIVET, "db", "stop"], env=_environment(place), check=False, capture_output=True)
        shutil.rmtree(place, ignore_errors=True)


def measure(place: Path, inspect: str | None, *, items: int, many: int) -> Iterator[tuple[str, float]]:
    """Names and figures, as they come."""
    data = write_sums(place / "data", many)
    trivet(place, data, 2)  # starts the database, fills the caches of the file system
    start = trivet(place, data, 1)
    thousand = trivet(place, data, items)
    ours = thousand.cpu_s - start.cpu_s
    yield f"trivet, {items:,} items: CPU s beyond its start", ours
    yield "trivet, its start: CPU s", start.cpu_s
    peers = {"inspect_ai": inspect, "lm_eval": sys.executable}
    for name, python in peers.items():
        if python:
            command = [python, str(PEERS / f"{name.partition('_ai')[0]}_sums.py"), str(data / "math500.jsonl")]
            theirs = run([*command, str(items)]).cpu_s - run([*command, "1"]).cpu_s
            yield f"{name}, {items:,} items: CPU s beyond its start", theirs
            yield f"{name} / trivet", theirs / ours
    large = trivet(place, data, many)
    yield f"trivet, memory of {many:,} items / of {items:,}", large.memory_mb / thousand.memory_mb
    yield f"trivet, {many:,} items: peak memory, MB", large.memory_mb
    yield f"trivet, {many:,} items: wall s", large.wall_s
    yield "trivet, 1 item: wall s, Prefect's start for the most part", start.wall_s
    yield f"trivet, {many:,} items again: wall s", trivet(place, data, many, overwrite=False).wall_s
    yield f"trivet, {many:,} items again, --overwrite: wall s", trivet(place, data, many).wall_s
    with _set_aside(place / "home" / "results"):
        yield f"trivet, {many:,} items again, only answers kept: wall s", trivet(place, data, many).wall_s


def trivet(place: Path, data: Path, items: int, *, overwrite: bool = True) -> Cost:
    """One run of sums by a scripted model."""
    arguments = ["eval", "run", "--model", "scripted", "--tasks", "MATH500", "--data-dir", str(data), "--json"]
    arguments += ["--limit", str(items), "--output_path", str(place / "out"), *(["--overwrite"] * overwrite)]
    return run([*TRIVET, *arguments], _environment(place))


def run(command: Sequence[str], environment: dict[str, str] | None = None) -> Cost:
    """Run a command to its end. Raises CalledProcessError."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(command, env=environment, stdout=said, stderr=said)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            said.seek(0)
            raise subprocess.CalledProcessError(child.returncode, command, said.read()[-2000:].decode())
    return Cost(time.monotonic() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def write_sums(folder: Path, count: int) -> Path:
    """Data of as many sums."""
    folder.mkdir()
    with (folder / "math500.jsonl").open("w") as file:
        for number in range(count):
            row = {"problem": f"What is {number} + 1?", "answer": str(number + 1), "solution": "", "subject": "Sums"}
            file.write(json.dumps(row | {"level": 1, "unique_id": f"sum/{number}"}) + "\n")
    return folder


def _environment(place: Path) -> dict[str, str]:
    return {**os.environ, "TRIVET_HOME": str(place / "home")}


@contextmanager
def _set_aside(folder: Path) -> Generator[None]:
    """Without that folder for a while."""
    aside = folder.with_name("aside")
    folder.rename(aside)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)


if __name__ == "__main__":
    main()
