"""The Prefect server, for a supervisor, systemd or a container: `python -m flows.service.run_server PORT [HOST]`.

Where others reach HOST, put a proxy with TLS before it. Before it starts, it repairs what became stale during the
downtime: waits of automations, leases and slots; unless another server of the same Redis was there meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flows.running.command_server import create_server_app
from flows.running.environment import LOOPBACK as LOOPBACK_HOSTS
from flows.running.environment import prepare_environment
from flows.running.settings import settings
from flows.service.api import Refused, run_program
from flows.service.place import LOOPBACK, Place
from flows.service.server_database import VARIABLES
from storage import files
from tasks.evaluation.evaluation_records import WITHOUT_SECRET, find_secret

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

AUTH = "PREFECT_SERVER_API_AUTH_STRING"
REDIS = "PREFECT_REDIS_MESSAGING_URL"
"""Address of a Redis for the server's events, `redis://host:6379/0`; unset: they are kept in memory."""
EVENTS, AUTOMATIONS = "events", "reactive-triggers"
"""Prefect's stream in Redis, and its consumer group for automations."""
READS_MS = 5000
"""Most milliseconds since the last request of a reader that lives."""
LOGS = "/api/logs"
"""Address of the requests that come most often and hold no parameters."""
MOST_BODY_BYTES = 16 << 20
"""Longest body of a request: logs come in batches of four megabytes at most, artifacts and parameters are smaller."""
WAITS = "automation_bucket"
"""Prefect's table of what its automations wait for."""
LIMITS = "concurrency_limit_v2"
"""Prefect's table of limits, with the slots that are taken."""
RENEWED = timedelta(minutes=5)
"""Duration of leases after a start; live holders renew theirs within 225 s."""
MOST_LEASES = 100_000  # in place of Prefect's 100
ACTS = ("/set_state", "/create_flow_run", "/resume")
"""Ends of the paths by which the UI starts, retries, cancels and resumes runs."""
LOGIN = """<script>
(() => {
  if (location.pathname.startsWith("/login")) return
  const kept = localStorage.getItem("prefect-password")
  fetch("/api/admin/version", {headers: kept ? {Authorization: `Basic ${kept}`} : {}}).then(answer => {
    if (answer.status !== 401) return
    localStorage.removeItem("prefect-password")
    location.replace("/login?redirect=" + encodeURIComponent(location.pathname + location.search))
  })
})()
</script>
"""
"""Prefect's page at `/login` goes on to `redirect`, but nothing leads there: without a login each page stays empty."""


def main(port: str, host: str = LOOPBACK) -> None:
    """Repair the database, then become the server, as `prefect server start` does. Raises Refused."""
    if host not in LOOPBACK_HOSTS and not os.environ.get(AUTH):
        raise Refused(f"{AUTH} is not set: whoever reaches {host} could do everything; set it to user:password")
    url = next(filter(None, map(os.environ.get, VARIABLES)), None)
    if not url:
        database = "Prefect's database: postgresql+asyncpg://user:password@host/name"
        raise Refused(f"{VARIABLES[0]} is not set; it names {database}")
    prepare_environment()
    place = Place(settings().home)
    place.prepare()
    redis = os.environ.get(REDIS)
    if not (redis and has_other_server(redis)):
        asyncio.run(repair(url))
        if redis:
            skip_events(redis)
    command = (
        *(sys.executable, "-P", "-m", "uvicorn", "--app-dir", sys.prefix),  # not its default, the working folder
        *("--factory", "flows.service.run_server:server_app", "--host", host, "--port", port),
        *("--log-level", "warning", "--lifespan", "on"),
        # the latter: some requests of the UI never end
        *("--timeout-keep-alive", "5", "--timeout-graceful-shutdown", "3"),
    )
    os.execve(command[0], command, os.environ | variables(place, port, host))


def variables(place: Place, port: str, host: str) -> dict[str, str]:
    """Return the environment variables that the server needs in addition to those of the user."""
    return {
        "PREFECT__SERVER_FINAL": "1",  # less memory, as the process makes no second server
        "PREFECT_SERVER_API_HOST": host,
        "PREFECT_SERVER_API_PORT": port,
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(place.pages),
        "PREFECT_SERVER_METRICS_ENABLED": "true",
    }


def _note_act(scope: Scope, status: int) -> None:
    """Print a line for a run that the owner starts, retries or ends in the UI, and for a wrong auth string."""
    headers, method = dict(scope["headers"]), scope["method"]
    is_act = b"sec-fetch-mode" in headers and (method == "DELETE" or scope["path"].endswith(ACTS))  # of a browser
    if is_act or (status == 401 and b"authorization" in headers):
        client = scope["client"][0].partition(" ")[0] if scope["client"] else "unknown"
        sender = f"proxy:{client}" if b"x-forwarded-for" in headers else client
        print(f"{time.strftime('%F %T')} {method} {scope['path']!a} status={status} from={sender}", flush=True)


class Guard:
    """Refuses what Prefect would take: a body without limit, and parameters with a secret, which it would store."""

    def __init__(self, app: ASGIApp, *, policy: str) -> None:
        """policy: content security policy of every response."""
        self._app = app
        self._policy = (b"content-security-policy", policy.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the body of a request when Prefect reads it, which it does once it has seen the auth string."""
        read, refusal = False, None

        async def receive_checked() -> Message:
            """Return the request's message, its body read whole; if refused, with a body that is no JSON."""
            nonlocal read, refusal
            if read or scope["type"] != "http":
                return await receive()
            body, read, more = bytearray(), True, True
            while more and len(body) <= MOST_BODY_BYTES:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return message
                body += message.get("body", b"")
                more = message.get("more_body", False)
            if more:
                refusal = JSONResponse({"detail": f"the body has more than {MOST_BODY_BYTES:,} bytes"}, 413)
            elif not scope["path"].startswith(LOGS) and (place := _secret_among_parameters(body)):
                refusal = JSONResponse({"detail": f"{place}: {WITHOUT_SECRET}"}, 409)
            # in place of what is refused, something that is no JSON, so that Prefect does nothing
            return {"type": "http.request", "body": b"\0" if refusal else bytes(body), "more_body": False}

        async def send_checked(message: Message) -> None:
            """Send the answer with our headers, or the refusal in its place."""
            begins = message["type"] == "http.response.start"
            if begins:
                _note_act(scope, message["status"])
            if refusal is None:
                await send({**message, "headers": [*message["headers"], self._policy]} if begins else message)
            elif begins:
                await refusal(scope, receive, send)

        await self._app(scope, receive_checked, send_checked)


def _secret_among_parameters(body: bytes | bytearray) -> str | None:
    """Return where a secret stands below `parameters` in the JSON of a run, schedule or automation; else None."""
    with suppress(ValueError, RecursionError):  # no JSON: Prefect says so
        waiting = [json.loads(body)]
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                parameters = value.pop("parameters", None)
                # those of a step on the pool are not looked at: documents' own words are among them
                if isinstance(parameters, dict) and (place := find_secret(parameters | {"params": None})):
                    return place
            waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return None


def server_app() -> Any:
    """Return what uvicorn serves: Prefect's application, guarded, whose pages talk to it alone and ask for a login."""
    from prefect.server.api import background_workers
    from prefect.settings import get_current_settings

    # in place of the four looks a second for background work that is due, for which Prefect has no setting
    slow = timedelta(seconds=1)
    patched: Any = background_workers
    patched.Worker = partial(patched.Worker, minimum_check_interval=slow, scheduling_resolution=slow)
    app = create_server_app()
    page = Place(settings().home).pages / "v1" / "index.html"
    if os.environ.get(AUTH) and page.exists():
        text = page.read_text("utf-8")
        if LOGIN not in text:
            files.write(page, text.replace("<head>", f"<head>\n{LOGIN}", 1).encode())

    api = urlsplit(get_current_settings().server.ui.api_url or "").netloc
    # its pages would load the configuration of a session recorder from elsewhere, whatever its settings say
    allowed = f" http://{api} https://{api} ws://{api} wss://{api}" if api else ""
    return Guard(app, policy=f"connect-src 'self'{allowed}")


def has_other_server(url: str) -> bool:
    """Return whether a server reads the events in the Redis at `url`; each asks for new ones once a second."""
    from redis import Redis, ResponseError

    with Redis.from_url(url) as redis:
        try:
            readers: Any = redis.xinfo_consumers(EVENTS, AUTOMATIONS)
        except ResponseError:  # there are no events, or no readers yet
            return False
    return any(reader["idle"] < READS_MS for reader in readers)


def skip_events(url: str) -> None:
    """Have the automations skip old events in the Redis at `url`, which would start outdated waits."""
    from redis import Redis

    with Redis.from_url(url) as redis:
        if redis.exists(EVENTS):
            redis.xgroup_destroy(EVENTS, AUTOMATIONS)
        redis.xgroup_create(EVENTS, AUTOMATIONS, id="$", mkstream=True)  # $: events from now on


async def repair(url: str) -> None:
    """Repair the server's database at `url` and its leases; the first start has no tables yet."""
    from sqlalchemy import inspect
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(url)
    try:
        async with engine.begin() as connection:
            if not await connection.run_sync(lambda sync: {WAITS, LIMITS} <= set(inspect(sync).get_table_names())):
                return
            await restart_waits(connection)
            await free_slots(connection, slots_by_limit=await renew_leases())
    finally:
        await engine.dispose()


async def restart_waits(connection: AsyncConnection) -> None:
    """Restart the waits for running runs, whose signs of life were lost during the downtime; forget all others."""
    from sqlalchemy import JSON, DateTime, bindparam, column, text

    time = DateTime(timezone=True)
    running = {
        f"prefect.flow-run.{run}"
        for (run,) in await connection.execute(text("SELECT id FROM flow_run WHERE state_type = 'RUNNING'"))
    }
    columns = (column("id"), column("bucketing_key", JSON), column("start", time), column("end", time))
    waits = text(f'SELECT id, bucketing_key, start, "end" FROM {WAITS}').columns(*columns)
    begin = text(f'UPDATE {WAITS} SET start = :start, "end" = :end, count = 0 WHERE id = :id').bindparams(
        bindparam("start", type_=time), bindparam("end", type_=time)
    )
    now = datetime.now(UTC)
    for wait in (await connection.execute(waits)).all():
        if running.isdisjoint(wait.bucketing_key):
            await connection.execute(text(f"DELETE FROM {WAITS} WHERE id = :id"), {"id": wait.id})
        else:
            await connection.execute(begin, {"id": wait.id, "start": now, "end": now + (wait.end - wait.start)})


async def renew_leases() -> Counter[str]:
    """Renew all leases, as holders could not; return their slots by ID of the limit. Those of dead holders expire."""
    from prefect.server.concurrency.lease_storage import get_concurrency_lease_storage

    leases: Any = get_concurrency_lease_storage()
    if folder := getattr(leases, "storage_path", None):
        # of a process that was killed with it: its pid may be another's by now, and Prefect would wait for ever
        (folder / "expirations.lock").unlink(missing_ok=True)
    slots: Counter[str] = Counter()
    active = await leases.read_active_lease_ids(limit=MOST_LEASES)
    expired = await leases.read_expired_lease_ids(limit=MOST_LEASES)
    for each in dict.fromkeys((*active, *expired)):
        if await leases.renew_lease(each, RENEWED) and (lease := await leases.read_lease(each)):
            slots.update({str(limit): lease.metadata.slots if lease.metadata else 0 for limit in lease.resource_ids})
    return slots


async def free_slots(connection: AsyncConnection, *, slots_by_limit: Counter[str]) -> None:
    """Make limits count exactly the slots that leases hold; limits that decay free theirs by themselves."""
    from sqlalchemy import text

    limits = text(f"SELECT id, active_slots FROM {LIMITS} WHERE slot_decay_per_second = 0")
    count = text(f"UPDATE {LIMITS} SET active_slots = :held WHERE id = :id")
    for limit, active in (await connection.execute(limits)).all():
        if active != slots_by_limit[str(limit)]:
            await connection.execute(count, {"id": limit, "held": slots_by_limit[str(limit)]})


if __name__ == "__main__":
    run_program(main, *sys.argv[1:])
