"""A signal, or `kill -9`, while generated programs run: the command ends, and with it all that it has started.

A killed evaluation goes on with the next run, which counts every program once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage.connections import locate
from storage.evaluations import Evaluations
from tasks.sandbox import Sandbox
from tests.command import TRIVET, Done
from tests.drills.evaluating import finished, kill_when, start, wait_until
from tests.drills.processes import SOON_S, Process, identities, processes_below, survivors
from tests.models.server import MODEL, Server
from tests.sandbox.attacking import command, descendants

pytestmark = [pytest.mark.drill, pytest.mark.timeout(600)]

ITEMS = 30
NAME = "trivet-awaited"
STAYS = f"""    import ctypes, time
    ctypes.CDLL(None).prctl(15, b'{NAME}', 0, 0, 0)
    while True:
        time.sleep(60)
"""
"""Two workers have it for minutes: each program has 15 seconds, and there are 30."""
SAMPLES = Path(__file__).parents[1] / "samples" / "benchmarks"
RIGHT = "    return max((abs(b - a) for a, b in zip(readings, readings[1:])), default=0.0)\n"
NAMED = "    import ctypes, os, time\n    ctypes.CDLL(None).prctl(15, b'trivet-{name}', 0, 0, 0)\n"
SLOW = NAMED.format(name="slow") + "    time.sleep(0.3)\n" + RIGHT
FORKS = "    import os, time\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(60)\n" + RIGHT
"""It leaves a child behind, which has left it."""
PROGRAMS = [RIGHT, "    pass\n", FORKS, *[SLOW] * 4, "    return [][0]\n"]
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
def server(server: Server) -> Server:
    """Its programs stay."""
    server.answer = lambda _: STAYS
    return server


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
            *_, last = done.stderr.strip().splitlines()  # the first says that a server starts
            assert last == f"{said}; what is finished is kept, run the same command again to go on"
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


@pytest.fixture
def arguments(tmp_path: Path, sandbox: Sandbox) -> list[str]:
    """Scores programs that take a while; a skip where nothing walls them in."""
    sandbox.close()
    recorded = tmp_path / "recorded.jsonl"
    lines = [{"task_id": "HumanEval/0", "completion": program} for program in PROGRAMS]
    recorded.write_text("".join(json.dumps(line) + "\n" for line in lines))
    model = ("--model", "replay", "--model_name", "m", "--model_args", f"path={recorded}")
    chosen = ("--tasks", "HumanEval", "--limit", 1, "--data_dir", SAMPLES, "--output_path", tmp_path / "out")
    return [*TRIVET, "eval", "run", *map(str, (*model, *chosen)), "--k", "1,2", "--json"]


@pytest.mark.engine
@pytest.mark.postgres
def test_a_run_that_is_killed_while_programs_run_leaves_no_process_and_loses_nothing(
    arguments: list[str], home: Path
) -> None:
    run = start(arguments, TRIVET_HOME=str(home))
    processes = set[Process]()

    def executes() -> bool:
        below = descendants([run.pid])
        if "trivet-slow" not in map(command, below):
            return False
        processes.update(identities(below))
        return True

    kill_when(run, executes)
    assert len(processes) >= 4, "the run, what walls in, the zygote, the program"
    assert survivors(processes) == []

    done = finished(start(arguments, TRIVET_HOME=str(home)))
    assert done.code == 0, done.stderr
    [result] = done.json["results"]
    # six of eight are right
    assert result["metrics"] == {
        **{f"{prefix}pass@1": 0.75 for prefix in ("", "python_")},
        **{f"{prefix}pass@2": pytest.approx(1 - 1 / 28) for prefix in ("", "python_")},
        "num_total": 1,
    }
    samples = Evaluations(lambda: locate(None, home=home)).samples(done.json["run"]["id"], "HumanEval")
    scores = {sample.repeat: sample.score for sample in samples}
    assert scores == {repeat: float(repeat not in (1, 7)) for repeat in range(len(PROGRAMS))}


def ended_by(run: subprocess.Popen[str], number: signal.Signals) -> Done:
    """How a command ended that was told to, and nothing of its sandbox is left."""
    # engines, zygotes, and what these forked
    processes = [one for one in processes_below(run.pid) if "inside.zygote" in one.command or command(one.pid) == NAME]
    os.kill(run.pid, number)
    stdout, stderr = run.communicate(timeout=SOON_S)
    assert survivors(processes) == []
    return Done(run.returncode, stdout, stderr)


@contextmanager
def executing(arguments: list[str], home: Path) -> Generator[subprocess.Popen[str]]:
    """A command whose programs run."""
    run = start(arguments, TRIVET_HOME=str(home))
    try:
        wait_until(lambda: any(command(one.pid) == NAME for one in processes_below(run.pid)), run)
        assert run.poll() is None, run.communicate()
        yield run
    finally:
        run.kill()
        run.communicate()
