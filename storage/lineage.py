"""What every finished step used and made: one table of edges, in PostgreSQL where one is configured, else in a file.

An edge says that a digest went into a step, or came out of it. `item` numbers what a step did for one of many inputs
(a document of a shard), so that an origin leads to its own inputs and not to those of the whole shard.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa
from pydantic import JsonValue
from sqlalchemy import Connection, Engine, RowMapping, event, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateIndex, CreateTable

from storage import files
from storage.connections import Reconnecting
from storage.embeddings import switch_to_wal
from storage.records import Record
from storage.storage_errors import StoreUnreachable
from storage.tables import lineage_collected, lineage_edges, lineage_steps

Result = TypeVar("Result")

FILE = "lineage.sqlite"
WAIT_FOR_WRITERS_S = 30.0
AT_ONCE = 500
"""Digests in one query."""
EVERY = -1
"""Item of an edge that holds for all items of its step."""


class StepRun(Record):
    """A step that ran: its cache key, version, code, parameters and time."""

    key: str
    """Its cache key."""
    step: str
    """`tasks.rag.steps.parse`."""
    version: int
    run: str
    """Id of the flow run that it ran for first."""
    code: str
    """Version of the program, and its commit where it has one."""
    at: datetime
    seconds: float
    parameters: dict[str, JsonValue]
    """Inputs without digests."""


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
    """A digest, and what it was made of."""

    kind: str
    digest: str
    name: str = ""
    step: StepRun | None = None
    """None: no step of this home is known to have made it."""
    item: int = EVERY
    used: tuple[str, ...] = ()
    """Digests."""
    collected: datetime | None = None
    """When `trivet gc` removed it, if it did."""


class Lineage:
    """The edges of a home, or of all that share a database. Methods raise StoreUnreachable, DatabaseUnavailable.

    database: gives the address of a PostgreSQL that was configured; None: `file` is used.
    """

    def __init__(self, database: Callable[[], str] | None, file: Path) -> None:
        self._database: Reconnecting | _File = Reconnecting(database) if database else _File(file)

    def record(self, run: StepRun, edges: Iterable[Edge], *, only_new: bool = False) -> None:
        """Keep what a step did; the same again changes nothing but its date.

        only_new: leave out what a step of this name made before, under whatever key, and the step if nothing is left.
        """
        step = run.model_dump(mode="json") | {"at": run.at, "parameters": json.dumps(run.parameters)}
        rows = [edge._asdict() | {"key": run.key} for edge in edges]

        def write(connection: Connection) -> None:
            nonlocal rows
            if only_new:
                known = set[str]()
                for some in _parts([row["digest"] for row in rows if row["made"]]):
                    columns, steps = lineage_edges.c, lineage_steps.c
                    query = select(columns.digest).join_from(lineage_edges, lineage_steps, columns.key == steps.key)
                    query = query.where(columns.digest.in_(some), columns.made, steps.step == run.step)
                    known |= set(connection.scalars(query))
                rows = [row for row in rows if not (row["made"] and row["digest"] in known)]
                if not any(row["made"] for row in rows):
                    return
            insert = _insert(connection)
            told = insert(lineage_steps).values(step)
            changed = {name: told.excluded[name] for name in step if name != "key"}
            connection.execute(told.on_conflict_do_update(index_elements=["key"], set_=changed))
            if rows:
                connection.execute(insert(lineage_edges).on_conflict_do_nothing(), rows)

        self._database.run(write)

    def origins(self, digests: Collection[str], *, most: int) -> dict[str, Origin]:
        """Every digest that leads to these, and these, by digest; no more than `most` are followed."""
        return self._database.run(lambda connection: _walk(connection, digests, most))

    def beginning(self, prefix: str) -> list[str]:
        """Digests that steps made or used and that begin so, at most ten."""
        column = lineage_edges.c.digest
        query = select(column).distinct().where(column >= prefix, column < prefix + "g").order_by(column).limit(10)
        return self._database.run(lambda connection: [*connection.scalars(query)])

    def note_collected(self, digests: Iterable[str], *, at: datetime) -> None:
        """Remember which of these digests are gone, and since when."""
        edges = lineage_edges.c.digest

        def write(connection: Connection) -> None:
            for some in _parts(digests):
                known = [*connection.scalars(select(edges).distinct().where(edges.in_(some)))]
                if known:
                    told = _insert(connection)(lineage_collected).on_conflict_do_nothing()
                    connection.execute(told, [{"digest": digest, "at": at} for digest in known])

        self._database.run(write)


class _File:
    """An SQLite file that any number of processes of one machine share."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opening = Lock()
        self._engine: Engine | None = None

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """The result of `work` in a transaction of its own. Raises StoreUnreachable."""
        try:
            with self._opening:
                self._engine = self._engine or self._open()
            with self._engine.begin() as connection:
                return work(connection)
        except DBAPIError as error:
            raise StoreUnreachable(
                f"{self._path} cannot be used ({error.orig}); free disk space, or see to the permissions of its folder"
            ) from error

    def _open(self) -> Engine:
        files.make_folder(self._path.parent)
        with files.reachable(self._path):
            self._path.touch(mode=0o600)  # SQLite gives the files beside it the same mode
        engine = sa.create_engine(f"sqlite:///{self._path}", connect_args={"timeout": WAIT_FOR_WRITERS_S})

        @event.listens_for(engine, "connect")
        def _configure(connection: Any, _: Any) -> None:  # pyright: ignore[reportUnusedFunction] SQLAlchemy calls it
            switch_to_wal(connection)
            connection.execute("PRAGMA synchronous=NORMAL")

        with engine.begin() as connection:
            for table in (lineage_steps, lineage_edges, lineage_collected):
                connection.execute(CreateTable(table, if_not_exists=True))
                for index in table.indexes:
                    connection.execute(CreateIndex(index, if_not_exists=True))
        return engine


def _parts(digests: Iterable[str]) -> Iterator[list[str]]:
    """Few enough for one query each."""
    waiting = sorted(digests)
    yield from (waiting[start : start + AT_ONCE] for start in range(0, len(waiting), AT_ONCE))


def _insert(connection: Connection) -> Any:
    """`insert` of the dialect, which knows `on conflict`."""
    return postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert


def _walk(connection: Connection, digests: Collection[str], most: int) -> dict[str, Origin]:
    found, edges = dict[str, Origin](), lineage_edges.c
    coming = list(dict.fromkeys(digests))
    steps, settings = set[str](), set[tuple[str, str]]()
    while coming and len(found) < most:
        level = coming[: most - len(found)]
        made = _nearest_first(connection, _makers(connection, level), {*found, *level}, settings)
        used: dict[tuple[str, int], list[str]] = {}  # what each item of a step used
        for some in _parts({maker["key"] for makers in made.values() for maker in makers}):
            query = select(edges.key, edges.item, edges.digest).where(edges.key.in_(some), ~edges.made)
            for key, item, digest in connection.execute(query.order_by(edges.key, edges.item, edges.digest)):
                used.setdefault((key, item), []).append(digest)
        gone: dict[str, datetime] = {}
        for some in _parts(level):
            query = select(lineage_collected).where(lineage_collected.c.digest.in_(some))
            gone |= {row.digest: row.at for row in connection.execute(query)}
        for digest in level:
            found[digest] = _origin(digest, made.get(digest, ()), used, gone.get(digest))
        new = {step.key: step for digest in level if (step := found[digest].step) and step.key not in steps}
        steps |= new.keys()
        settings.update(told for step in new.values() for told in _leaves(step.parameters))
        follow = dict.fromkeys(one for digest in level for one in found[digest].used)
        coming = [one for one in follow if one not in found]
    for some in _parts(digest for digest, origin in found.items() if not origin.kind):
        # those that no step made bear the kind and name that those who used them gave
        query = select(edges.digest, edges.kind, edges.name).distinct().where(edges.digest.in_(some))
        for digest, kind, name in connection.execute(query.order_by(edges.digest, edges.kind, edges.name)):
            found[digest] = found[digest].model_copy(update={"kind": kind, "name": name})
    return found


def _makers(connection: Connection, digests: Sequence[str]) -> dict[str, list[RowMapping]]:
    """The steps that made each digest, the last first."""
    edges, steps = lineage_edges, lineage_steps
    by_digest: dict[str, list[RowMapping]] = {}
    for some in _parts(digests):
        query = (
            select(edges.c.digest, edges.c.item, edges.c.kind, edges.c.name, steps)
            .join_from(edges, steps, edges.c.key == steps.c.key)
            .where(edges.c.digest.in_(some), edges.c.made)
            .order_by(steps.c.at.desc(), steps.c.key)
        )
        for row in connection.execute(query).mappings():
            by_digest.setdefault(row["digest"], []).append(row)
    return by_digest


def _nearest_first(
    connection: Connection, made: dict[str, list[RowMapping]], reached: set[str], settings: set[tuple[str, str]]
) -> dict[str, list[RowMapping]]:
    """The makers of each digest, first the one that made, and used, most of what else is reached; of such the one
    whose parameters are most like those of the steps that are reached, of such the last.

    Equal contents are one artifact, whoever made them: the numbers of all documents without any, say.
    """
    shared = {digest: makers for digest, makers in made.items() if len(makers) > 1}
    edges = lineage_edges.c
    beside: dict[tuple[str, int], set[str]] = {}
    for some in _parts({maker["key"] for makers in shared.values() for maker in makers}):
        query = select(edges.key, edges.item, edges.digest).where(edges.key.in_(some))
        for key, item, digest in connection.execute(query):
            if digest in reached:
                beside.setdefault((key, item), set()).add(digest)

    def nearness(maker: RowMapping) -> tuple[int, int]:
        key = maker["key"]
        close = beside.get((key, maker["item"]), set()) | beside.get((key, EVERY), set())
        return len(close), len(settings.intersection(_leaves(json.loads(maker["parameters"]))))

    return made | {digest: sorted(makers, key=nearness, reverse=True) for digest, makers in shared.items()}


def _leaves(parameters: JsonValue, name: str = "") -> Iterator[tuple[str, str]]:
    """Name and value, as JSON, of every parameter, however deep it stands."""
    if isinstance(parameters, dict):
        for inner, value in parameters.items():
            yield from _leaves(value, inner)
    else:
        yield name, json.dumps(parameters)


def _origin(
    digest: str, makers: Sequence[RowMapping], used: Mapping[tuple[str, int], Sequence[str]], collected: datetime | None
) -> Origin:
    at = None if collected is None else _in_utc(collected)
    if not makers:
        return Origin(kind="", digest=digest, collected=at)
    last = makers[0]
    key, item = last["key"], last["item"]
    sources = dict.fromkeys([*used.get((key, item), ()), *used.get((key, EVERY), ())])
    told = {name: last[name] for name in StepRun.model_fields}
    return Origin(
        kind=last["kind"],
        digest=digest,
        name=last["name"],
        step=StepRun.model_validate(told | {"at": _in_utc(told["at"]), "parameters": json.loads(told["parameters"])}),
        item=item,
        used=tuple(one for one in sources if one != digest),
        collected=at,
    )


def _in_utc(at: datetime) -> datetime:
    """SQLite keeps no zone."""
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
