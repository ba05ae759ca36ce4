"""The doors of the server: requests with the auth string of a role pass if the role may make them.

Prefect knows one auth string, the owner's. A request with that of a role gets the owner's here, and only where the
role may make it; so what is forgotten here is refused.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
from collections.abc import Mapping
from typing import Any

from flows.service.place import Place
from flows.service.roles import ROLES, may, may_listen

API = "/api"
WORDS = {
    "viewer": "reads, and sees no secrets",
    "operator": "reads, starts deployments, and retries and cancels runs",
    "worker": "reads, and reports what it works on",
}


class Keys:
    """Auth strings of the roles of a home: `service/auth-viewer` and so on; a changed file counts at once."""

    def __init__(self, place: Place) -> None:
        place.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._files = {role: place.folder / f"auth-{role}" for role in ROLES}
        for role, file in self._files.items():
            if not file.exists():
                place.keep(file, f"{role}:{secrets.token_urlsafe(32)}\n")
        self._read: dict[str, tuple[int, str]] = {}

    def of(self, role: str) -> str | None:
        """The auth string; None where its file was removed."""
        file = self._files[role]
        try:
            changed = file.stat().st_mtime_ns
            if role not in self._read or self._read[role][0] != changed:
                self._read[role] = (changed, file.read_text().strip())
        except FileNotFoundError:
            return None
        return self._read[role][1]

    def role_of(self, auth: str) -> str | None:
        """The role that has this auth string."""
        for role in ROLES:
            key = self.of(role)
            if key and hmac.compare_digest(key.encode(), auth.encode()):
                return role
        return None


class Doors:
    """An ASGI application that lets roles do what they may in `app`, whose auth string is `owner`."""

    def __init__(self, app: Any, owner: str, keys: Keys) -> None:
        self._app, self._owner, self._keys = app, owner, keys

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket") or not scope["path"].startswith(f"{API}/"):
            await self._app(scope, receive, send)
            return
        role = self._keys.role_of(_auth_of(scope))
        path = scope["path"].removeprefix(API)
        if scope["type"] == "websocket":
            await self._app(scope, self._hearing(receive, path), send)
        elif role is None:
            await self._app(scope, receive, send)
        elif may(role, scope["method"], path, scope["query_string"].decode("latin-1")):
            await self._app(_with_auth(scope, self._owner), receive, send)
        else:
            await _refuse(send, f"the role {role} {WORDS[role]}: {scope['method']} {path} is not for it")

    def _hearing(self, receive: Any, path: str) -> Any:
        """What a WebSocket receives; the first message of a role that may open it has the owner's auth string."""
        told = False

        async def heard() -> Any:
            nonlocal told
            message = await receive()
            if told or message["type"] != "websocket.receive":
                return message
            told = True
            try:
                said = json.loads(message.get("text") or message.get("bytes") or "")
                role = self._keys.role_of(said["token"]) if said["type"] == "auth" else None
            except (ValueError, TypeError, KeyError):
                return message
            if role and may_listen(role, path):
                return {"type": "websocket.receive", "text": json.dumps({**said, "token": self._owner})}
            return message

        return heard


def _auth_of(scope: Mapping[str, Any]) -> str:
    """`user:password` of a request; empty where there is none that can be read."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, told = value.partition(b" ")
            try:
                return base64.b64decode(told.strip(), validate=True).decode() if scheme == b"Basic" else ""
            except ValueError:
                return ""
    return ""


def _with_auth(scope: dict[str, Any], auth: str) -> dict[str, Any]:
    headers = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
    told = b"Basic " + base64.b64encode(auth.encode())
    return {**scope, "headers": [*headers, (b"authorization", told)]}


async def _refuse(send: Any, why: str) -> None:
    body = json.dumps({"detail": why}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})
