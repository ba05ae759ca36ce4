"""Documents become an index, and many questions are answered from it.

scan ─► parse ─► extract_figures ─► chunk ─► embed ─► segment ─► publish_index
(hash)  (CPU)     (GPU: VLM)        (CPU)    (GPU)    (CPU: vectors + BM25 of some thousand chunks; atomic swap)

read_questions ─► answer ─► write_answers
(index digest)    (LLM)     (JSONL)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from prefect import State, flow
from prefect.runtime import flow_run
from prefect.states import Completed

from flows.running.answer_models import models_of
from flows.running.environment import program
from flows.running.rag_config import AnswerConfig as AnswerConfig
from flows.running.rag_config import IndexConfig as IndexConfig
from flows.running.run_reporting import first_names, say, watched
from flows.running.task_runners import task_runner
from models.backends import is_in_process, revision_of
from models.embedders import fingerprint_of
from models.weight_files import fingerprint
from tasks.language.tokens import installed_tokenizer
from tasks.rag import steps
from tasks.rag.batching import BatchReport
from tasks.rag.corpus import Corpus, Parsed, Pictured, flat, refuse_too_many_failures, shard_sources
from tasks.rag.indexing.document_stages import is_grouped, shard_segments
from tasks.rag.indexing.index_report import IndexReport, headline, list_failures
from tasks.rag.indexing.picturing import figure_model, find_refusal
from tasks.rag.indexing.publishing import Build, build
from tasks.rag.indexing.scan import ScanResult
from tasks.rag.rag_errors import Unfinished
from tasks.resources import artifacts
from tasks.step import Gathered, on_each, quoted, with_device

runner: Any = task_runner(os.cpu_count() or 1)


@flow(name="rag", flow_run_name="{config.title}", version=program(), task_runner=runner, persist_result=False)
@watched
def build_index(config: IndexConfig) -> IndexReport | State[IndexReport]:
    """Index a folder; only what is new or changed is read, described, cut and embedded. Raises Unfinished."""
    config.require_inputs()
    vlm = figure_model(config.vlm, config.figures) if config.vlm else None
    seen_by = revision_of(vlm) if vlm else ""
    tokenizer, weights = installed_tokenizer(), fingerprint(config.embedder)
    with build(config.index, run=flow_run.id, parameters=config.model_dump(mode="json")) as building:
        scanned = steps.scan(config.documents, include=config.include, exclude=config.left_out)
        parsed = _parse(config, scanned, building)
        failed = list_failures(flat(parsed.results), scanned)
        described = _describe_figures(config, parsed.results, building, vlm=vlm, seen_by=seen_by)

        building.enter("chunk")
        sizes = {"chunk_chars": config.chunk_chars, "overlap_chars": config.overlap_chars}
        chunked = on_each(described.results, steps.chunk, **sizes, tokenizer=tokenizer)

        building.enter("embed")
        embedding = with_device(steps.embed, in_process=not config.embedder.startswith("openai:"))
        embedded = on_each(chunked.results, embedding, embedder=config.embedder, fingerprint=weights)

        building.enter("publish_index")
        documents = flat(embedded.results)
        centres = steps.find_centres(quoted(documents), index=config.index) if is_grouped(documents) else None
        segments = on_each(shard_segments(documents), steps.segment, centres=centres)
        catalogued = steps.catalogue(
            quoted(scanned),
            parsed=quoted(flat(parsed.results)),
            embedded=quoted(documents),
            segments=quoted(flat(segments.results)),
            centres=centres,
            metadata=config.metadata,
        )
        settings = config.index_settings(vlm, tokenizer=tokenizer, weights=weights, seen_by=seen_by)
        published = steps.publish_index(catalogued.corpus, index=config.index, settings=settings)

        report = building.finish(
            published,
            artifacts().load(Corpus, catalogued.corpus).entries,
            scanned=scanned,
            parsed=flat(parsed.results),
            pictured=flat(described.results),
            chunked=flat(chunked.results),
            settings=settings,
            preview_chunks=config.preview_chunks,
            warnings=catalogued.warnings,
            refused=find_refusal(flat(described.results), artifacts()),
        )
        steps.publish_report(report, failed=quoted(failed), documents=config.documents, index=config.index)
        say(headline(report))
        if unfinished := parsed.unfinished | described.unfinished:
            raise Unfinished(scanned.by_name(unfinished), report=report)
    if report.documents.failed:
        message = f"{report.documents.failed} could not be read: {first_names(failure.document for failure in failed)}"
        return Completed(name="CompletedWithFailures", message=message, data=report)
    return report


def _parse(config: IndexConfig, scanned: ScanResult, building: Build) -> Gathered[tuple[Parsed, ...]]:
    """Parse the documents, those of `again` anew; failures are in the status at once. Raises TooManyFailed."""
    building.enter("parse")
    shards, reading = shard_sources(scanned.sources), config.reading_inputs
    if config.again:
        steps.forget_readings(shards, digests=scanned.digests_of(config.again), **reading)
    parsed = on_each(shards, steps.parse, **reading)
    building.note_failures(flat(parsed.results), scanned)
    refuse_too_many_failures(parsed.results, allowed=config.max_failed_share, rename=scanned.by_name)
    return parsed


def _describe_figures(
    config: IndexConfig, parsed: Sequence[tuple[Parsed, ...]], building: Build, *, vlm: str | None, seen_by: str
) -> Gathered[tuple[Pictured, ...]]:
    """Describe the figures of the documents, each distinct one once; without a model they are skipped."""
    building.enter("extract_figures")
    pictured = on_each(
        parsed, steps.find_figures, settings=config.figures, limits=config.limits, password_env=config.password_env
    )
    distinct = steps.mark_duplicates(quoted(tuple(pictured.results)), settings=config.figures)
    seeing = with_device(steps.extract_figures, in_process=is_in_process(vlm or ""))
    described = on_each(
        distinct.shards, seeing, settings=config.figures, vlm=vlm, revision=seen_by, spending=config.spending
    )
    return described._replace(unfinished=pictured.unfinished | described.unfinished)


@flow(
    name="rag-answer",
    flow_run_name="answer {config.questions.name}",
    version=program(),
    task_runner=runner,
    persist_result=False,
)
@watched
def answer_batch(config: AnswerConfig) -> BatchReport:
    """Answer a file of questions; an answer given before on the same index is recalled. Raises Unfinished."""
    models, reranker = models_of(config.llm), config.reranker
    batch = steps.read_questions(config.questions, index=config.index)
    answered = on_each(
        batch.shards,
        with_device(steps.answer, in_process=models.in_process),
        index=config.index,
        index_digest=batch.index_digest,
        models=models,
        reranker=reranker,
        reranker_weights=fingerprint_of(reranker) if reranker else "",
        settings=config.answers,
    )
    report = steps.write_answers(quoted(flat(answered.results)), out=config.out)
    if answered.unfinished:
        raise Unfinished(answered.unfinished, report=report, items="answers")
    return report
