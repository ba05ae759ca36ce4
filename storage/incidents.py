"""Incidents of nights, and the nights that people pinned as their baselines, in the database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import Field
from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.postgresql import insert

from storage.connections import Reconnecting
from storage.records import FiniteRecord
from storage.responses import escape, unescape_row
from storage.tables import night_incidents, night_pins

SHORT_ID = 8
"""Number of characters of an incident's ID that people type."""


class IncidentEvent(FiniteRecord):
    """The score of an incident in one night."""

    night: str
    """Id of the flow run that the night was."""
    at: datetime
    """When the night began."""
    run: str
    """Id of the run that measured the value."""
    value: float
    p: float | None = None
    """Two-sided p against the baseline; None where the two cannot be compared."""
    found: Literal["worse", "not back", "not comparable", "back"]
    """`not back`: within noise of the baseline, but still nearer to the bad score than to the good one."""


class Incident(FiniteRecord):
    """A score that got worse, from the night that saw it until it is back or somebody accepts it."""

    id: str
    suite: str
    """Path of the suite file that the night ran."""
    of: str
    """Label of the model that was measured, or `index` or `selector`."""
    task: str
    """Name of the benchmark, or of the index's metric."""
    metric: str
    kind: Literal["drop", "drift"]
    """`drop`: against the baseline; `drift`: a slow fall over many nights."""
    baseline_run: str
    """Id of the run with the last good value."""
    baseline_value: float
    baseline_at: datetime
    higher_is_better: bool = True
    events: tuple[IncidentEvent, ...] = Field(min_length=1)
    """One per night that measured the score, oldest first; the first one opened the incident."""
    status: Literal["open", "back", "accepted"] = "open"
    word: str = ""
    """The reason that a user gave for accepting it; empty while it is not accepted."""
    accepted_at: datetime | None = None

    @property
    def short_id(self) -> str:
        """The beginning of the id that people type."""
        return self.id[:SHORT_ID]

    @property
    def opened(self) -> IncidentEvent:
        """The score that opened the incident."""
        return self.events[0]

    @property
    def last(self) -> IncidentEvent:
        """The score of the latest night that measured it."""
        return self.events[-1]

    @property
    def open(self) -> bool:
        """Whether the score is neither back nor accepted."""
        return self.status == "open"

    @property
    def key(self) -> tuple[str, str]:
        """Key that the score has in every night."""
        return self.of, self.task


class Pin(FiniteRecord):
    """A score that later nights are compared with, instead of with the last good one."""

    of: str
    task: str
    run: str
    """Id of the run that measured the pinned value."""
    at: datetime
    """When the night of that run began."""


class Incidents:
    """The incidents and pins of suites. locate: see Reconnecting. Every method raises DatabaseUnavailable."""

    def __init__(self, locate: Callable[[], str]) -> None:
        self._database = Reconnecting(locate)

    def of_suite(self, suite: str) -> tuple[Incident, ...]:
        """Return the incidents of a suite file, the oldest first."""
        table = night_incidents
        query = select(table).where(table.c.suite == escape(suite)).order_by(table.c.opened_at, table.c.id)
        return tuple(_incident(dict(row)) for row in self._database.rows(query))

    def recent(self, n: int) -> tuple[Incident, ...]:
        """Return at most `n` incidents of any suite: open ones before others, and the last opened of each first."""
        table = night_incidents
        query = select(table).order_by((table.c.status == "open").desc(), table.c.opened_at.desc(), table.c.id).limit(n)
        return tuple(_incident(dict(row)) for row in self._database.rows(query))

    def keep(self, suite: str, night: str, incidents: Sequence[Incident]) -> None:
        """Store what a night makes of the incidents; one that it had opened before, and now does not, is removed."""
        table, staying = night_incidents, [incident.id for incident in incidents]
        withdrawn = (table.c.suite == escape(suite), table.c.opened_run == night, table.c.id.not_in(staying))

        def write(connection: Connection) -> None:
            connection.execute(delete(table).where(*withdrawn))
            for incident in incidents:
                _put(connection, incident)

        self._database.run(write)

    def put(self, incident: Incident) -> None:
        """Store one incident in place of what was known of it."""
        self._database.run(lambda connection: _put(connection, incident))

    def pins(self, suite: str) -> tuple[Pin, ...]:
        """Return the pins of a suite file, by label and task."""
        query = select(night_pins).where(night_pins.c.suite == escape(suite)).order_by(*night_pins.primary_key)
        return tuple(Pin.model_validate(unescape_row(row, "suite")) for row in self._database.rows(query))

    def pin(self, suite: str, pins: Sequence[Pin]) -> None:
        """Replace the pins of a suite file; without pins every value is compared with the last good one."""

        def write(connection: Connection) -> None:
            connection.execute(delete(night_pins).where(night_pins.c.suite == escape(suite)))
            if pins:
                connection.execute(insert(night_pins), [escape({"suite": suite} | pin.model_dump()) for pin in pins])

        self._database.run(write)


def _put(connection: Connection, incident: Incident) -> None:
    """Insert an incident, or replace the fields of the stored one of its id."""
    events = [event.model_dump(mode="json") for event in incident.events]
    opened = {"opened_run": incident.opened.night, "opened_at": incident.opened.at}
    row = escape(incident.model_dump(exclude={"events"}) | opened | {"events": events})
    new = {name: value for name, value in row.items() if name != "id"}
    connection.execute(insert(night_incidents).values(row).on_conflict_do_update(index_elements=["id"], set_=new))


def _incident(row: dict[str, Any]) -> Incident:
    return Incident.model_validate(unescape_row(row, "opened_run", "opened_at"))
