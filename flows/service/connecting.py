"""The Prefect server that commands talk to: the one that the user names, else the one that `trivet up` keeps here."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict

FILE = Path("service", "service.json")
"""Below the home: where the server of `trivet up` is."""
AUTH = Path("service", "auth")
"""Below the home: its auth string, `user:password`; file mode 0600."""


class Address(BaseModel):
    """Where the server is."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    api_url: str
    """`http://127.0.0.1:4200/api`."""
    ui_url: str


class NotConnected(RuntimeError):
    """No server is configured and none was started here, or it does not answer; says how to get one."""


def address_of(home: Path) -> Address | None:
    """The server that `trivet up` started in this home; None where there is none."""
    try:
        return Address.model_validate_json((home / FILE).read_bytes())
    except FileNotFoundError:
        return None


def auth_of(home: Path) -> str | None:
    """The auth string of that server."""
    try:
        return (home / AUTH).read_text().strip()
    except FileNotFoundError:
        return None


def connect(home: Path) -> None:
    """Have PREFECT_API_URL and PREFECT_API_AUTH_STRING name a server that answers; call it before prefect is imported.

    Raises NotConnected.
    """
    from flows.running.command_server import no_answer, silence

    if named := os.environ.get("PREFECT_API_URL"):
        if why := silence(named):
            raise NotConnected(no_answer(named, why))
        return
    address = address_of(home)
    if address is None:
        raise NotConnected("no Prefect server: start one with `trivet up`, or set PREFECT_API_URL")
    if why := silence(address.api_url):
        raise NotConnected(
            f"the server of this home does not answer at {address.api_url} ({why}); `trivet status` tells more, "
            "`trivet up` starts it again"
        )
    os.environ["PREFECT_API_URL"] = address.api_url
    if auth := auth_of(home):
        os.environ["PREFECT_API_AUTH_STRING"] = auth
