"""`kill -9` at random moments of a training: the weights and the curve are those of an undisturbed one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tasks.lever.learning.training_loop import NAME

pytestmark = [pytest.mark.drill, pytest.mark.slow]

WAIT_S = 120
KILLS = 5


def _start(folder: Path, out: Path, pause_s: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.lever.training_to_kill", str(folder), str(out), str(pause_s)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def _wait_for_progress(run: subprocess.Popen[str], state: Path, seen: int) -> int:
    """Until the state on disk is another one, or the run has ended; gives what identifies the state."""
    deadline = time.monotonic() + WAIT_S
    while run.poll() is None and time.monotonic() < deadline:
        if state.exists() and (now := state.stat().st_mtime_ns) != seen:
            return now
        time.sleep(0.002)
    return seen


def test_a_training_that_is_killed_again_and_again_ends_as_an_undisturbed_one(tmp_path: Path):
    rng = random.Random(20)
    undisturbed, disturbed = tmp_path / "undisturbed.json", tmp_path / "disturbed.json"
    with _start(tmp_path / "a", undisturbed, 0) as run:
        asked_undisturbed = run.communicate(timeout=WAIT_S)[0].splitlines()
    assert run.returncode == 0
    asked: list[str] = []
    seen = 0
    for _ in range(KILLS):
        with _start(tmp_path / "b", disturbed, 0.3) as run:
            seen = _wait_for_progress(run, tmp_path / "b" / NAME, seen)
            time.sleep(rng.random() * 0.4)
            assert run.poll() is None, "it ended before it could be killed"
            run.send_signal(signal.SIGKILL)
            asked += run.communicate()[0].splitlines()
    with _start(tmp_path / "b", disturbed, 0) as run:
        asked += run.communicate(timeout=WAIT_S)[0].splitlines()
    assert disturbed.read_bytes() == undisturbed.read_bytes()
    assert list(dict.fromkeys(asked)) == asked_undisturbed  # what is asked again after a kill is asked for word by word
