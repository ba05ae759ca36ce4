"""SIGTERM and Ctrl-C end a command of each pipeline within seconds, and what was finished is not done again."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.bulk import WINDOW
from tests.drills.evaluating import adder, asked, command, finished, start, wait_until, write_sums
from tests.drills.telling import SMALL
from tests.models.server import Server

pytestmark = [pytest.mark.drill, pytest.mark.engine, pytest.mark.postgres, pytest.mark.timeout(900)]

SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
END_S = 20.0
"""Ten seconds are promised on a machine that has nothing else to do."""
START_S = 400.0
DOCUMENTS, CHUNKS = 16, 40
SLOW_S = 6.0
"""Of each call of the embedder: to the end it would take minutes."""
ITEMS, CONCURRENCY = 300, 8


def ended(run: subprocess.Popen[str], number: signal.Signals, reached: Callable[[], bool]) -> str:
    """What a run says that gets the signal once it has got so far; it must end in time, with the signal's code."""
    try:
        wait_until(reached, run, patience_s=START_S)
        assert run.poll() is None, f"it ended before the signal: {run.communicate()}"
        run.send_signal(number)
        before = time.monotonic()
        _, said = run.communicate(timeout=120)
        assert time.monotonic() - before < END_S
        assert run.returncode == 128 + number, said
        return said
    finally:
        run.kill()


def lines(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


def write_notices(folder: Path) -> Path:
    """Documents of many chunks, no two alike."""
    folder.mkdir()
    for number in range(DOCUMENTS):
        paragraphs = (f"## Lot {number}.{part}\n\n" + f"Item {number}-{part} is due. " * 30 for part in range(CHUNKS))
        (folder / f"notice{number}.md").write_text("\n\n".join(paragraphs))
    return folder


@SIGNALS
def test_indexing_ends_while_it_embeds_and_keeps_the_vectors(
    number: signal.Signals, home: Path, tmp_path: Path
) -> None:
    documents, log = write_notices(tmp_path / "documents"), tmp_path / "kept"

    def begin(pause_s: float) -> subprocess.Popen[str]:
        words = ("rag", "index", documents, "--index", tmp_path / "index", "--chunk-chars", 400, "--json")
        program = (sys.executable, "-m", "tests.drills.telling", "embed", log, pause_s)
        return start([*map(str, (*program, *words))], TRIVET_HOME=str(home))

    said = ended(begin(SLOW_S), number, lambda: bool(lines(log)))
    kept = len(lines(log))
    assert "what is finished is kept, run the same command again to go on" in said
    again = finished(begin(0), within_s=600)
    assert (again.code, again.stderr.splitlines()[1:]) == (0, [])  # the first line is on the server that starts
    assert 0 < kept < len(lines(log))
    assert len(lines(log)) == len(set(lines(log))), "a vector that was kept is not computed again"


@SIGNALS
def test_an_evaluation_ends_while_it_asks_and_keeps_the_answers(
    number: signal.Signals, server: Server, home: Path, tmp_path: Path
) -> None:
    server.answer = adder(pause_s=0.5)
    data, concurrency = write_sums(tmp_path / "data", ITEMS), f"model.args.num_concurrent={CONCURRENCY}"
    arguments = command(server, data, tmp_path / "out", "--set", concurrency)
    ended(start(arguments, TRIVET_HOME=str(home)), number, lambda: len(server.requests) >= ITEMS // 4)
    assert ITEMS // 4 <= len(server.requests) < ITEMS
    server.answer = adder(pause_s=0)
    again = finished(start(arguments, TRIVET_HOME=str(home)))
    assert (again.code, again.stderr.splitlines()[1:]) == (0, [])  # the first line is on the server that starts
    assert len(asked(server)) == ITEMS
    assert asked(server).total() - ITEMS <= CONCURRENCY, "at most what was under way is asked again"


@SIGNALS
def test_the_lever_ends_while_it_judges_and_keeps_the_judgments(
    number: signal.Signals, home: Path, tmp_path: Path
) -> None:
    questions = tmp_path / "questions"
    program = (sys.executable, "-m", "tests.drills.telling", "judge", questions)
    words = ("lever", "run", *SMALL, "--results", tmp_path / "results", "--json")
    arguments = [*map(str, (*program, *words))]
    ended(start(arguments, TRIVET_HOME=str(home)), number, lambda: len(lines(questions)) > 2 * WINDOW)
    before = len(lines(questions))
    again = finished(start(arguments, TRIVET_HOME=str(home)), within_s=600)
    assert (again.code, again.stderr.splitlines()[1:]) == (0, [])  # the first line is on the server that starts
    assert before < len(lines(questions))
    assert len(lines(questions)) - len(set(lines(questions))) <= WINDOW, "at most what was under way is asked again"
