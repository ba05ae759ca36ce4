"""What a process tells its Prefect server of its runs: one that was away hears all, one that is gone holds up none."""

from __future__ import annotations

import logging

from prefect.events.clients import PrefectEventsClient
from prefect.events.schemas.events import Event
from prefect.events.worker import EventsWorker, emit_events_to_cloud
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES

AT_ONCE = 1
"""Attempts to connect again that take no time; Prefect sleeps a second before those from the fourth on."""
LAST_WORDS_S = 10.0
"""Patience with a server that does not take the last events of this process."""


_emit = PrefectEventsClient._emit  # pyright: ignore[reportPrivateUsage]


def tell_patiently() -> None:
    """Have this process wait for a server that is away as long with events as with requests, and once only.

    Prefect gives each event eight seconds: too few for a server that is away for a minute, whose later events come
    without the earlier ones then, and hours for a process that ends with thousands of events and no server.
    """
    if emit_events_to_cloud():
        return
    patience = 2 ** (PREFECT_CLIENT_MAX_RETRIES.value() + 1)  # seconds: requests wait 2, 4, 8 …
    EventsWorker.set_client_override(PrefectEventsClient, reconnection_attempts=patience)

    async def emit(self: PrefectEventsClient, event: Event) -> None:
        try:
            await _emit(self, event)
        except Exception:
            self._reconnection_attempts = AT_ONCE  # the event is kept, and sent before the next that can be sent
            raise
        self._reconnection_attempts = patience

    # a method of the class: Prefect drops the events of a client that is not one of its own classes
    PrefectEventsClient._emit = emit  # pyright: ignore[reportPrivateUsage]


def tell_the_rest() -> None:
    """Send what is left for the server of this moment, before that ends: Prefect's threads would keep to it."""
    for worker in (EventsWorker, APILogWorker):
        logging.getLogger(worker.__name__).addFilter(_is_news)
        worker.drain_all(timeout=LAST_WORDS_S, at_exit=False)


def _is_news(record: logging.LogRecord) -> bool:
    """Prefect's workers warn at once of what is still to be sent; what cannot be sent stays a warning."""
    return not record.getMessage().startswith("Still processing items")
