"""The `trivet` command as a user runs it: in this process, or in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

AS_USER = "from flows.running import command_server; command_server.IDLE_S = 5; from flows.cli import main; main()"
"""A test's Prefect server outlives its command by seconds: one that ends while it writes locks SQLite for a minute."""
TRIVET = (sys.executable, "-c", AS_USER)


class Done(NamedTuple):
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        [line] = self.stdout.splitlines()
        return json.loads(line)


def run_here(*arguments: object) -> Done:
    """Run in this process, which spares the imports."""
    from typer.testing import CliRunner

    from flows.cli import app

    done = CliRunner().invoke(app, [*map(str, arguments)])
    return Done(done.exit_code, done.stdout, done.stderr)


def run_apart(*arguments: object, before: Callable[[], None] | None = None, **environment: str) -> Done:
    """Run in a process of its own; `before` runs there first."""
    command = [*TRIVET, *map(str, arguments)]
    done = subprocess.run(
        command,
        env=os.environ | environment,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=240,
        check=False,
        preexec_fn=before,
    )
    return Done(done.returncode, done.stdout, done.stderr)
