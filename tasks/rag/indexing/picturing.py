"""The figures of documents: found in a child process, told apart across documents, described by a vision model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from models.model_errors import ModelError, RequestRefused
from models.prompt_pictures import picture_size
from models.protocols import BatchChat, Chat, ChatRequest
from storage import files
from storage.artifacts import Artifacts
from storage.records import Ref
from tasks import progress
from tasks.budget import Budget, BudgetSpent
from tasks.bulk import ask_all
from tasks.calls import Limits, ResponseStore, answered
from tasks.documents.blocks import ImageCandidate
from tasks.documents.document_errors import DocumentError
from tasks.documents.formats import sniff
from tasks.documents.isolation import DocumentUnreadable, Job, ReadLimits, find_images
from tasks.group_commit import GroupStore
from tasks.keys import content_key
from tasks.rag.corpus import Parsed, Pictured, Source, flat
from tasks.rag.indexing.figures import (
    DocumentFigures,
    FigurePlan,
    FigureRecord,
    FigureSettings,
    describe,
    figure_request,
    found,
    plan,
    undescribed,
    without_duplicates,
)
from tasks.rag.indexing.scan import scan_folder

FINDER_VERSION = 1
"""Raise it when other pictures would be found in the same bytes, or be measured differently."""
DESCRIBE = "describe figures"
"""The stage, as whoever watches sees it."""

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
    responses: GroupStore,
    limits: Limits,
    budget: Budget,
) -> Described:
    """Every kept figure with its description, or the reason why there is none; whoever watches sees how far it is.

    Raises ModelUnavailable.
    """
    answered = _Answered()
    if chat and settings.qwen3_vl_enabled:
        progress.expect(DESCRIBE, len(_asked_about(pictured, artifacts)))
    result: list[Pictured] = []
    unfinished: dict[str, str] = {}
    troubles: dict[str, ModelError] = {}
    if isinstance(chat, BatchChat) and settings.qwen3_vl_enabled:
        records = [record for item in pictured for record in _load(item, artifacts).figures]
        requests = _requests(records, artifacts, settings)
        bounds: Any = {"responses": responses, "limits": limits, "budget": budget}
        troubles = _ask_together(chat, requests, **bounds, answered=answered)

    def ask_about(record: FigureRecord) -> FigureRecord:
        shown = _shown(record)
        if shown and (trouble := troubles.get(shown.digest)):
            return undescribed(record, trouble)
        png = artifacts.get(shown) if shown and chat else b""
        return describe(record, png, chat=chat, responses=responses, limits=limits, settings=settings, budget=budget)

    with ThreadPoolExecutor(max_workers=limits.settings.concurrency) as pool:
        for item in pictured:
            figures, records = _load(item, artifacts).figures, list[FigureRecord]()
            for before, record in zip(figures, pool.map(ask_about, figures), strict=True):
                records.append(record)
                if record.response_key and (shown := _shown(before)):
                    answered.count(shown.digest)
            result.append(_kept(item, records, artifacts))
            failed = [record.reason or "" for record in records if record.retryable]
            if failed:
                unfinished[item.parsed.source.digest[:12]] = f"{len(failed)} figures: {failed[0]}"
    return Described(tuple(result), unfinished)


class _Answered:
    """How many pictures have an answer; a picture that several figures show counts once."""

    def __init__(self) -> None:
        self._digests: set[str] = set()

    def count(self, digest: str) -> None:
        if digest not in self._digests:
            self._digests.add(digest)
            progress.advance(DESCRIBE)


def _asked_about(pictured: Iterable[Pictured], artifacts: Artifacts) -> set[str]:
    """Digests of the pictures that a model is asked about."""
    records = (record for item in pictured for record in _load(item, artifacts).figures)
    return {shown.digest for record in records if (shown := _shown(record))}


def _shown(record: FigureRecord) -> Ref | None:
    """The picture that is asked about, if any."""
    return record.image if record.status == "kept" else record.original


def _requests(
    records: Sequence[FigureRecord], artifacts: Artifacts, settings: FigureSettings
) -> Iterator[tuple[str, ChatRequest]]:
    """One for each picture that can be shown; one that cannot is refused by itself later."""
    for image in dict.fromkeys(shown for record in records if (shown := _shown(record))):
        png = artifacts.get(image)
        try:
            picture_size(png)
        except RequestRefused:
            continue
        yield image.digest, figure_request(png, settings)


def _ask_together(
    chat: BatchChat,
    requests: Iterator[tuple[str, ChatRequest]],
    *,
    responses: GroupStore,
    limits: Limits,
    budget: Budget,
    answered: _Answered,
) -> dict[str, ModelError]:
    """Have a model in this process answer in batches: answers are in the response store then, and errors given.

    What the budget does not reach, each figure says for itself when it is asked about. Raises ModelUnavailable.
    """
    troubles: dict[str, ModelError] = {}
    with suppress(BudgetSpent):
        for digest, answer in ask_all(chat, requests, responses=responses, limits=limits, budget=budget):
            if isinstance(answer, ModelError):
                troubles[digest] = answer
            else:
                answered.count(digest)
    return troubles


def refusal_in(pictured: Sequence[Pictured], artifacts: Artifacts) -> str | None:
    """Why a figure could not be described; None if all could."""
    item = next((item for item in pictured if item.counts.get("failed")), None)
    records = _load(item, artifacts).figures if item else ()
    return next((record.reason for record in records if record.status == "failed"), None)


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


def plan_folder(
    folder: Path,
    artifacts: Artifacts,
    *,
    include: Sequence[str],
    exclude: Sequence[str],
    settings: FigureSettings,
    limits: ReadLimits,
    password: str | None,
    chat: Chat | None,
    responses: ResponseStore,
) -> FigurePlan:
    """Count figures, why they are dropped, and the questions that would be asked. Raises FolderUnusable.

    chat: the model that would be asked; what it answered before is looked up, not asked.
    """
    found = scan_folder(folder, artifacts=artifacts, include=include, exclude=exclude)
    progress.expect("extract_figures", len(found.sources))
    pictured = []
    for source in found.sources:
        progress.advance("extract_figures")
        try:
            sniffed = sniff(artifacts.path(source.content), suffix=source.suffix)
        except DocumentError:
            continue  # a document that cannot be read has no figures; indexing reports it
        parsed = Parsed(source=source, document=source.content, format=sniffed.format)
        pictured.append(figures_of(parsed, artifacts, settings=settings, limits=limits, password=password))
    marked = flat(with_duplicates_marked((tuple(pictured),), artifacts, settings=settings))
    documents = [artifacts.load(DocumentFigures, item.figures) for item in marked if item.figures]
    records = [record for document in documents for record in document.figures]
    known = _answered(records, artifacts, chat, responses, settings) if chat else set[str]()
    return plan(records, answered=known)


def _answered(
    records: Sequence[FigureRecord],
    artifacts: Artifacts,
    chat: Chat,
    responses: ResponseStore,
    settings: FigureSettings,
) -> set[str]:
    """Digests of the pictures whose description is in the response store."""
    images = {record.image.digest: record.image for record in records if record.status == "kept" and record.image}
    requests = ((digest, figure_request(artifacts.get(image), settings)) for digest, image in images.items())
    return {digest for digest, request in requests if answered(chat, request, responses)}
