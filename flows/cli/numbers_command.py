"""`trivet rag numbers`: the numbers in the tables of an index, or of one document."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer
from rich.markup import escape

from flows.cli.commands import Json, OptionValues, Settings
from flows.cli.output import REFUSED, Screen, emit, fail, harmless, make_table, plain_errors
from flows.cli.rag_commands import PasswordVariable, read_file
from flows.cli.shared_options import AnyIndexFolder, last_index
from storage.engines import index_name
from storage.storage_errors import StorageError

if TYPE_CHECKING:
    from storage.numbers import Filters, Numbers

console = Screen()


class _Source(NamedTuple):
    """The files of numbers that a command reads, and the documents that they come from."""

    paths: tuple[Path, ...]
    names: Mapping[str, str]
    """Digest of a document → its name."""
    json_head: dict[str, Any]
    """First keys of the JSON output: the index and its version, or the file and its reader."""


def numbers(
    values: OptionValues,
    file: Annotated[Path | None, typer.Argument(help="A document, if not an index. Unset: an index.")] = None,
    index: AnyIndexFolder = None,
    document: Annotated[
        str, typer.Option(metavar="WORDS", help="Only documents with all these words in the name.")
    ] = "",
    line: Annotated[
        str, typer.Option("--line", metavar="WORDS", help="Only rows whose labels hold all these words.")
    ] = "",
    period: Annotated[str, typer.Option(metavar="YEARS", help="Only periods of these years: 2021, 2019..2021.")] = "",
    sql: Annotated[str | None, typer.Option(metavar="SELECT", help="Query of the table `numbers` instead.")] = None,
    shape: Annotated[
        Literal["table", "csv", "json", "parquet"], typer.Option("--format", help="Parquet is written to stdout.")
    ] = "table",
    settings: Settings = None,
    password_env: PasswordVariable = None,
    as_json: Json = False,
) -> None:
    """Show the numbers of tables in whole units, with their period and the labels of row and column."""
    from storage.numbers import query_numbers, read_filters

    with plain_errors(ValueError, option="--period"):
        filters = read_filters(document, line, period)
    if file and index:
        fail(f"name a document or an index, not both {file} and --index {index_name(index)}", REFUSED)
    if not (file or index):
        index = last_index()
    filtered = bool(document or line or period or shape == "parquet")
    if sql is not None and filtered:
        fail("--sql goes with no other filter, and not with --format parquet; filter in its WHERE", REFUSED)
    if shape == "parquet" and sys.stdout.isatty():
        fail("--format parquet is no text; send it to a file: … --format parquet > numbers.parquet", REFUSED)
    opened = _open_source(index, values, file or Path(), password_env, settings or ())
    with plain_errors(StorageError, option="" if sql is None else "--sql"), opened as source:
        words, names = document.lower().split(), [*source.names.values()]
        if document and not any(all(word in name.lower() for word in words) for name in names):
            fail(f"--document {document}: no document is called so; there are {', '.join(names[:5])} …", REFUSED)
        if sql is not None:
            _show_query(query_numbers(source.paths, source.names, sql), source, "json" if as_json else shape)
        elif as_json or shape != "table":
            _write_numbers(source, filters, "json" if as_json or shape == "table" else shape)
        else:
            _show_numbers(source, filters)


def _write_numbers(source: _Source, filters: Filters, shape: Literal["csv", "json", "parquet"]) -> None:
    """Write the numbers that the filters leave to stdout, in the chosen format."""
    from storage.numbers import copy_numbers

    with TemporaryDirectory(prefix="trivet-") as folder:
        out = Path(folder) / "numbers"
        copy_numbers(source.paths, source.names, out, shape, **filters)
        if shape == "parquet":
            with out.open("rb") as written:
                shutil.copyfileobj(written, sys.stdout.buffer)
        else:
            text = out.read_text("utf-8")
            if shape == "json":
                head = json.dumps({**source.json_head, "numbers": []}, ensure_ascii=False)
                rows = ", ".join(text.strip("\n").split("\n"))  # other line ends may stand in a string
                text = f"{head.removesuffix(']}')}{rows}]}}\n"
            sys.stdout.write(text)


@contextmanager
def _open_source(
    index: Path | None, values: OptionValues, file: Path, password_env: str | None, settings: Sequence[str]
) -> Generator[_Source]:
    """Open the numbers of an index, or else read those of one document now."""
    if index:
        from storage.index import open_index

        with open_index(index) as opened:
            head = {"index": index_name(index), "generation": opened.generation}
            yield _Source(opened.numbers, opened.names, head)
        return
    from storage.numbers import write_numbers
    from tasks.rag.numbers.document_numbers import document_numbers

    document = read_file(values, file, password_env, settings=settings)
    with file.open("rb") as opened, TemporaryDirectory(prefix="trivet-") as folder:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
        path = Path(folder) / "numbers.parquet"
        facts = document_numbers(document.pages, document=digest)
        write_numbers(path, (fact.model_dump_json().encode() + b"\n" for fact in facts))
        yield _Source((path,), {digest: file.name}, {"file": str(file), "reader": document.reader})


def _as_json_value(value: Any) -> Any:
    """Return a value as JSON takes it: decimals become exact strings, and dates ISO strings."""
    if isinstance(value, Decimal):
        digits = f"{value:f}"
        return digits.rstrip("0").rstrip(".") if "." in digits else digits  # of a whole number, zeros at the end count
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return {name: _as_json_value(item) for name, item in value.items()}
    return [_as_json_value(item) for item in value] if isinstance(value, list) else value


def _as_cell(value: Any) -> Any:
    """Return a value as a cell of CSV or of a table takes it: lists and structures become JSON."""
    plain = _as_json_value(value)
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, dict | list) else plain


def _show_query(numbers: Numbers, source: _Source, shape: str) -> None:
    """Print the rows of a query: as CSV, as JSON below the source, or as a table."""
    if shape == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(numbers.columns)
        writer.writerows([_as_cell(value) for value in row] for row in numbers.rows)
        return
    listed = [{name: _as_json_value(value) for name, value in row.items()} for row in numbers.records()]
    rows = [["" if value is None else _as_cell(value) for value in row] for row in numbers.rows]
    emit(
        {**source.json_head, "numbers": listed},
        shape == "json",
        lambda: console.print(make_table(*numbers.columns, rows=rows)),
    )


def _show_numbers(source: _Source, filters: Filters) -> None:
    """Print each document with its numbers; past rich, which takes twenty seconds for a hundred thousand lines."""
    from storage.numbers import list_numbers

    coloured = console.color_system
    dim, blue, red, plain = ("\x1b[2m", "\x1b[36m", "\x1b[31m", "\x1b[0m") if coloured else ("", "", "", "")
    rows = list_numbers(source.paths, source.names, **filters)
    for name, of_document in groupby(rows, key=itemgetter(0)):
        console.print(f"[bold]{escape(name)}[/bold]")
        write = console.file.write
        for _, where, value, unit, period, labels, headers, doubt in of_document:
            if not f"{unit}{labels}{headers}".isprintable():
                unit, labels, headers = map(harmless, (unit, labels, headers))
            doubted = f"  {red}in doubt: {doubt}{plain}" if doubt else ""
            write(
                f"{dim}{where:>8}{plain}  {value:>20} {unit:<7} {blue}{period:<22}{plain} {labels}  "
                f"{dim}{headers}{plain}{doubted}\n"
            )
    console.print(f"[dim]{len(rows):,} numbers[/dim]")
