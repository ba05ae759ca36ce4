"""Alerts that are kept until the address of TRIVET_NOTIFY_URL has taken them.

Prefect's server calls a webhook once, and takes any answer for a success. In our server a call is first a file, which
goes when the address answers 2xx:

    automation ─► Webhook.call ─► file ─► POST ─► taken: the file goes
                                   ▲        └───► not taken: again after PAUSES_S, and after a restart of the server
                                   └──────────────────┘
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import httpx
from prefect.blocks.webhook import Webhook

from flows.service.api import Api, ApiFailed
from flows.service.place import Place
from storage import files
from storage.storage_errors import StoreUnreachable

log = logging.getLogger(__name__)

WEBHOOK = "trivet-notify"
"""Block that holds the address."""
DOCUMENT = f"/block_types/slug/webhook/block_documents/name/{WEBHOOK}?include_secrets=true"
TIMEOUT_S = 5.0
PAUSES_S = (2.0, 30.0, 120.0, 600.0, 3600.0)
"""Seconds before the first retry, and before each further one."""
GIVEN_UP_S = 30 * 86400
"""Age of an alert that nobody is told any more."""
NOT_FOUND = 404


class NotTaken(Exception):
    """The address does not answer 2xx; the alert is kept."""


class Outbox:
    """The alerts of a home. One process at a time sends them, so that none is sent twice."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._new = threading.Event()

    def tell(self, to: Webhook, payload: str) -> httpx.Response:
        """Keep an alert and send it; a second one of the same words as one that is kept joins it.

        payload: body of the request. Raises NotTaken: it is tried again.
        """
        file = self._place.alerts / hashlib.sha256(payload.encode()).hexdigest()[:32]
        with self._alone():
            self._place.keep(file, payload)
            try:
                return _send(file, to)
            except NotTaken:
                self._new.set()
                raise

    def deliver(self, find: Callable[[], Webhook | None]) -> bool:
        """Send what is kept, the oldest first; gives whether nothing is left. Raises ApiFailed, StoreUnreachable.

        find: the webhook as it is now, None where there is none; asked only if something is kept.
        """
        if not (kept := self._kept()):
            return True
        if (to := find()) is None:
            return False
        for file in kept:
            with self._alone(), suppress(FileNotFoundError):  # another process has sent it
                try:
                    _send(file, to)
                except NotTaken as error:
                    log.warning("alerts kept=%d: %s", len(self._kept()), error)
                    if isinstance(error.__cause__, httpx.TransportError):  # it is away for all of them
                        break
        return not self._kept()

    def go_on(self, find: Callable[[], Webhook | None]) -> None:
        """Deliver for ever, with pauses that grow, in a thread that ends with the process. find: as for `deliver`."""

        def delivering() -> None:
            failures = 0
            while True:
                if self._new.wait(PAUSES_S[min(failures, len(PAUSES_S) - 1)]):
                    self._new.clear()
                    failures = 0
                    continue
                with suppress(ApiFailed, StoreUnreachable, OSError):  # the server begins or ends: the next try is soon
                    failures = 0 if self.deliver(find) else failures + 1

        threading.Thread(target=delivering, daemon=True, name="alerts").start()

    def _kept(self) -> list[Path]:
        """Oldest first; those that are too old are removed."""
        kept: list[tuple[float, Path]] = []
        for file in self._place.kept_alerts():
            with suppress(FileNotFoundError):  # another process has sent it
                at = file.stat().st_mtime
                if time.time() - at < GIVEN_UP_S:
                    kept.append((at, file))
                else:
                    log.warning("alert given up: %s", file.read_text())
                    file.unlink()
        return [file for _, file in sorted(kept)]

    def _alone(self) -> AbstractContextManager[None]:
        return files.alone(self._place.home, "alerts", wait=lambda: time.sleep(0.05))


def _send(file: Path, to: Webhook) -> httpx.Response:
    """POST a kept alert, and forget it once it is taken. Raises NotTaken, FileNotFoundError."""
    body = file.read_bytes()
    try:
        # past the user's proxy, as Prefect's own call; the key lets a receiver drop what a kill made us send again
        with httpx.Client(transport=httpx.HTTPTransport(verify=to.verify), timeout=TIMEOUT_S) as client:
            headers = {**to.headers.get_secret_value(), "Idempotency-Key": file.name}
            response = client.request(to.method, to.url.get_secret_value(), headers=headers, content=body)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NotTaken(f"no answer ({error}); the alert is kept and sent again") from error
    if not response.is_success:
        raise NotTaken(f"the address answers {response.status_code}; the alert is kept and sent again")
    file.unlink()
    return response


def keep_alerts(outbox: Outbox) -> None:
    """Have Prefect's actions in this process call the webhook of TRIVET_NOTIFY_URL through the outbox."""
    once = Webhook.call

    async def call(self: Webhook, payload: dict[str, Any] | str | None = None) -> httpx.Response:
        if self._block_document_name != WEBHOOK:
            return await once(self, payload)
        body = payload if isinstance(payload, str) else json.dumps(payload)
        return await asyncio.to_thread(outbox.tell, self, body)

    Webhook.call = call


def webhook_on(api: Api) -> Webhook | None:
    """The webhook of TRIVET_NOTIFY_URL as the server has it; None where there is none. Raises ApiFailed."""
    try:
        return Webhook.model_validate(api.get(DOCUMENT)["data"])
    except ApiFailed as error:
        if error.status == NOT_FOUND:
            return None
        raise
