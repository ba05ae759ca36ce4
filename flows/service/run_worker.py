"""The worker of a pool, as a supervisor, systemd or a container runs it: `python -m flows.service.run_worker POOL`.

Prefect's process worker, which also reschedules runs: when it is stopped, those whose processes it ends; when it starts
after a kill, those that died with its predecessor; and those that have crashed, whose steps are cached by content:

Crashed ─► after PAUSES_S: AwaitingRetry ─► Running ─► … at most `retries` times, then it stays Crashed
A run that was never begun is left as it is.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ClassVar

from flows.running.environment import ENGINE, import_installed_alone, prepare_environment
from flows.running.settings import RETRY, settings
from flows.service import supervising
from flows.service.api import UNDER_WAY, Api, ApiAway, ApiFailed, Refused, await_retry, hand_back, run_program
from flows.service.place import Place

WORKER_LABEL = "prefect.worker.name"
LOOK_S, CRASH_LOOK_S = 0.5, 30.0
"""Seconds between two polls for the pool, until the server has it, and for runs whose process did not end here."""
PAUSES_S = (10.0, 60.0)
"""Seconds before the first retry of a crashed run, and before each further one."""
RECENT = timedelta(hours=1)
"""Age of crashes that are healed: older ones have been seen by people."""


def worker_name(pool: str, place: Place) -> str:
    """Return the name that the worker of this pool, home and machine has in the UI."""
    return f"{pool} on {socket.gethostname()} ({place.name})"


def main(pool: str) -> None:
    """Work until a signal. Raises Refused."""
    prepare_environment()
    place = Place(settings().home)
    place.prepare()
    os.environ[supervising.MARK] = place.mark  # the runs inherit it, and are found by it
    import_installed_alone()  # hooks of runs that crash or are cancelled are looked up in this process
    tempfile.tempdir = str(place.scratch)  # of this process alone: the runs keep the system's
    url = os.environ.get("PREFECT_API_URL")
    if not url:
        raise Refused("PREFECT_API_URL is not set; it names the server to work for: http://127.0.0.1:4200/api")
    api = Api(url, os.environ.get("PREFECT_API_AUTH_STRING"))
    asyncio.run(_work(pool, worker_name(pool, place), place, api))


async def _work(pool: str, name: str, place: Place, api: Api) -> None:
    """Wait for the pool, hand back what a predecessor left, then work. Raises NotAdmitted."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _leave_runs, name, place, api)
    worker = crash_once_worker()  # imports Prefect while the server starts
    while True:
        try:
            api.get(f"/work_pools/{pool}")
            break
        except ApiFailed as error:
            if not isinstance(error, ApiAway) and error.status != 404:
                raise
        await asyncio.sleep(LOOK_S)

    # runs of a worker of this name that was killed together with their processes
    alive = {each.run for each in supervising.find_processes(place.mark) if each.run}
    under_way = {"flow_runs": {"state": {"type": {"any_": list(UNDER_WAY)}}}, "work_pools": {"name": {"any_": [pool]}}}
    own_runs = [
        run for run in api.post("/flow_runs/filter", under_way) if (run["labels"] or {}).get(WORKER_LABEL) == name
    ]
    dead = {run["id"] for run in own_runs} - alive
    for run in hand_back(api, dead, why="its process was killed together with its worker"):
        _say(f"handed back {run}")
    retries = settings().crash_retries
    healing = asyncio.create_task(keep_healing(api, pool=pool, retries=retries, look=worker.look))
    await worker(work_pool_name=pool, name=name, create_pool_if_not_found=False).start()
    healing.cancel()


def crash_once_worker() -> Any:
    """Return Prefect's process worker, as one whose runs begin in `run_engine`, and that says a crash once.

    Its second time may come when the run is being done again, which that would undo.
    """
    from prefect.exceptions import ObjectNotFound
    from prefect.workers import process
    from prefect.workers.process import ProcessJobConfiguration, ProcessWorker

    # of a command of one's own Prefect lets the worker's settings win over the variables of the run's deployment
    engine: Any = process
    engine.EngineCommandStarter = partial(engine.EngineCommandStarter, env_overrides_settings=True)

    class Job(ProcessJobConfiguration):
        command: str | None = shlex.join(ENGINE)

    with warnings.catch_warnings(action="ignore"):  # that it takes the place of Prefect's own in this process

        class CrashOnceWorker(ProcessWorker):
            job_configuration = Job
            ended: ClassVar[set[Any]] = set()
            look: ClassVar[asyncio.Event] = asyncio.Event()

            async def run(self, flow_run: Any, *arguments: Any, **named: Any) -> Any:
                result = await super().run(flow_run, *arguments, **named)
                self.ended.add(flow_run.id)  # a process that ended badly has been called crashed by now
                self.look.set()
                with suppress(ObjectNotFound):  # the run was deleted meanwhile
                    state = (await self.client.read_flow_run(flow_run.id)).state
                    if state and state.is_cancelling():  # cancelled before its process worked
                        await self._mark_flow_run_as_cancelled(flow_run)
                return result

            async def _propose_crashed_state(self, flow_run: Any, *arguments: Any, **named: Any) -> None:
                if flow_run.id not in self.ended:
                    await super()._propose_crashed_state(flow_run, *arguments, **named)
                self.ended.discard(flow_run.id)

    return CrashOnceWorker


def _leave_runs(name: str, place: Place, api: Api) -> None:
    """End this process and those of its runs; the blocked event loop cannot report them as crashed meanwhile."""
    processes = [each for each in supervising.find_processes(place.mark) if each.run and each.worker == name]
    supervising.kill(each.process for each in processes)
    try:
        for run in hand_back(api, {each.run for each in processes if each.run}, why="its worker was stopped"):
            _say(f"handed back {run}")
    except ApiFailed as error:
        _say(f"{error}; the next worker hands back what ran here")
    os._exit(0)


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


async def keep_healing(api: Api, *, pool: str, retries: int, look: asyncio.Event) -> None:
    """Schedule retries as long as the worker runs, none if `retries` is 0. look: set when a process of a run ended."""
    while retries:
        try:
            healed = await asyncio.to_thread(schedule_retries, api, pool=pool, retries=retries, now=datetime.now(UTC))
        except ApiFailed:  # the server is away: the next look is soon
            healed = []
        for run in healed:
            _say(f"{run} crashed, and is done again")
        with suppress(TimeoutError):
            await asyncio.wait_for(look.wait(), CRASH_LOOK_S)
        look.clear()


def schedule_retries(api: Api, *, pool: str, retries: int, now: datetime) -> list[str]:
    """Schedule retries of runs of this pool whose crash is RECENT, `retries` at most; return IDs. Raises ApiFailed."""
    crashed = {
        "flow_runs": {
            "state": {"type": {"any_": ["CRASHED"]}},
            "end_time": {"after_": (now - RECENT).isoformat()},
            "parent_task_run_id": {"is_null_": True},  # a part of a run is done again with that
        },
        "work_pools": {"name": {"any_": [pool]}},
    }
    healed: list[str] = []
    for run in api.post("/flow_runs/filter", crashed):
        crashes = crashes_of(api.get(f"/flow_run_states/?flow_run_id={run['id']}"))
        if not 0 < crashes <= retries or not run["deployment_id"]:
            continue
        deployment = api.get(f"/deployments/{run['deployment_id']}")
        limit, options = deployment["global_concurrency_limit"], deployment["concurrency_options"] or {}
        if limit and options.get("collision_strategy") == "CANCEL_NEW" and limit["active_slots"] >= limit["limit"]:
            continue  # others have the places of the deployment: a further run would be cancelled
        why = f"{RETRY} {crashes} of {retries}: {run['state']['message'] or 'it crashed'}"
        pause = timedelta(seconds=PAUSES_S[min(crashes, len(PAUSES_S)) - 1])
        if await_retry(api, run["id"], why=why, at=now + pause):
            healed.append(run["id"])
    return healed


def crashes_of(states: Iterable[dict[str, Any]]) -> int:
    """Count the crashes of a run since somebody began it; 0 if the last one came before it ran."""
    crashes, began = 0, False
    for state in sorted(states, key=lambda state: datetime.fromisoformat(state["timestamp"])):
        if state["name"] == "AwaitingRetry" and not (state["message"] or "").startswith(RETRY):
            crashes = 0
        elif state["type"] == "RUNNING":
            began = True
        elif state["type"] == "PENDING":
            began = False
        elif state["type"] == "CRASHED":
            crashes = crashes + 1 if began else crashes
    return crashes if began else 0


if __name__ == "__main__":
    run_program(main, *sys.argv[1:])
