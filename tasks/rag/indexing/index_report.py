"""Writes the status of a build (`index_status.json`, readable while it runs) and its report, document by document."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import psutil
from pydantic import Field, ValidationError

from storage.engines import index_name
from storage.files import write
from storage.records import Record, Ref
from storage.segments import CatalogueEntry
from storage.storage_errors import NotAnIndex
from tasks.progress import ends_process, listening
from tasks.rag.corpus import Chunked, PageTrouble, Parsed, Pictured
from tasks.rag.indexing.scan import ScanResult

HEARTBEAT_S = 5.0
"""Seconds between two heartbeats of a running build."""
COUNTED_S = 0.5
"""Shortest time between two writes for the sake of progress alone."""
STATUS_FILE = "index_status.json"


OF_READING = ("format", "reader", "pages", "notes", "letters", "letters_lost", "hidden_pieces")
"""Fields of a status that are those of the reading."""


class DocumentStatus(Record):
    """Outcome of one document, or one refused file, in a build."""

    document: str
    """Path below the folder, NFC."""
    status: Literal["ok", "unchanged", "renamed", "failed", "duplicate"]
    digest: str | None = None
    reading: Ref | None = None
    """The document as it was read: tasks.documents.blocks.Document as JSON."""
    format: str | None = None
    reader: str | None = None
    pages: int = 0
    chunks: int = 0
    troubled_pages: tuple[PageTrouble, ...] = ()
    """Pages that were not read completely."""
    notes: tuple[str, ...] = ()
    letters: int | None = None
    """Letters and digits that the document shows; None where they were not counted."""
    letters_lost: int = 0
    """Number of these letters that stand in no block."""
    hidden_pieces: int = 0
    """Pieces of text that nobody sees, and that are not indexed."""
    reason: str | None = None
    message: str | None = None


class LengthStatistics(Record):
    """Shortest, mean and longest chunk, in characters."""

    min: int
    mean: float
    max: int


class StageProgress(Record):
    """How many items (documents, figures, texts) a stage of a build has finished, and how many it expects."""

    done: int = 0
    expected: int = 0


class IndexStatus(Record):
    """The content of `index_status.json`; times are UTC."""

    state: Literal["running", "completed", "completed_with_failures", "failed", "interrupted"]
    step: str
    pid: int
    host: str
    started: datetime
    heartbeat: datetime
    ended: datetime | None = None
    generation: str | None = None
    """The generation that readers use; during a build the previous one."""
    run: str | None = None
    """Id of the Prefect flow run; None where the build is no flow run."""
    parameters: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Parameters of the flow run."""
    progress: dict[str, StageProgress] = Field(default_factory=dict[str, StageProgress])
    """How far each stage of this build has come, by the stage's name."""
    counts: dict[str, Any] = Field(default_factory=dict[str, Any])
    chunk_chars: LengthStatistics | None = None
    documents: tuple[DocumentStatus, ...] = ()
    warnings: tuple[str, ...] = ()
    error: str | None = None


def read_status(index: Path) -> IndexStatus | None:
    """Read the status of an index; `interrupted` if its process is gone, None without a file. Raises NotAnIndex."""
    try:
        status = IndexStatus.model_validate_json((index / STATUS_FILE).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValidationError as error:
        raise NotAnIndex(f"{index / STATUS_FILE} is not of this program or version; run `trivet rag index`") from error
    # of a process on another host nothing is known
    if status.state == "running" and status.host == socket.gethostname() and not psutil.pid_exists(status.pid):
        return status.model_copy(update={"state": "interrupted"})
    return status


class StatusFile:
    """Writes `index_status.json` while a build runs."""

    def __init__(self, index: Path, *, generation: str | None, run: str | None, parameters: dict[str, Any]) -> None:
        now = datetime.now(UTC)
        self._path = index / STATUS_FILE
        self._lock = threading.Lock()
        self._progress: dict[str, StageProgress] = {}
        self._written = 0.0
        self.status = IndexStatus(
            state="running",
            step="scan",
            pid=os.getpid(),
            host=socket.gethostname(),
            started=now,
            heartbeat=now,
            generation=generation,
            run=run,
            parameters=parameters,
        )

    def count(self, stage: str, finished: int, expected: int) -> None:
        """Add to the counts of a stage; for their sake alone the file is written at most every COUNTED_S."""
        with self._lock:
            before = self._progress.get(stage, StageProgress())
            self._progress[stage] = StageProgress(done=before.done + finished, expected=before.expected + expected)
            waits = time.monotonic() - self._written < COUNTED_S
        if not waits:
            self.update()

    def update(self, **changes: Any) -> None:
        """Change fields of the status and write the file."""
        with self._lock:
            fields_written = {"heartbeat": datetime.now(UTC), "progress": dict(self._progress)}
            self.status = self.status.model_copy(update=fields_written | changes)
            self._written = time.monotonic()
            # the next heartbeat writes it anew: not worth waiting for the disk
            write(self._path, self.status.model_dump_json(indent=1).encode(), durable=False)

    def beat_until(self, ended: threading.Event) -> None:
        """Write the file every HEARTBEAT_S until the event is set."""
        while not ended.wait(HEARTBEAT_S):
            self.update()


@contextmanager
def status_of_build(
    index: Path, *, generation: str | None, run: str | None, parameters: dict[str, Any]
) -> Generator[StatusFile]:
    """Keep the status file of a build while the block runs; at its end write when, and after an error how, it ended."""
    file = StatusFile(index, generation=generation, run=run, parameters=parameters)
    ended = threading.Event()
    beat = threading.Thread(target=file.beat_until, args=(ended,), name="index-heartbeat", daemon=True)
    failure: dict[str, str] = {}
    try:
        file.update()
        beat.start()
        with listening(file.count):
            yield file
    except BaseException as error:  # Ctrl-C too, which leaves `interrupted`
        state = "interrupted" if ends_process(error) else "failed"
        failure = {"state": state, "error": f"{type(error).__name__}: {error}"}
        raise
    finally:
        ended.set()
        if beat.is_alive():
            beat.join()
        file.update(ended=datetime.now(UTC), **failure)


class DocumentCounts(Record):
    """Numbers of documents by outcome; `total` counts contents, not file names."""

    total: int = 0
    ok: int = 0
    """Documents indexed in this run: new, or with other content or settings than before."""
    unchanged: int = 0
    renamed: int = 0
    failed: int = 0
    removed: int = 0


class FigureCounts(Record):
    """Numbers of figures in an index by outcome; those kept are described, skipped or failed."""

    found: int = 0
    kept: int = 0
    """Figures that passed every filter and are worth asking a model about."""
    described: int = 0
    skipped: int = 0
    """Kept figures that were not asked about, for want of a model or of budget."""
    failed: int = 0
    """Kept figures that the model refused, or for which it could not be reached."""


class IndexReport(Record):
    """Report of a build: the index version and its counts, as `trivet rag index --json` prints them."""

    generation: str
    documents: DocumentCounts
    pages: int
    chunks: int
    figures: FigureCounts
    seconds: float
    warnings: tuple[str, ...] = ()


def document_statuses(
    entries: Sequence[CatalogueEntry],
    parsed: Iterable[Parsed],
    scanned: ScanResult,
    *,
    before: dict[str, CatalogueEntry],
) -> tuple[DocumentStatus, ...]:
    """Return what became of each document, alias and refused file, in the order of names.

    before: the entries of the previous index version by document, where its settings were the same.
    """
    by_digest = {item.source.digest: item for item in parsed}
    statuses = [
        _make_status(entry.name, by_digest[entry.document], chunks=entry.chunks, before=before.get(entry.document))
        for entry in entries
    ]
    statuses += [
        DocumentStatus(document=alias.name, status="duplicate", message=f"the same content as {alias.document}")
        for alias in scanned.aliases
    ]
    return _add_refused(statuses, scanned)


def list_failures(parsed: Iterable[Parsed], scanned: ScanResult) -> tuple[DocumentStatus, ...]:
    """Return the documents that could not be read and the files that were refused, in the order of names."""
    names = {file.content.digest: file.name for file in scanned.files}
    return _add_refused((_make_status(names[item.source.digest], item) for item in parsed if item.failure), scanned)


def _add_refused(statuses: Iterable[DocumentStatus], scanned: ScanResult) -> tuple[DocumentStatus, ...]:
    """Add the files that were refused, and sort by name."""
    refused = (
        DocumentStatus(document=item.name, status="failed", reason=item.reason, message=item.message)
        for item in scanned.refused
    )
    return tuple(sorted([*statuses, *refused], key=lambda status: status.document))


def count_documents(
    statuses: Iterable[DocumentStatus], entries: Iterable[CatalogueEntry], *, before: Iterable[CatalogueEntry]
) -> DocumentCounts:
    """Count documents by outcome; removed are those of `before`, the last version, without content or name now."""
    counted = Counter(status.status for status in statuses if status.status != "duplicate")
    current = {value for entry in entries for value in (entry.document, entry.name)}
    removed = sum(entry.document not in current and entry.name not in current for entry in before)
    return DocumentCounts(total=counted.total(), removed=removed, **counted)


def _make_status(name: str, parsed: Parsed, *, chunks: int = 0, before: CatalogueEntry | None = None) -> DocumentStatus:
    """Return what became of a document; before: its entry in the last index version, None for a new one."""
    failure = parsed.failure
    if failure:
        status = "failed"
    elif before is None or before.status != "ok":
        status = "ok"
    else:
        status = "unchanged" if before.name == name else "renamed"
    return DocumentStatus(
        document=name,
        status=status,
        digest=parsed.source.digest,
        reading=parsed.document,
        chunks=chunks,
        troubled_pages=parsed.troubled,
        reason=failure.reason if failure else None,
        message=failure.message if failure else None,
        **{name: getattr(parsed, name) for name in OF_READING},
    )


def count_figures(pictured: Sequence[Pictured]) -> FigureCounts:
    """Count the figures of all documents by outcome."""
    counts: Counter[str] = Counter()
    for item in pictured:
        counts.update(item.counts)
    return FigureCounts(
        found=counts.total(),
        kept=sum(counts[status] for status in ("described", "skipped", "uninformative", "failed")),
        described=counts["described"],
        skipped=counts["skipped"],
        failed=counts["failed"],
    )


def measure_chunks(chunked: Sequence[Chunked]) -> LengthStatistics | None:
    """Return the shortest, mean and longest chunk over all documents, in characters; None without chunks."""
    cut = [item for item in chunked if item.count]
    if not cut:
        return None
    mean = round(sum(item.chars for item in cut) / sum(item.count for item in cut), 1)
    return LengthStatistics(min=min(item.shortest for item in cut), mean=mean, max=max(item.longest for item in cut))


MOST_ROWS = 500
"""Documents that are listed: the artifact is stored in Prefect's database."""


def headline(report: IndexReport) -> str:
    """Sum a build up in a line: `25 documents, 1 of them failed; 120 pages, 300 chunks`."""
    failed = f", {report.documents.failed:,} of them failed" if report.documents.failed else ""
    return f"{report.documents.total:,} documents{failed}; {report.pages:,} pages, {report.chunks:,} chunks"


def markdown_of(report: IndexReport, *, failed: Sequence[DocumentStatus], documents: Path, index: Path) -> str:
    """Render the report of a build as Markdown, with the documents that failed (at most MOST_ROWS)."""
    lines = [
        f"# {headline(report)}",
        f"documents `{documents}` · index `{index_name(index)}` · generation `{report.generation}` · "
        f"{report.seconds:,.1f} s",
        *("", "| | |", "|---|---:|"),
    ]
    counted = {"documents": report.documents.model_dump(exclude={"total"}), "figures": report.figures.model_dump()}
    lines += [f"| {noun} {name} | {count:,} |" for noun, counts in counted.items() for name, count in counts.items()]
    if failed:
        lines += [
            "",
            "## Could not be read",
            f"`trivet rag status --index {index_name(index)}` tells more of each document.",
            "",
        ]
        lines += [f"- `{status.document}`: {status.message or status.reason}" for status in failed[:MOST_ROWS]]
        lines += [f"- … and {len(failed) - MOST_ROWS:,} more"] if len(failed) > MOST_ROWS else []
    if report.warnings:
        lines += ["", "## To know", *(f"- {warning}" for warning in report.warnings)]
    return "\n".join(lines)
