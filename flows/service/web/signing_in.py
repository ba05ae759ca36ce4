"""Who may see the pages: a signed cookie, the token of every form, and links that carry their own permission.

Two secrets sign in: the auth string of the pages, and that of the service, whose owner may do everything. Both see the
same pages. All permissions are signatures under the auth string of the pages, so that a restart signs nobody out and
nothing is kept.
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
    """Signatures under the auth string of the pages."""

    def __init__(
        self,
        auth: SecretStr,
        *,
        owner: Callable[[], str | None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """owner: the auth string of the service; None where there is none."""
        self._auth = auth.get_secret_value()
        self._owner = owner
        self._clock = clock

    def is_bearer(self, header: str) -> bool:
        """Whether an Authorization header carries the auth string of the pages."""
        return _equal(header, f"Bearer {self._auth}")

    def cookie(self, said: str) -> str | None:
        """A cookie for a browser that said one of the two secrets: its end, a nonce, a signature; None for others."""
        secret = next((secret for secret in (self._auth, self._owner()) if secret and _equal(said, secret)), None)
        if secret is None:
            return None
        content = f"{int(self._clock()) + LASTS_S}.{secrets.token_hex(8)}"
        return f"{content}.{self._sign_cookie(content, secret)}"

    def is_cookie(self, said: str) -> bool:
        """Whether a cookie is ours, has not ended, and its secret is still the same."""
        content, _, signature = said.rpartition(".")
        signed = any(
            _equal(signature, self._sign_cookie(content, secret)) for secret in (self._auth, self._owner()) if secret
        )
        return signed and self._clock() < int(content.partition(".")[0])

    def form_token(self, cookie: str) -> str:
        """The token of the forms of a browser with this cookie."""
        return self._sign("form", cookie)

    def is_form_token(self, said: str, cookie: str) -> bool:
        return _equal(said, self._sign("form", cookie))

    def permission(self, path: str) -> str:
        """The signature that lets anybody read `path`."""
        return self._sign("path", path)[:32]

    def permits(self, path: str, said: str) -> bool:
        return _equal(said, self.permission(path))

    def _sign_cookie(self, content: str, secret: str) -> str:
        """A cookie ends with the secret that its browser said."""
        return self._sign(f"cookie {hashlib.sha256(secret.encode()).hexdigest()}", content)

    def _sign(self, use: str, content: str) -> str:
        signed = f"{use}\0{content}".encode(errors="replace")
        return hmac.new(self._auth.encode(), signed, hashlib.sha256).hexdigest()


def _equal(said: str, expected: str) -> bool:
    return hmac.compare_digest(said.encode(errors="replace"), expected.encode())  # bytes: not only ASCII is said
