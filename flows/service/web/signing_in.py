"""Who may see the pages: a signed cookie with a role, the token of forms, links that carry their own permission.

owner      said the auth string of this server: may do everything
operator   said that of the service's operators: may do everything, too
viewer     said that of the service's viewers: reads and asks

All of them are signatures under the server's auth string, so that a restart signs nobody out and nothing is kept.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable

from pydantic import SecretStr

from flows.service import role_doors

COOKIE = "trivet"
LASTS_S = 7 * 24 * 3600
"""Life of a cookie."""
OWNER, OPERATOR, VIEWER = "owner", "operator", "viewer"
MAY_ACT = (OWNER, OPERATOR)
"""Roles that may send every form."""


class Keys:
    """Signatures under one auth string.

    roles: auth strings of the roles of the service, where it has any.
    """

    def __init__(
        self, auth: SecretStr, *, roles: role_doors.Keys | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._auth = auth.get_secret_value().encode()
        self._roles = roles
        self._clock = clock

    def role_of(self, said: str) -> str | None:
        """The role that has this auth string."""
        if hmac.compare_digest(said.encode(errors="replace"), self._auth):
            return OWNER
        for role in (OPERATOR, VIEWER):
            key = self._key(role)
            if key and hmac.compare_digest(said.encode(errors="replace"), key):
                return role
        return None

    def _key(self, role: str) -> bytes:
        """The auth string of a role of the service; empty where it has none."""
        known = self._roles.of(role) if self._roles and role in (OPERATOR, VIEWER) else None
        return (known or "").encode()

    def is_bearer(self, header: str) -> bool:
        """Whether an Authorization header carries the auth string."""
        return hmac.compare_digest(header.encode(errors="replace"), b"Bearer " + self._auth)

    def cookie(self, role: str = OWNER) -> str:
        """A cookie for a browser that said the auth string of a role: its end, a nonce, the role, a signature."""
        told = f"{int(self._clock()) + LASTS_S}.{secrets.token_hex(8)}.{role}"
        return f"{told}.{self._signed(self._use(role), told)}"

    def role_in(self, cookie: str) -> str | None:
        """The role of a cookie that is ours and has not ended; another auth string of the role ends it."""
        told, _, signature = cookie.rpartition(".")
        ends, role = told.partition(".")[0], told.rpartition(".")[2]
        if not self._fits(self._use(role), told, signature) or self._clock() >= int(ends):
            return None
        return role

    def _use(self, role: str) -> str:
        return "cookie" if role == OWNER else f"cookie\0{hashlib.sha256(self._key(role)).hexdigest()}"

    def form_token(self, cookie: str) -> str:
        """The token of the forms of a browser with this cookie."""
        return self._signed("form", cookie)

    def is_form_token(self, said: str, cookie: str) -> bool:
        return self._fits("form", cookie, said)

    def permission(self, path: str) -> str:
        """The signature that lets anybody read `path`."""
        return self._signed("path", path)[:32]

    def permits(self, path: str, said: str) -> bool:
        return hmac.compare_digest(self.permission(path).encode(), said.encode(errors="replace"))

    def _fits(self, use: str, told: str, signature: str) -> bool:
        return hmac.compare_digest(self._signed(use, told).encode(), signature.encode(errors="replace"))

    def _signed(self, use: str, told: str) -> str:
        said = f"{use}\0{told}".encode(errors="replace")
        return hmac.new(self._auth, said, hashlib.sha256).hexdigest()
