"""All benchmarks beside their peers as one table, `make bench`; or one: `python -m tests.benchmarks NAME [--help]`.

    python -m tests.benchmarks [--data FOLDER] [--peers PYTHON] [--inspect PYTHON] [--only NAME …] [--history FILE]

aims.toml says what each benchmark is given and which of its figures have an aim. One thread, CPU seconds unless a
figure says otherwise. A benchmark alone prints each figure as a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tomllib
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
NAMES = [path.stem.removeprefix("bench_") for path in sorted(FOLDER.glob("bench_*.py"))]
SINGLE = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


def main() -> int:
    """Print the table. The exit status is 1 where a row misses its aim by more than its noise, or was not measured."""
    from tests.benchmarks.aims import Row, append_history, draw_history, show_table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=FOLDER.parents[2] / "shared/data", help="folder of ../shared/data")
    parser.add_argument("--peers", help="python of the environment of the peers")
    parser.add_argument("--inspect", help="python of the environment of inspect_ai")
    parser.add_argument("--only", nargs="+", choices=NAMES, help="benchmarks to run; default: those of aims.toml")
    parser.add_argument("--history", type=Path, default=FOLDER / "history.csv", help="CSV to which rows are appended")
    chosen = parser.parse_args()
    aims: dict[str, Any] = tomllib.loads((FOLDER / "aims.toml").read_text("utf-8"))
    rows: list[Row] = []
    for name, arguments in aims["arguments"].items():
        if name in (chosen.only or NAMES):
            figures = measure(name, [one.format(**vars(chosen)) for one in arguments])
            rows += [Row.of(aim, figures) for aim in aims["rows"] if aim["bench"] == name]
    show_table(rows)
    append_history(chosen.history, rows)
    draw_history(chosen.history)
    return int(any(row.failed for row in rows))


def measure(name: str, arguments: list[str]) -> dict[str, Any]:
    """The figures of a benchmark, in a process of its own; they are shown as they come, also of one that fails."""
    command = [sys.executable, "-m", "tests.benchmarks", name, *arguments]
    print(f"\n== {name}", flush=True)
    figures: dict[str, Any] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            print(line, end="", flush=True)
            figures |= json.loads(line)
    return figures


def measure_one(name: str) -> None:
    """Run a benchmark in this process; the parameters of its function are the options of the command."""
    import typer

    work = import_module(f"tests.benchmarks.bench_{name}").measure

    @wraps(work)
    def show(**options: Any) -> None:
        for figure, value in work(**options):
            print(json.dumps({figure: value}, ensure_ascii=False), flush=True)

    typer.run(show)


if __name__ == "__main__":
    os.environ |= SINGLE  # read when torch and numpy are first imported
    if sys.argv[1:2] and sys.argv[1] in NAMES:
        measure_one(sys.argv.pop(1))
    else:
        sys.exit(main())
