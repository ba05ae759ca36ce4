"""The auth string of `trivet rag serve`: the user's, or one that is made once and kept where only the user reads it."""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path
from typing import NamedTuple

from pydantic import SecretStr

FILE = "serve-token"
VARIABLE = "TRIVET_SERVE_TOKEN"
USABLE = re.compile(r"[!-~]{16,512}")
"""What a header carries as it is, and nobody guesses."""


class AuthUnusable(Exception):
    """There is an auth string, and it protects nothing; the text is a sentence with the remedy."""


class Auth(NamedTuple):
    """What a client must send, and where a person finds it."""

    secret: SecretStr
    place: str


def auth_string(home: Path, *, configured: SecretStr | None) -> Auth:
    """The configured auth string, or that of the home, which is made at the first start. Raises AuthUnusable."""
    if configured is not None:
        return Auth(_checked(configured.get_secret_value(), VARIABLE), f"the variable {VARIABLE}")
    path = home / FILE
    try:
        if not path.exists():
            _make(path)
        return Auth(_checked(_read(path), str(path)), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise AuthUnusable(f"the auth string cannot be kept in {path} ({error}); set {VARIABLE} instead") from error


def _checked(value: str, where: str) -> SecretStr:
    if not USABLE.fullmatch(value):
        raise AuthUnusable(
            f"{where} holds no usable auth string; it takes 16 to 512 letters, digits or signs, no spaces"
        )
    return SecretStr(value)


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{FILE}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(unfinished)
    except FileExistsError:
        pass  # another server was faster: its string is ours too
    finally:
        unfinished.unlink(missing_ok=True)


def _read(path: Path) -> str:
    facts = path.lstat()
    if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        raise AuthUnusable(f"{path} may be read or written by others; remove it, and the next start makes a new one")
    return path.read_text("ascii").strip()
