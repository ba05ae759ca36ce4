"""`kill -9` of each part of the service: it is healthy again, no run is lost, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from flows.service import supervising
from flows.service.server_database import cluster_of
from tests.service.serviced import Running, counting, deploy, diary_of, kill, service_home

LEASE_RENEWAL_S = 3.0
"""How often a run renews its lease here."""
RETRIES = 1
"""Automatic retries of a run here."""
pytestmark = [pytest.mark.drill, pytest.mark.engine, pytest.mark.postgres, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each step of the house that really runs leaves a line here."""
    return tmp_path_factory.mktemp("counted") / "steps"


@pytest.fixture(scope="module")
def running(counter: Path) -> Iterator[Running]:
    with service_home(variables=counting(counter) | {"TRIVET_CRASH_RETRIES": str(RETRIES)}) as running:
        running.up()
        yield running


@pytest.fixture(scope="module")
def doze(running: Running) -> str:
    return deploy(running.api)


def healthy(running: Running) -> bool:
    return running.trivet("status").code == 0


def began(diary: Path) -> int:
    return sum(line.startswith("began") for line in diary_of(diary))


def flow_of(running: Running, run: str) -> int:
    """The process that works for a run."""
    [pid] = [each.process.pid for each in running.processes() if each.run == run]
    return pid


def test_a_run_is_a_child_of_the_worker_of_its_pool_and_outlives_it(
    running: Running, doze: str, tmp_path: Path
) -> None:
    worker, diary = running.pid_of("cpu"), tmp_path / "diary"
    run = running.run(doze, diary, seconds=15)
    running.until(lambda: began(diary), "the run begins")
    assert diary_of(diary)[0].split()[2] == str(worker)

    kill(worker)
    running.until(lambda: running.state_of(run) == "Completed", "the run completes")

    assert diary_of(diary)[1:] == ["done"]
    running.until(lambda: healthy(running), "healthy again")
    assert running.pid_of("cpu") != worker


def test_a_run_that_dies_with_its_worker_runs_again(running: Running, doze: str, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    run = running.run(doze, diary, seconds=3)
    running.until(lambda: began(diary), "the run begins")
    worker, flow = running.pid_of("cpu"), flow_of(running, run)

    os.kill(worker, signal.SIGSTOP)  # or it calls the run crashed before it is killed itself
    kill(flow)
    kill(worker)
    running.until(lambda: running.state_of(run) == "Completed", "the run completes")

    assert (began(diary), diary_of(diary)[-1]) == (2, "done")


@pytest.mark.parametrize("part", ["server", "database", "gpu"])
def test_a_part_that_is_killed_is_started_again(running: Running, part: str) -> None:
    before = running.pid_of(part)
    kill(before)
    # the supervisor may see the end only after `status` has asked
    running.until(lambda: healthy(running) and running.pids_of(part) not in ([], [before]), f"{part} is back")


def test_a_run_that_ends_while_the_server_is_away_is_told_when_it_is_back(
    running: Running, doze: str, tmp_path: Path
) -> None:
    diary = tmp_path / "diary"
    run = running.run(doze, diary, seconds=2)
    running.until(lambda: began(diary), "the run begins")
    kill(running.pid_of("server"))
    running.until(lambda: diary_of(diary)[-1] == "done", "the run has done its work")
    assert not running.api.is_ready(), "the server takes longer than that to come back"
    running.until(lambda: running.api.is_ready() and running.state_of(run) == "Completed", "the run completes")
    assert began(diary) == 1


def test_a_limited_run_that_holds_a_slot_outlives_the_server_and_gives_both_back(
    running: Running, tmp_path: Path
) -> None:
    deployment = deploy(running.api, "hold", limit=1)
    run = running.run(deployment, tmp_path / "diary", seconds=240)
    running.until(lambda: began(tmp_path / "diary"), "the run begins")
    assert taken(running, deployment) == {"gpu": 1, "deployment": 1}

    kill(running.pid_of("server"))
    running.until(running.api.is_ready, "the server is back")
    assert taken(running, deployment) == {"gpu": 1, "deployment": 1}
    time.sleep(2 * LEASE_RENEWAL_S)  # Prefect ends a run whose lease is gone when it comes to renew it
    (tmp_path / "diary.enough").touch()
    running.until(lambda: running.state_of(run) in ("Completed", "Crashed"), "the run ends")

    assert (running.state_of(run), diary_of(tmp_path / "diary")[1:]) == ("Completed", ["done"])
    running.until(lambda: taken(running, deployment) == {"gpu": 0, "deployment": 0}, "nothing is taken")


def test_slots_that_nobody_holds_are_free_when_the_server_is_back(running: Running) -> None:
    running.api.post("/v2/concurrency_limits/increment", {"names": ["gpu"], "slots": 1})
    kill(running.pid_of("server"))
    running.until(running.api.is_ready, "the server is back")
    assert running.api.get("/v2/concurrency_limits/gpu")["active_slots"] == 0


def taken(running: Running, deployment: str) -> dict[str, int]:
    """Slots of a GPU, and runs of the deployment, as the server counts them."""
    limits = {
        "gpu": running.api.get("/v2/concurrency_limits/gpu"),
        "deployment": running.api.get(f"/deployments/{deployment}")["global_concurrency_limit"],
    }
    return {name: limit["active_slots"] for name, limit in limits.items()}


def test_a_run_whose_process_is_killed_is_done_again_so_often_and_then_when_asked(
    running: Running, doze: str, tmp_path: Path
) -> None:
    diary = tmp_path / "diary"
    run = running.run(doze, diary, seconds=5)
    for times in range(RETRIES + 1):
        running.until(lambda times=times: began(diary) == times + 1, "the run begins")
        kill(flow_of(running, run))
        running.until(lambda times=times: crashes(running, run) == times + 1, "it is said to have crashed")

    # Prefect's worker would say so again some seconds later, when the run waits to be done again
    running.retry(run)
    running.until(lambda: running.state_of(run) == "Completed", "the retry does it")
    assert (began(diary), diary_of(diary)[-1]) == (RETRIES + 2, "done")
    assert crashes(running, run) == RETRIES + 1, "one notification a crash"


def crashes(running: Running, run: str) -> int:
    """How often the server was told that a run crashed."""
    return sum(state["type"] == "CRASHED" for state in running.api.get(f"/flow_run_states/?flow_run_id={run}"))


def test_a_run_that_dies_finds_what_its_step_on_the_gpu_has_done(
    running: Running, counter: Path, tmp_path: Path
) -> None:
    run, child, process = sent_to_gpu(running, tmp_path)
    process.suspend()  # it has more to do than its parent has time
    kill(flow_of(running, run))
    running.until(lambda: crashes(running, run), "the UI tells")
    process.resume()
    running.until(lambda: running.state_of(child) == "Completed", "the child does its work to the end")
    running.until(lambda: running.state_of(run) == "Completed", "the run is done again by itself")
    assert Counter(counter.read_text().splitlines())["tasks.rag.steps embed"] == 1


def test_a_step_on_the_gpu_whose_process_is_killed_is_sent_again(running: Running, tmp_path: Path) -> None:
    run, child, process = sent_to_gpu(running, tmp_path)
    kill(process.pid)
    running.until(lambda: running.state_of(run) == "Completed", "the run goes on by itself")
    assert running.state_of(child) == "Crashed"
    assert running.api.get(f"/flow_runs/{run}")["run_count"] == 1


def sent_to_gpu(running: Running, folder: Path) -> tuple[str, str, psutil.Process]:
    """A run that builds an index, the run of its step on the pool gpu, and the process of that."""
    documents = folder / "documents"
    documents.mkdir()
    (documents / "one.md").write_text(f"# {folder.name}\n\nA page.\n")
    index = running.api.get("/deployments/name/rag/index")["id"]
    before = gpu_children(running)  # one that is done waits a while for a next step
    run = running.start(index, {"config": {"documents": str(documents), "index": str(folder / "index")}})

    def sent() -> list[tuple[str, psutil.Process]]:
        return [each for each in gpu_children(running) if each not in before]

    running.until(sent, "the step is sent to the pool")
    [(child, process)] = sent()
    return run, child, process


def gpu_children(running: Running) -> list[tuple[str, psutil.Process]]:
    """Runs of the pool gpu that have a process."""
    worker = running.pid_of("gpu")
    return [(each.run, each.process) for each in running.processes() if each.run and each.process.ppid() == worker]


def test_a_killed_postgresql_is_started_again(running: Running) -> None:
    before = cluster_of(running.place).status().pid
    assert before
    kill(before)
    running.until(lambda: cluster_of(running.place).status().pid not in (None, before), "PostgreSQL is back")
    running.until(lambda: healthy(running), "healthy again")


def test_up_mends_a_killed_supervisor_and_hands_back_its_runs(running: Running, doze: str, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    run = running.run(doze, diary, seconds=3)
    running.until(lambda: began(diary), "the run begins")
    supervisor = supervising.supervisor_in(supervising.find_processes(running.place.mark))
    assert supervisor
    old = running.processes()

    supervisor.process.kill()
    assert running.trivet("status", "--json").json["state"] == "unhealthy"
    again = running.up()

    assert again["state"] == "started"
    assert [each.command for each in old if not supervising.is_gone(each.process)] == []
    running.until(lambda: running.state_of(run) == "Completed", "the run completes")
    assert diary_of(diary)[-1] == "done"


def test_down_leaves_nothing_behind_and_up_goes_on_with_its_runs(running: Running, doze: str, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    run = running.run(doze, diary, seconds=240)
    running.until(lambda: began(diary), "the run begins")

    stopped = running.trivet("down", "--json")
    assert (stopped.code, stopped.json["stopped"][:1]) == (0, ["the service"])
    assert running.processes() == []
    assert cluster_of(running.place).status().state == "stopped"
    assert diary_of(diary)[1:] == []

    running.up()
    running.until(lambda: began(diary) == 2, "the run begins again")
    (tmp_path / "diary.enough").touch()
    running.until(lambda: running.state_of(run) == "Completed", "the run completes")
    assert (began(diary), diary_of(diary)[-1]) == (2, "done")


def test_sigterm_to_the_supervisor_ends_everything(running: Running) -> None:
    supervisor = supervising.supervisor_in(supervising.find_processes(running.place.mark))
    assert supervisor
    supervisor.process.terminate()
    running.until(lambda: not running.processes(), "all processes end")
    assert cluster_of(running.place).status().state == "stopped"
    assert running.up()["state"] == "started"


def test_down_ends_what_a_kill_of_everything_has_left(running: Running) -> None:
    parts = [running.pid_of(part) for part in ("cpu", "database")]
    supervisor = supervising.supervisor_in(supervising.find_processes(running.place.mark))
    assert supervisor
    for pid in (supervisor.process.pid, *parts):
        kill(pid)
    time.sleep(0.2)

    assert running.trivet("down").code == 0

    assert running.processes() == []
    assert cluster_of(running.place).status().state == "stopped"
