"""When a folder of documents is worth indexing: at once, and whenever files in it have changed and are still."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Event

from tasks.rag.indexing.scan import require_folder

STILL_S = 2.0
"""Seconds that a changed file must keep its size and time; one that is being copied does not."""
LOOK_MS = 500
"""Milliseconds between two checks whether to stop."""


def watch_changes(
    folder: Path, *, apart_from: Path, stop: Event | None = None, still_s: float = STILL_S
) -> Iterator[int]:
    """Yield the number of files that have changed, each time that they are still; 0 at the beginning.

    apart_from: an index whose files may lie within. What changes while the caller works is counted with the
    next ones. Hidden files are passed over. Ends when `stop` is set. Raises FolderUnusable.
    """
    from watchfiles import watch

    require_folder(folder)
    own = apart_from.resolve()

    def counts(_: object, path: str) -> bool:
        inside = Path(path).relative_to(folder.resolve()).parts
        return not any(part.startswith(".") for part in inside) and not Path(path).is_relative_to(own)

    looks = watch(folder.resolve(), watch_filter=counts, stop_event=stop, rust_timeout=LOOK_MS, yield_on_timeout=True)
    files = {Path(path) for _, path in next(looks, ())}  # from now on nothing is missed
    yield 0
    for changed in looks:
        files |= {Path(path) for _, path in changed}
        if files:
            wait_until_still(files, still_s=still_s)
            yield len(files)
            files.clear()


def wait_until_still(files: Iterable[Path], *, still_s: float, sleep: Callable[[float], object] = time.sleep) -> None:
    """Wait until no file has changed for `still_s` seconds."""
    files, before = sorted(files), None
    while (now := [_size_and_time(file) for file in files]) != before:
        before = now
        sleep(still_s)


def _size_and_time(file: Path) -> tuple[int, int] | None:
    """Return the size in bytes and the time of change in ns; None for a file that is gone."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns
