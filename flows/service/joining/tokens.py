"""A token: address, certificate pin and a secret in one line. The secret opens for an hour, and until the next one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from datetime import UTC, datetime, timedelta
from typing import Literal

from pydantic import AwareDatetime, ValidationError

from flows.service.api import Refused
from flows.service.place import Place
from storage.records import Record

VALID = timedelta(hours=1)
FILE = "join.json"
"""In the service's folder: what tells a secret that was offered; mode 0600."""


class Token(Record):
    """What `trivet join` is given."""

    address: str
    """`https://10.0.0.1:4200`."""
    pin: str
    """SHA-256 of the server's certificate, hexadecimal."""
    secret: str

    def line(self) -> str:
        """As it is printed and typed."""
        return base64.urlsafe_b64encode(self.model_dump_json().encode()).decode().rstrip("=")


class _Offered(Record):
    digest: str
    """SHA-256 of the secret: the file opens nothing."""
    until: AwareDatetime
    kind: Literal["join"] = "join"


def offer(place: Place, address: str, pin: str) -> Token:
    """A new token; the one before opens nothing from now on."""
    token = Token(address=address, pin=pin, secret=secrets.token_urlsafe(32))
    offered = _Offered(digest=_digest(token.secret), until=datetime.now(UTC) + VALID)
    place.keep(place.folder / FILE, offered.model_dump_json())
    return token


def withdraw(place: Place) -> None:
    """No token opens any more."""
    (place.folder / FILE).unlink(missing_ok=True)


def opens(place: Place, secret: str) -> bool:
    """Whether a secret is the one that was offered last, less than an hour ago."""
    try:
        offered = _Offered.model_validate_json((place.folder / FILE).read_bytes())
    except (FileNotFoundError, ValidationError):
        return False
    return hmac.compare_digest(offered.digest, _digest(secret)) and datetime.now(UTC) < offered.until


def read_token(line: str) -> Token:
    """The token of a line. Raises Refused."""
    try:
        return Token.model_validate_json(base64.urlsafe_b64decode(line.strip() + "=" * (-len(line.strip()) % 4)))
    except ValueError:  # and pydantic's, whose text would show the secret
        raise Refused("this is no token, or a part of one; copy the line of `trivet up --listen` as a whole") from None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
