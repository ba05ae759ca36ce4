"""A disk that runs low is told to the server as an event; an automation tells the address of TRIVET_NOTIFY_URL."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from flows.service.api import Api, ApiFailed

EVENT = "trivet.disk.low"
EVERY_S = 30.0
LOW_SHARE, LOW_BYTES = 0.1, 10 << 30
"""Low is less than this share of a disk, and less than these bytes: a large disk is not low with a tenth of it left."""
WELL_AGAIN = 1.5
"""Times the free space that is low: a disk that wavers about it is told once."""


class DiskWatch:
    """Tells once of each folder whose disk runs low, and again after it was well. `tell`: raises ApiFailed."""

    def __init__(self, folders: Iterable[Path], tell: Callable[[Path, str], None]) -> None:
        self._folders, self._tell = tuple(folders), tell
        self._told: set[Path] = set()

    def look(self) -> None:
        """Look at each disk once."""
        for folder in filter(Path.exists, self._folders):
            use = shutil.disk_usage(folder)
            low = min(LOW_SHARE * use.total, LOW_BYTES)
            if use.free > WELL_AGAIN * low:
                self._told.discard(folder)
            elif use.free < low and folder not in self._told:
                self._tell(folder, sentence(folder, free=use.free, total=use.total))
                self._told.add(folder)  # only what the server has heard

    def go_on(self) -> None:
        """Look for ever, in a thread that ends with the process."""

        def looking() -> None:
            while True:
                with suppress(ApiFailed, OSError):  # the server begins or ends, or a folder went: the next look is soon
                    self.look()
                time.sleep(EVERY_S)

        threading.Thread(target=looking, daemon=True, name="disk").start()


def sentence(folder: Path, *, free: float, total: float) -> str:
    """What people read."""
    return (
        f"The disk of {folder} runs low: {free / 1e9:.1f} of {total / 1e9:.1f} GB are left. "
        "`trivet gc --dry-run` shows what nothing refers to."
    )


def telling(api: Api) -> Callable[[Path, str], None]:
    """Tells a server."""

    def tell(folder: Path, text: str) -> None:
        event = {
            "id": str(uuid4()),
            "event": EVENT,
            "occurred": datetime.now(UTC).isoformat(),
            "resource": {"prefect.resource.id": f"trivet.disk.{folder.name}", "prefect.resource.name": str(folder)},
            "payload": {"text": text},
        }
        api.post("/events", [event])

    return tell
