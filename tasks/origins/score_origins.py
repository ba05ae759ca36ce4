"""Where the score of an item comes from: grader → reply → model call → prompt → data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from textwrap import shorten

from storage.artifacts import Artifacts
from storage.lineage import Lineage
from storage.records import Ref
from storage.storage_errors import DamagedArtifact, MissingArtifact
from tasks.evaluation.evaluation_records import Sample, TaskResult, Usage
from tasks.evaluation.record_lines import read_lines
from tasks.evaluation.results.finding_runs import FoundRun, Recall, look_up
from tasks.origins.origin_tree import OriginTree, build_trees

TEXT_CHARS = 120


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

    Raises as `trace_run`.
    """
    (result,) = (entry for entry in run_files.report.results if entry.task == task)
    scores: list[OriginTree] = []
    for found_item in (look_up(run_files, task, sample, artifacts, recall) for sample in run_files.item(task, item)):
        sample = found_item.sample
        read = f", read as {sample.extracted!r}, gold {sample.gold!r}" if sample.extracted is not None else ""
        shard = _shard_with(sample, result, artifacts)
        sources = [*build_trees([shard.digest] if shard else [], lineage)]
        for kind, texts in (("prompt", found_item.prompts), ("reply", found_item.replies)):
            sources += [OriginTree(what=kind, name=shorten(text, TEXT_CHARS, placeholder=" …")) for text in texts]
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
