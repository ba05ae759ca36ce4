"""Ctrl-C and SIGTERM while generated programs run: the command ends at once, and with it all that it has started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.command import TRIVET, Done
from tests.drills.evaluating import start, wait_until
from tests.drills.sandbox_processes import SOON_S, gone, identities, still
from tests.models.server import MODEL, Server, serving
from tests.sandbox.attacking import command, descendants
from tests.storage.conftest import open_home

pytestmark = [pytest.mark.drill, pytest.mark.timeout(600)]

ITEMS = 30
NAME = "trivet-awaited"
STAYS = f"""    import ctypes, time
    ctypes.CDLL(None).prctl(15, b'{NAME}', 0, 0, 0)
    while True:
        time.sleep(60)
"""
"""Two workers have it for minutes: each program has 15 seconds, and there are 30."""
SIGNALS = pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "error: interrupted"), (signal.SIGTERM, 143, "error: terminated")],
    ids=["Ctrl-C", "terminate"],
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """HumanEval, of functions that return their number."""
    folder = tmp_path / "data"
    folder.mkdir()
    rows = (
        {
            "task_id": f"HumanEval/{number}",
            "prompt": f'def number_{number}():\n    """{number}"""\n',
            "entry_point": f"number_{number}",
            "canonical_solution": f"    return {number}\n",
            "test": f"def check(candidate):\n    assert candidate() == {number}\n",
        }
        for number in range(ITEMS)
    )
    (folder / "HumanEval.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        running.answer = lambda _: STAYS
        yield running


@pytest.fixture
def home() -> Iterator[Path]:
    with open_home() as folder:
        yield folder


@SIGNALS
@pytest.mark.engine
@pytest.mark.postgres
def test_a_run_ends_and_keeps_its_answers(
    number: signal.Signals, code: int, said: str, server: Server, home: Path, data: Path, tmp_path: Path
):
    chosen = ("--model", "openai", "--model_name", MODEL, "--base-url", server.base_url, "--tasks", "HumanEval")
    arguments = [*TRIVET, "eval", "run", *chosen, "--data-dir", str(data), "--output_path", str(tmp_path / "out")]
    for _ in range(2):
        with executing(arguments, home) as run:
            done = ended_by(run, number)
            assert (done.code, done.stdout) == (code, "")
            assert done.stderr.strip() == f"{said}; what is finished is kept, run the same command again to go on"
            assert len(server.requests) == ITEMS, "the second time nothing is asked again"


@SIGNALS
def test_scoring_ends(number: signal.Signals, code: int, said: str, data: Path, home: Path, tmp_path: Path):
    samples = tmp_path / "samples.jsonl"
    lines = (json.dumps({"task_id": f"HumanEval/{item}", "completion": STAYS}) + "\n" for item in range(ITEMS))
    samples.write_text("".join(lines))
    chosen = ("--task", "HumanEval", "--data-dir", str(data))
    left = "nothing is told before all answers are graded, run the same command again"
    with executing([*TRIVET, "eval", "score", str(samples), *chosen], home) as run:
        done = ended_by(run, number)
        assert (done.code, done.stdout) == (code, "")
        assert done.stderr.strip() == f"{said}; {left}"


def ended_by(run: subprocess.Popen[str], number: signal.Signals) -> Done:
    """How a command ended that was told to, and nothing of its sandbox is left."""
    processes = identities([pid for pid in descendants([run.pid]) if in_a_sandbox(pid)])
    os.kill(run.pid, number)
    stdout, stderr = run.communicate(timeout=SOON_S)
    assert gone(processes), still(processes)
    return Done(run.returncode, stdout, stderr)


@contextmanager
def executing(arguments: list[str], home: Path) -> Generator[subprocess.Popen[str]]:
    """A command whose programs run."""
    run = start(arguments, TRIVET_HOME=str(home))
    try:
        wait_until(lambda: NAME in map(command, descendants([run.pid])), run)
        assert run.poll() is None, run.communicate()
        yield run
    finally:
        run.kill()
        run.communicate()


def in_a_sandbox(pid: int) -> bool:
    """An engine, a zygote, or what it forked."""
    try:
        return b"inside.zygote" in Path(f"/proc/{pid}/cmdline").read_bytes() or command(pid) == NAME
    except OSError:
        return False
