"""Ends a service: in order where there is a supervisor, and whatever it may have left behind."""

from __future__ import annotations

from flows.service import connecting, processes
from flows.service.api import Api
from flows.service.handing_back import hand_back
from flows.service.place import Place
from flows.service.processes import Found
from flows.service.server_database import cluster_of
from flows.service.service_errors import ApiFailed
from flows.service.supervising import supervisor_in

ORDER_S = 150.0
"""Longest wait for the supervisor to end all programs one after the other; it kills those that do not."""
GRACE_S = 15.0
"""Longest wait for a program whose supervisor was killed."""
WORKING = "flows.service.run_worker"


def end(place: Place) -> list[str]:
    """End every process of the service; gives what was running, in words. Runs are handed back, not lost.

    Raises DatabaseUnavailable when Prefect's PostgreSQL does not stop.
    """
    found = processes.of_service(place.mark)
    ended: list[str] = []
    if supervisor := supervisor_in(found):
        processes.end([supervisor], grace_s=ORDER_S)
        ended.append("the service")
    if orphans := processes.of_service(place.mark):
        _end_orphans(place, orphans)
        ended.append(f"{len(orphans)} processes without a supervisor")
    if cluster_of(place).stop():
        ended.append("Prefect's PostgreSQL without its keeper")
    place.address.unlink(missing_ok=True)
    return ended


def _end_orphans(place: Place, orphans: list[Found]) -> None:
    """Workers first, which hand back their runs while the server lives; then runs without worker; then the rest."""
    processes.end([each for each in orphans if WORKING in each.command], grace_s=GRACE_S)
    runs = [each for each in processes.of_service(place.mark) if each.run]
    processes.kill(each.process for each in runs)
    _hand_back(place, {each.run for each in runs if each.run})
    processes.end(processes.of_service(place.mark), grace_s=GRACE_S)


def _hand_back(place: Place, runs: set[str]) -> None:
    address = connecting.address_of(place.home)
    if address is None:
        return
    try:
        hand_back(Api(address.api_url, connecting.auth_of(place.home)), runs, why="the service was stopped")
    except ApiFailed:
        return  # the server is dead too: the worker of the next start hands back what its predecessor had
