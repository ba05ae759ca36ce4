"""The lists of documents: what became of each, and the numbers of their tables with filters and a download."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fastapi.responses import Response

from flows.service.live_index import Indexing
from flows.service.web import doors
from flows.service.web.ask_pages import download
from flows.service.web.collection_pages import MOST_BYTES, files_in, is_taken, run_values, upload_of
from flows.service.web.place_page import place_address
from flows.service.web.visits import Pages, Problem, Visit
from storage.segments import CatalogueEntry
from storage.storage_errors import StorageError
from tasks.documents.formats import suffixes

PAGE = 100
"""Rows of a page of numbers."""
MOST_DOCUMENTS = 500
"""Documents of a page; the filter finds others."""
WAITING = "waiting"
"""Status of a file that no run has seen."""
Shape = Literal["csv", "json", "parquet"]
SHAPES: Mapping[Shape, str] = {
    "csv": "text/csv",
    "json": "application/jsonl",
    "parquet": "application/vnd.apache.parquet",
}
"""Formats of the numbers and their types."""
pages = Pages()


@pages.get("/documents")
def show_documents(visit: Visit) -> Response:
    """Show what became of documents, the first MOST_DOCUMENTS that `words` and `only` in the query leave, by name."""
    words, only = visit.query.get("words", "").lower().split(), visit.query.get("only", "")
    entries, generation, unusable = list[CatalogueEntry](), "", ""
    try:
        with visit.live.borrow() as current:
            entries, generation = list(current.index.catalogue), current.index.generation
    except StorageError as error:  # there is no index yet
        unusable = str(error)
    rows = _list_rows(visit, entries)
    matching = [
        row
        for row in rows
        if all(word in row.name.lower() for word in words) and only in ("", "failed" if row.failed else "")
    ]
    return visit.page(
        "documents.html",
        rows=matching[:MOST_DOCUMENTS],
        found=len(matching),
        documents=len(rows),
        failed=sum(row.failed for row in rows),
        chunks=sum(entry.chunks for entry in entries),
        generation=generation,
        unusable=unusable,
        words=visit.query.get("words", ""),
        only=only,
        indexing=run_values(visit),
        upload=upload_of(visit),
        folder=str(visit.indexing.documents) if visit.indexing else "",
        most_bytes=MOST_BYTES,
        suffixes=",".join(sorted({*suffixes(), ".zip"})),
    )


class Row(NamedTuple):
    """A row of the list of documents."""

    name: str
    status: str
    entry: CatalogueEntry | None = None
    """Entry of the document in the index; None for one that is not in it."""
    reason: str = ""

    @property
    def failed(self) -> bool:
        return self.status not in ("ok", WAITING)


def _list_rows(visit: Visit, entries: Sequence[CatalogueEntry]) -> list[Row]:
    """List by name the documents of the index, those that were refused, and those that wait for a run."""
    statuses = doors.statuses_of(visit.live.folder)
    rows = [
        Row(entry.name, entry.status, entry=entry, reason=doors.reason_of(statuses.get(entry.document)))
        for entry in entries
    ]
    listed = {name for entry in entries for name in (entry.name, *entry.aliases)}
    refused = [status for status in statuses.values() if status.status == "failed" and status.document not in listed]
    rows += [Row(status.document, status.reason or status.status, reason=doors.reason_of(status)) for status in refused]
    if visit.indexing:
        listed |= {status.document for status in statuses.values()}
        rows += [Row(name, WAITING) for name in _find_waiting(visit.indexing, listed)]
    return sorted(rows, key=lambda row: row.name)


def _find_waiting(indexing: Indexing, listed: Collection[str]) -> Iterator[str]:
    """Yield files that no finished run has seen. listed: names of documents; those in a ZIP begin with its name."""
    archives = {re.sub(r"(?is)(\.zip)/.*", r"\1", name) for name in listed}
    status = indexing.status()
    run_started = status.started.timestamp() if status and status.state.startswith("completed") else 0.0
    for name, path in files_in(indexing).items():
        if name not in listed and name not in archives and is_taken(name):
            with suppress(OSError):  # gone meanwhile
                if path.lstat().st_ctime > run_started:  # not mtime, which a file keeps that is moved here
                    yield name


def _read_filters(visit: Visit) -> dict[str, str]:
    return {name: visit.query.get(name, "").strip() for name in ("entity", "line", "period")}


@pages.get("/numbers")
def show_numbers(visit: Visit) -> Response:
    """Show a page of the numbers of tables that the filters leave. Raises Problem."""
    filters, start = _read_filters(visit), visit.number("first")
    rows = doors.numbers(visit.live, first=start, most=PAGE + 1, **filters)

    def link(path: str = "/numbers", **more: Any) -> str:
        return visit.to(path, **filters, **more)

    return visit.page(
        "numbers.html",
        rows=[
            (
                number,
                place_address(number["digest"], number["page"], number["bbox"], f"{number['line']}: {number['shown']}"),
                f"{Decimal(number['value']):,}",
                visit.to("/why", chunk=number["cell"]),
            )
            for number in rows[:PAGE]
        ],
        asked=filters,
        start=start,
        more=link(first=start + PAGE) if len(rows) > PAGE else "",
        before=link(first=max(0, start - PAGE)) if start else "",
        downloads={shape: link(f"/numbers.{shape}") for shape in SHAPES},
    )


@pages.get("/numbers.{shape}")
def download_numbers(visit: Visit) -> Response:
    """Download the filtered numbers, as `trivet rag numbers --format` writes them. Raises Problem."""
    from storage.numbers import copy_numbers, read_filters

    shape: Any = visit.path["shape"]
    if shape not in SHAPES:
        raise Problem(404, f"numbers come as {', '.join(SHAPES)}")
    filters = read_filters(**_read_filters(visit))
    with visit.live.borrow() as current, tempfile.TemporaryDirectory(prefix="trivet-") as folder:
        out = Path(folder) / f"numbers.{shape}"
        names = current.index.names
        copy_numbers(current.index.numbers, names, out, shape, **filters)
        return download(out.read_bytes(), out.name, SHAPES[shape])
