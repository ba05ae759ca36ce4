"""The steps of the rag pipeline: each opens its inputs, calls a domain module and keeps the result."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from models.permissions import read_variable
from storage.files import make_folder
from storage.records import Record, Ref
from storage.segments import Segment
from tasks import progress
from tasks.budget import Spending
from tasks.documents.document_readers import ReadOptions
from tasks.documents.isolation import ReadLimits
from tasks.keys import slug
from tasks.rag.answering.wiring import Models
from tasks.rag.answers import AnswerSettings
from tasks.rag.batching import ANSWER_VERSION, Batch, BatchQuestion, BatchReport, StoredAnswer, is_written
from tasks.rag.corpus import Chunked, Corpus, Embedded, Parsed, Pictured, Source
from tasks.rag.indexing.figures import FigureSettings
from tasks.rag.indexing.index_report import DocumentStatus, IndexReport
from tasks.rag.indexing.publishing import Catalogued, Published
from tasks.rag.indexing.scan import ScanResult
from tasks.resources import READ_LOG, artifacts, embedding_cache, resources, responses, results
from tasks.step import Incomplete, StepKey, paying_run, step


@step(version=1, reads_world=True)
def scan(folder: Path, *, include: tuple[str, ...], exclude: tuple[str, ...]) -> ScanResult:
    """Hash every document of the folder, keep its bytes, and return the list of them."""
    from tasks.rag.indexing.scan import scan_folder

    return scan_folder(folder, artifacts=artifacts(), include=include, exclude=exclude)


def _opens_nothing_locked(result: Sequence[Parsed], inputs: dict[str, Any]) -> bool:
    """Return whether the record may stand: not if a password opened a document, or a lacking one is given now."""
    refused = any(item.failure and item.failure.reason == "needs_password" for item in result)
    return not (any(item.locked for item in result) or (refused and inputs["password_env"]))


@step(version=6, verify=_opens_nothing_locked)
def parse(
    sources: tuple[Source, ...], *, options: ReadOptions, limits: ReadLimits, password_env: str | None
) -> tuple[Parsed, ...]:
    """Read each document in a child process and keep it once it is read. Raises Incomplete where a rerun may help."""
    from tasks.rag.indexing.document_stages import parse_source

    password = read_variable(password_env) if password_env else None
    log = resources().home / READ_LOG
    make_folder(log.parent)
    parsed = tuple(
        parse_source(source, artifacts(), options=options, limits=limits, password=password, log=log)
        for source in progress.counted("parse", sources)
    )
    unfinished = {item.source.digest[:12]: why for item in parsed if (why := item.may_pass)}
    if unfinished:
        raise Incomplete(parsed, unfinished)
    return parsed


def forget_readings(
    shards: Iterable[tuple[Source, ...]], *, digests: Collection[str], options: ReadOptions, **more: Any
) -> None:
    """Make `parse` read these documents of the shards again though nothing has changed. more: its other inputs."""
    from tasks.rag.indexing.document_stages import reading_key

    key = cast(StepKey, parse.cache_policy)
    for shard in shards:
        selected = [source for source in shard if source.digest in digests]
        if selected:
            results().remove(key.key_of({"sources": shard, "options": options, **more}, run=None))
            for source in selected:
                artifacts().forget(reading_key(source, options=options, limits=more["limits"]))


@step(version=1)
def find_figures(
    parsed: tuple[Parsed, ...], *, settings: FigureSettings, limits: ReadLimits, password_env: str | None
) -> tuple[Pictured, ...]:
    """Return the pictures of each document, and which of them are worth a question to a vision model."""
    from tasks.rag.indexing.picturing import find_figures

    password = read_variable(password_env) if password_env else None
    return tuple(
        find_figures(item, artifacts(), settings=settings, limits=limits, password=password)
        for item in progress.counted("extract_figures", parsed)
    )


class Shards(Record):
    """Documents with the records of their figures, grouped as the shards of the build."""

    shards: tuple[tuple[Pictured, ...], ...]


@step(version=1)
def mark_duplicates(shards: tuple[tuple[Pictured, ...], ...], *, settings: FigureSettings) -> Shards:
    """Return the shards with pictures marked that stand in several places, so that each is asked about once."""
    from tasks.rag.indexing.picturing import mark_duplicate_figures

    return Shards(shards=mark_duplicate_figures(shards, artifacts(), settings=settings))


# figures that one run could not pay for are asked about by the next
@step(version=1, gpu=True, verify=lambda result, _: not any(item.out_of_budget for item in result))
def extract_figures(
    pictured: tuple[Pictured, ...], *, settings: FigureSettings, vlm: str | None, revision: str, spending: Spending
) -> tuple[Pictured, ...]:
    """Ask the vision model, if any, about each figure, once; revision: fingerprint of it. Raises Incomplete."""
    from tasks.rag.indexing.picturing import describe_figures
    from tasks.resources import budget, call_limits, vision

    described = describe_figures(
        pictured,
        artifacts(),
        settings=settings,
        chat=vision(vlm, revision=revision) if vlm else None,
        responses=responses(),
        limits=call_limits(vlm or ""),
        budget=budget(paying_run(), spending),
    )
    if described.unfinished:
        raise Incomplete(described.pictured, described.unfinished)
    return described.pictured


@step(version=16)
def chunk(
    pictured: tuple[Pictured, ...], *, chunk_chars: int, overlap_chars: int, tokenizer: str
) -> tuple[Chunked, ...]:
    """Return each document that could be read, cut into chunks, with the words of each chunk."""
    from tasks.rag.indexing.document_stages import cut

    readable = [item for item in pictured if item.parsed.document]
    return tuple(
        cut(item, artifacts(), chunk_chars=chunk_chars, overlap_chars=overlap_chars, tokenizer=tokenizer)
        for item in progress.counted("chunk", readable)
    )


@step(version=1, gpu=True)
def embed(chunked: tuple[Chunked, ...], *, embedder: str, fingerprint: str) -> tuple[Embedded, ...]:
    """Return the vectors of every chunk, each text embedded once; fingerprint: of the embedder's weights."""
    from tasks.documents.isolation import close_idle_readers
    from tasks.rag.indexing.document_stages import embed_document
    from tasks.resources import embedder as load

    del fingerprint  # part of the key alone
    close_idle_readers()  # the model needs the memory
    progress.expect("embed", sum(item.count for item in chunked))
    return tuple(
        embed_document(item, artifacts(), load(embedder), embedding_cache(), lambda n: progress.advance("embed", n))
        for item in chunked
    )


@step(version=1, reads_world=True)
def find_centres(embedded: tuple[Embedded, ...], *, index: Path) -> Ref:
    """Return the centres by which a large index groups its vectors: those that it has, until it doubles or halves."""
    from tasks.rag.indexing.document_stages import find_centres

    return find_centres(embedded, artifacts(), index=index)


@step(version=1)
def segment(leaves: tuple[tuple[Embedded, ...], ...], *, centres: Ref | None) -> tuple[Segment, ...]:
    """Make a segment of the index from each group of documents."""
    from tasks.rag.indexing.document_stages import make_segment

    return tuple(make_segment(leaf, artifacts(), centres=centres) for leaf in leaves)


@step(version=1, reads_world=True)
def catalogue(
    found: ScanResult,
    *,
    parsed: tuple[Parsed, ...],
    embedded: tuple[Embedded, ...],
    segments: tuple[Segment, ...],
    centres: Ref | None,
    metadata: Path | None,
) -> Catalogued:
    """Return the stored corpus, with names, titles and metadata beside the chunks, and warnings on metadata."""
    from tasks.rag.indexing.publishing import build_corpus

    corpus, warnings = build_corpus(found, parsed, embedded, segments=segments, centres=centres, metadata=metadata)
    return Catalogued(corpus=artifacts().save("corpus", corpus), warnings=warnings)


def _is_current(result: Published, inputs: dict[str, Any]) -> bool:
    """Return whether the folder's current index version has this content and all of its files."""
    from storage.index import is_current

    return is_current(inputs["index"], result.digest)


@step(version=2, verify=_is_current)
def publish_index(corpus: Ref, *, index: Path, settings: dict[str, JsonValue]) -> Published:
    """Write an index version beside the current one, verify it, switch readers over, and learn its names."""
    from storage.index import open_index
    from tasks.rag.indexing.publishing import publish_corpus
    from tasks.rag.planning.routing import store_learned_names

    version = publish_corpus(artifacts().load(Corpus, corpus), artifacts(), index=index, settings=settings)
    with open_index(index) as opened:
        store_learned_names(opened)
    return Published(generation=version.id, digest=version.digest)


@step(version=1, reads_world=True)
def publish_report(report: IndexReport, *, failed: tuple[DocumentStatus, ...], documents: Path, index: Path) -> str:
    """Show in the Prefect UI what a build did, in words, and return the key of the artifact."""
    from prefect.artifacts import create_markdown_artifact

    from tasks.rag.indexing.index_report import markdown_of

    # the same for all builds of an index, so that it shows their history
    key = f"rag-{slug(index.absolute().name)}-report"
    markdown = markdown_of(report, failed=failed, documents=documents, index=index)
    create_markdown_artifact(markdown=markdown, key=key, description="What became of the documents")
    return key


@step(version=1, reads_world=True)
def read_questions(questions: Path, *, index: Path) -> Batch:
    """Read a JSONL file into shards of questions, and the digest of the index that is to answer them.

    Raises QuestionsUnusable, NotAnIndex, DamagedIndex.
    """
    from storage.index import open_index
    from tasks.rag.batching import read_batch

    with open_index(index) as opened:
        return read_batch(questions, index_digest=opened.digest)


@step(version=ANSWER_VERSION, gpu=True)
def answer(
    asked: tuple[BatchQuestion, ...],
    *,
    index: Path,
    index_digest: str,
    models: Models,
    reranker: str | None,
    reranker_weights: str,
    settings: AnswerSettings,
) -> tuple[StoredAnswer, ...]:
    """Answer questions and keep each answer; reranker_weights: fingerprint. Raises QuestionsUnusable, Incomplete."""
    from storage.engines import index_name
    from tasks.rag.answering.assistant import open_assistant
    from tasks.rag.batching import answer_each
    from tasks.rag.rag_errors import QuestionsUnusable

    progress.expect("answer", len(asked))
    with open_assistant(index, models=models, patient=True, reranker=reranker, answers=settings) as assistant:
        if assistant.index.digest != index_digest:
            raise QuestionsUnusable(
                f"{index_name(index)} was published anew while it was asked; run again to ask the new one."
            )
        inputs = {"index": index_digest, "models": models, "reranker": reranker, "settings": settings}
        # left out, so that older answers without a reranker are found
        inputs |= {"reranker_weights": reranker_weights} if reranker_weights else {}
        stored = answer_each(
            asked, assistant, artifacts(), inputs=inputs, on_progress=lambda: progress.advance("answer")
        )
    if away := {item.id: item.away for item in stored if item.away}:
        raise Incomplete(tuple(stored), away)
    return tuple(stored)


@step(version=1, verify=lambda report, _: is_written(report))
def write_answers(kept: tuple[StoredAnswer, ...], *, out: Path) -> BatchReport:
    """Write one line of JSON per question, in the order of the questions."""
    from tasks.rag.batching import write_answers as write_file

    return write_file(kept, artifacts(), out=out)
