"""What the engine of an evaluation costs beside the model: items that are answered at once, here and by two peers.

The cost of a run is its CPU seconds less those of the same command with one item: what stays is asking, storing,
grading and counting. The database server's share is not in it, neither is the peers' log viewer.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measuring import TRIVET, Cost, options, run, scratch_home, show

PEERS = Path(__file__).parent / "peers"


def main() -> None:
    """Print the figures as they come."""
    parser = options(__doc__)
    parser.add_argument("--inspect", help="python of the environment of inspect_ai")
    parser.add_argument("--items", type=int, default=1_000, help="items of the run that peers run too")
    parser.add_argument("--many", type=int, default=10_000, help="items of the large run")
    chosen = parser.parse_args()
    with scratch_home() as place:
        for name, value in measure(place, chosen.inspect, items=chosen.items, many=chosen.many):
            show({name: value}, as_json=chosen.json)


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
    shutil.rmtree(place / "home" / "results")
    yield f"trivet, {many:,} items again, only answers kept: wall s", trivet(place, data, many).wall_s


def trivet(place: Path, data: Path, items: int, *, overwrite: bool = True) -> Cost:
    """One run of sums by a scripted model."""
    arguments = ["eval", "run", "--model", "scripted", "--tasks", "MATH500", "--data-dir", str(data), "--json"]
    arguments += ["--limit", str(items), "--output_path", str(place / "out"), *(["--overwrite"] * overwrite)]
    return run([*TRIVET, *arguments], os.environ | {"TRIVET_HOME": str(place / "home")})


def write_sums(folder: Path, count: int) -> Path:
    """Data of as many sums."""
    folder.mkdir()
    with (folder / "math500.jsonl").open("w") as file:
        for number in range(count):
            row = {"problem": f"What is {number} + 1?", "answer": str(number + 1), "solution": "", "subject": "Sums"}
            file.write(json.dumps(row | {"level": 1, "unique_id": f"sum/{number}"}) + "\n")
    return folder


if __name__ == "__main__":
    main()
