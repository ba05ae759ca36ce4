"""The numbers of an index's tables: Parquet files, a row for each cell, read by DuckDB; cells of words have no value.

Rows come as JSON, a line each, with the fields of `COLUMNS`; the file depends on them alone, not on times or threads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, Unpack

from storage.storage_errors import QueryUnusable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

COLUMNS = {
    "document": "VARCHAR",
    "value": "DECIMAL(38, 12)",  # the widest that DuckDB has: exact, where a float is not
    "shown": "VARCHAR",
    "scale": "DECIMAL(38, 12)",
    "unit": "VARCHAR",
    "sign": "VARCHAR",
    "period": 'STRUCT(kind VARCHAR, "start" DATE, "end" DATE, label VARCHAR, "year" INTEGER)',
    "row_path": "VARCHAR[]",
    "column_path": "VARCHAR[]",
    "page": "INTEGER",
    "bbox": "DOUBLE[]",
    "cells": "VARCHAR",
    "table": "INTEGER",
    "row": "INTEGER",
    "col": "INTEGER",
    "identities": (
        "STRUCT(kind VARCHAR, holds BOOLEAN, rows INTEGER[], cols INTEGER[], "
        '"table" INTEGER, expected DECIMAL(38, 12))[]'
    ),
    "statement": "VARCHAR",
    "doubt": "VARCHAR",
}
NESTED = ("period", "row_path", "column_path", "bbox", "identities")
LINE = "array_to_string(row_path, ' › ')"
LARGEST_WHOLE = 10**15
"""Larger amounts, which no company has, are listed without commas."""
TEXTS = ("name", "shown", "unit", "cells", "doubt")
"""Columns whose texts come from documents; labels are JSON in CSV."""
FORMULA = r"^([=@\t\r]|[+-][^0-9.,(])"
"""A text that a spreadsheet would work out: in CSV an apostrophe stands before it. Amounts may have a sign."""
ROW_GROUP = 20_480
"""Rows of a group of the Parquet file; groups are read by several threads."""


class Numbers(NamedTuple):
    """Rows of a query, and the names of their columns."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as dicts, by the names of the columns."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def write_numbers(path: Path, documents: Iterable[bytes]) -> None:
    """Write rows, each document's as JSON lines (COLUMNS), to a Parquet file, in place of any at `path`.

    A .jsonl beside it is used meanwhile. Raises FileExistsError where there is one.
    """
    lines = path.with_suffix(".jsonl")
    with lines.open("xb") as file:
        file.writelines(documents)
    with _connect(threads=1) as connection:  # threads write row groups in an order of their own
        fields = ", ".join(f"\"{name}\": '{kind}'" for name, kind in COLUMNS.items())
        source = f"read_json($lines, format = 'newline_delimited', columns = {{{fields}}})"
        connection.execute(
            f"COPY (SELECT * REPLACE (list_transform(bbox, lambda x: round(x, 2)) AS bbox) FROM {source}) "
            f"TO '{_quote(path)}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})",
            {"lines": str(lines)},
        )
    lines.unlink()


class Filters(TypedDict, total=False):
    """Conditions on rows: words in the document's name, words in the row's labels, years, and pages."""

    entity: Sequence[str]
    line: Sequence[str]
    years: tuple[int, int] | None
    """The first and the last year that the period of a number may lie in."""
    pages: Sequence[tuple[str, int | None]]
    """Digests of documents with a page of each; None for those without pages."""


def read_filters(entity: str, line: str, period: str) -> Filters:
    """Return filters of words; period: `2019..2021`, `2019..` (to 2099), `..2021`, `2021` or ''. Raises ValueError."""
    first, to, last = (part.strip() for part in period.partition(".."))
    years = (first or "1900", last or "2099") if to else (first, first)
    if period.strip() and (not all(len(year) == 4 and year.isdecimal() for year in years) or years[0] > years[1]):
        raise ValueError(f"{period[:40]} is no period; write years such as 2021 or 2019..2021, the earlier one first")
    return {
        "entity": entity.split(),
        "line": line.split(),
        "years": (int(years[0]), int(years[1])) if period.strip() else None,
    }


def select_numbers(
    paths: Sequence[Path],
    names: Mapping[str, str],
    *,
    first: int = 0,
    most: int | None = None,
    **filters: Unpack[Filters],
) -> Numbers:
    """Return numbers of documents in `names`, by digest, in reading order: `most` (None: all) from row `first` on."""
    page = f" OFFSET {first:d}" if most is None else f" LIMIT {most:d} OFFSET {first:d}"
    with _database().cursor() as connection:
        return _fetch(connection.execute(_query(connection, paths, names, "name, n.*", filters) + page))


def select_cells(paths: Sequence[Path], tables: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    """Return cells of tables (document digest, 0-based number), sorted, by names of COLUMNS; words have no value."""
    if not tables:
        return []
    of_document: dict[str, list[int]] = {}
    for document, number in tables:
        of_document.setdefault(document, []).append(number)
    # half the time of `(document, "table") IN (…)`, for which all columns of all rows are unpacked
    conditions = " OR ".join(
        f"(document = '{_quote(document)}' AND \"table\" IN ({', '.join(map(str, numbers))}))"
        for document, numbers in of_document.items()
    )
    with _database().cursor() as connection:
        query = f"SELECT * FROM read_parquet({_list_names(paths)}) WHERE {conditions}"
        return _fetch(connection.execute(f'{query} ORDER BY document, "table", "row", col')).records()


def select_statements(
    paths: Sequence[Path], documents: Sequence[str], statements: Sequence[str]
) -> list[tuple[str, int]]:
    """Return (digest, 0-based number) of each document's longest table for each statement (first of equals), sorted."""
    if not (documents and statements):
        return []
    with _database().cursor() as connection:
        rows = connection.execute(
            f'SELECT document, "table", statement, count(DISTINCT "row") FROM read_parquet({_list_names(paths)}) '
            f"WHERE document IN {_list_names(documents)} AND statement IN {_list_names(statements)} GROUP BY ALL"
        ).fetchall()
    fullest: dict[tuple[str, str], tuple[int, int]] = {}
    for document, table, statement, count in rows:
        key = document, statement
        fullest[key] = max((count, -table), fullest.get(key, (0, 0)))
    return sorted((document, -table) for (document, _), (_, table) in fullest.items())


def copy_numbers(
    paths: Sequence[Path],
    names: Mapping[str, str],
    out: Path,
    shape: Literal["parquet", "csv", "json"],
    **filters: Unpack[Filters],
) -> None:
    """Write numbers to a file in reading order; as CSV and JSON, decimals are exact strings, and lists in CSV are JSON.

    JSON is an object a line. In CSV an apostrophe stands before a text that a spreadsheet would work out.
    """
    # decimals as texts without zeros at their ends
    plain = ", ".join(f"rtrim(rtrim({name}::VARCHAR, '0'), '.') AS {name}" for name in ("value", "scale"))
    nested = ", ".join(f"to_json({name}) AS {name}" for name in NESTED)
    name, *texts = (
        f"concat(if(regexp_matches({column}, '{FORMULA}'), '''', ''), {column}) AS {column}" for column in TEXTS
    )
    columns = {
        "parquet": "name, n.*",
        "json": f"name, n.* REPLACE ({plain})",
        "csv": f"{name}, n.* REPLACE ({plain}, {nested}, {', '.join(texts)})",
    }[shape]
    options = {"parquet": "parquet, COMPRESSION zstd", "json": "json", "csv": "csv"}[shape]
    with _connect() as connection:
        query = _query(connection, paths, names, columns, filters)
        connection.execute(f"COPY ({query}) TO '{_quote(out)}' (FORMAT {options})")


class ListedNumber(NamedTuple):
    """A number as a list shows it: each field is a text."""

    name: str
    place: str
    """`page 3`, or `table 1` where there are no pages."""
    value: str
    """`-1,234.5`; amounts that no company has are without commas."""
    unit: str
    period: str
    labels: str
    headers: str
    doubt: str
    """The reason why other numbers contradict it; empty where none does."""


def list_numbers(paths: Sequence[Path], names: Mapping[str, str], **filters: Unpack[Filters]) -> list[ListedNumber]:
    """Return the numbers of documents in `names`, by digest, that pass the filters, as texts in reading order."""
    period, headers = "coalesce(period.label, 'no period')", "array_to_string(column_path, ' / ')"
    columns = f"name, page, \"table\", value, unit, {period}, {LINE}, {headers}, coalesce(doubt, '')"
    with _connect() as connection:
        rows = connection.execute(_query(connection, paths, names, columns, filters)).fetchall()
    listed: list[ListedNumber] = []
    for name, page, table, value, *texts in rows:
        amount = f"{value:,f}" if abs(value) <= LARGEST_WHOLE else f"{value:f}"
        place = f"table {table + 1}" if page is None else f"page {page}"
        listed.append(ListedNumber(name, place, amount.rstrip("0").rstrip("."), *texts))
    return listed


def _query(
    connection: DuckDBPyConnection, paths: Sequence[Path], names: Mapping[str, str], columns: str, filters: Filters
) -> str:
    """Return a SELECT of columns in reading order, its values as literals; makes the table `documents` it joins."""
    # to bind a value, DuckDB imports pandas where that is installed, which takes longer than the query
    _name_documents(connection, names)
    words = [("name", word) for word in filters.get("entity", ())]
    words += [(LINE, word) for word in filters.get("line", ())]
    conditions = ["value IS NOT NULL"]
    conditions += (f"contains(lower({column}), lower('{_quote(word)}'))" for column, word in words)
    if years := filters.get("years"):
        conditions.append(f"period.year BETWEEN {years[0]:d} AND {years[1]:d}")
    if pages := filters.get("pages"):
        places = (
            f"(document = '{_quote(document)}' AND page IS NOT DISTINCT FROM {'NULL' if page is None else int(page)})"
            for document, page in pages
        )
        conditions.append(f"({' OR '.join(places)})")
    source = f"read_parquet({_list_names(paths)}) n JOIN documents USING (document) WHERE {' AND '.join(conditions)}"
    return f"SELECT {columns} FROM {source} ORDER BY file_index, file_row_number"  # columns of read_parquet


def query_numbers(paths: Sequence[Path], names: Mapping[str, str], sql: str) -> Numbers:
    """Return the rows of a user's SELECT over the tables `numbers` and `documents`. Raises QueryUnusable.

    It runs in memory and reaches no file, no network and no setting. names: of its documents, by digest.
    """
    import duckdb

    with _connect() as connection:
        _name_documents(connection, names)
        source = f"read_parquet({_list_names(paths)}) n JOIN documents USING (document) WHERE value IS NOT NULL"
        connection.execute(f"CREATE TABLE numbers AS SELECT name, n.* FROM {source}")
        connection.execute("SET enable_external_access = false; SET lock_configuration = true")
        try:
            statements = connection.extract_statements(sql)
            if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
                raise QueryUnusable(f"{sql!r} is not one SELECT; ask for example: SELECT name, value FROM numbers")
            return _fetch(connection.execute(statements[0]))
        except duckdb.Error as error:
            raise QueryUnusable(f"{sql!r}: {error}") from error


def missing_columns(path: Path) -> list[str]:
    """Return the columns that a file lacks, sorted, since an older version wrote it."""
    with _connect() as connection:
        rows = connection.execute(f"SELECT name FROM parquet_schema('{_quote(path)}')").fetchall()
    return sorted(set(COLUMNS) - {name for (name,) in rows})


def _connect(**settings: int) -> DuckDBPyConnection:
    import duckdb

    return duckdb.connect(config={**settings, "autoload_known_extensions": False})  # none is looked for, here or online


@cache
def _database() -> DuckDBPyConnection:
    """Return the database for small queries, whose cursors are connections: a new one takes longer than the query."""
    connection = _connect(threads=1)
    # the footers of files that never change are read once; their rows are not kept, which would hold memory
    connection.execute("SET parquet_metadata_cache = true; SET enable_external_file_cache = false")
    return connection


def _name_documents(connection: DuckDBPyConnection, names: Mapping[str, str]) -> None:
    """Make the table `documents` (digest, name) on this connection, in place of an earlier one."""
    connection.execute("CREATE OR REPLACE TEMP TABLE documents (document VARCHAR, name VARCHAR)")
    if names:
        texts = (_quote(json.dumps(column, ensure_ascii=False)) for column in (list(names), list(names.values())))
        columns = ", ".join(f"unnest(from_json('{text}', '[\"VARCHAR\"]'))" for text in texts)
        connection.execute(f"INSERT INTO documents SELECT {columns}")


def _fetch(result: DuckDBPyConnection) -> Numbers:
    return Numbers(tuple(column[0] for column in result.description or ()), result.fetchall())


def _list_names(names: Sequence[Path | str]) -> str:
    return "[" + ", ".join(f"'{_quote(name)}'" for name in names) + "]"


def _quote(name: Path | str) -> str:
    return str(name).replace("'", "''").replace("\0", "")  # the latter would end the statement
