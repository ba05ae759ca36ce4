"""A flow that takes its time: what a worker runs while something is killed."""

from __future__ import annotations

import os
import time
from pathlib import Path

from prefect import flow


@flow(name="doze")
def doze(diary: str, seconds: float) -> None:
    """Write into the diary who begins, sleep, and write that it is done."""
    with Path(diary).open("a") as file:
        file.write(f"began {os.getpid()} {os.getppid()}\n")
    time.sleep(seconds)
    with Path(diary).open("a") as file:
        file.write("done\n")
