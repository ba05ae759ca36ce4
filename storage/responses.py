"""The response store: every answer of a model under the key of what was asked, so that nothing is asked twice."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError
from sqlalchemy import Connection, Row, delete, func, select, text

from storage.connections import Reconnecting
from storage.files import describe_full_disk
from storage.records import FiniteRecord
from storage.storage_errors import DatabaseUnavailable, StoreUnreachable
from storage.tables import responses

log = logging.getLogger(__name__)
Result = TypeVar("Result")

RETRY_S = 30.0
"""After a failure the database is left alone for so long: an address that nobody answers at takes ten seconds."""
ESCAPE = "\ufdd0"  # a code point that no text uses (a Unicode noncharacter) introduces what PostgreSQL cannot hold
UNSTORABLE = re.compile(f"[\x00{ESCAPE}\ud800-\udfff]")
ESCAPED = re.compile(f"{ESCAPE}([0-9a-f]{{4}})")
KEYS_PER_QUERY = 1000
CHARS_PER_STATEMENT = 20_000_000
COLUMNS = "key, backend, model, request, response, prompt_tokens, completion_tokens, latency_s"
INSERT = text(f"""
    insert into responses ({COLUMNS})
    select key, backend, model, coalesce(request, 'null'), coalesce(response, 'null'),
        prompt_tokens, completion_tokens, latency_s
    from json_to_recordset(cast(:rows as json)) as row(
        key text, backend text, model text, request jsonb, response jsonb,
        prompt_tokens integer, completion_tokens integer, latency_s double precision
    ) on conflict (key) do nothing
""")
"""One parameter for any number of rows: a third of the time that a parameter for each value takes."""
SELECT = text(f"""
    select key, cast(row_to_json(answer) as text) from responses
    cross join lateral (select {COLUMNS.removeprefix("key, ")}, created_at) answer
    where key = any(cast(:keys as text[]))
""")
"""A row as JSON, which pydantic reads at once: a third of the time that values of Python take."""


class StoredResponse(FiniteRecord):
    """A request, the response that a model gave, and its cost in tokens and seconds."""

    backend: str
    """Kind of backend that answered: `openai`, `vllm`, `replay` …"""
    model: str
    """Name of the model, and its revision where the backend knows one."""
    request: JsonValue
    response: JsonValue
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    latency_s: float
    created_at: datetime | None = None
    """When the response was stored; the database sets it."""


class Responses:
    """The response store; any number of threads and processes may read and write at once. locate: see Reconnecting."""

    def __init__(self, locate: Callable[[], str]) -> None:
        self._database = Reconnecting(locate)

    def many(self, keys: Iterable[str]) -> dict[str, StoredResponse]:
        """Return the stored answers by key (64 hex digits); other keys are left out. Raises DatabaseUnavailable."""
        listed, responses_by_key = list(keys), dict[str, StoredResponse]()
        for start in range(0, len(listed), KEYS_PER_QUERY):
            for key, line in self._database.run(partial(_select_rows, keys=listed[start : start + KEYS_PER_QUERY])):
                if ESCAPE in line:
                    responses_by_key[key] = StoredResponse.model_validate(unescape(json.loads(line)))
                else:
                    responses_by_key[key] = StoredResponse.model_validate_json(line)
        return responses_by_key

    def put_many(self, rows: Mapping[str, StoredResponse]) -> None:
        """Store answers durably in one transaction; the answer that a key has stays. Raises DatabaseUnavailable."""
        # in the order of the keys: two processes that store the same answers wait for each other, and never crosswise
        lines = [_json_row(key, rows[key]) for key in sorted(rows)]
        groups, size = [list[str]()], 0  # of some millions of characters: a parameter may have a billion bytes
        for line in lines:
            groups[-1].append(line)
            size += len(line)
            if size > CHARS_PER_STATEMENT:
                groups.append([])
                size = 0

        def insert(connection: Connection) -> None:
            for group in groups:
                if group:
                    connection.execute(INSERT, {"rows": f"[{','.join(group)}]"})

        if lines:
            self._database.run(insert)

    def prune(self, *, before: datetime, dry_run: bool) -> int:
        """Remove answers stored before a time, none with `dry_run`; return their number. Raises DatabaseUnavailable."""
        old = responses.c.created_at < before

        def remove(connection: Connection) -> int:
            if dry_run:
                return connection.execute(select(func.count()).select_from(responses).where(old)).scalar_one()
            return connection.execute(delete(responses).where(old)).rowcount

        return self._database.run(remove)

    def tokens_since(self, moment: datetime) -> int:
        """Return the prompt and answer tokens, summed, of calls stored since then. Raises DatabaseUnavailable."""
        columns = (func.coalesce(column, 0) for column in (responses.c.prompt_tokens, responses.c.completion_tokens))
        query = select(func.coalesce(func.sum(sum(columns)), 0).label("tokens"))
        [row] = self._database.rows(query.where(responses.c.created_at >= moment))
        return int(row["tokens"])


class OptionalResponses:
    """Responses of a run that goes on while the database is away: nothing is found then, and nothing stored.

    Results keep the answers that they rest on; `trivet eval import` writes them into the database later. `trouble`
    says what a person must know. Any number of threads may use it.
    """

    def __init__(self, responses: Responses, *, home: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """home: folder in which a run keeps answers until it writes its results."""
        self._responses, self._home, self._clock = responses, home, clock
        self._away_until: float | None = None
        self._reason = ""
        self._unsaved = 0

    @property
    def trouble(self) -> str | None:
        """A sentence if the database was away at any time, also when it is back; else None."""
        if not self._reason:
            return None
        return (
            f"The database was away ({self._reason}): {self._unsaved} answers are not in the response store, and may "
            "be asked again."
        )

    def many(self, keys: Iterable[str]) -> dict[str, StoredResponse]:
        """Return the answers that are there, by key; none while the database is away. Raises StoreUnreachable."""
        listed = list(keys)
        return self._try(lambda: self._responses.many(listed)) or {}

    def put_many(self, rows: Mapping[str, StoredResponse]) -> None:
        """Store answers durably, unless the database is away. Raises StoreUnreachable."""
        if not self._try(lambda: self._responses.put_many(rows) or True):
            self._unsaved += len(rows)

    def _try(self, work: Callable[[], Result]) -> Result | None:
        """Return what `work` gets from the database; None while it is away.

        Raises StoreUnreachable where the home has no room either: each further answer would be paid for and lost.
        """
        if self._away_until is None or self._clock() >= self._away_until:
            try:
                result = work()
            except DatabaseUnavailable as error:
                if self._away_until is None:
                    log.warning("database away, answers are not stored: %s", error)
                self._away_until, self._reason = self._clock() + RETRY_S, str(error).rstrip(".")
            else:
                self._away_until = None
                return result
        if full := describe_full_disk(self._home):
            raise StoreUnreachable(full)
        return None


def escape(value: Any) -> Any:
    """Return `value` with ESCAPE and four hex digits for what PostgreSQL cannot hold: NUL and lone surrogates."""
    return _replace_texts(value, lambda text: UNSTORABLE.sub(lambda match: f"{ESCAPE}{ord(match[0]):04x}", text))


def unescape(value: Any) -> Any:
    """Return the value that `escape` was given to make this one."""
    return _replace_texts(value, lambda text: ESCAPED.sub(lambda match: chr(int(match[1], 16)), text))


def unescape_row(row: Mapping[Any, Any], *without: str) -> dict[str, Any]:
    """Return the columns of a row that `escape` was given, but those of these names."""
    return {name: unescape(value) for name, value in row.items() if name not in without}


def _select_rows(connection: Connection, *, keys: list[str]) -> Sequence[Row[Any]]:
    return connection.execute(SELECT, {"keys": keys}).all()


def _replace_texts(value: Any, replace: Callable[[str], str]) -> Any:
    """Return `value` with `replace` applied to each text in it, names of fields included."""
    match value:
        case str():
            return replace(value)
        case list():
            return [_replace_texts(item, replace) for item in value]
        case dict():
            return {replace(name): _replace_texts(item, replace) for name, item in value.items()}
        case _:
            return value


def _json_row(key: str, response: StoredResponse) -> str:
    """Return a row as JSON that PostgreSQL can hold."""
    try:
        text = response.model_dump_json(exclude={"created_at"})
        if "\\u0000" not in text and ESCAPE not in text:
            return f'{{"key":"{key}",{text[1:]}'
    except PydanticSerializationError:
        pass  # a lone surrogate
    row = {"key": key, **escape(response.model_dump(mode="json", exclude={"created_at"}))}
    return json.dumps(row, ensure_ascii=False)
