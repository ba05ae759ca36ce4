"""Who may see the pages: a signed cookie, the token of every form, and links that carry their own permission.

All of them are signatures under the server's auth string, so that a restart signs nobody out and nothing is kept.
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


class Keys:
    """Signatures under one auth string."""

    def __init__(self, auth: SecretStr, *, clock: Callable[[], float] = time.time) -> None:
        self._auth = auth.get_secret_value().encode()
        self._clock = clock

    def is_auth(self, said: str) -> bool:
        """Whether this is the auth string."""
        return hmac.compare_digest(said.encode(errors="replace"), self._auth)

    def is_bearer(self, header: str) -> bool:
        """Whether an Authorization header carries the auth string."""
        return hmac.compare_digest(header.encode(errors="replace"), b"Bearer " + self._auth)

    def cookie(self) -> str:
        """A cookie for a browser that said the auth string: its end, a nonce, a signature."""
        told = f"{int(self._clock()) + LASTS_S}.{secrets.token_hex(8)}"
        return f"{told}.{self._signed('cookie', told)}"

    def is_cookie(self, said: str) -> bool:
        """Whether a cookie is ours and has not ended."""
        told, _, signature = said.rpartition(".")
        ends = told.partition(".")[0]
        if not self._fits("cookie", told, signature):
            return False
        return self._clock() < int(ends)

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
