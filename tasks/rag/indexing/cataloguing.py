"""The catalogue of an index: which documents there are, what is known of each, and where their chunks are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from storage.index import CatalogueEntry
from storage.records import Record, Ref
from tasks.rag.corpus import Corpus, Embedded, Parsed
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
