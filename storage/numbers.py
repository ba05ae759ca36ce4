"""The numbers of an index's tables: one Parquet file, a row for each numeric cell, read by DuckDB.

Rows come as JSON, a line each, with the fields of `COLUMNS`; the file depends on them alone, not on times or threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from storage.storage_errors import QueryUnusable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

COLUMNS = {
    "document": "VARCHAR",
    "value": "DECIMAL(38, 12)",
    "shown": "VARCHAR",
    "scale": "DECIMAL(38, 12)",
    "unit": "VARCHAR",
    "sign": "VARCHAR",
    "period": 'STRUCT(kind VARCHAR, "start" DATE, "end" DATE, label VARCHAR, "year" INTEGER)',
    "row_path": "VARCHAR[]",
    "column_path": "VARCHAR[]",
    "page": "INTEGER",
    "bbox": "DOUBLE[]",
    "table": "INTEGER",
    "row": "INTEGER",
    "col": "INTEGER",
    "identities": "STRUCT(kind VARCHAR, holds BOOLEAN, rows INTEGER[])[]",
    "statement": "VARCHAR",
}
LINE = "array_to_string(row_path, ' › ')"


class Numbers(NamedTuple):
    """Rows of a query, and the names of their columns."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def records(self) -> list[dict[str, Any]]:
        """A dict for each row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def write_numbers(path: Path, documents: Iterable[bytes]) -> None:
    """Write the rows of all documents, in their order. `path` must not exist; a file beside it is used meanwhile."""
    lines = path.with_suffix(".jsonl")
    with lines.open("xb") as file:
        file.writelines(documents)
    with _connected(threads=1) as connection:  # threads write row groups in an order of their own
        fields = ", ".join(f"\"{name}\": '{kind}'" for name, kind in COLUMNS.items())
        source = f"read_json($lines, format = 'newline_delimited', columns = {{{fields}}})"
        connection.execute(
            f"COPY (SELECT * FROM {source}) TO '{_quoted(path)}' (FORMAT parquet, COMPRESSION zstd)",
            {"lines": str(lines)},
        )
    lines.unlink()


def select_numbers(
    path: Path,
    names: Mapping[str, str],
    *,
    entity: Sequence[str] = (),
    line: Sequence[str] = (),
    years: tuple[int, int] | None = None,
    out: Path | None = None,
) -> Numbers:
    """Numbers of the documents whose name, and of the rows whose labels, hold all these words, in reading order.

    names: of the documents, by digest. years: first and last year of the period. out: Parquet file to write instead.
    """
    with _connected() as connection:
        _name_documents(connection, names)
        said = [("name", word) for word in entity] + [(LINE, word) for word in line]
        conditions = [f"contains(lower({column}), lower(?))" for column, _ in said]
        values: list[Any] = [word for _, word in said]
        if years:
            conditions.append("period.year BETWEEN ? AND ?")
            values += years
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        query = f"SELECT name, n.* FROM read_parquet('{_quoted(path)}') n JOIN documents USING (document){where}"
        query += " ORDER BY file_row_number"
        if out:
            query = f"COPY ({query}) TO '{_quoted(out)}' (FORMAT parquet, COMPRESSION zstd)"
        return _fetched(connection.execute(query, values))


def check_numbers(path: Path, names: Mapping[str, str]) -> tuple[Numbers, Numbers]:
    """How many identities were tried and held, by document and kind; and the numbers that break one."""
    with _connected() as connection:
        _name_documents(connection, names)
        each = f"""SELECT name, n.*, unnest(identities, recursive := true)
            FROM read_parquet('{_quoted(path)}') n JOIN documents USING (document)"""
        counted = connection.execute(
            f"SELECT name, kind, count(*) AS tried, count(*) FILTER (holds) AS held FROM ({each}) "
            "GROUP BY ALL ORDER BY ALL"
        )
        counts = _fetched(counted)
        broken = connection.execute(
            f"SELECT name, page, kind, {LINE} AS line, period.label AS period, shown FROM ({each}) WHERE NOT holds "
            "ORDER BY name, page, row, col"
        )
        return counts, _fetched(broken)


def query_numbers(path: Path, names: Mapping[str, str], sql: str) -> Numbers:
    """What a SELECT of the user's gives from the tables `numbers` and `documents`. Raises QueryUnusable.

    It runs in memory and reaches no file, no network and no setting.
    """
    import duckdb

    with _connected() as connection:
        _name_documents(connection, names)
        source = f"read_parquet('{_quoted(path)}') n JOIN documents USING (document)"
        connection.execute(f"CREATE TABLE numbers AS SELECT name, n.* FROM {source}")
        connection.execute("SET enable_external_access = false; SET lock_configuration = true")
        try:
            statements = connection.extract_statements(sql)
            if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
                raise QueryUnusable(f"{sql!r} is not one SELECT; ask for example: SELECT name, value FROM numbers")
            return _fetched(connection.execute(statements[0]))
        except duckdb.Error as error:
            raise QueryUnusable(f"{sql!r}: {error}") from error


def _connected(**settings: int) -> DuckDBPyConnection:
    import duckdb

    return duckdb.connect(config={**settings, "autoload_known_extensions": False})


def _name_documents(connection: DuckDBPyConnection, names: Mapping[str, str]) -> None:
    connection.execute("CREATE TABLE documents (document VARCHAR, name VARCHAR)")
    if names:
        connection.execute("INSERT INTO documents SELECT unnest(?), unnest(?)", [list(names), list(names.values())])


def _fetched(found: DuckDBPyConnection) -> Numbers:
    return Numbers(tuple(column[0] for column in found.description or ()), found.fetchall())


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
