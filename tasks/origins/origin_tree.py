"""The tree of origins that `trivet why` shows: of a digest, of an answer and of a score.

A digest: the steps that made it, as they recorded it. An answer: claim → place → chunks → document, and the calls of
models. A score of an item: grader → reply → model call → prompt → data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from textwrap import shorten

from pydantic import TypeAdapter

from storage.artifacts import Artifacts
from storage.lineage import Lineage, Origin, StepRun
from storage.records import Record, Ref
from storage.storage_errors import DamagedArtifact, MissingArtifact
from tasks.evaluation.evaluation_records import Sample, TaskResult, Usage
from tasks.evaluation.record_lines import read_lines
from tasks.evaluation.results.finding_runs import FoundRun, Recall, look_up
from tasks.rag.answers import Answered, place_of
from tasks.rag.corpus import Corpus, Embedded, Searchable
from tasks.rag.numbers.cell_facts import CellFact, TextCell

MOST_DIGESTS = 2_000
"""Most digests that are followed from the roots of a tree."""
MOST_SOURCES = 12
"""Most sources of one digest that are shown; of the others only their number."""
QUOTE_CHARS = 120
UNKNOWN_INDEX = (
    "the index {index} was published from another home, or before origins were recorded: "
    "its pages are known, the steps that made them are not"
)


class OriginTree(Record):
    """Something, and what it comes from."""

    what: str
    """`answer`, `claim`, `chunks`, `score`, `model call`, `document` …"""
    name: str = ""
    """Text of the claim or page, or the name of what was made."""
    key: str = ""
    """Digest of the artifact, or the key of a stored response."""
    step: StepRun | None = None
    """The step that made it."""
    notes: tuple[str, ...] = ()
    sources: tuple[OriginTree, ...] = ()


def build_trees(
    digests: Iterable[str], lineage: Lineage, *, names: Mapping[str, str] | None = None
) -> tuple[OriginTree, ...]:
    """Return a tree for each distinct digest, in order, as the steps recorded them. names: of documents, by digest.

    Raises StoreUnreachable, DatabaseUnavailable.
    """
    roots = tuple(dict.fromkeys(digests))
    origins = lineage.origins(roots, most=MOST_DIGESTS)
    return tuple(_tree(digest, origins, names or {}, set()) for digest in roots)


def _tree(digest: str, origins: Mapping[str, Origin], names: Mapping[str, str], visited: set[str]) -> OriginTree:
    """Return the tree of a digest. visited: digests whose sources a tree shows already; those met here are added."""
    origin = origins.get(digest) or Origin(kind="", digest=digest)
    kind, name = origin.kind or origin.name or "digest", names.get(digest, "")
    if digest in visited:  # reached a second way: its own sources are shown once
        return OriginTree(what=kind, name=name, key=digest, notes=("told above",))
    visited.add(digest)
    # the nearest sources: without what another of them was made of itself
    used = [ancestor for ancestor in origin.used if ancestor in origins]
    indirect = set[str]()
    for source in used:
        waiting = list(origins[source].used)
        while waiting:
            ancestor = waiting.pop()
            if ancestor in origins and ancestor not in indirect:
                indirect.add(ancestor)
                waiting += origins[ancestor].used
    followed = [source for source in used if source not in indirect]
    sources = [_tree(ancestor, origins, names, visited) for ancestor in followed[:MOST_SOURCES]]
    notes: list[str] = []
    if origin.collected:
        notes.append(f"collected on {origin.collected:%Y-%m-%d}")
    if origin.step is None and (origin.kind or not origin.name):
        notes.append("no step of this home is known to have made it")
    if missing := sum(ancestor not in origins for ancestor in origin.used):
        notes.append(f"{missing:,} sources are not followed: the way is too wide")
    if len(followed) > MOST_SOURCES:
        notes.append(f"and {len(followed) - MOST_SOURCES:,} more sources")
    return OriginTree(what=kind, name=name, key=digest, step=origin.step, notes=tuple(notes), sources=tuple(sources))


def format_time(moment: datetime) -> str:
    """Return a moment in local time: `2026-03-01 09:30`."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


def made_by(step: StepRun) -> Sequence[str]:
    """Return what made it: `parse, version 5`, `1.4.0+6c1f2ab9`, `2026-03-01 09:30`, `run 0a1b2c3d`, `2.1 s`."""
    name, made_at = step.step.rpartition(".")[2], format_time(step.at)
    return (f"{name}, version {step.version}", step.code, made_at, f"run {step.run[:8]}", f"{step.seconds:.1f} s")


def trace_answer(answered: Answered, artifacts: Artifacts, lineage: Lineage) -> OriginTree:
    """Return the tree of an answer. Raises StoreUnreachable, DatabaseUnavailable."""
    corpus = corpus_of(answered.index_digest, artifacts, lineage)
    unknown = UNKNOWN_INDEX.format(index=answered.index_digest[:12] or "that was asked")
    notes = () if corpus or not answered.citations else (unknown,)
    sources: list[OriginTree] = []
    for citation in answered.citations:
        page = "" if citation.page is None else f", page {citation.page}"
        is_cell = citation.cell or citation.bbox or citation.place.cells
        behind: tuple[OriginTree, ...] = ()
        if corpus and citation.cell is None:
            behind = trace_document(citation.digest, corpus, lineage)
        elif corpus:  # an input of a figure is one of the document's numbers
            documents = (document for document in corpus.embedded if document.chunked.digest == citation.digest)
            behind = tuple(tree for document in documents for tree in _numbers(document, corpus, lineage))
        place = OriginTree(
            what="chunk" if citation.chunk_id else "cell" if is_cell else "catalogue",
            name=f"{citation.document}{page}",
            key=citation.chunk_id or citation.cell or "",
            sources=behind,
        )
        quote = shorten(citation.quote, QUOTE_CHARS, placeholder=" …")
        sources.append(OriginTree(what=f"claim [{citation.n}]", name=f"“{quote}”", sources=(place,)))
    for call in answered.calls:
        tokens = f"{call.prompt_tokens or 0:,} + {call.completion_tokens or 0:,} tokens"
        sources.append(OriginTree(what="model call", name=f"{call.role} by {call.model}, {tokens}", key=call.key))
    if digest := answered.index_digest:
        sources.append(OriginTree(what="index", key=digest, step=lineage.origins([digest], most=1)[digest].step))
    return OriginTree(what="answer", name=answered.answer, notes=(*answered.notes, *notes), sources=tuple(sources))


def corpus_of(index_digest: str, artifacts: Artifacts, lineage: Lineage) -> Corpus | None:
    """Return what an index was published from; None where that has no digest or record, or `trivet gc` took it."""
    if not index_digest:
        return None
    used = lineage.origins([index_digest], most=1)[index_digest].used
    path = next((path for digest in used if (path := artifacts.find("corpus", digest))), None)
    return Corpus.model_validate_json(path.read_bytes()) if path else None


def trace_document(document: str, corpus: Corpus, lineage: Lineage) -> tuple[OriginTree, ...]:
    """Return the trees of a document's chunks; empty where the index has no such document. document: its digest."""
    names = {entry.document: entry.name for entry in corpus.entries}
    embedded = [item for item in corpus.embedded if item.chunked.digest == document]
    return build_trees([item.chunked.chunks.digest for item in embedded], lineage, names=names)


def trace_chunk(chunk_id: str, corpus: Corpus, lineage: Lineage, artifacts: Artifacts) -> OriginTree | None:
    """Return the tree of a chunk; None where the index has none of this id. Raises as `Artifacts.get` does."""
    for document in corpus.embedded:
        for chunk in artifacts.load(Searchable, document.chunked.chunks).chunks:
            if chunk.id == chunk_id:
                name = f"{place_of(_name(document, corpus), chunk.page)}: {shorten(chunk.text, QUOTE_CHARS)}"
                sources = trace_document(chunk.document, corpus, lineage)
                return OriginTree(what="chunk", name=name, key=chunk.id, sources=sources)
    return None


_CELL = TypeAdapter[CellFact | TextCell](CellFact | TextCell)


def trace_cell(cell: str, corpus: Corpus, lineage: Lineage, artifacts: Artifacts) -> OriginTree | None:
    """Return the tree of a cell of a table; None where the index has none there. Raises as `Artifacts.get` does.

    cell: `DOCUMENT:TABLE:ROW:COLUMN`, the document by name or by the first digits of its digest, the rest 0-based.
    """
    document, *place = cell.rsplit(":", 3)  # from the right: the name of a document may hold colons
    for embedded in corpus.embedded:
        if not (embedded.chunked.digest.startswith(document) or _name(embedded, corpus) == document):
            continue
        for line in artifacts.path(embedded.chunked.numbers).read_bytes().splitlines():
            fact = _CELL.validate_json(line)
            if [str(fact.table), str(fact.row), str(fact.col)] == place:
                # Report.pdf, page 3: Net sales, FY2023: 4,822 → 4822000000 USD
                period = f", {fact.period.label}" if fact.period else ""
                amount = ""
                if isinstance(fact, CellFact):
                    amount = f" → {fact.value.normalize():f} {fact.unit}".rstrip()
                label = f"{' › '.join(fact.row_path)}{period}: {fact.shown}{amount}"
                name = f"{place_of(_name(embedded, corpus), fact.page)}: {label}"
                return OriginTree(what="cell", name=name, key=cell, sources=_numbers(embedded, corpus, lineage))
    return None


def _numbers(embedded: Embedded, corpus: Corpus, lineage: Lineage) -> tuple[OriginTree, ...]:
    """Return the trees of a document's numbers."""
    names = {embedded.chunked.digest: _name(embedded, corpus)}
    return build_trees([embedded.chunked.numbers.digest], lineage, names=names)


def _name(embedded: Embedded, corpus: Corpus) -> str:
    return next((entry.name for entry in corpus.entries if entry.document == embedded.chunked.digest), "")


def trace_run(run_files: FoundRun, lineage: Lineage, *, task: str | None = None) -> OriginTree:
    """Return the tree of a run or of one `task`. Raises ResultsUnusable, StoreUnreachable, DatabaseUnavailable."""
    report = run_files.report
    if task is not None:
        run_files.require(task)
    scores: list[OriginTree] = []
    for result in (entry for entry in report.results if task in (None, entry.task)):
        headline = result.headline
        value = f" = {headline.value:.4g} (n = {headline.n})" if headline else ""
        scores.append(
            OriginTree(
                what="figure",
                name=f"{result.task}{value}, benchmark version {result.version}",
                notes=(*_usage("model", result.usage), *_usage("judge", result.judge_usage), *result.notes),
                sources=(*build_trees([ref.digest for ref in result.samples], lineage), _data(result)),
            )
        )
    run = report.run
    name = f"{run.model.label}, {run.status}, version {run.version}"
    return OriginTree(what="run", name=name, key=run.id, sources=tuple(scores))


def trace_score(
    run_files: FoundRun, task: str, item: str, artifacts: Artifacts, lineage: Lineage, recall: Recall
) -> tuple[OriginTree, ...]:
    """Return the origins of an item's scores, a tree for each repeat; empty where the run has no such item.

    Raises ValueError for a task that the run lacks, and as `trace_run` for the rest.
    """
    (result,) = (entry for entry in run_files.report.results if entry.task == task)
    scores: list[OriginTree] = []
    for found_item in (look_up(run_files, task, sample, artifacts, recall) for sample in run_files.item(task, item)):
        sample = found_item.sample
        read = f", read as {sample.extracted!r}, gold {sample.gold!r}" if sample.extracted is not None else ""
        shard = _shard_with(sample, result, artifacts)
        sources = [*build_trees([shard.digest] if shard else [], lineage)]
        for kind, texts in (("prompt", found_item.prompts), ("reply", found_item.replies)):
            sources += [OriginTree(what=kind, name=shorten(text, QUOTE_CHARS, placeholder=" …")) for text in texts]
        for call in found_item.calls:
            tokens = f"{call.prompt_tokens or 0:,} + {call.completion_tokens or 0:,} tokens, {call.latency_s:.1f} s"
            parameters = ", ".join(f"{name} {value}" for name, value in call.sent.items())
            name = f"{call.model}, {tokens}{f'; {parameters}' if parameters else ''}"
            kind = "model call" if call.by == "model" else "judge's call"
            sources.append(OriginTree(what=kind, name=name, key=call.key))
        name = f"{sample.score} for {task} {sample.item}{read}"
        notes = tuple(filter(None, (sample.reason, *found_item.notes)))
        scores.append(OriginTree(what="score", name=name, notes=notes, sources=(*sources, _data(result))))
    return tuple(scores)


def _usage(role: str, usage: Usage | None) -> Iterator[str]:
    """Yield `model: 500 calls, 81,000 + 12,400 tokens, cost 0.31`; nothing where nobody was asked."""
    if usage and usage.calls:
        cost = "" if usage.cost is None else f", cost {usage.cost:.4g}"
        tokens = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
        yield f"{role}: {usage.calls:,} calls, {tokens}{cost}"


def _data(result: TaskResult) -> OriginTree:
    data = result.data
    return OriginTree(what="data", name=f"{data.name}, {data.count:,} items of {data.source}", key=data.checksum)


def _shard_with(sample: Sample, result: TaskResult, artifacts: Artifacts) -> Ref | None:
    """Return the artifact that holds the sample; None if it is gone."""
    key = (sample.item, sample.repeat)
    for ref in result.samples:
        with suppress(MissingArtifact, DamagedArtifact):  # gone with `trivet gc`: another shard may hold the sample
            if any((stored.item, stored.repeat) == key for stored in read_lines(artifacts, ref, Sample)):
                return ref
    return None
