"""Disk use of the parts of a home, and whether there is room for more."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from flows.service.place import Place
from flows.service.server_database import cluster_of
from storage.embedded import Cluster

BLOCK_BYTES = 512
"""Unit of `st_blocks` on all file systems."""
LEAST_BYTES = 64 << 20
"""Room for a few of the 16 MB files of PostgreSQL's log."""


def full_disks(place: Place, *, store: Path | None) -> list[str]:
    """What to do about each full file system of the home; `store`: folder of the artifacts, if on this machine."""
    database = cluster_of(place).status().folder
    folders = [each for each in (place.home, database, store) if each and each.exists()]
    disks = {folder.stat().st_dev: folder for folder in reversed(folders)}
    free = {folder: shutil.disk_usage(folder).free for folder in disks.values()}
    return [
        f"the disk of {folder} is full ({left / 1e6:.0f} MB left, {LEAST_BYTES / 1e6:.0f} MB are needed): free disk "
        "space (see `trivet gc`); the service then goes on by itself, and a run that has failed with `trivet rerun RUN`"
        for folder, left in free.items()
        if left < LEAST_BYTES
    ]


def disk_use(place: Place, *, store: Path | None) -> dict[str, int]:
    """Bytes of each part, as `du` counts them; `store`: folder of the artifacts, if on this machine."""
    folders = {
        "artifacts": [store] if store else [],
        "results": [place.home / "results"],
        "database": [Cluster(place.home).status().folder],
        "prefect": [place.database, cluster_of(place).status().folder, place.home / "prefect"],
        "cache": [place.home / "cache"],
        "logs": [place.logs],
    }
    return {name: _size({each for each in parts if each}) for name, parts in folders.items()}


def _size(folders: set[Path]) -> int:
    apart = [each for each in folders if not any(other in each.parents for other in folders)]
    return sum(_size_of(each) for each in apart)


def _size_of(folder: Path) -> int:
    total, waiting = 0, [os.fspath(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    total += entry.stat(follow_symlinks=False).st_blocks * BLOCK_BYTES
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except FileNotFoundError:
            continue  # it went while we looked
    return total
