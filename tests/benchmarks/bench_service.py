"""What the service costs: its start, its idling, a run from click to first step, a GPU step, steps beside plain tasks.

Everything runs as a user runs it, in a fresh home: `trivet up`, runs of deployments, `trivet down`. The steps of the
flow of 200 run in a process of their own, ours and plain Prefect tasks in turn, against the server of that home. They
do nothing, so what they cost more than their functions that are called is overhead: the flow's own start and end too.
While a run of 1,000 steps is told to the server, another thread asks for the list of runs, and a browser opens the
page of that run every second or so; it is open when it shows task runs.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

from flows.service.api import auth_of
from flows.service.server_database import cluster_of
from tests.benchmarks.measuring import Figures, cost_of, part_command, read_json
from tests.service.serviced import ROOT, Running, deploy, diary_of, service_home

if TYPE_CHECKING:
    from playwright.sync_api import Page


class Size(NamedTuple):
    """How much is measured."""

    rounds: int
    steps: int
    """Of a flow that runs beside plain tasks."""
    many: int
    """Steps of the flow whose runs and page are looked at meanwhile."""
    settle_s: int
    """Until the processes of the last run are gone."""


USUAL, SMALLEST = Size(rounds=3, steps=200, many=1_000, settle_s=10), Size(rounds=1, steps=10, many=100, settle_s=0)
LOOK_AGAIN_S = 1.0
"""Between two times that the page is opened."""
NOBODY = "http://127.0.0.1:9/"


def measure(idle_s: float = 60, smallest: bool = False) -> Figures:
    """idle_s: how long to look at a service that does nothing. smallest: few steps, once, to see that it runs."""
    size = SMALLEST if smallest else USUAL
    with service_home(variables={"TRIVET_NOTIFY_URL": NOBODY}) as running:  # so that there are all automations
        yield "trivet up, first: wall, s", timed(running.up)
        assert running.trivet("down").code == 0
        yield "trivet up, again after down: wall, s", timed(running.up)
        doze = deploy(running.api)
        with tempfile.TemporaryDirectory() as folder:
            began = [trigger(running, doze, Path(folder, str(number))) for number in range(size.rounds)]
            yield "trigger to first line of a cpu run: wall, s", statistics.median(began)
            yield from gpu_step(running, Path(folder)).items()
            time.sleep(size.settle_s)
        yield from idle(running, idle_s).items()
        yield from steps(running, size).items()
        yield from crowd(running, size.many).items()


def timed(work: Callable[[], Any]) -> float:
    """Wall seconds."""
    return cost_of(work).wall_s


def trigger(running: Running, deployment: str, diary: Path) -> float:
    """From the request for a run until the flow has written its first line, s."""
    begin = time.perf_counter()
    running.run(deployment, diary, seconds=0)
    while not diary_of(diary):
        time.sleep(0.05)
    took = time.perf_counter() - begin
    running.until(lambda: len(diary_of(diary)) == 2, "the run ends")
    return took


def gpu_step(running: Running, folder: Path) -> dict[str, float]:
    """An index of one document, whose vectors the gpu worker makes: from the child's making to its process, s."""
    documents = folder / "documents"
    documents.mkdir()
    (documents / "one.md").write_text("# One\n\nA page.\n")
    config = {"documents": str(documents), "index": str(folder / "index")}
    deployment = running.api.get("/deployments/name/rag/index")["id"]
    run = running.start(deployment, {"config": config})
    running.until(lambda: running.state_of(run) in ("Completed", "Failed", "Crashed"), "the index is made")
    assert running.state_of(run) == "Completed", running.logs()
    [child] = running.api.post("/flow_runs/filter", {"flows": {"name": {"any_": ["gpu-step"]}}})
    created, started = (datetime.fromisoformat(child[name]).timestamp() for name in ("created", "start_time"))
    return {"GPU step sent to its pool until its process runs: wall, s": started - created}


def everything(running: Running) -> list[psutil.Process]:
    """The processes of the home, with its PostgreSQL servers."""
    found = [each.process for each in running.processes()]
    if pid := cluster_of(running.place).status().pid:
        postmaster = psutil.Process(pid)
        found += [postmaster, *postmaster.children(recursive=True)]
    return found


def idle(running: Running, wait_s: float) -> dict[str, float]:
    """What all processes take while nothing is asked of them."""
    before = spent(running)
    time.sleep(wait_s)
    used = sum(cpu_s - before.get(process, 0.0) for process, cpu_s in spent(running).items())
    memory = 0
    for process in everything(running):
        with suppress(psutil.NoSuchProcess):  # it has ended since it was listed
            memory += process.memory_full_info().pss
    return {"idle: CPU, % of a core": 100 * used / wait_s, "idle: memory (PSS), MB": memory / 1e6}


def spent(running: Running) -> dict[tuple[int, float], float]:
    """CPU seconds of each process until now, by its pid and start."""
    return {(one.pid, one.create_time()): sum(one.cpu_times()[:2]) for one in everything(running)}


def steps(running: Running, size: Size) -> dict[str, float]:
    """A flow of many small steps, ours beside plain tasks that nobody keeps, in turn; the median of each."""
    told: dict[str, list[dict[str, float]]] = {"ours": [], "plain": []}
    for _ in range(size.rounds):
        for kind, found in told.items():
            found.append(read_json(*many_steps(running, kind, size.steps)))
    over = {kind: statistics.median(each["full"] - each["called"] for each in found) for kind, found in told.items()}
    cpu = {kind: statistics.median(each["cpu"] for each in found) for kind, found in told.items()}
    return {
        "an empty flow: wall, s": statistics.median(each["empty"] for found in told.values() for each in found),
        "a flow of steps less their calls: wall, ms a step": 1e3 * over["ours"] / size.steps,
        "... of plain tasks, whose results nobody keeps": 1e3 * over["plain"] / size.steps,
        "a flow of steps: CPU, s": cpu["ours"],
        "... of plain tasks: CPU, s": cpu["plain"],
    }


def many_steps(running: Running, kind: str, count: int) -> tuple[list[str], dict[str, str]]:
    """Command and environment of a flow that tells this server."""
    shell = running.trivet("status", "--shell", "--json").json
    environment = running.environment() | shell | {"PREFECT_LOGGING_LEVEL": "CRITICAL"}
    return part_command(time_steps, kind, count), environment


def time_steps(kind: str, count: int) -> dict[str, float]:
    """In this process: a flow without steps, and one with many; its own CPU seconds. kind: `ours`, `plain`."""
    from flows.running.settings import configure_steps

    configure_steps()
    from prefect import flow, task

    from tasks.step import step

    def double(number: int, salt: str) -> int:
        return 2 * number

    work = step(version=1)(double) if kind == "ours" else task(double)
    salt = os.urandom(4).hex()

    @flow
    def many(count: int) -> int:
        return sum(future.result() for future in [work.submit(number, salt) for number in range(count)])

    many(1)
    called = timed(lambda: [double(number, salt) for number in range(count)])
    empty, before = timed(lambda: many(0)), time.process_time()
    full = timed(lambda: many(count))
    return {"empty": empty, "full": full, "called": called, "cpu": time.process_time() - before}


def crowd(running: Running, many: int) -> dict[str, float]:
    """How long the list of runs and the page of a run take while its 1,000 task runs are processed."""
    command, environment = many_steps(running, "ours", many)
    with (
        run_page(running) as page,
        subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process,
    ):
        run = crowded(running, many)
        begin = time.perf_counter()
        with asking(running) as waits:
            opened = [timed(lambda: open_run(page, running, run))]
            while (seen := told(running, run)) < many:
                time.sleep(LOOK_AGAIN_S)
                opened.append(timed(lambda: open_run(page, running, run)))
        took = time.perf_counter() - begin
        said, _ = process.communicate()
    assert (process.returncode, seen) == (0, many)
    return {
        "many steps: tasks a second, as the flow does them": many / json.loads(said.splitlines()[-1])["full"],
        "... as the server has processed them": many / took,
        "/flow_runs/filter while task runs are processed, p95: s": statistics.quantiles(waits, n=20)[-1],
        "its page meanwhile, from a click to task runs, slowest: s": max(opened),
        "... median": statistics.median(opened),
        "... opened so often": len(opened),
    }


@contextmanager
def run_page(running: Running) -> Generator[Page]:
    """A page of a browser, behind the login."""
    from tests.e2e.conftest import DRAWS
    from tests.e2e.pages import RunPage
    from tests.flows.web.browsing import chromium

    with chromium(DRAWS) as browser:
        auth = auth_of(running.place.home) or ""
        address = running.api.url.removesuffix("/api")
        shown = RunPage(browser.new_context(), "v1", address=address, auth=auth, shots=running.place.home)
        shown.log_in()
        yield shown.page


def open_run(page: Page, running: Running, run: str) -> None:
    """Open the page of a run, and wait until it shows a task run."""
    page.goto(f"{running.api.url.removesuffix('/api')}/runs/flow-run/{run}", wait_until="commit")
    page.locator("#task-runs").click()  # a link cannot name this tab: it is hidden until the page knows the run
    page.get_by_text("double", exact=True).first.wait_for(state="visible")


def crowded(running: Running, many: int) -> str:
    """The run of the many steps, once it runs."""
    wanted = {"flows": {"name": {"any_": ["many"]}}, "flow_runs": {"state": {"type": {"any_": ["RUNNING"]}}}}
    found: list[str] = []
    while not found:
        time.sleep(0.02)
        runs = running.api.post("/flow_runs/filter", wanted)
        found = [run["id"] for run in runs if run["parameters"]["count"] == many]
    return found[0]


def told(running: Running, run: str) -> int:
    """How many task runs of a run the server has seen the end of."""
    ended = {"state": {"type": {"any_": ["COMPLETED"]}}}
    return running.api.post("/task_runs/count", {"flow_runs": {"id": {"any_": [run]}}, "task_runs": ended})


@contextmanager
def asking(running: Running) -> Generator[list[float]]:
    """Ask for the list of runs, a tenth of a second after each answer; gives what the answers took."""
    waits: list[float] = []
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            waits.append(timed(lambda: running.api.post("/flow_runs/filter", {"limit": 200})))
            ended.wait(0.1)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield waits
    finally:
        ended.set()
        thread.join()
