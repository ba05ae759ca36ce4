"""What the parts of a service say."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from flows.service.place import PARTS, Place

LOOK_S = 0.3


def logs_of(place: Place, part: str | None) -> dict[str, Path]:
    """The logs that are there, by part; of one part where it is named."""
    wanted = [part] if part else PARTS
    return {each: log for each in wanted if (log := place.log_of(each)).exists()}


def last_lines(log: Path, count: int) -> list[str]:
    """The end of a log."""
    with log.open(errors="replace") as file:
        return [line.rstrip("\n") for line in deque(file, maxlen=count)]


def follow(logs: dict[str, Path]) -> Iterator[tuple[str, str]]:
    """(part, line) for each line written from now on, for ever; a log that is rotated goes on in the new file."""
    files = {part: log.open(errors="replace") for part, log in logs.items()}
    for file in files.values():
        file.seek(0, os.SEEK_END)
    while True:
        for part, log in logs.items():
            for line in files[part]:
                yield part, line.rstrip("\n")
            if _was_replaced(files[part].fileno(), log):
                files[part].close()
                files[part] = log.open(errors="replace")
        time.sleep(LOOK_S)


def _was_replaced(file: int, log: Path) -> bool:
    try:
        return os.fstat(file).st_ino != log.stat().st_ino
    except FileNotFoundError:
        return False
