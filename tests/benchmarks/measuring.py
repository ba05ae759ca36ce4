"""What benchmarks share: what work and commands cost, parts in a process of their own, and a home of their own."""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from storage.embedded import Cluster
from tests.sandbox.attacking import descendants

Figures = Iterable[tuple[str, Any]]
"""What a benchmark measures: names and values as they come."""
TRIVET = (sys.executable, "-c", "from flows.cli import main; main()")
WATCH_S = 0.05


class Cost(NamedTuple):
    """Of work in this process, or of a command with the children that it waits for."""

    wall_s: float
    cpu_s: float
    memory_mb: float = 0.0
    """Peak of a command itself; of all its processes together where they are watched."""
    output: str = ""


def cost_of(work: Callable[[], object]) -> Cost:
    """What work costs once in this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def median_ms(work: Callable[[Any], object], each: Iterable[Any], *, warm_up: int = 0) -> float:
    """CPU milliseconds of one piece of work, after as many that do not count."""
    each = list(each)
    for one in each[:warm_up]:
        work(one)
    return 1000 * statistics.median(cost_of(lambda one=one: work(one)).cpu_s for one in each)


def take_turns(ways: Mapping[str, Callable[[int], object]], *, rounds: int) -> dict[str, list[Cost]]:
    """What each way costs in each round, in turn, for a machine drifts; a way is given the number of the round."""
    costs: dict[str, list[Cost]] = {name: [] for name in ways}
    for number in range(1, rounds + 1):
        for name, way in ways.items():
            costs[name].append(cost_of(lambda way=way, number=number: way(number)))
    return costs


def medians(costs: Mapping[str, Sequence[Cost]]) -> dict[str, float]:
    """Wall and CPU seconds of each way."""
    figures: dict[str, float] = {}
    for name, measured in costs.items():
        figures[f"{name}: wall, s"] = statistics.median(one.wall_s for one in measured)
        figures[f"{name}: CPU, s"] = statistics.median(one.cpu_s for one in measured)
    return figures


def run(
    command: Sequence[object],
    environment: Mapping[str, str] | None = None,
    *,
    watched: bool = False,
    accepted: Sequence[int] = (0,),
) -> Cost:
    """Run a command to its end. Prints its last words and raises CalledProcessError unless its status is accepted.

    Children that it leaves behind (a database that stays up) are not waited for, so their CPU seconds do not count.
    """
    words, peak, started = list(map(str, command)), 0, time.monotonic()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(words, env=environment, stdout=output, stderr=errors)
        while watched and not os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            peak = max(peak, resident_bytes(child.pid))
            time.sleep(WATCH_S)
        _, status, used = os.wait4(child.pid, 0)
        wall_s = time.monotonic() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode not in accepted:
            errors.seek(0)
            sys.stderr.write(errors.read()[-4_000:].decode(errors="replace"))
            raise subprocess.CalledProcessError(child.returncode, words)
        output.seek(0)
        memory_mb = peak / 2**20 if watched else used.ru_maxrss / 1024
        return Cost(wall_s, used.ru_utime + used.ru_stime, memory_mb, output.read().decode())


def trivet(home: Path, *arguments: object, watched: bool = False, accepted: Sequence[int] = (0,)) -> Cost:
    """What a command of Trivet costs in a home of its own, without asking any network."""
    environment = os.environ | {"TRIVET_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    return run([*TRIVET, *arguments], environment, watched=watched, accepted=accepted)


def read_json(command: Sequence[object], environment: Mapping[str, str] | None = None) -> Any:
    """The last line of a command, as JSON: of a peer, or of a part that has a process to itself."""
    return json.loads(run(command, environment).output.splitlines()[-1])


def part_command(work: Callable[..., object], *arguments: object) -> list[str]:
    """A command that prints the result of a function of a module as JSON."""
    names = f"from {work.__module__} import {work.__name__} as work"
    code = f"import json, sys; {names}; print(json.dumps(work(*json.loads(sys.argv[1]))))"
    return [sys.executable, "-c", code, json.dumps(arguments, default=str)]


def part(work: Callable[..., object], *arguments: object) -> Any:
    """The result of a function of a module, in a process that does nothing else."""
    return read_json(part_command(work, *arguments))


def import_from(python: Path) -> None:
    """Make packages of another environment importable, behind our own, so that numpy stays ours."""
    told = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True)
    sys.path.append(told.strip())


def processor_s() -> float:
    """CPU seconds of this process and of its children that have ended, with theirs."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def peak_mb() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def status_mb(name: str, pid: int | str = "self") -> float:
    """A figure of /proc/PID/status: `RssAnon`, `RssFile`, `VmRSS`, `VmHWM`."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def resident_bytes(pid: int) -> int:
    """Memory of a process with all below it; what several share counts once."""
    total = 0
    for one in descendants([pid]):
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        except OSError:  # it ended meanwhile
            continue
        total += next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
    return total


@contextmanager
def scratch_home(at: Path | None = None) -> Generator[Path]:
    """A folder that goes with whatever is in it, and that the account of the embedded PostgreSQL may enter."""
    home = Path(tempfile.mkdtemp(prefix="trivet-bench-", dir=at))
    home.chmod(0o755)
    try:
        yield home
    finally:
        Cluster(home / "home").remove()
        Cluster(home).remove()
        shutil.rmtree(home, ignore_errors=True)


def write_notices(folder: Path, count: int) -> Path:
    """As many small documents of a page."""
    folder.mkdir()
    for number in range(count):
        text = f"Notice {number}\n\nThe bridge at kilometre {number} was inspected. Repairs cost {number * 17} dollars."
        (folder / f"notice-{number:05d}.txt").write_text(text)
    return folder
