"""A corpus becomes a generation of an index folder."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from models.embedders import family
from storage.artifacts import Artifacts
from storage.index import CatalogueEntry, Generation, publish
from storage.records import Record, Ref
from storage.storage_errors import IndexUnusable
from tasks.rag.corpus import Corpus, Embedded, Parsed, Searchable
from tasks.rag.indexing.chunks import Chunk
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
