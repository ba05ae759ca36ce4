"""The lever, killed while it judges and while it trains: what it ends with is what it would have ended with."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.bulk import WINDOW
from tests.drills.evaluating import finished
from tests.drills.telling import SMALL
from tests.storage.conftest import open_home

pytestmark = [pytest.mark.drill, pytest.mark.engine, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(900)]

OUTCOMES = ("accuracy.json", "figures.json")


@pytest.fixture
def other_home() -> Iterator[Path]:
    with open_home() as folder:
        yield folder


def begin(home: Path, folder: Path) -> subprocess.Popen[str]:
    """A run in a session of its own; `folder` gets its results and its questions."""
    folder.mkdir(exist_ok=True)
    command = (sys.executable, "-m", "tests.drills.telling", "judge", folder / "questions")
    return subprocess.Popen(
        [*map(str, (*command, "lever", "run", *SMALL, "--results", folder / "results", "--json"))],
        env=os.environ | {"TRIVET_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def killed(run: subprocess.Popen[str], when: Callable[[], bool]) -> bool:
    """Kill a run as soon as something is so; False when it ended before."""
    while run.poll() is None:
        if when():
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()
            return True
        time.sleep(0.01)
    run.communicate()
    return False


def questions(folder: Path) -> Counter[str]:
    """How often each question was really asked."""
    log = folder / "questions"
    return Counter(log.read_text().split()) if log.exists() else Counter()


def outcome(folder: Path) -> dict[str, bytes]:
    """The final figures, the RL data and the weights of all selectors."""
    made = folder / "results" / "digits"
    files = [*(made / "selectors" / name for name in OUTCOMES), *made.rglob("*.safetensors"), *made.rglob("rl_data_*")]
    return {str(path.relative_to(made)): path.read_bytes() for path in files}


def test_a_run_that_is_killed_ends_as_one_that_is_not(home: Path, other_home: Path, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    done = finished(begin(home, whole), within_s=400)
    assert done.code == 0, done.stderr
    asked = sum(questions(whole).values())
    assert set(questions(whole).values()) == {1}, "each question once"

    rng, kills = random.Random(os.urandom(8)), 0
    trainings = other_home / "cache" / "training"
    # among the questions of the beam search's validation, of the RL data, of GRPO's rounds, of the evaluation
    moments: list[Callable[[], bool]] = [
        lambda share=share: sum(questions(broken).values()) > share * asked for share in (0.1, 0.45, 0.8)
    ]
    # while some training has a state on the disk
    moments.insert(rng.randrange(3), lambda: any(trainings.rglob("*")) and rng.random() < 0.05)
    for moment in moments:
        kills += killed(begin(other_home, broken), moment)
    done = finished(begin(other_home, broken), within_s=400)
    assert done.code == 0, done.stderr

    assert kills >= 2
    assert outcome(broken) == outcome(whole)
    again = questions(broken)
    assert again.keys() == questions(whole).keys()
    assert sum(again.values()) - len(again) <= kills * WINDOW, "at most what was under way is asked again"
