"""The disk fills up under the service: it says so and what to do, loses nothing, and goes on when there is room."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flows.service.api import Api, ApiFailed
from tests.service.serviced import Running, deploy, diary_of, service_home

pytestmark = [
    *(pytest.mark.drill, pytest.mark.engine, pytest.mark.postgres, pytest.mark.timeout(600)),
    pytest.mark.machine,  # the right to mount
]

SIZE_MB = 300
"""Of the disk; a home takes 100 MB before its first run."""
STEPS = 6
MOST, NOISE = 5_000, 2_000
"""Runs that a full disk does not take, and the random bytes that each of them brings."""
FINAL = ("Completed", "Failed", "Crashed")


class Story(NamedTuple):
    """What happened while the disk was full; it has room again."""

    running: Running
    run: str
    """On its way when the disk became full."""
    diary: Path
    waiting: str
    """A run that no worker had taken then."""
    waiting_diary: Path
    status: dict[str, Any]
    """What `trivet status` told."""
    taken: list[str]
    """Runs that the server still took."""
    refused: str
    """What it said to the next one."""


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    """A small file system."""
    folder = Path(tempfile.mkdtemp(prefix="trivet-disk-"))
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m,mode=755", "none", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        folder.rmdir()
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)
    folder.rmdir()


@pytest.fixture(scope="module")
def story(disk: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("diaries")
    diary, waiting_diary, ballast = folder / "run", folder / "waiting", disk / "ballast"
    with service_home(within=disk, variables={"TRIVET_CRASH_RETRIES": "0"}) as running:
        running.up()
        count, doze = deploy(running.api, "count"), deploy(running.api, "doze")
        run = running.run(count, diary, steps=STEPS, seconds=2)
        running.until(lambda: len(diary_of(diary)) > 1, "the run is on its way")
        planned = running.api.post("/flows/", {"name": "planned"})["id"]
        waiting = running.run(doze, waiting_diary, seconds=0)
        fill(ballast)
        taken: list[str] = []
        with pytest.raises(ApiFailed) as refused:
            taken.extend(plan(running.api, planned))
        told = running.trivet("status", "--json").json
        running.until(lambda: diary_of(diary)[-1] == "not kept", "the run finds no room")
        ballast.unlink()
        yield Story(running, run, diary, waiting, waiting_diary, told, taken, str(refused.value))


def fill(file: Path) -> None:
    """Take all the room that is left."""
    with file.open("wb", buffering=0) as out, suppress(OSError):
        while True:
            out.write(bytes(1 << 20))  # the last one in part
    assert shutil.disk_usage(file.parent).free < 1 << 20


def plan(api: Api, flow: str) -> Generator[str]:
    """Have more and more runs noted, whose parameters take room; gives their ids."""
    for _ in range(MOST):
        noise = os.urandom(NOISE).hex()
        yield api.post("/flow_runs/", {"flow_id": flow, "parameters": {"noise": noise}})["id"]


def test_status_names_the_disk_and_what_to_do(story: Story) -> None:
    told = story.status
    assert told["state"] == "unhealthy"
    assert f"the disk of {story.running.place.home} is full" in told["problems"][0]
    assert "free disk space (see `trivet gc`)" in told["problems"][0]


def test_a_run_is_noted_or_refused(story: Story) -> None:
    assert "answers 503" in story.refused
    assert [run for run in story.taken if story.running.api.get(f"/flow_runs/{run}")["id"] != run] == []


def test_with_room_again_all_is_healthy_by_itself(story: Story) -> None:
    story.running.until(lambda: story.running.trivet("status").code == 0, "healthy again")


def test_the_run_that_found_no_room_tells_so(story: Story) -> None:
    story.running.until(lambda: story.running.state_of(story.run) in FINAL, "the UI tells")
    state = story.running.api.get(f"/flow_runs/{story.run}")["state"]
    assert (state["name"], "has no room left" in state["message"]) == ("Failed", True), state


def test_no_run_is_lost_and_only_what_could_not_be_kept_is_done_again(story: Story) -> None:
    running, both = story.running, (story.run, story.waiting)
    running.until(lambda: all(running.state_of(run) in FINAL for run in both), "the UI tells")
    *_, last, _ = before = diary_of(story.diary)
    for run in both:
        if running.state_of(run) != "Completed":
            running.retry(run)
    running.until(lambda: {running.state_of(run) for run in both} == {"Completed"}, "both runs complete")

    assert diary_of(story.diary)[len(before) :] == [str(number) for number in range(int(last), STEPS)]
    assert [line.split()[0] for line in diary_of(story.waiting_diary)] == ["began", "done"]
