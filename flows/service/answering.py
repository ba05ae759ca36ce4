"""The Prefect server, as the supervisor runs it: `python -m flows.service.answering PORT`.

It begins with no wait for a heartbeat: Prefect would go on with those from before it ended, and call every run crashed
whose next sign of life came while nobody listened.
"""

from __future__ import annotations

import asyncio
import os
import sys

WAITS = "automation_bucket"
"""Prefect's table of what its automations wait for."""
LAST_REQUESTS_S = 3
"""Seconds that requests under way have when the server ends; the pages keep theirs open for ever."""


async def forget_waits(url: str) -> int:
    """Empty the waits of the database at `url`; gives how many there were, 0 where there is no such table yet."""
    from sqlalchemy import inspect, text
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(url)
    try:
        async with engine.begin() as connection:
            if not await connection.run_sync(lambda synchronous: inspect(synchronous).has_table(WAITS)):
                return 0
            return (await connection.execute(text(f"DELETE FROM {WAITS}"))).rowcount
    finally:
        await engine.dispose()


def main(port: str) -> None:
    """Forget, then become the server: what `prefect server start` runs."""
    asyncio.run(forget_waits(os.environ["PREFECT_SERVER_DATABASE_CONNECTION_URL"]))
    command = (
        *(sys.executable, "-P", "-m", "uvicorn", "--app-dir", sys.prefix),
        *("--factory", "prefect.server.api.server:create_app", "--host", "127.0.0.1", "--port", port),
        *("--log-level", "warning", "--lifespan", "on"),
        *("--timeout-keep-alive", "5", "--timeout-graceful-shutdown", str(LAST_REQUESTS_S)),
    )
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1])
