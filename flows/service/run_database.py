"""Keeps Prefect's PostgreSQL running: `python -m flows.service.run_database`.

The supervisor watches this process, not the server: PostgreSQL puts itself into the background, recovers from a
crash, and runs as another account when we are root; storage.embedded knows how.
"""

from __future__ import annotations

import signal
import threading

from flows.running.settings import settings
from flows.service.place import Place
from flows.service.server_database import cluster_of

LOOK_S = 1.0
"""Seconds between two looks."""


def main() -> None:
    """Start it whenever it is not there, until SIGTERM; then stop it in order."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    cluster = cluster_of(Place(settings().home))
    while not stopping.is_set():
        if cluster.status().pid is None:
            cluster.start()
            print(f"PostgreSQL runs, pid {cluster.status().pid}", flush=True)
        stopping.wait(LOOK_S)
    cluster.stop()


if __name__ == "__main__":
    main()
