"""Finds figures in a child process, removes duplicates across documents, has a vision model describe the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from models.backends import kinds, local_of
from models.causal_weights import declared_context
from models.model_errors import ModelError, ModelUnavailable, RequestRefused
from models.prompts import picture_size
from models.protocols import BatchChat, Chat, ChatRequest
from models.weight_files import hub_folder, read_json
from storage import files
from storage.artifacts import Artifacts
from storage.records import Ref
from tasks import progress
from tasks.budget import Budget, BudgetSpent
from tasks.bulk import ask_all
from tasks.calls import Limits, ResponseStore, is_answered
from tasks.documents.blocks import ImageCandidate
from tasks.documents.document_errors import DocumentError
from tasks.documents.formats import sniff
from tasks.documents.isolation import DocumentUnreadable, Job, ReadLimits, find_images
from tasks.keys import content_key
from tasks.rag.corpus import Parsed, Pictured, flat
from tasks.rag.indexing.figures import (
    DocumentFigures,
    FigurePlan,
    FigureRecord,
    FigureSettings,
    describe,
    figure_request,
    mark_failed,
    mark_repeated,
    plan_descriptions,
    record_figure,
)
from tasks.rag.indexing.scan import scan_folder

FINDER_VERSION = 1
"""Increment when other pictures would be found in the same bytes, or measured differently."""
DESCRIBE = "describe figures"
"""Name of the stage in progress displays."""

Shards = tuple[tuple[Pictured, ...], ...]


def find_figures(
    parsed: Parsed, artifacts: Artifacts, *, settings: FigureSettings, limits: ReadLimits, password: str | None
) -> Pictured:
    """Find a document's figures, `kept` or `dropped`, or recall them; a failure instead where that goes wrong."""
    if parsed.document is None or parsed.format is None:
        return Pictured(parsed=parsed)
    inputs = {"source": parsed.source, "settings": settings, "limits": limits}
    key = content_key("figures", FINDER_VERSION, inputs)
    if recalled_ref := artifacts.recall(key):
        return Pictured(parsed=parsed, figures=recalled_ref)
    source = parsed.source
    job = Job(path=artifacts.path(source.content), digest=source.digest, format=parsed.format, password=password)
    records: list[FigureRecord] = []
    try:
        # below the store, where `trivet gc` finds what a killed run leaves
        with files.scratch_folder(artifacts.root) as scratch:
            for image in find_images(job, scratch=scratch, limits=limits):
                png = image.file.read_bytes()
                image.file.unlink()
                candidate = ImageCandidate.model_validate(image.about | {"png": png})
                record = record_figure(candidate, document=job.digest, image=None, settings=settings)
                if record.status == "kept":  # a dropped picture is recorded, not kept
                    record = record.model_copy(update={"image": artifacts.put("figure", png)})
                records.append(record)
    except DocumentUnreadable as error:
        return Pictured(parsed=parsed, failure=error.failure)  # not remembered: the next run looks again
    figures = artifacts.save("figures", DocumentFigures(document=parsed.source.digest, figures=tuple(records)))
    artifacts.remember(key, figures)
    return Pictured(parsed=parsed, figures=figures)


def mark_duplicate_figures(shards: Shards, artifacts: Artifacts, *, settings: FigureSettings) -> Shards:
    """Mark the figures that repeat another one as `duplicate`, over all shards, which keep their order."""
    records_by_shard = [[_load_figures(item, artifacts).figures for item in shard] for shard in shards]
    records = [record for shard in records_by_shard for figures in shard for record in figures]
    marked = iter(mark_repeated(records, load=artifacts.get, settings=settings))
    return tuple(
        tuple(
            _store_figures(item, [next(marked) for _ in figures], artifacts)
            for item, figures in zip(shard, before, strict=True)
        )
        for shard, before in zip(shards, records_by_shard, strict=True)
    )


class Described(NamedTuple):
    """Documents with the descriptions of their figures, and what a later run may still describe."""

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
    """Return documents with each kept figure described, or why not, and what is unfinished. Raises ModelUnavailable.

    A model in this process answers in batches first; each figure then finds its answer in the response store.
    """
    asking = chat if settings.qwen3_vl_enabled else None
    answered: set[str] = set()
    troubles: dict[str, ModelError] = {}

    def count(digest: str) -> None:  # a picture that several figures show counts once
        if digest not in answered:
            answered.add(digest)
            progress.advance(DESCRIBE)

    if asking:
        records = [record for item in pictured for record in _load_figures(item, artifacts).figures]
        progress.expect(DESCRIBE, len({picture.digest for record in records if (picture := _picture_of(record))}))
        if isinstance(asking, BatchChat):
            requests = _make_requests(records, artifacts, settings)
            with suppress(BudgetSpent):  # `describe` tells of each figure that is left that the budget was spent
                for digest, answer in ask_all(asking, requests, responses=responses, limits=limits, budget=budget):
                    if isinstance(answer, ModelError):
                        troubles[digest] = answer
                    else:
                        count(digest)

    def ask_about(record: FigureRecord) -> FigureRecord:
        """Return the record with its picture's description, or as failed where no request could be made of it."""
        picture = _picture_of(record)
        if picture and (trouble := troubles.get(picture.digest)):
            return mark_failed(record, trouble)
        png = artifacts.get(picture) if picture and chat else b""
        return describe(record, png, chat=chat, responses=responses, limits=limits, settings=settings, budget=budget)

    result: list[Pictured] = []
    unfinished: dict[str, str] = {}
    with ThreadPoolExecutor(max_workers=limits.settings.concurrency) as pool:
        for item in pictured:
            figures, records = _load_figures(item, artifacts).figures, list[FigureRecord]()
            for before, record in zip(figures, pool.map(ask_about, figures), strict=True):
                records.append(record)
                if record.response_key and (picture := _picture_of(before)):
                    count(picture.digest)
            result.append(_store_figures(item, records, artifacts))
            failed = [record.reason or "" for record in records if record.retryable]
            if failed:
                unfinished[item.parsed.source.digest[:12]] = f"{len(failed)} figures: {failed[0]}"
    return Described(tuple(result), unfinished)


def _picture_of(record: FigureRecord) -> Ref | None:
    """Return the picture that a model is asked about for a figure; None where it is not asked."""
    return record.image if record.status == "kept" else record.original


def _make_requests(
    records: Sequence[FigureRecord], artifacts: Artifacts, settings: FigureSettings
) -> Iterator[tuple[str, ChatRequest]]:
    """Yield the digest of each picture that a model can take, with its request; others are refused one by one later."""
    for image in dict.fromkeys(picture for record in records if (picture := _picture_of(record))):
        png = artifacts.get(image)
        try:
            picture_size(png)
        except RequestRefused:
            continue
        yield image.digest, figure_request(png, settings)


def find_refusal(pictured: Sequence[Pictured], artifacts: Artifacts) -> str | None:
    """Return why a figure could not be described, of the first one; None if all could."""
    item = next((item for item in pictured if item.counts.get("failed")), None)
    records = _load_figures(item, artifacts).figures if item else ()
    return next((record.reason for record in records if record.status == "failed"), None)


def _load_figures(item: Pictured, artifacts: Artifacts) -> DocumentFigures:
    if item.figures is None:
        return DocumentFigures(document=item.parsed.source.digest, figures=())
    return artifacts.load(DocumentFigures, item.figures)


def _store_figures(item: Pictured, records: Sequence[FigureRecord], artifacts: Artifacts) -> Pictured:
    """Store a document's figure records; return it with their ref and counts by status, unread ones as they are."""
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
    """Count the figures of a folder by outcome, and the calls that `chat` would still get. Raises FolderUnusable."""
    scanned = scan_folder(folder, artifacts=artifacts, include=include, exclude=exclude)
    progress.expect("extract_figures", len(scanned.sources))
    pictured = []
    for source in scanned.sources:
        progress.advance("extract_figures")
        try:
            sniffed = sniff(artifacts.path(source.content), suffix=source.suffix)
        except DocumentError:
            continue  # a document that cannot be read has no figures; indexing reports it
        # the original stands for a document that was read: finding figures only asks whether there is one
        parsed = Parsed(source=source, document=source.content, format=sniffed.format)
        pictured.append(find_figures(parsed, artifacts, settings=settings, limits=limits, password=password))
    marked = flat(mark_duplicate_figures((tuple(pictured),), artifacts, settings=settings))
    described = [artifacts.load(DocumentFigures, item.figures) for item in marked if item.figures]
    records = [record for document in described for record in document.figures]
    answered: set[str] = set()
    if chat:
        images = {record.image.digest: record.image for record in records if record.status == "kept" and record.image}
        requests = ((digest, figure_request(artifacts.get(image), settings)) for digest, image in images.items())
        answered = {digest for digest, request in requests if is_answered(chat, request, responses)}
    return plan_descriptions(records, documents=len(scanned.sources), answered=answered)


def figure_model(vlm: str, settings: FigureSettings) -> str | None:
    """Return the vision model's full name for models.backends.open_chat; None where figures are off.

    vlm: a model behind an endpoint keeps its name; `hf` and `vllm` alone mean the folder `qwen3_vl_model_path`.
    Arguments in the name win over the settings. Raises ModelUnavailable.
    """
    if not settings.qwen3_vl_enabled:
        return None
    if vlm in kinds("process"):
        if not settings.qwen3_vl_model_path:
            raise ModelUnavailable(f"{vlm} alone names no weights; write {vlm}:FOLDER, or set qwen3_vl_model_path")
        vlm = f"{vlm}:{settings.qwen3_vl_model_path}"
    if (local := local_of(vlm)) is None:
        return vlm
    args: dict[str, float] = {}
    # the context is only set where it is shorter than the model's own
    revision = str(local.args.get("revision") or "") or None
    folder = hub_folder(local.pretrained, revision, kind="model", patterns=("config.json",))
    own, most = declared_context(read_json(folder / "config.json")), settings.qwen3_vl_max_model_len
    if own is not None and most < own and not {"max_length", "max_model_len"} & local.args.keys():
        args["max_length" if local.kind == "hf" else "max_model_len"] = most
    if local.kind != "hf":
        args["gpu_memory_utilization"] = settings.qwen3_vl_gpu_memory_utilization
    return local._replace(args={**args, **local.args}).name
