"""The Prefect server, as a supervisor, systemd or a container runs it.

Command: `python -m flows.service.run_server PORT [HOST]`.

It puts right what the server before has left, which could not hear of anything while it was away.
"""

from __future__ import annotations

import asyncio
import os
import sys

from flows.running.settings import prepare_environment, settings
from flows.service.leftovers import put_right
from flows.service.place import Place
from flows.service.server_database import VARIABLES
from flows.service.service_errors import Refused

LOOPBACK = "127.0.0.1"
REDIS = "PREFECT_REDIS_MESSAGING_URL"
"""Where events wait in a Redis between two parts of the server, `redis://host:6379/0`; unset: in its memory."""
EVENTS, AUTOMATIONS = "events", "reactive-triggers"
"""Prefect's stream there, and the group of those who read it for the automations."""
LAST_REQUESTS_S = 3
"""Seconds that requests under way have when the server ends; the pages keep theirs open for ever."""


def forget_events(url: str) -> None:
    """Have the automations begin with the events of now: one left in the Redis at `url` would be a wait from before."""
    from redis import Redis

    with Redis.from_url(url) as redis:
        if redis.exists(EVENTS):
            redis.xgroup_destroy(EVENTS, AUTOMATIONS)
        redis.xgroup_create(EVENTS, AUTOMATIONS, id="$", mkstream=True)


def main(port: str, host: str = LOOPBACK) -> None:
    """Put right, then become the server: what `prefect server start` runs. Raises Refused."""
    prepare_environment()
    place = Place(settings().home)
    place.prepare()
    asyncio.run(put_right(_database()))
    if redis := os.environ.get(REDIS):
        forget_events(redis)
    command = (
        *(sys.executable, "-P", "-m", "uvicorn", "--app-dir", sys.prefix),
        *("--factory", "prefect.server.api.server:create_app", "--host", host, "--port", port),
        *("--log-level", "warning", "--lifespan", "on"),
        *("--timeout-keep-alive", "5", "--timeout-graceful-shutdown", str(LAST_REQUESTS_S)),
    )
    os.execve(command[0], command, os.environ | variables(place, port, host))


def variables(place: Place, port: str, host: str) -> dict[str, str]:
    """What the server finds in its environment beside what the user chose."""
    return {
        "PREFECT__SERVER_FINAL": "1",
        "PREFECT_SERVER_API_HOST": host,
        "PREFECT_SERVER_API_PORT": port,
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(place.pages),
    }


def _database() -> str:
    named = next((name for name in VARIABLES if os.environ.get(name)), None)
    if named is None:
        raise Refused(
            f"{VARIABLES[0]} is not set; it names Prefect's database: postgresql+asyncpg://user:password@host/name"
        )
    return os.environ[named]


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Refused as error:
        sys.exit(str(error))
