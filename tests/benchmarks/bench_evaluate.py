"""What the engine of an evaluation costs beside the model: items that are answered at once, here and by two peers.

The cost of a run is its CPU seconds less those of the same command with one item: what stays is asking, storing,
grading and counting. The database server's share is not in it, neither is the peers' log viewer.

At an endpoint that answers after a fixed time, beside lm_eval: wall seconds from the first request to the last, and of
the whole command; medians of rounds in turn.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.benchmarks.bench_calls import endpoint
from tests.benchmarks.measuring import TRIVET, Cost, options, run, scratch_home, show

PEERS = Path(__file__).parent / "peers"
LATENCY_MS, CONCURRENCY = 20, 32
AIMS = {"request phase, trivet / lm_eval": 1.1, "whole command, trivet / lm_eval": 0.5}


def main() -> None:
    """Print the figures as they come."""
    parser = options(__doc__)
    parser.add_argument("--inspect", help="python of the environment of inspect_ai")
    parser.add_argument("--items", type=int, default=1_000, help="items of the run that peers run too")
    parser.add_argument("--many", type=int, default=10_000, help="items of the large run")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side at the endpoint")
    chosen = parser.parse_args()
    with scratch_home() as place:
        for name, value in measure(place, chosen.inspect, items=chosen.items, many=chosen.many):
            show({name: value}, as_json=chosen.json)
        show(measure_endpoint(place, items=chosen.items, rounds=chosen.rounds), as_json=chosen.json, aims=AIMS)


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


def measure_endpoint(place: Path, *, items: int, rounds: int) -> dict[str, float]:
    """Seconds of the requests and of the whole command, ours and lm_eval's; each run asks an endpoint of its own."""
    data = place / "data"
    script = (sys.executable, str(PEERS / "lm_eval_sums.py"), str(data / "math500.jsonl"), str(items))
    ways: dict[str, Callable[[str], Cost]] = {
        "trivet": lambda url: trivet(place, data, items, url=url),
        "lm_eval": lambda url: run([*script, url, str(CONCURRENCY)]),
    }
    walls: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, way in ways.items():
            with endpoint(LATENCY_MS) as url:  # at the address of an earlier run its answers would be recalled
                whole_s = way(url).wall_s
                with urllib.request.urlopen(f"{url}/times") as answer:
                    times = json.load(answer)[-items:]  # what came before asked for the identity of the weights
            walls.setdefault(f"whole command, {name}: wall s", []).append(whole_s)
            walls.setdefault(f"request phase, {name}: wall s", []).append(times[-1] - times[0])
    figures = {name: statistics.median(seconds) for name, seconds in walls.items()}
    for ratio in AIMS:
        part = ratio.partition(",")[0]
        figures[ratio] = figures[f"{part}, trivet: wall s"] / figures[f"{part}, lm_eval: wall s"]
    return figures


def trivet(place: Path, data: Path, items: int, *, url: str | None = None, overwrite: bool = True) -> Cost:
    """One run of sums, by a scripted model or an endpoint."""
    model_args = f"model=bench,base_url={url},num_concurrent={CONCURRENCY}"
    model = ["openai", "--model_args", model_args] if url else ["scripted"]
    arguments = ["eval", "run", "--model", *model, "--tasks", "MATH500", "--data-dir", str(data), "--json"]
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
