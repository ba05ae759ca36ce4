"""The application of our server: Prefect's, with figures and roles of ours, and a door for other machines.

`/api/metrics`    Prefect's figures and ours (figures.py)
`/api/…`          Prefect's; with the auth string of a role, what that may do (role_doors.py)
`/trivet/join`    settings for a machine that has a token (joining/offering.py)
everything else   Prefect's pages
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.running.settings import settings
from flows.service.api import Api
from flows.service.disk_watch import DiskWatch, telling
from flows.service.joining.offering import PATH, offering
from flows.service.login_page import ask_first
from flows.service.place import Place
from flows.service.role_doors import Doors, Keys
from flows.service.run_server import AUTH, database_of_server

if TYPE_CHECKING:
    from flows.service.alerts import Outbox


def server_app() -> Any:
    """What uvicorn serves."""
    from prefect.server.api.server import create_app
    from prometheus_client import REGISTRY

    from flows.service.alerts import Outbox, keep_alerts
    from flows.service.figures import figures_of_server

    figures = figures_of_server(database_of_server())
    REGISTRY.register(figures)
    outbox = Outbox(Place(settings().home))
    keep_alerts(outbox)
    # both our tables and Prefect's are brought up to date by Alembic, which does one thing at a time in a process
    served = started(create_app(), lambda: [figures.go_on(), watch_disks(), send_again(outbox)])
    if not (auth := os.environ.get(AUTH)):
        return served
    place = Place(settings().home)
    ask_first(place.pages / "v1" / "index.html")
    keys = Keys(place)
    return joined(Doors(served, auth, keys), place, keys)


def watch_disks() -> None:
    """Tell this server of its disks, if it knows where it is."""
    if url := os.environ.get("PREFECT_API_URL"):
        store = settings().store or str(settings().home / "store")
        folders = (settings().home, *([] if "://" in store else [Path(store)]))
        DiskWatch(folders, telling(Api(url, os.environ.get(AUTH)))).go_on()


def send_again(outbox: Outbox) -> None:
    """Send the alerts that were not taken, if this server knows where it is."""
    from flows.service.alerts import webhook_on

    if url := os.environ.get("PREFECT_API_URL"):
        api = Api(url, os.environ.get(AUTH))
        outbox.go_on(lambda: webhook_on(api))


def started(app: Any, then: Callable[[], object]) -> Any:
    """An ASGI application that calls `then` once `app` has started."""

    async def served(scope: Any, receive: Any, send: Any) -> None:
        async def heard(message: Any) -> None:
            await send(message)
            if message["type"] == "lifespan.startup.complete":
                then()

        await app(scope, receive, heard if scope["type"] == "lifespan" else send)

    return served


def joined(app: Any, place: Place, keys: Keys) -> Any:
    """An ASGI application where other machines get the settings of workers."""
    joining = offering(place, auth=lambda: keys.of("worker") or "", models=os.environ.get("TRIVET_MODELS"))

    async def served(scope: Any, receive: Any, send: Any) -> None:
        ours = scope["type"] == "http" and scope["path"].startswith(PATH)
        await (joining if ours else app)(scope, receive, send)

    return served
