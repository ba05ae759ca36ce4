"""A run of `trivet rag index` in a process of its own, killed at a chosen moment with all that this takes along."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.command import TRIVET

POLL_S = 0.002
"""A scan of a few files lasts some 30 ms."""
PATIENCE_S = 90.0
DEATH_S = 30.0  # a server that was still starting looks for its users only then
"""Longest that the kernel may take over the children of a killed process; it takes milliseconds."""


class Place(NamedTuple):
    """Where a run reads, writes and keeps things."""

    documents: Path
    index_folder: Path
    home: Path

    @property
    def parse_log(self) -> Path:
        """Written by the parser children."""
        return self.home / "logs" / "documents.log"


class Process(NamedTuple):
    """A process, told apart from a later one of the same pid."""

    pid: int
    started: int
    """Clock ticks since the machine's start."""
    command: str


class Killed(NamedTuple):
    """What a kill hit."""

    step: str | None
    """The step that ran; None outside of the flow."""
    children: tuple[Process, ...]
    """Descendants at the moment of the kill."""


Moment = Callable[[int], bool]
"""Whether the run of this pid has got so far."""


def run_index(place: Place, *options: str) -> dict[str, Any]:
    """The report of a run that is left alone."""
    done = subprocess.run(
        _command(place, options), env=_environment(place), capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr[-2000:]}"
    return json.loads(done.stdout)


def kill_index(place: Place, *options: str, moment: Moment, delay_s: float) -> Killed:
    """Start a run and `kill -9` it `delay_s` after its moment has come."""
    with subprocess.Popen(
        _command(place, options), env=_environment(place), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as run:
        deadline = time.monotonic() + PATIENCE_S
        while not moment(run.pid):
            assert run.poll() is None, f"the run ended before it could be killed: {run.communicate()[1][-2000:]!r}"
            assert time.monotonic() < deadline, "the moment to kill never came"
            time.sleep(POLL_S)
        time.sleep(delay_s)
        assert run.poll() is None, "the run was over before the kill"
        os.kill(run.pid, signal.SIGSTOP)  # for a list of its children that is not out of date at once
        children = tuple(descendants(run.pid))
        run.kill()
    status = status_of(place, run.pid)
    return Killed(status["step"] if status and status["state"] == "running" else None, children)


def in_step(place: Place, step: str) -> Moment:
    """When the run says that it is in `step`."""
    return lambda pid: (status := status_of(place, pid)) is not None and status["step"] == step


def there(folder: Path, pattern: str) -> Moment:
    """When something in `folder` matches."""
    return lambda pid: any(folder.glob(pattern))


def status_of(place: Place, pid: int) -> dict[str, Any] | None:
    """`index_status.json` as it stands on the disk, if the run of this pid wrote it."""
    try:
        status = json.loads((place.index_folder / "index_status.json").read_bytes())
    except FileNotFoundError:
        return None
    return status if status["pid"] == pid else None


def shown_state(place: Place) -> str:
    """The state that `trivet rag status --json` shows."""
    command = [*TRIVET, "rag", "status", "--index", str(place.index_folder), "--json"]
    done = subprocess.run(command, env=_environment(place), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["state"]


def survivors(processes: tuple[Process, ...]) -> list[Process]:
    """Those that still run once the kernel had time to end them."""
    deadline = time.monotonic() + DEATH_S
    while (alive := [process for process in processes if _process(process.pid) == process]) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.01)
    return alive


def descendants(pid: int) -> list[Process]:
    """Children, and theirs."""
    found: list[Process] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            if process := _process(child):
                found += [process, *descendants(child)]
    return found


def _process(pid: int) -> Process | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else Process(pid, int(fields[19]), command)


def _command(place: Place, options: tuple[str, ...]) -> list[str]:
    return [*TRIVET, "rag", "index", str(place.documents), "--index", str(place.index_folder), "--json", *options]


def _environment(place: Place) -> dict[str, str]:
    """This one, without what other tests set for their own flows; a killed run leaves its scratch in the home."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "TRIVET_"))}
    root = str(Path(__file__).parents[2])
    own = {"TRIVET_HOME": str(place.home), "TMPDIR": str(place.home)}
    return ours | own | {"PYTHONPATH": root}
