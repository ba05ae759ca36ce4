"""A build of an index as its readers see it: a status that is true from the start, and a report at the end."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import Field, JsonValue

from storage.files import write
from storage.index import CatalogueEntry, claim, open_index
from storage.records import Record
from storage.storage_errors import DamagedIndex, NotAnIndex
from tasks.rag.corpus import Chunked, Parsed, Pictured
from tasks.rag.indexing.chunks import Chunk, preview
from tasks.rag.indexing.document_status import LengthStatistics, StatusFile, status_of_build
from tasks.rag.indexing.index_report import FigureCounts, IndexReport, count_documents, document_statuses, failures
from tasks.rag.indexing.publishing import Catalogued
from tasks.rag.indexing.scan import ScanResult

PREVIEW_FILE = "chunk_preview.json"


class Published(Record):
    """What readers of the index folder see."""

    generation: str
    digest: str
    """Equal content has equal digests."""


class Before(Record):
    """What the index held when the build began."""

    generation: str | None = None
    settings: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    entries: tuple[CatalogueEntry, ...] = ()


@contextmanager
def build(index: Path, *, run: str | None) -> Generator[Build]:
    """Claim the folder, say `running` in its status, and say at the end how it went. Raises NotAnIndex."""
    claim(index)
    before = _before(index)
    with status_of_build(index, generation=before.generation, run=run) as status:
        yield Build(index, before, status)


def _before(index: Path) -> Before:
    try:
        with open_index(index) as opened:
            return Before(generation=opened.generation, settings=opened.manifest.settings, entries=opened.catalogue)
    except (NotAnIndex, DamagedIndex):
        return Before()  # none yet, or one that the next generation replaces


class Build:
    """One build, from its start."""

    def __init__(self, index: Path, before: Before, status: StatusFile) -> None:
        self._index = index
        self._before = before
        self._status = status
        self._started = time.monotonic()

    def enter(self, step: str) -> None:
        """Say which step runs now."""
        self._status.update(step=step)

    def note_failures(self, parsed: Sequence[Parsed], found: ScanResult) -> None:
        """Name what could not be read, so that a build that stops over it says why."""
        self._status.update(documents=failures(parsed, found))

    def finish(
        self,
        published: Published,
        catalogued: Catalogued,
        *,
        found: ScanResult,
        parsed: Sequence[Parsed],
        pictured: Sequence[Pictured],
        chunked: Sequence[Chunked],
        settings: dict[str, JsonValue],
        preview_chunks: int,
        refused: str | None,
    ) -> IndexReport:
        """Write what became of each document, and the preview; give the numbers.

        refused: why a figure was refused by the model, if one was.
        """
        entries = catalogued.entries
        same = self._before.settings == settings
        known = {entry.document: entry for entry in self._before.entries} if same else {}
        statuses = document_statuses(entries, parsed, found, before=known)
        warnings = catalogued.warnings + _figure_warnings(pictured, refused)
        report = IndexReport(
            generation=published.generation,
            documents=count_documents(statuses, entries, before=[entry.document for entry in self._before.entries]),
            pages=sum(item.pages for item in parsed),
            chunks=sum(item.count for item in chunked),
            figures=_count_figures(pictured),
            seconds=round(time.monotonic() - self._started, 3),
            warnings=warnings,
        )
        self._status.update(
            state="completed_with_failures" if report.documents.failed else "completed",
            generation=published.generation,
            counts=report.model_dump(mode="json", exclude={"warnings", "generation"}),
            chunk_chars=_lengths(chunked),
            documents=statuses,
            warnings=warnings,
        )
        self._write_preview(preview_chunks)
        return report

    def _write_preview(self, count: int) -> None:
        """Chunks from all over the index, not only from its first document."""
        with open_index(self._index) as index:
            rows = sorted({round(at * (len(index) - 1) / max(count - 1, 1)) for at in range(min(count, len(index)))})
            chunks = [Chunk.model_validate_json(index.chunk(row)) for row in rows]
        text = json.dumps(preview(chunks, count), ensure_ascii=False, indent=1)
        write(self._index / PREVIEW_FILE, text.encode())


def _lengths(chunked: Sequence[Chunked]) -> LengthStatistics | None:
    cut = [item for item in chunked if item.count]
    if not cut:
        return None
    mean = sum(item.chars for item in cut) / sum(item.count for item in cut)
    return LengthStatistics(
        min=min(item.shortest for item in cut), mean=round(mean, 1), max=max(item.longest for item in cut)
    )


def _count_figures(pictured: Sequence[Pictured]) -> FigureCounts:
    counts: Counter[str] = Counter()
    for item in pictured:
        counts.update(item.counts)
    worth = ("described", "skipped", "uninformative", "failed")
    return FigureCounts(
        found=counts.total(),
        kept=sum(counts[status] for status in worth),
        described=counts["described"],
        skipped=counts["skipped"],
        failed=counts["failed"],
    )


def _figure_warnings(pictured: Sequence[Pictured], refused: str | None) -> tuple[str, ...]:
    counts = _count_figures(pictured)
    warnings: list[str] = []
    if counts.skipped:
        warnings.append(f"{counts.skipped} figures are not described; see `trivet rag status` for the reasons")
    if counts.failed:
        warnings.append(f"{counts.failed} figures could not be described, such as: {refused}")
    return tuple(warnings)
