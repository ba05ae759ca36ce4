"""What `flows.rag.build_index` would do, step by step as it stands there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from flows.running.foresight.foreseeing import Foresight, RunPlan, Unknown, known
from flows.running.rag_config import IndexConfig
from models.chats import revision_of
from models.weight_files import fingerprint
from storage.index import open_index, refuse_foreign
from storage.records import Record, Ref
from storage.storage_errors import DamagedIndex, NotAnIndex
from tasks.language.tokens import installed_tokenizer
from tasks.origins.missing import Names
from tasks.rag import steps
from tasks.rag.corpus import Parsed, flat, refuse_too_many_failures, shard_sources
from tasks.rag.indexing.figures import FigurePlan
from tasks.rag.indexing.index_report import failures
from tasks.rag.indexing.picturing import figure_model, marked_for_certain, plan_described
from tasks.rag.indexing.publishing import build_corpus
from tasks.rag.indexing.scan import ScanResult, require_folder, scan_folder
from tasks.rag.indexing.segmenting import is_grouped, shard_segments
from tasks.resources import artifacts, responses, vision


class DocumentChanges(Record):
    """The documents of a folder, compared with the current generation of its index."""

    unchanged: int
    new: int
    changed: int
    """Other content under the same name."""
    renamed: int
    removed: int


class IndexPlan(RunPlan):
    """What indexing a folder would do."""

    documents: DocumentChanges
    calls: FigurePlan | None = None
    """Questions to the vision model; None where there is no model, or where the figures are not found yet."""


def plan_index(config: IndexConfig) -> IndexPlan:
    """What `build_index` would do; keeps the bytes of new documents, and writes nothing else.

    Raises what `build_index` raises before its first step, and TooManyFailed where that is certain.
    """
    require_folder(config.documents)
    refuse_foreign(config.index)
    vlm = figure_model(config.vlm, config.figures) if config.vlm else None
    seen_by = revision_of(vlm) if vlm else ""
    tokenizer, weights = installed_tokenizer(), fingerprint(config.embedder)
    found = scan_folder(config.documents, artifacts=artifacts(), include=config.include, exclude=config.left_out)
    names = Names(now={file.content.digest: file.name for file in found.files}, before=_before(config))
    ahead = Foresight(names)

    ahead.foresee(steps.scan)
    parsed = _foresee_reading(config, ahead, found)
    _foresee_failures(config, ahead, found, parsed)
    reading: dict[str, Any] = {"limits": config.limits, "password_env": config.password_env}
    pictured = ahead.foresee_each(steps.find_figures, parsed, settings=config.figures, **reading)
    distinct = ahead.foresee(steps.mark_duplicates, tuple(pictured), settings=config.figures)
    shards = distinct.shards if known(distinct) else _marked(config, pictured, distinct)
    described = ahead.foresee_each(
        steps.extract_figures,
        shards,
        settings=config.figures,
        vlm=vlm,
        revision=seen_by,
        spending=config.spending,
    )
    sizes: dict[str, Any] = {"chunk_chars": config.chunk_chars, "overlap_chars": config.overlap_chars}
    chunked = ahead.foresee_each(steps.chunk, described, **sizes, tokenizer=tokenizer)
    embedded = ahead.foresee_each(steps.embed, chunked, embedder=config.embedder, fingerprint=weights)
    ahead.foresee(
        steps.publish_index,
        _foresee_corpus(config, ahead, found, parsed, embedded),
        index=config.index,
        settings=config.shown(vlm, tokenizer=tokenizer, weights=weights, seen_by=seen_by),
    )
    ahead.foresee(steps.publish_report)
    calls = None
    if vlm and known(distinct):
        chat = vision(vlm, revision=seen_by)
        calls = plan_described(
            flat(distinct.shards), artifacts(), settings=config.figures, chat=chat, responses=responses()
        )
    return IndexPlan(**dict(ahead.plan), documents=_changes(found, names.before or {}), calls=calls)


def _foresee_reading(config: IndexConfig, ahead: Foresight, found: ScanResult) -> list[Any]:
    """What is read, shard by shard."""
    again = found.digests_of(config.again)
    return [
        ahead.will_run(steps.parse, "asked to read again")
        if any(source.digest in again for source in shard)
        else ahead.foresee(steps.parse, shard, **config.how_to_read)
        for shard in shard_sources(found.sources)
    ]


def _foresee_corpus(
    config: IndexConfig, ahead: Foresight, found: ScanResult, parsed: list[Any], embedded: list[Any]
) -> Any:
    """What is published: the corpus, or what is unknown of it."""
    segments, centres = _foresee_segments(ahead, embedded)
    ahead.foresee(steps.catalogue)
    if not known(parsed, embedded, segments, centres):
        return next(one for one in chain(embedded, parsed, segments, [centres]) if not known(one))
    made, _ = build_corpus(
        found, flat(parsed), flat(embedded), segments=flat(segments), centres=centres, metadata=config.metadata
    )
    return Ref.of("corpus", made.model_dump_json().encode())


def _foresee_segments(ahead: Foresight, embedded: list[Any]) -> tuple[list[Any], Any]:
    """The segments, and the centres of their vectors."""
    if not known(embedded):
        unknown = next(one for one in embedded if not known(one))
        return [ahead.foresee(steps.segment, unknown, centres=None)], None
    made = flat(embedded)
    centres: Any = ahead.foresee(steps.find_centres) if is_grouped(made) else None
    return ahead.foresee_each(steps.segment, shard_segments(made), centres=centres), centres


def _before(config: IndexConfig) -> dict[str, str] | None:
    """Names of the documents of the current generation, by digest; None where there is no generation."""
    try:
        with open_index(config.index) as opened:
            return dict(opened.names)
    except (NotAnIndex, DamagedIndex):
        return None


def _foresee_failures(config: IndexConfig, ahead: Foresight, found: ScanResult, parsed: Sequence[Any]) -> None:
    """Whether failures are shown, and whether there are too many of them."""
    read: list[tuple[Parsed, ...]] = [shard for shard in parsed if known(shard)]
    if failures(flat(read), found):
        ahead.foresee(steps.publish_failures)
    elif not known(parsed):
        ahead.may_run(steps.publish_failures, "parse")
    if known(parsed):
        refuse_too_many_failures(read, allowed=config.max_failed_share, named=found.named)


def _marked(config: IndexConfig, pictured: Sequence[Any], distinct: Unknown) -> list[Any]:
    """The shards in which duplicates will be marked as they can be now; the others wait for all pictures."""
    there = [shard if known(shard) else None for shard in pictured]
    return [shard or distinct for shard in marked_for_certain(there, artifacts(), settings=config.figures)]


def _changes(found: ScanResult, before: Mapping[str, str]) -> DocumentChanges:
    now = {file.content.digest: file.name for file in found.files}
    called = set(before.values())
    new = [name for digest, name in now.items() if digest not in before]
    changed = [name for name in new if name in called]
    renamed = [digest for digest, name in now.items() if digest in before and before[digest] != name]
    return DocumentChanges(
        unchanged=len(now) - len(new) - len(renamed),
        new=len(new) - len(changed),
        changed=len(changed),
        renamed=len(renamed),
        removed=len([name for digest, name in before.items() if digest not in now and name not in changed]),
    )
