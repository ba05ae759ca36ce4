"""Publishes a corpus as the next version of an index, with a status file while it is built and a report at the end."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from models.embedders import family_of
from storage.artifacts import Artifacts
from storage.files import write
from storage.index import Generation, claim, open_index
from storage.publishing import publish_segments
from storage.records import Record, Ref
from storage.segments import CatalogueEntry, Segment
from storage.storage_errors import DamagedIndex, IndexUnusable, NotAnIndex, list_some
from tasks.documents.receipt import NOTED_SHARE
from tasks.rag.corpus import Chunked, Corpus, Embedded, Parsed, Pictured
from tasks.rag.indexing import index_report as reporting
from tasks.rag.indexing.chunks import Chunk
from tasks.rag.indexing.metadata import MatchedMetadata, match_rows, read_table
from tasks.rag.indexing.scan import ScanResult

NAMED_FILES = 5  # the most files without a row that a warning names; it counts the others


class Catalogued(Record):
    """A stored corpus, with the warnings about its metadata."""

    corpus: Ref
    warnings: tuple[str, ...]


def build_corpus(
    scanned: ScanResult,
    parsed: Sequence[Parsed],
    embedded: Sequence[Embedded],
    *,
    segments: Sequence[Segment] = (),
    centres: Ref | None = None,
    metadata: Path | None,
) -> tuple[Corpus, tuple[str, ...]]:
    """Join documents into a corpus, with warnings on metadata and lost letters. Raises MetadataUnusable."""
    names = [file.name for file in scanned.files] + [alias.name for alias in scanned.aliases]
    matched = match_rows(read_table(metadata), names) if metadata else MatchedMetadata(by_file={})
    by_digest = {item.source.digest: item for item in parsed}
    vectors = {item.chunked.digest: item for item in embedded}
    aliases: dict[str, list[str]] = {}
    for alias in scanned.aliases:
        aliases.setdefault(alias.document, []).append(alias.name)
    entries: list[CatalogueEntry] = []
    for file in sorted(scanned.files, key=lambda file: file.content.digest):
        digest, alias_names = file.content.digest, tuple(aliases.get(file.name, ()))
        # the table may name a document by any of its copies
        row = next((matched.by_file[name] for name in (file.name, *alias_names) if name in matched.by_file), {})
        item = by_digest[digest]
        chunked = vectors[digest].chunked if digest in vectors else None
        entries.append(
            CatalogueEntry(
                document=digest,
                name=file.name,
                aliases=alias_names,
                format=item.format,
                title=chunked.title if chunked else None,
                pages=None if item.page_source == "none" else item.pages,
                page_source=item.page_source,
                estimated_pages=item.estimated_pages,
                chunks=chunked.count if chunked else 0,
                # what people wrote in the table wins over what was read from the first pages
                metadata=(chunked.facts if chunked else {}) | {field: value for field, value in row.items() if value},
                facts=chunked.stated if chunked else (),
                status=item.failure.reason if item.failure else "ok",
            )
        )
    plain = {"facts": {}, "stated": ()}  # the catalogue entry holds both already
    ordered = tuple(
        document.model_copy(update={"chunked": document.chunked.model_copy(update=plain)})
        for entry in entries
        if (document := vectors.get(entry.document))
    )
    warnings = list(matched.warnings)
    if rowless := matched.files_without_row:  # one warning for all of them: there may be thousands
        warnings.append(f"{len(rowless)} files have no row in the metadata: {list_some(rowless, NAMED_FILES)}.")
    names_of = {file.content.digest: file.name for file in scanned.files}
    lossy = sorted(
        names_of[item.source.digest] for item in parsed if item.letters_lost > NOTED_SHARE * (item.letters or 0)
    )
    if lossy:
        lost = f"{len(lossy)} documents lost more than {NOTED_SHARE:.0%} of their letters"
        warnings.append(f"{lost}: {list_some(lossy, NAMED_FILES)} (`trivet rag text FILE --receipt`).")
    corpus = Corpus(entries=tuple(entries), embedded=ordered, segments=tuple(segments), centres=centres)
    return corpus, tuple(warnings)


def publish_corpus(corpus: Corpus, artifacts: Artifacts, *, index: Path, settings: dict[str, JsonValue]) -> Generation:
    """Write the index version of these segments and switch readers to it.

    Raises IndexUnusable where the vectors are of several models, and what `publish_segments` raises.
    """
    # precisions may mix (a laptop and a worker), weights may not
    families = sorted({family_of(item.embedder) for item in corpus.embedded})
    if len(families) > 1:
        raise IndexUnusable(f"the vectors come from several embedders ({', '.join(families)}); index again with one")
    return publish_segments(
        index,
        segments=corpus.segments,
        path_of=artifacts.path,
        catalogue=corpus.entries,
        embedder=families[0] if families else "none",
        tokenizer=str(settings["tokenizer"]),
        settings=settings,
        centres=corpus.centres,
    )


PREVIEW_FILE = "chunk_preview.json"


class Published(Record):
    """The index version that readers of the folder see from now on."""

    generation: str
    digest: str


@contextmanager
def build(index: Path, *, run: str | None, parameters: dict[str, JsonValue]) -> Generator[Build]:
    """Claim the folder and yield its build, with a status file from start to end. Raises NotAnIndex."""
    claim(index)
    generation, settings = None, dict[str, JsonValue]()
    entries: Sequence[CatalogueEntry] = ()
    try:
        with open_index(index) as opened:
            generation, settings, entries = opened.generation, opened.manifest.settings, opened.catalogue
    except (NotAnIndex, DamagedIndex):
        pass  # there is no version yet, or one that the next version replaces
    with reporting.status_of_build(index, generation=generation, run=run, parameters=parameters) as status:
        yield Build(index, status, settings, entries)


@dataclass(frozen=True)
class Build:
    """A build that runs: its folder, its status file, and the version that the folder held before."""

    _index: Path
    _status: reporting.StatusFile
    _settings: dict[str, JsonValue]
    """Settings of the index version that the folder held when the build began."""
    _entries: Sequence[CatalogueEntry]
    _started: float = field(default_factory=time.monotonic)

    def enter(self, step: str) -> None:
        """Write to the status file which step runs."""
        self._status.update(step=step)

    def note_failures(self, parsed: Sequence[Parsed], scanned: ScanResult) -> None:
        """Write what could not be read to the status, so that a build that stops over it says why."""
        self._status.update(documents=reporting.list_failures(parsed, scanned))

    def finish(
        self,
        published: Published,
        entries: Sequence[CatalogueEntry],
        *,
        scanned: ScanResult,
        parsed: Sequence[Parsed],
        pictured: Sequence[Pictured],
        chunked: Sequence[Chunked],
        settings: dict[str, JsonValue],
        preview_chunks: int,
        warnings: Sequence[str],
        refused: str | None,
    ) -> reporting.IndexReport:
        """Write the status and the preview, and return the report.

        warnings: about the metadata. refused: why the model refused a figure. preview_chunks: how many are shown.
        """
        # other settings give other chunks of the same document: then nothing is unchanged
        unchanged = {entry.document: entry for entry in self._entries} if self._settings == settings else {}
        statuses = reporting.document_statuses(entries, parsed, scanned, before=unchanged)
        figures = reporting.count_figures(pictured)
        notes = list(warnings)
        if figures.skipped:
            notes.append(f"{figures.skipped} figures are not described; see `trivet rag status` for the reasons")
        if figures.failed:
            notes.append(f"{figures.failed} figures could not be described, such as: {refused}")
        report = reporting.IndexReport(
            generation=published.generation,
            documents=reporting.count_documents(statuses, entries, before=self._entries),
            pages=sum(item.pages for item in parsed),
            chunks=sum(item.count for item in chunked),
            figures=figures,
            seconds=round(time.monotonic() - self._started, 3),
            warnings=tuple(notes),
        )
        self._status.update(
            state="completed_with_failures" if report.documents.failed else "completed",
            generation=published.generation,
            counts=report.model_dump(mode="json", exclude={"warnings", "generation"}),
            chunk_chars=reporting.measure_chunks(chunked),
            documents=statuses,
            warnings=report.warnings,
        )
        # the preview shows chunks from all over the index, not only from its first document
        with open_index(self._index) as index:
            step = (len(index) - 1) / max(preview_chunks - 1, 1)
            rows = sorted({round(at * step) for at in range(min(preview_chunks, len(index)))})
            chunks = [Chunk.model_validate_json(index.chunk(row)) for row in rows]
        preview = [chunk.model_dump(mode="json") | {"chars": len(chunk.text)} for chunk in chunks]
        write(self._index / PREVIEW_FILE, json.dumps(preview, ensure_ascii=False, indent=1).encode())
        return report
