"""The figures of documents: found in a child process, told apart across documents, described by a vision model."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from models.protocols import Chat
from storage import files
from storage.artifacts import Artifacts
from tasks.budget import Budget
from tasks.calls import Limits, ResponseStore
from tasks.keys import content_key
from tasks.rag.corpus import Parsed, Pictured, Source
from tasks.rag.documents.images_candidate import ImageCandidate
from tasks.rag.documents.isolation import DocumentUnreadable, Job, ReadLimits, find_images
from tasks.rag.indexing.figures import (
    DocumentFigures,
    FigureRecord,
    FigureSettings,
    describe,
    found,
    without_duplicates,
)

FINDER_VERSION = 1
"""Raise it when other pictures would be found in the same bytes, or be measured differently."""

Shards = tuple[tuple[Pictured, ...], ...]


def figures_of(
    parsed: Parsed, artifacts: Artifacts, *, settings: FigureSettings, limits: ReadLimits, password: str | None
) -> Pictured:
    """A document with its figures, `kept` or `dropped`; recalled if they were looked for before."""
    if parsed.document is None or parsed.format is None:
        return Pictured(parsed=parsed)
    inputs = {"source": parsed.source, "settings": settings, "limits": limits}
    key = content_key("figures", FINDER_VERSION, inputs)
    if kept := artifacts.recall(key):
        return Pictured(parsed=parsed, figures=kept)
    try:
        records = _find(parsed.source, parsed.format, artifacts, settings=settings, limits=limits, password=password)
    except DocumentUnreadable as error:
        return Pictured(parsed=parsed, failure=error.failure)
    figures = artifacts.save("figures", DocumentFigures(document=parsed.source.digest, figures=tuple(records)))
    artifacts.remember(key, figures)
    return Pictured(parsed=parsed, figures=figures)


def _find(
    source: Source,
    format: str,
    artifacts: Artifacts,
    *,
    settings: FigureSettings,
    limits: ReadLimits,
    password: str | None,
) -> list[FigureRecord]:
    records: list[FigureRecord] = []
    # below the store, where `trivet gc` finds what a killed run leaves
    with files.scratch_folder(artifacts.root) as scratch:
        job = Job(path=artifacts.path(source.content), digest=source.digest, format=format, password=password)
        for image in find_images(job, scratch=scratch, limits=limits):
            png = image.file.read_bytes()
            image.file.unlink()
            candidate = ImageCandidate.model_validate(image.about | {"png": png})
            # a dropped picture is recorded, not kept
            record = found(candidate, document=source.digest, image=None, settings=settings)
            if record.status == "kept":
                record = record.model_copy(update={"image": artifacts.put("figure", png)})
            records.append(record)
    return records


def with_duplicates_marked(shards: Shards, artifacts: Artifacts, *, settings: FigureSettings) -> Shards:
    """The shards, pictures that repeat another one marked `duplicate`."""
    documents = [_load(item, artifacts) for shard in shards for item in shard]
    records = [record for document in documents for record in document.figures]
    marked = iter(without_duplicates(records, load=artifacts.get, settings=settings))
    result: list[tuple[Pictured, ...]] = []
    remaining = iter(documents)
    for shard in shards:
        items = [(item, next(remaining)) for item in shard]
        result.append(tuple(_kept(item, [next(marked) for _ in before.figures], artifacts) for item, before in items))
    return tuple(result)


class Described(NamedTuple):
    """Documents with described figures, and those whose figures may be described another time, with the reason."""

    pictured: tuple[Pictured, ...]
    unfinished: dict[str, str]


def describe_figures(
    pictured: Sequence[Pictured],
    artifacts: Artifacts,
    *,
    settings: FigureSettings,
    chat: Chat | None,
    responses: ResponseStore,
    limits: Limits,
    budget: Budget,
) -> Described:
    """Every kept figure with its description, or the reason why there is none. Raises ModelUnavailable."""
    result: list[Pictured] = []
    unfinished: dict[str, str] = {}

    def ask_about(record: FigureRecord) -> FigureRecord:
        shown = record.image if record.status == "kept" else record.original
        png = artifacts.get(shown) if shown and chat else b""
        return describe(record, png, chat=chat, responses=responses, limits=limits, settings=settings, budget=budget)

    with ThreadPoolExecutor(max_workers=limits.settings.concurrency) as pool:
        for item in pictured:
            records = list(pool.map(ask_about, _load(item, artifacts).figures))
            result.append(_kept(item, records, artifacts))
            failed = [record.reason or "" for record in records if record.retryable]
            if failed:
                unfinished[item.parsed.source.digest[:12]] = f"{len(failed)} figures: {failed[0]}"
    return Described(tuple(result), unfinished)


def _load(item: Pictured, artifacts: Artifacts) -> DocumentFigures:
    if item.figures is None:
        return DocumentFigures(document=item.parsed.source.digest, figures=())
    return artifacts.load(DocumentFigures, item.figures)


def _kept(item: Pictured, records: Sequence[FigureRecord], artifacts: Artifacts) -> Pictured:
    """The document with these figures."""
    if item.figures is None:
        return item
    figures = artifacts.save("figures", DocumentFigures(document=item.parsed.source.digest, figures=tuple(records)))
    statuses = [record.status for record in records]
    counts = {status: statuses.count(status) for status in sorted(set(statuses))}
    out_of_budget = sum(record.out_of_budget for record in records)
    return item.model_copy(update={"figures": figures, "counts": counts, "out_of_budget": out_of_budget})
