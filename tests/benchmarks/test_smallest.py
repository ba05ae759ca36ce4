"""Every benchmark runs at its smallest size: what it imports and measures is still there."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(600)]
FOLDER = Path(__file__).parent
DOCUMENTS = FOLDER.parent / "samples" / "documents"
AIMS: dict[str, Any] = tomllib.loads((FOLDER / "aims.toml").read_text("utf-8"))
SMALLEST: dict[str, list[str]] = {
    "asking": ["--chunks", "2000", "--users", "2", "--seconds", "4", "--pause-s", "1"],
    "calls": ["--calls", "20", "--rounds", "1", "--latency-ms", "1"],
    "code": ["--rounds", "1", "--task", "HumanEval"],
    "embed": ["--chunks", "3"],
    "evaluate": ["--items", "20", "--many", "40", "--rounds", "1"],
    "flow": ["--documents", "5", "--samples", str(DOCUMENTS / "docx")],
    "gpu": ["--small"],
    "growth": ["--samples", "20", "--runs", "3", "--judgments", "200"],
    "hf": ["--requests", "2", "--tokens", "4"],
    "judging": ["--judgments", "50", "--rounds", "1", "--latency-ms", "1"],
    "langchain": ["--chunks", "500"],
    "large": ["--chunks", "1000"],
    "lever": ["--seeds", "0", "--queries", "200"],
    "lineage": ["--documents", "3", "--edges", "500"],
    "math": ["--comparisons", "20", "--responses", "20"],
    "parity": ["--items", "1", "--tokens", "4"],
    "pdf": [str(DOCUMENTS / "english"), "--file", "CalderRidge_FY2023_Annual_Report.pdf", "--peer-pages", "1"],
    "pointer": ["--rounds", "1"],
    "retrieval": ["--chunks", "1000", "--grouped", "1000"],
    "service": ["--idle-s", "1", "--smallest"],
}


@pytest.mark.parametrize("name", SMALLEST)
def test_a_benchmark_runs(name: str) -> None:
    command = [sys.executable, "-m", "tests.benchmarks", name, *SMALLEST[name]]
    done = subprocess.run(command, cwd=FOLDER.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    figures = set[str]().union(*map(json.loads, done.stdout.splitlines()))
    absent = ("LangChain", "bm25s", "inspect_ai", "BESTBUY", "MBPP", "CruxEval", "CPU world", "16,000")  # too long
    rows = [row for row in AIMS["rows"] if row["bench"] == name]
    wanted = {row[side] for row in rows for side in ("ours", "peer") if side in row}
    assert not [figure for figure in wanted - figures if not figure.startswith(absent) and "theirs" not in figure]
