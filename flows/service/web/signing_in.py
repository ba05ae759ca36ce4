"""Who may see the pages: a signed cookie, the token of every form, and links that carry their own permission.

All of them are signatures under the server's auth string, so that a restart signs nobody out and nothing is kept.
Who says that string may do everything; who says that of a role (roles.py) what the role may: a viewer sees and asks,
an operator changes the documents too. A cookie of a role ends with the role's string.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable

from pydantic import SecretStr

COOKIE = "trivet"
LASTS_S = 7 * 24 * 3600
"""Life of a cookie."""
OWNER = "owner"
SERVICE = "service"
"""Who says the auth string of `trivet up`, on its pages."""
OPERATING = (OWNER, SERVICE, "operator")
"""Roles that change documents."""
ROLES = (*OPERATING, "viewer")


class Keys:
    """Signatures under one auth string."""

    def __init__(
        self,
        auth: SecretStr,
        *,
        of_role: Callable[[str], str | None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """of_role: the auth string of a role; None for one without."""
        self._auth = auth.get_secret_value().encode()
        self._of_role = of_role
        self._clock = clock

    def role_with(self, said: str) -> str | None:
        """The role whose auth string this is."""
        return next((role for role in ROLES if (key := self._key(role)) and _equal(said, key)), None)

    def is_bearer(self, header: str) -> bool:
        """Whether an Authorization header carries the auth string."""
        return hmac.compare_digest(header.encode(errors="replace"), b"Bearer " + self._auth)

    def cookie(self, role: str = OWNER) -> str:
        """A cookie for a browser that said the auth string of a role: its end, a nonce, the role, a signature."""
        told = f"{int(self._clock()) + LASTS_S}.{secrets.token_hex(8)}.{role}"
        return f"{told}.{self._signed(self._use(role), told)}"

    def role_of(self, said: str) -> str | None:
        """The role of a cookie; None for one that is not ours, or has ended."""
        told, _, signature = said.rpartition(".")
        ends, _, rest = told.partition(".")
        role = rest.rpartition(".")[2]
        if role not in ROLES or self._key(role) is None or not self._fits(self._use(role), told, signature):
            return None
        return role if self._clock() < int(ends) else None

    def _key(self, role: str) -> bytes | None:
        if role == OWNER:
            return self._auth
        key = self._of_role(role)
        return key.encode() if key else None

    def _use(self, role: str) -> str:
        """What a cookie of the role is signed for: it ends with the role's string."""
        return f"cookie {hashlib.sha256(self._key(role) or b'').hexdigest()}"

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


def _equal(said: str, key: bytes) -> bool:
    return hmac.compare_digest(said.encode(errors="replace"), key)
