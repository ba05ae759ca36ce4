"""`python -m flows.cli.index_run`: one build for the server of an index; its parameters stand on stdin as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import typer

from flows.cli.index_command import build_and_show


def main() -> None:
    """Build as `trivet rag index --json` does, with its exit codes and its sentences on stderr."""
    chosen = json.load(sys.stdin)
    try:
        build_and_show(chosen, Path(chosen["index"]), as_json=True)
    except typer.Exit as ended:
        sys.exit(ended.exit_code)


if __name__ == "__main__":
    main()
