"""A watched folder is indexed when its files have changed and are still."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import pytest

from flows.running.watching import wait_until_still, watch_changes
from tests.command import TRIVET

SOON_S = 60.0


def test_a_file_that_is_being_copied_is_waited_for(tmp_path: Path) -> None:
    file, slept = tmp_path / "a.txt", list[float]()
    file.write_text("x")

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) < 4:
            file.write_text("x" * (1 + len(slept)))

    wait_until_still([file, tmp_path / "gone.txt"], still_s=2.0, sleep=sleep)
    assert slept == [2.0] * 4


def test_changes_are_told_from_the_first_look_on(tmp_path: Path) -> None:
    folder, index, stop = tmp_path / "in", tmp_path / "in" / "index", Event()
    index.mkdir(parents=True)
    (folder / "old.txt").write_text("old")
    told = watch_changes(folder, apart_from=index, stop=stop, still_s=0.05)
    assert next(told) == 0
    (folder / "new.txt").write_text("new")  # while the caller works
    (folder / "old.txt").unlink()
    assert next(told) == 2
    later = Thread(target=lambda: (time.sleep(0.2), stop.set()))
    (folder / ".hidden").write_text("part of a download")
    (index / "written.json").write_text("{}")
    later.start()
    assert list(told) == []
    later.join()


def wait_for(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + SOON_S
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.engine
def test_a_watched_folder_is_indexed_as_files_come_until_ctrl_c(tmp_path: Path) -> None:
    folder, index = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "fees.txt").write_text("The fee for a night in the harbour is 35 euros.")
    command = [*TRIVET, "rag", "index", "--watch", str(folder), "--index", str(index), "--json"]
    with (
        (tmp_path / "told.jsonl").open("w") as told,
        subprocess.Popen(command, stdout=told, env=os.environ) as watching,
    ):

        def reports() -> list[dict[str, dict[str, int]]]:
            return [json.loads(line) for line in (tmp_path / "told.jsonl").read_text().splitlines()]

        wait_for(lambda: len(reports()) == 1)
        (folder / "hours.txt").write_text("The harbour opens at six.")
        wait_for(lambda: reports()[-1]["documents"]["total"] == 2)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(SOON_S) == 130
    assert reports()[-1]["documents"]["unchanged"] == 1


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [*TRIVET, "rag", "index", "--watch", str(tmp_path / "nowhere"), "--index", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert "does not exist; name the folder of the documents" in done.stderr
