"""Atomic writes: a reader sees the whole old file or the whole new one, after a kill and after a power cut too.

Also the locks between processes of one home, and who may enter it: TRIVET_HOME is closed to other accounts. What users
ask for (an index, results, reports) lies elsewhere, and keeps the permissions of their umask.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from storage.storage_errors import StoreUnreachable

TEMPORARY = ".writing-"  # what the names of unfinished files begin with

CLOSED = 0o700
PASSED = 0o711
"""As root PostgreSQL runs as another account, which passes through these folders to its own, and lists nothing."""
PASSAGES = ("", "postgres", "server", "server/postgres")
PARTS = {
    *("api", "cache", "chat_history", "indexes", "logs", "postgres", "prefect", "results", "serve-token", "server"),
    *("service", "store", "unsaved", "lineage.sqlite", "lineage.sqlite-wal", "lineage.sqlite-shm"),
}
"""Names in a home that are ours: TRIVET_HOME may be a folder with other things in it, which are left alone."""

SECRET_PARTS = frozenset({"api", "postgres", "prefect", "serve-token", "server", "service"})
"""Those of PARTS that hold secrets, or databases that do."""
AMONG_SECRETS = "it lies where TRIVET_HOME keeps secrets, of which no run reads anything; name another place"

_homes: set[Path] = set()

LEAST_FREE_BYTES = 16 << 20
"""Room without which a disk counts as full: PostgreSQL writes its log in files of this size."""
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


def write(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write `data` to `path`, whole or not at all. Raises StoreUnreachable.

    durable: also survives a power cut; costs .3 ms of CPU, so small files that can be made again do without.
    """
    with scratch(path.parent) as temporary:
        temporary.write_bytes(data)
        settle(temporary, path, durable=durable)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content, as hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def replacing(path: Path) -> Generator[BinaryIO]:
    """Yield a file that replaces `path` when the block ends well, and vanishes otherwise. Raises StoreUnreachable."""
    with scratch(path.parent) as temporary:
        with temporary.open("xb") as file:
            yield file
        settle(temporary, path)


@contextmanager
def scratch(folder: Path) -> Generator[Path]:
    """Yield a free name in `folder` for a file; what lies there at the end is removed. Raises StoreUnreachable."""
    make_folder(folder)
    temporary = folder / f"{TEMPORARY}{uuid.uuid4().hex}"
    with reachable(folder):
        try:
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def scratch_folder(folder: Path) -> Generator[Path]:
    """Yield an empty folder in `folder` that is gone when the block ends."""
    make_folder(folder)
    with TemporaryDirectory(prefix=TEMPORARY, dir=folder, ignore_cleanup_errors=True) as temporary:
        yield Path(temporary)


def settle(temporary: Path, path: Path, *, durable: bool = True) -> None:
    """Give a finished file its name, in place of another; `durable`: as `write` has it. Raises StoreUnreachable."""
    make_folder(path.parent)
    with reachable(path.parent):
        if durable:
            sync_file(temporary)
        temporary.replace(path)
        if durable:
            sync_folder(path.parent)


def link(path: Path, to: Path) -> None:
    """Give the bytes of a file that nobody changes a second name; on another disk, a copy of them."""
    try:
        os.link(path, to)
    except OSError:  # another file system, or one without links
        shutil.copyfile(path, to)


def make_folder(folder: Path) -> None:
    """Make `folder` and its parents, each noted on the disk in the folder above it. Raises StoreUnreachable."""
    try:
        if folder.is_dir():
            return
        make_folder(folder.parent)
        home = next((home for home in _homes if folder.is_relative_to(home)), None)
        folder.mkdir(mode=_mode(folder, home) if home else 0o777, exist_ok=True)  # another process may be first
    except OSError as error:
        raise StoreUnreachable(refusal(folder, error)) from error
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Bring the names in `folder` to the disk; without this a power cut can undo a rename."""
    with suppress(OSError):  # some network file systems refuse to fsync a folder, and need not
        sync_file(folder)


@contextmanager
def reachable(place: Path) -> Generator[None]:
    """Turn what the system refuses about `place` into StoreUnreachable; a missing file stays FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreUnreachable(refusal(place, error)) from error


def refusal(place: Path, error: OSError) -> str:
    """Return the sentence that says why `place` cannot be used, and what to do."""
    if error.errno in FULL:
        return f"{place} has no room left ({error.strerror}); free disk space (see `trivet gc`) and run again"
    if error.errno in FORBIDDEN:
        return f"{place} may not be used ({error.strerror}); give this account access, or choose another place"
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return f"{place} is a file, or lies below one; choose a folder"
    if error.errno == errno.EISDIR:
        return f"{error.filename2 or place} is a folder; name a file"
    return f"{place} cannot be used ({error}); see that the disk is mounted and healthy, and run again"


def describe_full_disk(folder: Path) -> str | None:
    """Return the sentence about the disk of `folder` where it is full, and what to do; None where it has room."""
    if not folder.exists() or shutil.disk_usage(folder).free >= LEAST_FREE_BYTES:
        return None
    return refusal(folder, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


@contextmanager
def alone(home: Path, name: str, *, wait: Callable[[], None]) -> Generator[None]:
    """Hold the lock of that name among threads and processes of a home; the kernel frees that of a killed process.

    wait: called again and again while another holds the lock: it sleeps a little, or raises. Raises StoreUnreachable.
    """
    folder = home / "cache" / "locks"
    make_folder(folder)
    path = folder / hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    with reachable(path):
        file = path.open("w")
    with file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                wait()
        yield


def sync_file(path: Path) -> None:
    """Bring the content of a file to the disk."""
    handle = os.open(path, os.O_RDONLY)  # of a folder too, which cannot be opened to write
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def close_home(home: Path) -> None:
    """Close PARTS of `home`, as earlier versions left them, and folders that we make there later, to other accounts."""
    _homes.add(home)
    # one that is a file, or of another account, is refused by name where something is kept there
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        for part in sorted(PARTS & set(os.listdir(home))):  # noqa: PTH208 one call at the start of every command
            _close(home / part, home)
        for passage in PASSAGES[1:]:
            for path in (home / passage).iterdir() if (home / passage).is_dir() else ():
                _close(path, home)


def is_secret(path: Path | str) -> bool:
    """Return whether `path`, links followed, lies among the secrets of a home that this process works in."""
    try:
        real = f"{os.path.realpath(path)}/"
    except ValueError:  # a text with a NUL or half of a character, which is no path
        return False
    return any(real.startswith(f"{os.path.realpath(home / part)}/") for home in _homes for part in SECRET_PARTS)


def _close(path: Path, home: Path) -> None:
    """Take from a path of this account what `_mode` does not allow others; links and failures are passed over."""
    with suppress(OSError):  # of another account, or of a file system without permissions
        status = path.lstat()
        mode = stat.S_IMODE(status.st_mode)
        closed = mode & _mode(path, home)
        if status.st_uid == os.geteuid() and not stat.S_ISLNK(status.st_mode) and closed != mode:
            path.chmod(closed)


def _mode(path: Path, home: Path) -> int:
    is_passage = str(path.relative_to(home)) in PASSAGES or path == home
    return PASSED if is_passage and os.geteuid() == 0 else CLOSED
