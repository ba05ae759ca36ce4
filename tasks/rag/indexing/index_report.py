"""The state and outcome of a build: `index_status.json`, readable while it runs, and the report of what became of each
document."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from storage.files import write
from storage.index import CatalogueEntry
from storage.records import Record
from storage.storage_errors import NotAnIndex
from tasks.rag.corpus import PageTrouble, Parsed
from tasks.rag.indexing.scan import ScanResult

HEARTBEAT_S = 5.0
"""Seconds between two heartbeats of a running build."""
STATUS_FILE = "index_status.json"


class DocumentStatus(Record):
    """What became of one document."""

    document: str
    """Path below the folder, NFC."""
    status: Literal["ok", "unchanged", "renamed", "failed", "duplicate"]
    digest: str | None = None
    format: str | None = None
    reader: str | None = None
    pages: int = 0
    chunks: int = 0
    troubled_pages: tuple[PageTrouble, ...] = ()
    """Pages that are not plainly readable; the others are ok."""
    notes: tuple[str, ...] = ()
    reason: str | None = None
    message: str | None = None


class LengthStatistics(Record):
    """Characters per chunk."""

    min: int
    mean: float
    max: int


class IndexStatus(Record):
    """The whole of `index_status.json`; times are UTC."""

    state: Literal["running", "completed", "completed_with_failures", "failed", "interrupted"]
    step: str
    """The step that runs, or ran last."""
    pid: int
    host: str
    started: datetime
    heartbeat: datetime
    ended: datetime | None = None
    generation: str | None = None
    """What readers see; during a build the generation before it."""
    run: str | None = None
    """Prefect flow run."""
    counts: dict[str, Any] = Field(default_factory=dict[str, Any])
    chunk_chars: LengthStatistics | None = None
    documents: tuple[DocumentStatus, ...] = ()
    warnings: tuple[str, ...] = ()
    error: str | None = None


def read_status(index: Path) -> IndexStatus | None:
    """The status of an index, None where there is none; a build whose process is gone shows as `interrupted`.

    Raises NotAnIndex for a file of that name that is not ours.
    """
    try:
        status = IndexStatus.model_validate_json((index / STATUS_FILE).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValidationError as error:
        raise NotAnIndex(f"{index / STATUS_FILE} is not of this program or version; run `trivet rag index`") from error
    if status.state == "running" and status.host == socket.gethostname() and not _alive(status.pid):
        return status.model_copy(update={"state": "interrupted"})
    return status


class StatusFile:
    """Keeps `index_status.json` of a running build true."""

    def __init__(self, index: Path, *, generation: str | None, run: str | None) -> None:
        now = datetime.now(UTC)
        self._path = index / STATUS_FILE
        self._lock = threading.Lock()
        self.status = IndexStatus(
            state="running",
            step="scan",
            pid=os.getpid(),
            host=socket.gethostname(),
            started=now,
            heartbeat=now,
            generation=generation,
            run=run,
        )

    def update(self, **changes: Any) -> None:
        """Change fields and write the file."""
        with self._lock:
            self.status = self.status.model_copy(update={"heartbeat": datetime.now(UTC), **changes})
            write(self._path, self.status.model_dump_json(indent=1).encode(), durable=False)


@contextmanager
def status_of_build(index: Path, *, generation: str | None, run: str | None) -> Generator[StatusFile]:
    """Write the status from the start to the end of a build, whatever that end is."""
    file = StatusFile(index, generation=generation, run=run)
    ended = threading.Event()
    beat = threading.Thread(target=_beat, args=(file, ended), name="index-heartbeat", daemon=True)
    try:
        file.update()
        beat.start()
        yield file
        file.update(ended=datetime.now(UTC))
    except BaseException as error:
        _stop(beat, ended)
        state = "failed" if isinstance(error, Exception) else "interrupted"
        file.update(state=state, ended=datetime.now(UTC), error=f"{type(error).__name__}: {error}")
        raise
    finally:
        _stop(beat, ended)


def _stop(beat: threading.Thread, ended: threading.Event) -> None:
    ended.set()
    if beat.is_alive():
        beat.join()


def _beat(file: StatusFile, ended: threading.Event) -> None:
    while not ended.wait(HEARTBEAT_S):
        file.update()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class DocumentCounts(Record):
    """Documents by what became of them; `total` counts contents, not file names."""

    total: int = 0
    ok: int = 0
    """Indexed in this run: new, or with other content or settings than before."""
    unchanged: int = 0
    renamed: int = 0
    failed: int = 0
    removed: int = 0
    """In the index before, and not in the folder any more."""


class FigureCounts(Record):
    """Figures by what became of them."""

    found: int = 0
    kept: int = 0
    """Worth a question: passed every filter."""
    described: int = 0
    skipped: int = 0
    """Kept, and not asked about: no model, or the budget was spent."""
    failed: int = 0
    """Kept, and not described: the model refused them, or could not be reached."""

    def __add__(self, other: FigureCounts) -> FigureCounts:
        return FigureCounts(**{name: getattr(self, name) + getattr(other, name) for name in FigureCounts.model_fields})


class IndexReport(Record):
    """What `trivet rag index --json` prints."""

    generation: str
    documents: DocumentCounts
    pages: int
    chunks: int
    figures: FigureCounts
    seconds: float
    warnings: tuple[str, ...] = ()


Previous = dict[str, CatalogueEntry]
"""The entries of the generation before, by document; empty when it was made with other settings."""


def document_statuses(
    entries: Sequence[CatalogueEntry], parsed: Iterable[Parsed], found: ScanResult, *, before: Previous
) -> tuple[DocumentStatus, ...]:
    """What became of each document, alias and refused file, in the order of names."""
    by_digest = {item.source.digest: item for item in parsed}
    statuses = [_status(entry, by_digest[entry.document], before.get(entry.document)) for entry in entries]
    statuses += [
        DocumentStatus(document=alias.name, status="duplicate", message=f"the same content as {alias.document}")
        for alias in found.aliases
    ]
    return tuple(sorted([*statuses, *_refused(found)], key=lambda status: status.document))


def failures(parsed: Iterable[Parsed], found: ScanResult) -> tuple[DocumentStatus, ...]:
    """The documents that could not be read, and the files that were refused, in the order of names."""
    names = {file.content.digest: file.name for file in found.files}
    statuses = [
        DocumentStatus(
            document=names[item.source.digest],
            status="failed",
            digest=item.source.digest,
            reason=item.failure.reason,
            message=item.failure.message,
        )
        for item in parsed
        if item.failure
    ]
    return tuple(sorted([*statuses, *_refused(found)], key=lambda status: status.document))


def _refused(found: ScanResult) -> list[DocumentStatus]:
    return [
        DocumentStatus(document=item.name, status="failed", reason=item.reason, message=item.message)
        for item in found.refused
    ]


def count_documents(
    statuses: Iterable[DocumentStatus], entries: Iterable[CatalogueEntry], *, before: Iterable[str]
) -> DocumentCounts:
    """Documents by status; `before`: the documents of the generation before."""
    counted = [status.status for status in statuses if status.status != "duplicate"]
    present = {entry.document for entry in entries}
    return DocumentCounts(
        total=len(counted),
        ok=counted.count("ok"),
        unchanged=counted.count("unchanged"),
        renamed=counted.count("renamed"),
        failed=counted.count("failed"),
        removed=len(set(before) - present),
    )


def _status(entry: CatalogueEntry, parsed: Parsed, before: CatalogueEntry | None) -> DocumentStatus:
    failure = parsed.failure
    return DocumentStatus(
        document=entry.name,
        status="failed" if failure else _change(entry, before),
        digest=entry.document,
        format=parsed.format,
        reader=parsed.reader,
        pages=parsed.pages,
        chunks=entry.chunks,
        troubled_pages=parsed.troubled,
        notes=parsed.notes,
        reason=failure.reason if failure else None,
        message=failure.message if failure else None,
    )


def _change(entry: CatalogueEntry, before: CatalogueEntry | None) -> Literal["ok", "unchanged", "renamed"]:
    if before is None or before.status != "ok":
        return "ok"
    return "unchanged" if before.name == entry.name else "renamed"


MOST_ROWS = 500
"""Documents that the table names; the artifact lies in Prefect's database."""


def headline(report: IndexReport) -> str:
    """The build in a line: `25 documents, 1 of them failed; 120 pages, 300 chunks`."""
    failed = f", {report.documents.failed:,} of them failed" if report.documents.failed else ""
    return f"{report.documents.total:,} documents{failed}; {report.pages:,} pages, {report.chunks:,} chunks"


def rows_of(failed: Sequence[DocumentStatus]) -> list[dict[str, str]]:
    """A row per document that could not be read, as a table artifact wants them."""
    return [
        {
            "document": one.document,
            "reason": one.reason or "",
            "message": one.message or "",
            "digest": (one.digest or "")[:12],
        }
        for one in failed[:MOST_ROWS]
    ]


def markdown_of(report: IndexReport, *, failed: Sequence[DocumentStatus], documents: Path, index: Path) -> str:
    """The build in words."""
    return "\n".join(_lines(report, failed, documents=documents, index=index))


def _lines(report: IndexReport, failed: Sequence[DocumentStatus], *, documents: Path, index: Path) -> Iterator[str]:
    yield f"# {headline(report)}"
    yield f"documents `{documents}` · index `{index}` · generation `{report.generation}` · {report.seconds:,.1f} s"
    yield from ("", "| | |", "|---|---:|")
    for name, count in report.documents.model_dump(exclude={"total"}).items():
        yield f"| documents {name} | {count:,} |"
    for name, count in report.figures.model_dump().items():
        yield f"| figures {name} | {count:,} |"
    if failed:
        yield from ("", "## Could not be read", f"`trivet rag status --index {index}` tells more of each document.", "")
        yield from (f"- `{one.document}`: {one.message or one.reason}" for one in failed[:MOST_ROWS])
        if len(failed) > MOST_ROWS:
            yield f"- … and {len(failed) - MOST_ROWS:,} more"
    if report.warnings:
        yield from ("", "## To know", *(f"- {warning}" for warning in report.warnings))
