"""Shards on a Dask or Ray cluster give what threads give: results, errors, progress, and an index to the byte."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.running.settings import ClusterUnusable, configure_steps, settings
from storage.index import open_index
from tests.command import run_apart

configure_steps()

from prefect.task_runners import ThreadPoolTaskRunner  # noqa: E402

from flows.running.task_runners import task_runner  # noqa: E402

pytestmark = [pytest.mark.engine, pytest.mark.slow]

ROOT = str(Path(__file__).parents[2])
CLUSTERS = ["dask", "ray"]


def run_sharded(home: Path, where: str, salt: str, **environment: str) -> dict[str, Any]:
    """What the flow of tests/engine/sharding.py tells, run in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", "from tests.engine.sharding import main; main()", salt],
        env=os.environ | {"TRIVET_HOME": str(home), "PYTHONPATH": ROOT, "TRIVET_TASK_RUNNER": where} | environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module", params=CLUSTERS)
def told(request: pytest.FixtureRequest, home: Path) -> dict[str, Any]:
    """What a flow tells whose shards a cluster of this machine has done."""
    return run_sharded(home, request.param, request.param)


def test_shards_are_done_by_other_processes(told: dict[str, Any]) -> None:
    assert told["squares"] == [0, 1, 4]
    assert told["kept"]
    assert told["pid"] not in told["pids"]


def test_a_step_that_asks_a_model_stays_with_the_flow(told: dict[str, Any]) -> None:
    assert told["asked_in"] == told["pid"]


def test_what_is_not_finished_and_what_fails_comes_back(told: dict[str, Any]) -> None:
    assert (told["halves"], told["unfinished"]) == ([1, 1], {"3": "odd"})
    assert told["error"] == "ValueError: 7 is not a number that this step knows"


def test_threads_find_what_a_cluster_has_done(told: dict[str, Any], home: Path, request: pytest.FixtureRequest) -> None:
    kind = request.node.callspec.params["told"]
    assert run_sharded(home, "thread", kind)["pids"] == told["pids"]


@pytest.fixture(scope="module")
def documents(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few of the sample documents: one of each kind, and a locked one that cannot be read."""
    folder = tmp_path_factory.mktemp("few") / "documents"
    for part in ("docx", "hwp", "notices"):
        shutil.copytree(samples / part, folder / part)
    return folder


@pytest.fixture(scope="module")
def in_threads(documents: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Their index as threads make it."""
    return index(documents, tmp_path_factory.mktemp("thread"), "thread")


def index(documents: Path, home: Path, kind: str) -> Path:
    done = run_apart(
        "rag", "index", documents, "--index", home / "index", "--json",
        TRIVET_HOME=str(home), PYTHONPATH=ROOT, TRIVET_TASK_RUNNER=kind,
    )  # fmt: skip
    assert done.code in (0, 3), done.stderr  # some samples cannot be read
    assert "Still processing" not in done.stderr
    return home / "index"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", CLUSTERS)
def test_an_index_is_the_same_to_the_byte(kind: str, documents: Path, in_threads: Path, tmp_path: Path) -> None:
    assert contents(index(documents, tmp_path, kind)) == contents(in_threads)


def contents(folder: Path) -> dict[str, bytes]:
    """All files of an index's generation."""
    with open_index(folder) as opened:
        generation = folder / "generations" / opened.generation
    return {str(path.relative_to(folder)): path.read_bytes() for path in generation.rglob("*") if path.is_file()}


@pytest.fixture
def dask_cluster(home: Path, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A scheduler and a worker that somebody has started, and the worker's home."""
    own = os.environ | {"PYTHONPATH": ROOT, "TRIVET_HOME": str(tmp_path / "elsewhere")}
    place = tmp_path / "scheduler.json"
    commands = [
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0",
         "--scheduler-file", str(place), "--no-dashboard"],
        [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(place), "--host", "127.0.0.1",
         "--nworkers", "1", "--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path)],
    ]  # fmt: skip
    silent: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = [subprocess.Popen(command, env=own, **silent) for command in commands]
    try:
        while not (place.exists() and place.read_text().endswith("}")):
            assert started[0].poll() is None
        yield json.loads(place.read_text())["address"], tmp_path / "elsewhere"
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(60)


def test_a_cluster_that_is_there_is_used_when_its_workers_have_the_store(dask_cluster: tuple[str, Path]) -> None:
    address, its_home = dask_cluster
    told = run_sharded(its_home, f"dask={address}", "there")
    assert told["pid"] not in told["pids"]


def test_workers_that_keep_things_elsewhere_are_refused(dask_cluster: tuple[str, Path], home: Path) -> None:
    with pytest.raises(AssertionError, match="start the workers with the same TRIVET_STORE"):
        run_sharded(home, f"dask={dask_cluster[0]}", "elsewhere")


def test_threads_are_what_nobody_need_ask_for() -> None:
    assert isinstance(task_runner(2), ThreadPoolTaskRunner)


@pytest.mark.parametrize("where", ["dask=127.0.0.1:8786", "ray=tcp://127.0.0.1:10001", "tcp://127.0.0.1:1"])
def test_an_address_of_another_kind_is_refused(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIVET_TASK_RUNNER", where)
    settings.cache_clear()
    try:
        with pytest.raises(ClusterUnusable, match=f"TRIVET_TASK_RUNNER={where}: expected"):
            task_runner(2)
    finally:
        monkeypatch.undo()
        settings.cache_clear()
