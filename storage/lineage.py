"""A table of what every finished step used and made, in PostgreSQL where one is configured, else in a file.

An edge says that a digest went into a step, or came out of it. `item` numbers what a step did for one of many inputs
(a document of a shard), so that an origin leads to its own inputs and not to those of the whole shard.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import JsonValue
from sqlalchemy import Connection, RowMapping, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from storage.connections import Reconnecting, SqliteFile
from storage.records import Record
from storage.tables import lineage_collected, lineage_edges, lineage_steps

FILE = "lineage.sqlite"
AT_ONCE = 500
"""Largest number of digests in one query: SQLite before 3.32 takes 999 parameters."""
EVERY = -1
"""Item of an edge that holds for all items of its step."""


_TABLES = (lineage_steps, lineage_edges, lineage_collected)
_SCHEMA = (
    *(CreateTable(table, if_not_exists=True) for table in _TABLES),
    *(CreateIndex(index, if_not_exists=True) for table in _TABLES for index in table.indexes),
)
_REMEDY = "free disk space, or see to the permissions of its folder"


class StepRun(Record):
    """One run of a step: its cache key, version, code, parameters and time."""

    key: str
    """Cache key of the step's run."""
    step: str
    """Module and name of the step: `tasks.rag.steps.parse`."""
    version: int
    run: str
    """Id of the flow run for which the step was executed last."""
    code: str
    """Version of the program, and its commit where it has one."""
    at: datetime
    seconds: float
    parameters: dict[str, JsonValue]
    """The inputs as JSON, without the digests in them."""


class Edge(NamedTuple):
    """A digest that a step used or made, for one of its items or, where `item` is EVERY, for all."""

    item: int
    made: bool
    kind: str
    """Kind of the artifact; empty where the digest names none: it is of an index, of the items of a data set."""
    digest: str
    name: str
    """The field or input that held it: `content`, `checksum`."""


class Origin(Record):
    """A digest, the step that made it, and the digests that it was made of."""

    kind: str
    digest: str
    name: str = ""
    step: StepRun | None = None
    """None: no step of this home is known to have made it."""
    item: int = EVERY
    used: tuple[str, ...] = ()
    """Digests of what it was made of."""
    collected: datetime | None = None
    """When `trivet gc` removed it, if it did."""


class Lineage:
    """The edges of a home, or of all that share a database. Methods raise StoreUnreachable, DatabaseUnavailable.

    database: gives the address of a PostgreSQL that was configured; None: `file` is used.
    """

    def __init__(self, database: Callable[[], str] | None, file: Path) -> None:
        self._database = Reconnecting(database) if database else SqliteFile(file, _SCHEMA, remedy=_REMEDY)

    def record(self, run: StepRun, edges: Iterable[Edge], *, only_new: bool = False) -> None:
        """Keep what a step did. A later run of the same key replaces the StepRun and adds the edges that are new.

        only_new: leave out what a step of this name made before, under whatever key, and the step if nothing is left.
        """
        step = run.model_dump(mode="json") | {"at": run.at, "parameters": json.dumps(run.parameters)}
        rows = [edge._asdict() | {"key": run.key} for edge in edges]

        def write(connection: Connection) -> None:
            """Insert the step and its edges, or with `only_new` only what no step of its name has made before."""
            nonlocal rows
            if only_new:
                recorded = set[str]()
                for batch in _batches([row["digest"] for row in rows if row["made"]]):
                    columns, steps = lineage_edges.c, lineage_steps.c
                    query = select(columns.digest).join_from(lineage_edges, lineage_steps, columns.key == steps.key)
                    query = query.where(columns.digest.in_(batch), columns.made, steps.step == run.step)
                    recorded |= set(connection.scalars(query))
                rows = [row for row in rows if not (row["made"] and row["digest"] in recorded)]
                if not any(row["made"] for row in rows):
                    return
            insert = _insert(connection)
            statement = insert(lineage_steps).values(step)
            changed = {name: statement.excluded[name] for name in step if name != "key"}
            connection.execute(statement.on_conflict_do_update(index_elements=["key"], set_=changed))
            if rows:
                connection.execute(insert(lineage_edges).on_conflict_do_nothing(), rows)

        self._database.run(write)

    def origins(self, digests: Collection[str], *, most: int) -> dict[str, Origin]:
        """Return origins of these digests, unknown ones too, and of all that led to them, by digest; at most `most`."""
        return self._database.run(lambda connection: _walk(connection, digests, most))

    def beginning(self, prefix: str) -> list[str]:
        """Return the first ten digests, in order, that steps made or used and that begin with `prefix`."""
        column = lineage_edges.c.digest
        # `g` comes after all hex digits: a range, for which the index serves on either engine
        query = select(column).distinct().where(column >= prefix, column < prefix + "g").order_by(column).limit(10)
        return self._database.run(lambda connection: [*connection.scalars(query)])

    def note_collected(self, digests: Iterable[str], *, at: datetime) -> None:
        """Record when these digests were collected, those that lineage knows; the time that one has already stays."""
        edges = lineage_edges.c.digest

        def write(connection: Connection) -> None:
            """Insert the time for those digests that any edge names."""
            for batch in _batches(digests):
                recorded = [*connection.scalars(select(edges).distinct().where(edges.in_(batch)))]
                if recorded:
                    statement = _insert(connection)(lineage_collected).on_conflict_do_nothing()
                    connection.execute(statement, [{"digest": digest, "at": at} for digest in recorded])

        self._database.run(write)


def _batches(digests: Iterable[str]) -> Iterator[list[str]]:
    """Yield the values, sorted, in batches that are few enough for one query each."""
    waiting = sorted(digests)
    yield from (waiting[start : start + AT_ONCE] for start in range(0, len(waiting), AT_ONCE))


def _insert(connection: Connection) -> Any:
    """Return the dialect's own `insert`, which knows `on conflict`."""
    return postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert


def _walk(connection: Connection, digests: Collection[str], most: int) -> dict[str, Origin]:
    """Return the origins of digests, and of all that those were made of, level by level, at most `most`; by digest."""
    origins, edges = dict[str, Origin](), lineage_edges.c
    pending = list(dict.fromkeys(digests))
    steps, settings = set[str](), set[tuple[str, str]]()
    while pending and len(origins) < most:
        level = pending[: most - len(origins)]
        makers_of = _nearest_first(connection, _makers(connection, level), {*origins, *level}, settings)
        used: dict[tuple[str, int], list[str]] = {}  # what each item of a step used
        for batch in _batches({maker["key"] for makers in makers_of.values() for maker in makers}):
            query = select(edges.key, edges.item, edges.digest).where(edges.key.in_(batch), ~edges.made)
            for key, item, digest in connection.execute(query.order_by(edges.key, edges.item, edges.digest)):
                used.setdefault((key, item), []).append(digest)
        collected_at: dict[str, datetime] = {}
        for batch in _batches(level):
            query = select(lineage_collected).where(lineage_collected.c.digest.in_(batch))
            collected_at |= {row.digest: row.at for row in connection.execute(query)}
        for digest in level:
            origins[digest] = _make_origin(digest, makers_of.get(digest, ()), used, collected_at.get(digest))
        makers = (origins[digest].step for digest in level)
        new = {step.key: step for step in makers if step and step.key not in steps}
        steps |= new.keys()
        settings.update(leaf for step in new.values() for leaf in _leaves(step.parameters))
        follow = dict.fromkeys(source for digest in level for source in origins[digest].used)
        pending = [digest for digest in follow if digest not in origins]
    for batch in _batches(digest for digest, origin in origins.items() if not origin.kind):
        # those that no step made bear the kind and name that those who used them gave
        query = select(edges.digest, edges.kind, edges.name).distinct().where(edges.digest.in_(batch))
        for digest, kind, name in connection.execute(query.order_by(edges.digest, edges.kind, edges.name)):
            origins[digest] = origins[digest].model_copy(update={"kind": kind, "name": name})
    return origins


def _makers(connection: Connection, digests: Sequence[str]) -> dict[str, list[RowMapping]]:
    """Return the steps that made each digest, the last first; digests that none made are left out."""
    edges, steps = lineage_edges, lineage_steps
    by_digest: dict[str, list[RowMapping]] = {}
    for batch in _batches(digests):
        query = (
            select(edges.c.digest, edges.c.item, edges.c.kind, edges.c.name, steps)
            .join_from(edges, steps, edges.c.key == steps.c.key)
            .where(edges.c.digest.in_(batch), edges.c.made)
            .order_by(steps.c.at.desc(), steps.c.key)
        )
        for row in connection.execute(query).mappings():
            by_digest.setdefault(row["digest"], []).append(row)
    return by_digest


def _nearest_first(
    connection: Connection, makers_of: dict[str, list[RowMapping]], reached: set[str], settings: set[tuple[str, str]]
) -> dict[str, list[RowMapping]]:
    """Return the makers of each digest, the most likely one first.

    Equal contents are one artifact, whoever made them: the numbers of all documents without any, say. First comes the
    maker that made, and used, most of what else is reached; among equals the one whose parameters are most like those
    of the steps that are reached; among equals the last.
    """
    shared = {digest: makers for digest, makers in makers_of.items() if len(makers) > 1}
    edges = lineage_edges.c
    reached_by: dict[tuple[str, int], set[str]] = {}
    for batch in _batches({maker["key"] for makers in shared.values() for maker in makers}):
        query = select(edges.key, edges.item, edges.digest).where(edges.key.in_(batch))
        for key, item, digest in connection.execute(query):
            if digest in reached:
                reached_by.setdefault((key, item), set()).add(digest)

    def nearness(maker: RowMapping) -> tuple[int, int]:
        key = maker["key"]
        close = reached_by.get((key, maker["item"]), set()) | reached_by.get((key, EVERY), set())
        return len(close), len(settings.intersection(_leaves(json.loads(maker["parameters"]))))

    return makers_of | {digest: sorted(makers, key=nearness, reverse=True) for digest, makers in shared.items()}


def _leaves(parameters: JsonValue, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the own name and the value, as JSON, of every parameter, however deep it stands; a list is one value."""
    if isinstance(parameters, dict):
        for inner, value in parameters.items():
            yield from _leaves(value, inner)
    else:
        yield name, json.dumps(parameters)


def _make_origin(
    digest: str, makers: Sequence[RowMapping], used: Mapping[tuple[str, int], Sequence[str]], collected: datetime | None
) -> Origin:
    """Return a digest's origin by its first maker; without one, `kind` is empty. used: digests by step key and item."""
    collected_at = None if collected is None else _in_utc(collected)
    if not makers:
        return Origin(kind="", digest=digest, collected=collected_at)
    last = makers[0]
    key, item = last["key"], last["item"]
    sources = dict.fromkeys([*used.get((key, item), ()), *used.get((key, EVERY), ())])
    fields = {name: last[name] for name in StepRun.model_fields}
    fields |= {"at": _in_utc(fields["at"]), "parameters": json.loads(fields["parameters"])}
    return Origin(
        kind=last["kind"],
        digest=digest,
        name=last["name"],
        step=StepRun.model_validate(fields),
        item=item,
        used=tuple(source for source in sources if source != digest),
        collected=collected_at,
    )


def _in_utc(at: datetime) -> datetime:
    """Return the time with a zone: SQLite keeps none, and what is written to it is UTC."""
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
