"""A corpus becomes a generation of an index folder, with a status file while it is built and a report at the end."""

from __future__ import annotations

import io
import json
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, JsonValue

from models.embedders import family
from storage.artifacts import Artifacts
from storage.files import write
from storage.index import CatalogueEntry, Generation, claim, open_index, publish
from storage.records import Record, Ref
from storage.storage_errors import DamagedIndex, IndexUnusable, NotAnIndex
from tasks.rag.corpus import Chunked, Corpus, Embedded, Parsed, Pictured, Searchable
from tasks.rag.indexing.chunks import Chunk, preview
from tasks.rag.indexing.index_report import (
    FigureCounts,
    IndexReport,
    LengthStatistics,
    StatusFile,
    count_documents,
    document_statuses,
    failures,
    status_of_build,
)
from tasks.rag.indexing.metadata import MatchedMetadata, MetadataWarning, match_rows, read_table
from tasks.rag.indexing.scan import ScanResult

NAMED_FILES = 5


class Catalogued(Record):
    """The catalogue, and what a reader of the metadata should know."""

    corpus: Ref
    """tasks.rag.corpus.Corpus as JSON."""
    entries: tuple[CatalogueEntry, ...]
    warnings: tuple[str, ...]


def build_corpus(
    found: ScanResult, parsed: Sequence[Parsed], embedded: Sequence[Embedded], *, metadata: Path | None
) -> tuple[Corpus, tuple[str, ...]]:
    """The corpus, and warnings about the metadata. Raises MetadataUnusable."""
    matched = _matched(found, metadata)
    by_digest = {item.source.digest: item for item in parsed}
    vectors = {item.chunked.digest: item for item in embedded}
    aliases: dict[str, list[str]] = {}
    for alias in found.aliases:
        aliases.setdefault(alias.document, []).append(alias.name)
    entries: list[CatalogueEntry] = []
    for file in sorted(found.files, key=lambda file: file.content.digest):
        rows = [matched.by_file[name] for name in (file.name, *aliases.get(file.name, ())) if name in matched.by_file]
        entries.append(
            _entry(
                file.name,
                by_digest[file.content.digest],
                vectors.get(file.content.digest),
                aliases=tuple(aliases.get(file.name, ())),
                row=rows[0] if rows else {},
            )
        )
    ordered = tuple(vectors[entry.document] for entry in entries if entry.document in vectors)
    warnings = tuple(_sentences(matched.warnings))
    return Corpus(entries=tuple(entries), embedded=ordered), warnings


def _matched(found: ScanResult, metadata: Path | None) -> MatchedMetadata:
    names = [file.name for file in found.files] + [alias.name for alias in found.aliases]
    return match_rows(read_table(metadata), names) if metadata else MatchedMetadata(by_file={})


def _entry(
    name: str, parsed: Parsed, embedded: Embedded | None, *, aliases: tuple[str, ...], row: dict[str, str]
) -> CatalogueEntry:
    chunked = embedded.chunked if embedded else None
    # what people wrote in the table wins over what was read from the first pages
    known = (chunked.facts if chunked else {}) | {field: value for field, value in row.items() if value}
    return CatalogueEntry(
        document=parsed.source.digest,
        name=name,
        aliases=aliases,
        format=parsed.format,
        title=chunked.title if chunked else None,
        pages=parsed.pages if parsed.paged else None,
        chunks=chunked.count if chunked else 0,
        metadata=known,
        facts=chunked.stated if chunked else (),
        status=parsed.failure.reason if parsed.failure else "ok",
    )


def _sentences(warnings: Sequence[MetadataWarning]) -> Iterator[str]:
    """A sentence each, but one for all files without a row: there may be thousands."""
    rowless = [warning.file for warning in warnings if warning.code == "file_without_row" and warning.file]
    yield from (warning.message for warning in warnings if warning.code != "file_without_row")
    if rowless:
        more = f" and {len(rowless) - NAMED_FILES} more" if len(rowless) > NAMED_FILES else ""
        yield f"{len(rowless)} files have no row in the metadata: {', '.join(rowless[:NAMED_FILES])}{more}."


def publish_corpus(corpus: Corpus, artifacts: Artifacts, *, index: Path, settings: dict[str, JsonValue]) -> Generation:
    """Write and switch to the generation; chunks and words pass through one document at a time.

    Raises what storage.index.publish raises, IndexUnusable if the vectors are of several embedders.
    """
    return publish(
        index,
        chunks=_chunks(corpus, artifacts),
        vectors=_vectors(corpus, artifacts),
        tokens=_tokens(corpus, artifacts),
        catalogue=corpus.entries,
        embedder=_embedder(corpus),
        tokenizer=str(settings["tokenizer"]),
        settings=settings,
    )


def _embedder(corpus: Corpus) -> str:
    """What the index records: precisions may mix (a laptop and a worker), weights may not."""
    families = sorted({family(item.embedder) for item in corpus.embedded})
    if len(families) > 1:
        raise IndexUnusable(f"the vectors come from several embedders ({', '.join(families)}); index again with one")
    return families[0] if families else "none"


def _documents(corpus: Corpus, artifacts: Artifacts) -> Iterator[Searchable]:
    return (artifacts.load(Searchable, item.chunked.chunks) for item in corpus.embedded)


def _chunks(corpus: Corpus, artifacts: Artifacts) -> Iterable[Chunk]:
    return (chunk for document in _documents(corpus, artifacts) for chunk in document.chunks)


def _tokens(corpus: Corpus, artifacts: Artifacts) -> Iterable[tuple[str, ...]]:
    return (tokens for document in _documents(corpus, artifacts) for tokens in document.tokens)


def _vectors(corpus: Corpus, artifacts: Artifacts) -> NDArray[np.float16]:
    parts = [np.load(io.BytesIO(artifacts.get(item.vectors)), allow_pickle=False) for item in corpus.embedded]
    return np.concatenate(parts) if parts else np.empty((0, 1), np.float16)


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
