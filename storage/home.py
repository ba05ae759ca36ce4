"""TRIVET_HOME is closed to other accounts: what lies in it, and what is made there later.

What users ask for (an index, results, reports) lies elsewhere, and keeps the permissions of their umask.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

CLOSED = 0o700
PASSED = 0o711
"""As root PostgreSQL runs as another account, which passes through these folders to its own, and lists nothing."""
PASSAGES = ("", "postgres", "server", "server/postgres")
PARTS = {
    *("api", "cache", "chat_history", "indexes", "logs", "postgres", "prefect", "results", "serve-token", "server"),
    *("service", "store", "unsaved", "lineage.sqlite", "lineage.sqlite-wal", "lineage.sqlite-shm"),
}
"""Names in a home that are ours: TRIVET_HOME may be a folder with other things in it, which are left alone."""

_homes: set[Path] = set()


def close(home: Path) -> None:
    """Close what lies in `home` to other accounts, as earlier versions left it, and what this process makes there."""
    _homes.add(home)
    with suppress(FileNotFoundError):
        for part in sorted(PARTS & set(os.listdir(home))):  # noqa: PTH208 one call at the start of every command
            _close(home / part, home)
        for passage in PASSAGES[1:]:
            for path in (home / passage).iterdir() if (home / passage).is_dir() else ():
                _close(path, home)


def mode_of(folder: Path) -> int:
    """Permissions of a folder that is made now; 0o777, less the umask, outside all homes."""
    home = next((home for home in _homes if folder.is_relative_to(home)), None)
    return _mode(folder, home) if home else 0o777


def _close(path: Path, home: Path) -> None:
    with suppress(OSError):  # of another account, or of a file system without permissions
        facts = path.lstat()
        closed = stat.S_IMODE(facts.st_mode) & _mode(path, home)
        if facts.st_uid == os.geteuid() and not stat.S_ISLNK(facts.st_mode) and closed != stat.S_IMODE(facts.st_mode):
            path.chmod(closed)


def _mode(path: Path, home: Path) -> int:
    is_passage = str(path.relative_to(home)) in PASSAGES or path == home
    return PASSED if is_passage and os.geteuid() == 0 else CLOSED
