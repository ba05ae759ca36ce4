"""An evaluation that is killed while programs run: no process stays, and the next run counts every program once."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.connections import locate
from storage.evaluations import Evaluations
from tasks.sandbox import Sandbox
from tasks.sandbox.sandbox_errors import SandboxUnavailable
from tests.command import TRIVET, Done
from tests.drills.evaluating import kill_when, start
from tests.drills.sandbox_processes import gone, identities, still
from tests.sandbox.attacking import command, descendants
from tests.storage.conftest import open_home

pytestmark = [pytest.mark.drill, pytest.mark.engine, pytest.mark.postgres, pytest.mark.timeout(300)]

SAMPLES = Path(__file__).parents[1] / "samples" / "benchmarks"
RIGHT = "    return max((abs(b - a) for a, b in zip(readings, readings[1:])), default=0.0)\n"
NAMED = "    import ctypes, os, time\n    ctypes.CDLL(None).prctl(15, b'trivet-{name}', 0, 0, 0)\n"
SLOW = NAMED.format(name="slow") + "    time.sleep(0.3)\n" + RIGHT
STAYS = "    import os, time\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(60)\n" + RIGHT
"""It leaves a child behind, which has left it."""
PROGRAMS = [RIGHT, "    pass\n", STAYS, *[SLOW] * 4, "    return [][0]\n"]


@pytest.fixture
def home() -> Iterator[Path]:
    with open_home() as folder:
        yield folder


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """Scores programs that take a while; a skip where nothing walls them in."""
    with Sandbox(workers=1) as sandbox:
        try:
            sandbox.start()
        except SandboxUnavailable as why:
            pytest.skip(str(why))
    recorded = tmp_path / "recorded.jsonl"
    lines = [{"task_id": "HumanEval/0", "completion": program} for program in PROGRAMS]
    recorded.write_text("".join(json.dumps(line) + "\n" for line in lines))
    model = ("--model", "replay", "--model_name", "m", "--model_args", f"path={recorded}")
    chosen = ("--tasks", "HumanEval", "--limit", 1, "--data_dir", SAMPLES, "--output_path", tmp_path / "out")
    return [*TRIVET, "eval", "run", *map(str, (*model, *chosen)), "--k", "1,2", "--json"]


def test_a_run_that_is_killed_while_programs_run_leaves_no_process_and_loses_nothing(
    arguments: list[str], home: Path
) -> None:
    run = start(arguments, TRIVET_HOME=str(home))
    processes = set[tuple[int, str]]()

    def executes() -> bool:
        below = descendants([run.pid])
        if "trivet-slow" not in map(command, below):
            return False
        processes.update(identities(below))
        return True

    kill_when(run, executes)
    assert len(processes) >= 4, "the run, what walls in, the zygote, the program"
    assert gone(processes), still(processes)

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


def finished(run: subprocess.Popen[str]) -> Done:
    stdout, stderr = run.communicate(timeout=120)
    return Done(run.returncode, stdout, stderr)
