"""What the engine of an evaluation costs beside the model: items that are answered at once, here and by two peers.

The cost of a run is its CPU seconds less those of the same command with one item: what stays is asking, storing,
grading and counting. The database server's share is not in it, neither is the peers' log viewer.

At an endpoint that answers after a fixed time, beside lm_eval: wall seconds from the first request to the last, and of
the whole command; medians of rounds in turn.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.bench_calls import endpoint
from tests.benchmarks.measuring import Cost, Figures, run, scratch_home, trivet

PEERS = Path(__file__).parent / "peers"
LATENCY_MS, CONCURRENCY = 20, 32


def measure(inspect: Path | None = None, items: int = 1_000, many: int = 10_000, rounds: int = 3) -> Figures:
    """inspect: python of the environment of inspect_ai. items: of the run of all sides; many: of the large one."""
    with scratch_home() as place:
        yield from measure_engine(place, inspect, items=items, many=many)
        yield from measure_endpoint(place, items=items, rounds=rounds)


def measure_engine(place: Path, inspect: Path | None, *, items: int, many: int) -> Figures:
    """CPU seconds beyond the start of the command, memory, and runs that have little left to do."""
    data = write_sums(place / "data", many)
    evaluate(place, data, 2)  # starts the database, fills the caches of the file system
    start = evaluate(place, data, 1)
    thousand = evaluate(place, data, items)
    yield "trivet, items beyond its start: CPU s", thousand.cpu_s - start.cpu_s
    yield "trivet, its start: CPU s", start.cpu_s
    peers = {"inspect_ai": inspect, "lm_eval": sys.executable}
    for name, python in peers.items():
        if python:
            command = [str(python), str(PEERS / f"{name.partition('_ai')[0]}_sums.py"), str(data / "math500.jsonl")]
            theirs = run([*command, str(items)]).cpu_s - run([*command, "1"]).cpu_s
            yield f"{name}, items beyond its start: CPU s", theirs
    large = evaluate(place, data, many)
    yield "trivet, memory of many items / of items", large.memory_mb / thousand.memory_mb
    yield "trivet, many items: peak memory, MB", large.memory_mb
    yield "trivet, many items: wall s", large.wall_s
    yield "trivet, 1 item: wall s, Prefect's start for the most part", start.wall_s
    yield "trivet, many items again: wall s", evaluate(place, data, many, overwrite=False).wall_s
    yield "trivet, many items again, --overwrite: wall s", evaluate(place, data, many).wall_s
    shutil.rmtree(place / "home" / "results")
    yield "trivet, many items again, only answers kept: wall s", evaluate(place, data, many).wall_s


def measure_endpoint(place: Path, *, items: int, rounds: int) -> Figures:
    """Seconds of the requests and of the whole command, ours and lm_eval's; each run asks an endpoint of its own."""
    data = place / "data"
    script = (sys.executable, str(PEERS / "lm_eval_sums.py"), str(data / "math500.jsonl"), str(items))
    ways: dict[str, Callable[[str], Cost]] = {
        "trivet": lambda url: evaluate(place, data, items, url=url),
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
    yield from ((name, statistics.median(seconds)) for name, seconds in walls.items())


def evaluate(place: Path, data: Path, items: int, *, url: str | None = None, overwrite: bool = True) -> Cost:
    """One run of sums, by a scripted model or an endpoint."""
    model_args = f"model=bench,base_url={url},num_concurrent={CONCURRENCY}"
    model = ["openai", "--model_args", model_args] if url else ["scripted"]
    arguments = ["eval", "run", "--model", *model, "--tasks", "MATH500", "--data-dir", str(data), "--json"]
    arguments += ["--limit", str(items), "--output_path", str(place / "out"), *(["--overwrite"] * overwrite)]
    return trivet(place / "home", *arguments)


def write_sums(folder: Path, count: int) -> Path:
    """Data of as many sums."""
    folder.mkdir()
    with (folder / "math500.jsonl").open("w") as file:
        for number in range(count):
            row = {"problem": f"What is {number} + 1?", "answer": str(number + 1), "solution": "", "subject": "Sums"}
            file.write(json.dumps(row | {"level": 1, "unique_id": f"sum/{number}"}) + "\n")
    return folder
