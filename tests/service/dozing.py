"""Flows that take their time: what a worker runs while something is killed, full or away."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from pathlib import Path

from flows.running.settings import configure_steps

configure_steps()

from prefect import flow  # noqa: E402
from prefect.concurrency import _leases  # noqa: E402

from flows.running.run_reporting import watched  # noqa: E402
from storage.records import Ref  # noqa: E402
from storage.storage_errors import StoreUnreachable  # noqa: E402
from tasks.resources import artifacts  # noqa: E402
from tasks.step import slot, step, with_name  # noqa: E402

KEPT_BYTES = 10_000
_leases._RENEWAL_FRACTION = 0.01  # pyright: ignore[reportPrivateUsage] every 3 s, not 225


@flow(name="doze")
def doze(diary: str, seconds: float) -> None:
    """Write into the diary who begins, sleep until a file `DIARY.enough` is there, and write that it is done."""
    with Path(diary).open("a") as file:
        file.write(f"began {os.getpid()} {os.getppid()}\n")
    ends = time.monotonic() + seconds
    while time.monotonic() < ends and not Path(f"{diary}.enough").exists():
        time.sleep(0.1)
    with Path(diary).open("a") as file:
        file.write("done\n")


@flow(name="hold")
def hold(diary: str, seconds: float) -> None:
    """Doze, and hold the slot of a GPU meanwhile."""
    with slot("gpu"):
        doze.fn(diary, seconds)


@flow(name="parent")
def parent(diary: str, seconds: float) -> None:
    """Doze as a child, which has no process and no worker of its own."""
    doze(diary, seconds)


@flow(name="count")
@watched
def count(diary: str, steps: int, seconds: float, slots: int = 0) -> None:
    """Do steps one after the other, the first of them while a slot of the database is held."""
    for number in range(steps):
        with slot("database") if number < slots else nullcontext():
            with_name(note, f"note {number}")(diary, number, seconds)


@step(version=1)
def note(diary: str, number: int, seconds: float) -> Ref:
    """Write the number into the diary, sleep, and keep some bytes; or write that they cannot be kept."""
    with Path(diary).open("a") as file:
        file.write(f"{number}\n")
        file.flush()
        time.sleep(seconds)
        try:
            return artifacts().put("noise", os.urandom(KEPT_BYTES))
        except StoreUnreachable:
            file.write("not kept\n")
            raise
