"""Who runs the embedded server: PostgreSQL refuses to be root."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path
from typing import NamedTuple

from storage.storage_errors import DatabaseUnavailable

SERVER_ACCOUNTS = ("postgres", "nobody")
"""PostgreSQL refuses to run as root: for root it runs as the first of these that exists."""


class Account(NamedTuple):
    """Who the server runs as."""

    uid: int
    gid: int
    name: str


def account_of(folder: Path) -> Account | None:
    """Who runs the server: this account (None), or for root the folder's owner, or else a server account.

    Raises DatabaseUnavailable when the folder belongs to somebody else.
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
    chosen = _entry(owner) if owner else None
    chosen = chosen or next((entry for name in SERVER_ACCOUNTS if (entry := _entry(name))), None)
    if chosen is None:
        raise DatabaseUnavailable(
            "PostgreSQL refuses to run as root, and there is no account `postgres` or `nobody` to run it; "
            "work as another user, or set DATABASE_URL to a server"
        )
    return Account(chosen.pw_uid, chosen.pw_gid, chosen.pw_name)


def _entry(who: int | str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(who) if isinstance(who, int) else pwd.getpwnam(who)
    except KeyError:
        return None


def may_enter(folder: Path, account: Account | None) -> bool:
    """True when the account may pass through every folder down to `folder`, which need not exist yet."""
    if account is None:
        return True
    there = (each for each in (folder, *folder.parents) if each.exists())
    return all(_may_pass(each.stat(), account) for each in there)


def _may_pass(facts: os.stat_result, account: Account) -> bool:
    if facts.st_uid == account.uid:
        return bool(facts.st_mode & stat.S_IXUSR)
    if facts.st_gid == account.gid:
        return bool(facts.st_mode & stat.S_IXGRP)
    return bool(facts.st_mode & stat.S_IXOTH)
