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
    plan,
    record_figure,
    undescribed,
    without_duplicates,
)
from tasks.rag.indexing.scan import scan_folder

FINDER_VERSION = 1
"""Increment when other pictures would be found in the same bytes, or measured differently."""
DESCRIBE = "describe figures"
"""Name of the stage in progress displays."""

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
        return Pictured(parsed=parsed, failure=error.failure)
    figures = artifacts.save("figures", DocumentFigures(document=parsed.source.digest, figures=tuple(records)))
    artifacts.remember(key, figures)
    return Pictured(parsed=parsed, figures=figures)


def with_duplicates_marked(shards: Shards, artifacts: Artifacts, *, settings: FigureSettings) -> Shards:
    """The shards, pictures that repeat another one marked `duplicate`."""
    found = [[_load(item, artifacts).figures for item in shard] for shard in shards]
    records = [record for shard in found for figures in shard for record in figures]
    marked = iter(without_duplicates(records, load=artifacts.get, settings=settings))
    return tuple(
        tuple(
            _store_figures(item, [next(marked) for _ in figures], artifacts)
            for item, figures in zip(shard, before, strict=True)
        )
        for shard, before in zip(shards, found, strict=True)
    )


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
    """Every kept figure with its description, or the reason why there is none. Raises ModelUnavailable.

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
        records = [record for item in pictured for record in _load(item, artifacts).figures]
        progress.expect(DESCRIBE, len({shown.digest for record in records if (shown := _picture_of(record))}))
        if isinstance(asking, BatchChat):
            requests = _requests(records, artifacts, settings)
            with suppress(BudgetSpent):
                for digest, answer in ask_all(asking, requests, responses=responses, limits=limits, budget=budget):
                    if isinstance(answer, ModelError):
                        troubles[digest] = answer
                    else:
                        count(digest)

    def ask_about(record: FigureRecord) -> FigureRecord:
        shown = _picture_of(record)
        if shown and (trouble := troubles.get(shown.digest)):
            return undescribed(record, trouble)
        png = artifacts.get(shown) if shown and chat else b""
        return describe(record, png, chat=chat, responses=responses, limits=limits, settings=settings, budget=budget)

    result: list[Pictured] = []
    unfinished: dict[str, str] = {}
    with ThreadPoolExecutor(max_workers=limits.settings.concurrency) as pool:
        for item in pictured:
            figures, records = _load(item, artifacts).figures, list[FigureRecord]()
            for before, record in zip(figures, pool.map(ask_about, figures), strict=True):
                records.append(record)
                if record.response_key and (shown := _picture_of(before)):
                    count(shown.digest)
            result.append(_store_figures(item, records, artifacts))
            failed = [record.reason or "" for record in records if record.retryable]
            if failed:
                unfinished[item.parsed.source.digest[:12]] = f"{len(failed)} figures: {failed[0]}"
    return Described(tuple(result), unfinished)


def _picture_of(record: FigureRecord) -> Ref | None:
    """The picture that is asked about, if any."""
    return record.image if record.status == "kept" else record.original


def _requests(
    records: Sequence[FigureRecord], artifacts: Artifacts, settings: FigureSettings
) -> Iterator[tuple[str, ChatRequest]]:
    """One for each picture that can be shown; one that cannot is refused by itself later."""
    for image in dict.fromkeys(shown for record in records if (shown := _picture_of(record))):
        png = artifacts.get(image)
        try:
            picture_size(png)
        except RequestRefused:
            continue
        yield image.digest, figure_request(png, settings)


def refusal_in(pictured: Sequence[Pictured], artifacts: Artifacts) -> str | None:
    """Why a figure could not be described; None if all could."""
    item = next((item for item in pictured if item.counts.get("failed")), None)
    records = _load(item, artifacts).figures if item else ()
    return next((record.reason for record in records if record.status == "failed"), None)


def _load(item: Pictured, artifacts: Artifacts) -> DocumentFigures:
    if item.figures is None:
        return DocumentFigures(document=item.parsed.source.digest, figures=())
    return artifacts.load(DocumentFigures, item.figures)


def _store_figures(item: Pictured, records: Sequence[FigureRecord], artifacts: Artifacts) -> Pictured:
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
    """Count figures, why they are dropped, and the calls that `chat` would still get. Raises FolderUnusable."""
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
    described = [artifacts.load(DocumentFigures, item.figures) for item in marked if item.figures]
    records = [record for document in described for record in document.figures]
    known: set[str] = set()
    if chat:
        images = {record.image.digest: record.image for record in records if record.status == "kept" and record.image}
        requests = ((digest, figure_request(artifacts.get(image), settings)) for digest, image in images.items())
        known = {digest for digest, request in requests if is_answered(chat, request, responses)}
    return plan(records, documents=len(found.sources), answered=known)


def figure_model(vlm: str, settings: FigureSettings) -> str | None:
    """The vision model's full name for models.backends.open_chat; None where figures are off.

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
    folder = hub_folder(local.pretrained, revision, what="model", wanted=("config.json",))
    own, most = declared_context(read_json(folder / "config.json")), settings.qwen3_vl_max_model_len
    if own is not None and most < own and not {"max_length", "max_model_len"} & local.args.keys():
        args["max_length" if local.kind == "hf" else "max_model_len"] = most
    if local.kind != "hf":
        args["gpu_memory_utilization"] = settings.qwen3_vl_gpu_memory_utilization
    return local._replace(args={**args, **local.args}).name
