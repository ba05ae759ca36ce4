"""A GPU step on a pool: the worker's process does it, and what happens to it reaches the run that waits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from flows.running.settings import configure_steps
from storage.index import open_index
from tests.command import TRIVET, Done, run_apart, run_here

configure_steps()

from prefect.client.orchestration import SyncPrefectClient  # noqa: E402
from prefect.client.schemas.actions import WorkPoolCreate  # noqa: E402
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId  # noqa: E402
from prefect.client.schemas.objects import FlowRun  # noqa: E402
from prefect.client.schemas.sorting import FlowRunSort  # noqa: E402
from prefect.states import Cancelling, Pending  # noqa: E402

from flows.gpu import NotAStep, find_step, run_step  # noqa: E402

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(300)]

DEPLOYMENT = "gpu-step/gpu"
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def worker(client: SyncPrefectClient) -> Iterator[subprocess.Popen[bytes]]:
    """A worker with one place, of a pool that is called `gpu`."""
    client.create_work_pool(WorkPoolCreate(name="gpu", type="process", concurrency_limit=1))
    client.create_deployment(
        flow_id=client.create_flow(run_step),
        name="gpu",
        entrypoint="flows.gpu.run_step",
        work_pool_name="gpu",
        parameter_openapi_schema={"type": "object", "properties": {}},
    )
    quick = {"PREFECT_WORKER_QUERY_SECONDS": "1", "PREFECT_LOGGING_TO_API_ENABLED": "true"}
    began = subprocess.Popen(
        [sys.executable, "-m", "prefect", "worker", "start", "--pool", "gpu", "--type", "process", "--limit", "1"],
        env=os.environ | quick | {"TRIVET_GPU_DEPLOYMENT": "", "PREFECT_LOGGING_LEVEL": "INFO"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    yield began
    os.killpg(began.pid, signal.SIGTERM)
    began.wait(timeout=60)


_parents: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _no_parent_is_left() -> Iterator[None]:
    yield
    while _parents:
        parent = _parents.pop()
        if parent.poll() is None:
            os.killpg(parent.pid, signal.SIGKILL)
            parent.communicate()


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "budget.md").write_text("# Budget\n\nThe fare collection system costs 4.2 million.\n")
    return folder


def indexed(documents: Path, index: Path, *options: str) -> Done:
    """By a parent of its own, which sends its GPU steps to the pool."""
    return run_apart("rag", "index", documents, "--index", index, "--json", *options, TRIVET_GPU_DEPLOYMENT=DEPLOYMENT)


def begun(client: SyncPrefectClient, documents: Path, index: Path) -> tuple[subprocess.Popen[str], FlowRun]:
    """A parent in a process group of its own, and the child that it has sent to the pool."""
    before = len(children(client))
    parent = launched(*TRIVET, "rag", "index", documents, "--index", index, "--json")
    [child] = until(client, lambda: children(client)[before:])
    return parent, child


def launched(*command: object, stdout: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """A parent in a process group of its own."""
    parent = subprocess.Popen(
        [*map(str, command)],
        env=os.environ | {"TRIVET_GPU_DEPLOYMENT": DEPLOYMENT},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    _parents.append(parent)
    return parent


@contextmanager
def halted(worker: subprocess.Popen[bytes]) -> Generator[None]:
    """The worker takes no run."""
    os.kill(worker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(worker.pid, signal.SIGCONT)


def children(client: SyncPrefectClient) -> list[FlowRun]:
    """The runs of the pool, oldest first."""
    found = client.read_flow_runs(sort=FlowRunSort.START_TIME_ASC, limit=200)
    return [run for run in found if run.work_pool_name == "gpu"]


def cancel_newest(client: SyncPrefectClient) -> None:
    """Cancel the run that began last and is part of no other."""
    newest = client.read_flow_runs(sort=FlowRunSort.START_TIME_DESC, limit=50)
    root = next(run for run in newest if run.parent_task_run_id is None)
    client.set_flow_run_state(root.id, Cancelling(), force=True)


def until(client: SyncPrefectClient, found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if value := found():
            return value
        time.sleep(0.2)
    states = [(run.name, run.state and run.state.name) for run in children(client)]
    raise AssertionError(f"nothing came of it within {PATIENCE_S:g} s; on the pool: {states}")


def said(client: SyncPrefectClient, run: UUID) -> str:
    logs = client.read_logs(log_filter=LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run])))
    return "\n".join(log.message for log in logs)


@pytest.mark.usefixtures("worker")
def test_the_workers_process_does_the_step_and_the_index_is_the_same(
    client: SyncPrefectClient, worker: subprocess.Popen[bytes], documents: Path, tmp_path: Path
) -> None:
    done = indexed(documents, tmp_path / "sent")
    assert done.code == 0, done.stderr
    [child] = children(client)
    assert child.name == f"embed 1/1 of index {documents.name}"
    assert f"a child of {worker.pid}" in until(client, lambda: said(client, child.id))
    assert {"gpu"} <= set(child.tags)

    assert run_here("rag", "index", documents, "--index", tmp_path / "here", "--json").code == 0
    with open_index(tmp_path / "sent") as sent, open_index(tmp_path / "here") as here:
        assert sent.generation == here.generation


DEPLOYED = """
import json, sys
from flows.rag import build_index
from prefect.client.orchestration import get_client
from tests.engine.deployed import Ran

with get_client(sync_client=True) as client:
    print(json.dumps(Ran(client, build_index, config={"documents": sys.argv[1], "index": sys.argv[2]}).bars))
"""


@pytest.mark.usefixtures("worker")
def test_a_run_shows_how_far_the_steps_are_that_it_sent(documents: Path, tmp_path: Path) -> None:
    (documents / "lights.md").write_text("# Lights\n\nThe northern one is red.\n")
    parent = launched(sys.executable, "-c", DEPLOYED, documents, tmp_path / "index", stdout=subprocess.PIPE)
    stdout, stderr = parent.communicate(timeout=PATIENCE_S)
    assert parent.returncode == 0, stderr
    assert json.loads(stdout)["progress-embed"] == 100


@pytest.mark.usefixtures("worker")
def test_an_error_on_the_pool_is_the_parents_error_each_time(
    client: SyncPrefectClient, documents: Path, tmp_path: Path
) -> None:
    broken, before = tmp_path / "broken", len(children(client))
    broken.mkdir()
    (broken / "config.json").write_text("{}")
    indexed(documents, tmp_path / "index", "--embedder", str(broken))
    done = indexed(documents, tmp_path / "index", "--embedder", str(broken))
    inline = run_here("rag", "index", documents, "--index", tmp_path / "index", "--json", "--embedder", broken)
    assert done.code == inline.code != 0
    assert f"{broken} holds no safetensors" in done.stderr
    assert len(children(client)) == before + 2, "a step that failed is sent again"


@pytest.mark.usefixtures("worker")
def test_a_parent_that_died_finds_what_its_child_has_done(
    client: SyncPrefectClient, documents: Path, tmp_path: Path
) -> None:
    (documents / "tides.md").write_text("# Tides\n\nGauges are read at noon.\n")
    parent, child = begun(client, documents, tmp_path / "index")
    os.killpg(parent.pid, signal.SIGKILL)
    parent.communicate()

    done = indexed(documents, tmp_path / "index")
    assert done.code == 0, done.stderr
    assert json.loads(done.stdout)["documents"]["ok"] == 2
    assert children(client)[-1].id == child.id, "the step was not sent again"


@pytest.mark.usefixtures("worker")
def test_a_parent_that_is_cancelled_takes_its_child_along(
    client: SyncPrefectClient, documents: Path, tmp_path: Path
) -> None:
    (documents / "ferries.md").write_text("# Ferries\n\nThe last one leaves at nine.\n")
    parent, child = begun(client, documents, tmp_path / "index")
    cancel_newest(client)
    _, stderr = parent.communicate(timeout=PATIENCE_S)
    assert parent.returncode != 0
    assert "cancelled" in stderr
    ended = until(client, lambda: (run := client.read_flow_run(child.id)).state and run.state.is_final() and run)
    assert ended.state.is_cancelled()


def test_a_child_that_a_worker_took_and_has_not_begun_is_cancelled_at_once(
    client: SyncPrefectClient, worker: subprocess.Popen[bytes], documents: Path, tmp_path: Path
) -> None:
    (documents / "cranes.md").write_text("# Cranes\n\nThe largest lifts ninety tonnes.\n")
    with halted(worker):
        parent, child = begun(client, documents, tmp_path / "index")
        client.set_flow_run_state(child.id, Pending())
        cancel_newest(client)
        parent.communicate(timeout=PATIENCE_S)
        ended = client.read_flow_run(child.id).state
    assert ended
    assert ended.is_cancelled()


NIGHT = """
import sys
from prefect import flow
from flows.rag import IndexConfig, build_index

@flow
def night():
    build_index(IndexConfig(documents=sys.argv[1], index=sys.argv[2]))

night()
"""


def test_a_night_that_is_cancelled_takes_the_children_of_its_parts_along(
    client: SyncPrefectClient, worker: subprocess.Popen[bytes], documents: Path, tmp_path: Path
) -> None:
    (documents / "locks.md").write_text("# Locks\n\nThey fill in twelve minutes.\n")
    before = len(children(client))
    with halted(worker):
        parent = launched(sys.executable, "-c", NIGHT, documents, tmp_path / "index")
        [child] = until(client, lambda: children(client)[before:])
        cancel_newest(client)
        parent.communicate(timeout=PATIENCE_S)
        ended = until(
            client, lambda: (run := client.read_flow_run(child.id)).state and not run.state.is_scheduled() and run
        )
    assert parent.returncode != 0
    assert ended.state.is_cancelled() or ended.state.is_cancelling()


def test_a_run_that_needs_what_is_under_way_waits_for_it_and_sends_it_anew_when_it_is_cancelled(
    client: SyncPrefectClient, worker: subprocess.Popen[bytes], documents: Path, tmp_path: Path
) -> None:
    (documents / "moorings.md").write_text("# Moorings\n\nThere are forty of them.\n")
    with halted(worker):
        first, child = begun(client, documents, tmp_path / "first")
        before = underway(client)
        second = launched(*TRIVET, "rag", "index", documents, "--index", tmp_path / "second", "--json")
        until(client, lambda: underway(client) > before)
        time.sleep(5)
        assert children(client)[-1].id == child.id, "the step was sent once"
        assert child.parent_task_run_id
        sender = client.read_task_run(child.parent_task_run_id).flow_run_id
        assert sender
        client.set_flow_run_state(sender, Cancelling(), force=True)
        first.communicate(timeout=PATIENCE_S)
    assert first.returncode != 0
    second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 0
    assert children(client)[-1].id != child.id, "who still needed it has sent it"


def underway(client: SyncPrefectClient) -> int:
    """Runs that are not done."""
    found = client.read_flow_runs(sort=FlowRunSort.START_TIME_DESC, limit=200)
    return sum(bool(run.state and run.state.is_running()) for run in found)


@pytest.mark.parametrize("entry", ["os.system", "tasks.rag.steps.nothing", "tasks.rag.stepz.embed", "tasks.keys.x"])
def test_only_steps_are_done(entry: str) -> None:
    with pytest.raises(NotAStep, match=entry):
        find_step(entry)


def test_a_deployment_that_is_not_there_is_named(documents: Path, tmp_path: Path) -> None:
    (documents / "bridges.md").write_text("# Bridges\n\nThey open at ten.\n")
    done = run_apart("rag", "index", documents, "--index", tmp_path / "index", TRIVET_GPU_DEPLOYMENT="gpu-step/none")
    assert done.code != 0
    assert "gpu-step/none" in done.stderr
    assert "trivet deploy" in done.stderr


def test_every_step_of_a_flow_can_be_found_by_its_name() -> None:
    assert find_step("tasks.lever.steps.train_grpo").fn.__name__ == "train_grpo"
