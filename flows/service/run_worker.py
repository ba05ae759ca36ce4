"""The worker of a pool, as a supervisor, systemd or a container runs it: `python -m flows.service.run_worker POOL`.

Prefect's process worker, which also does crashed runs again (healing.py), and reschedules runs: when it is stopped,
those whose processes it ends; when it starts after a kill, those that died with its predecessor.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import tempfile
import time
import warnings
from typing import Any, ClassVar

from flows.running.environment import prepare_environment
from flows.running.settings import settings
from flows.service import processes
from flows.service.api import Api, ApiAway, ApiFailed, Refused, abandoned, hand_back
from flows.service.healing import heal_on
from flows.service.place import Place

LOOK_S = 0.5
"""Seconds between two polls for the pool: server and workers start at the same time."""


def worker_name(pool: str, place: Place) -> str:
    """Name in the UI of the worker of this pool, home and machine."""
    return f"{pool} on {socket.gethostname()} ({place.name})"


def main(pool: str) -> None:
    """Work until a signal. Raises Refused."""
    prepare_environment()
    place = Place(settings().home)
    place.prepare()
    os.environ[processes.MARK] = place.mark  # the runs inherit it, and are found by it
    # Prefect looks for hooks of a cancelled run by a script in its folder `runner`, whose `storage.py` is not ours
    os.environ["PYTHONSAFEPATH"] = "1"
    tempfile.tempdir = str(place.scratch)  # of this process alone: the runs keep the system's
    url = os.environ.get("PREFECT_API_URL")
    if not url:
        raise Refused("PREFECT_API_URL is not set; it names the server to work for: http://127.0.0.1:4200/api")
    api = Api(url, os.environ.get("PREFECT_API_AUTH_STRING"))
    asyncio.run(_work(pool, worker_name(pool, place), place, api))


async def _work(pool: str, name: str, place: Place, api: Api) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _leave, name, place, api)
    worker = crash_once_worker()  # imports Prefect while the server starts
    await _until_there(api, pool)
    alive = {each.run for each in processes.of_service(place.mark) if each.run}
    dead = abandoned(api, pool=pool, worker=name, alive=alive)
    for run in hand_back(api, dead, why="its process was killed together with its worker"):
        _say(f"handed back {run}")
    healing = asyncio.create_task(heal_on(api, pool=pool, retries=settings().crash_retries))
    await worker(work_pool_name=pool, name=name, create_pool_if_not_found=False).start()
    healing.cancel()


def crash_once_worker() -> Any:
    """Prefect's process worker, which says once of a run that it has crashed.

    Its second time may come when the run is being done again, which that would undo.
    """
    from prefect.workers.process import ProcessWorker

    with warnings.catch_warnings(action="ignore"):  # that it takes the place of Prefect's own in this process

        class CrashOnceWorker(ProcessWorker):
            ended: ClassVar[set[Any]] = set()

            async def run(self, flow_run: Any, *arguments: Any, **named: Any) -> Any:
                result = await super().run(flow_run, *arguments, **named)
                self.ended.add(flow_run.id)  # a process that ended badly has been called crashed by now
                return result

            async def _propose_crashed_state(self, flow_run: Any, *arguments: Any, **named: Any) -> None:
                if flow_run.id not in self.ended:
                    await super()._propose_crashed_state(flow_run, *arguments, **named)
                self.ended.discard(flow_run.id)

    return CrashOnceWorker


async def _until_there(api: Api, pool: str) -> None:
    while True:
        try:
            api.get(f"/work_pools/{pool}")
            return
        except ApiFailed as error:
            if error.status in (401, 403):
                raise Refused(f"{api.url} does not let us in; set PREFECT_API_AUTH_STRING") from error
            if not isinstance(error, ApiAway) and error.status != 404:
                raise
        await asyncio.sleep(LOOK_S)


def _leave(name: str, place: Place, api: Api) -> None:
    """End this process and those of its runs; the blocked event loop cannot report them as crashed meanwhile."""
    left = [each for each in processes.of_service(place.mark) if each.run and each.worker == name]
    processes.kill(each.process for each in left)
    try:
        for run in hand_back(api, {each.run for each in left if each.run}, why="its worker was stopped"):
            _say(f"handed back {run}")
    except ApiFailed as error:
        _say(f"{error}; the next worker hands back what ran here")
    os._exit(0)


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Refused as error:
        sys.exit(str(error))
