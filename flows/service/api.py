"""The few requests that the service makes of the Prefect server, without importing prefect."""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, NamedTuple

from flows.running.environment import LOOPBACK
from flows.service.service_errors import ApiAway, ApiFailed

TIMEOUT_S = 10


class Api(NamedTuple):
    """A server, and how to be let in."""

    url: str
    """`http://127.0.0.1:4200/api`."""
    auth: str | None

    def ready(self) -> bool:
        """Whether it answers and reaches its database; anybody may ask this."""
        try:
            self.get("/ready")
        except ApiFailed:
            return False
        return True

    def get(self, path: str) -> Any:
        """What is at `path`. Raises ApiFailed, ApiAway."""
        return self._ask("GET", path, None)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """What the server says to `body`. Raises ApiFailed, ApiAway."""
        return self._ask("POST", path, body)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        headers = {"Content-Type": "application/json"}
        if self.auth:
            headers["Authorization"] = "Basic " + base64.b64encode(self.auth.encode()).decode()
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with _opener(self.url).open(request, timeout=TIMEOUT_S) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                said = error.read(500).decode(errors="replace")
            raise ApiFailed(f"{self.url}{path} answers {error.code}: {said}", status=error.code) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ApiAway(f"no Prefect server answers at {self.url} ({error})") from error


def _opener(url: str) -> urllib.request.OpenerDirector:
    """What asks there: past any proxy where it is this machine."""
    here = urllib.parse.urlsplit(url).hostname in LOOPBACK
    return urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if here else []))
