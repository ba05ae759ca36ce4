"""All benchmarks, one after the other, each beside its peer in the same run: `make bench`.

One thread, CPU seconds, ratios; nothing here fails a build.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run the benchmarks; the exit status is the number of those that did not end well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=Path, required=True, help="folder with the English filings")
    parser.add_argument("--tables", type=Path, required=True, help="folder with the tables of ICDAR 2013")
    parser.add_argument("--filings", type=Path, required=True, help="folder with filings whose rows are counted")
    parser.add_argument("--peers", required=True, help="python of the environment of the peers")
    parser.add_argument("--inspect", required=True, help="python of the environment of inspect_ai")
    chosen = parser.parse_args()
    documents, peers = str(chosen.documents), chosen.peers
    commands = {
        "pdf": [documents],
        "tables": [str(chosen.tables), "--filings", str(chosen.filings)],
        "embed": [],
        "retrieval": ["--documents", documents, "--peers", peers],
        "llamaindex": ["--documents", documents, "--peer-python", peers],
        "asking": ["--documents", documents, "--seconds", "60"],
        "langchain": ["--documents", documents, "--peers", peers],
        "flow": [],
        "lineage": [],
        "growth": [],
        "math": [],
        "calls": [],
        "hf": [],
        "evaluate": ["--inspect", chosen.inspect],
        "parity": [],
        "code": ["--peers", peers],
        "pointer": [],
        "judging": [],
        "lever": [],
        "service": [],
    }
    single = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    failed = 0
    for name, arguments in commands.items():
        print(f"\n== {name}", flush=True)
        command = [sys.executable, "-m", f"tests.benchmarks.bench_{name}", *arguments]
        failed += bool(subprocess.run(command, env=os.environ | single, check=False).returncode)
    return failed


if __name__ == "__main__":
    sys.exit(main())
