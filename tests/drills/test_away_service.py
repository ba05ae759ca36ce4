"""The server is away for longer than Prefect waits for it: runs under way lose nothing, and one that gives up ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flows.service import supervising
from flows.service.supervising import is_gone
from tests.service.serviced import Running, deploy, diary_of, service_home

pytestmark = [pytest.mark.drill, pytest.mark.engine, pytest.mark.postgres, pytest.mark.timeout(600)]

AWAY_S = 75.0
"""Prefect asks again for 62 s, or 74 with its jitter; the run comes to ask some seconds after the server has gone."""
PATIENT, HASTY = 6, 40
"""Steps of the run that waits for the server, and of the one that has been told not to."""
ONE_RETRY = {"PREFECT_CLIENT_MAX_RETRIES": "1"}
TRUE_S = 270.0
"""Until the UI tells the truth of every run."""


class Outage(NamedTuple):
    """What there is when the server is back."""

    running: Running
    patient: str
    hasty: str
    diaries: dict[str, Path]
    """Of each run."""
    child: str
    """A run without a worker, whose process was killed while the server was away."""
    hasty_ended: bool
    """Whether its process was gone before the server was back."""
    back: float
    """Since when it is, by the monotonic clock."""


@pytest.fixture(scope="module")
def outage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outage]:
    folder = tmp_path_factory.mktemp("diaries")
    with service_home(variables={"TRIVET_CRASH_RETRIES": "0"}) as running:
        running.up()
        parent = running.run(deploy(running.api, "parent"), folder / "child", seconds=600)
        running.until(lambda: diary_of(folder / "child"), "the child is on its way")
        [child] = [
            each["id"] for each in running.api.post("/flow_runs/filter", {"flows": {"name": {"any_": ["doze"]}}})
        ]
        patient, hasty = deploy(running.api, "count"), deploy(running.api, "count", name="hasty", variables=ONE_RETRY)
        runs = (
            running.run(patient, folder / "patient", steps=PATIENT, seconds=1, slots=PATIENT),
            running.run(hasty, folder / "hasty", steps=HASTY, seconds=0.25),
        )
        diaries = dict(zip(runs, (folder / "patient", folder / "hasty"), strict=True))
        running.until(lambda: all(len(diary_of(diary)) > 1 for diary in diaries.values()), "and both runs")
        process, dying = (
            next(each.process for each in running.processes() if each.run == run) for run in (runs[1], parent)
        )
        with supervising.client(running.place) as ask:
            ask.supervisor.stopProcess("server")
            dying.kill()
            time.sleep(AWAY_S)
            ended = is_gone(process)
            ask.supervisor.startProcess("server", False)
        running.until(running.api.is_ready, "the server is back")
        yield Outage(running, *runs, diaries, child, ended, time.monotonic())


def until(outage: Outage, run: str, *states: str) -> None:
    while (state := outage.running.state_of(run)) not in states:
        assert time.monotonic() < outage.back + TRUE_S, f"{state}, {TRUE_S:g} s after the server is back"
        time.sleep(0.5)


def task_runs(outage: Outage, run: str) -> list[dict[str, Any]]:
    return outage.running.api.post("/task_runs/filter", {"flow_runs": {"id": {"any_": [run]}}})


def test_a_run_that_died_meanwhile_is_crashed(outage: Outage) -> None:
    """Its parent's worker tells of the parent; of the child only its silence does."""
    until(outage, outage.child, "Crashed")


def test_a_process_that_cannot_tell_its_end_ends(outage: Outage) -> None:
    """Prefect would try each of its events for 8 s, while it exits."""
    assert diary_of(outage.diaries[outage.hasty])[-1] == str(HASTY - 1), "it has done its work"
    assert outage.hasty_ended


def test_its_run_is_not_lost(outage: Outage) -> None:
    until(outage, outage.hasty, "Crashed", "Completed")
    if outage.running.state_of(outage.hasty) == "Crashed":
        outage.running.retry(outage.hasty)
        until(outage, outage.hasty, "Completed")
    assert outage.running.state_of(outage.hasty) == "Completed"
    assert diary_of(outage.diaries[outage.hasty]) == [str(number) for number in range(HASTY)]


def test_a_run_on_its_way_completes_and_has_done_each_step_once(outage: Outage) -> None:
    until(outage, outage.patient, "Completed")
    assert diary_of(outage.diaries[outage.patient]) == [str(number) for number in range(PATIENT)]


def test_its_steps_are_seen_all_of_them(outage: Outage) -> None:
    def told() -> dict[str, str]:
        return {run["name"]: run["state_name"] for run in task_runs(outage, outage.patient)}

    wanted = {f"note {number}": "Completed" for number in range(PATIENT)}
    outage.running.until(lambda: told() == wanted, "the API has all steps")


def test_the_service_is_healthy_again(outage: Outage) -> None:
    outage.running.until(lambda: outage.running.trivet("status").code == 0, "healthy again")
