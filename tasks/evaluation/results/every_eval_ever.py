"""Writes a run in the schema of Every Eval Ever: figures as one JSON object, samples as JSONL.

Source: eval.schema.json 0.2 and instance_level_eval.schema.json 0.2 of evaleval/every_eval_ever.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tasks.evaluation.evaluation_records import Estimate, EvalReport, TaskResult
from tasks.evaluation.results.foreign_results import HUB_ID
from tasks.evaluation.results.inspect_logs import Told

SCHEMA = "0.2.2"
INSTANCES = "instance_level_eval_0.2.2"
ORGANISATION = "unknown"
"""A run does not say who made it; whoever publishes it writes that."""
CONFIDENCE = 0.95


def eee_of(report: EvalReport, *, samples: bytes | None = None, samples_file: str = "") -> dict[str, Any]:
    """The record of a run; samples: what `eee_samples` wrote to `samples_file`, which the record refers to."""
    run = report.run
    record: dict[str, Any] = {
        "schema_version": SCHEMA,
        "evaluation_id": _id(report),
        "evaluation_timestamp": _epoch(report, "started_at"),
        "retrieved_timestamp": _epoch(report, "ended_at"),
        "source_metadata": {
            "source_name": "trivet",
            "source_type": "evaluation_run",
            "source_organization_name": ORGANISATION,
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "trivet", "version": run.version, "additional_details": _texts(commit=run.git_commit)},
        "model_info": {
            "name": run.model.name,
            "id": _model_id(report),
            "inference_engine": {"name": run.model.backend},
            "additional_details": _texts(revision=run.model.revision),
        },
        "evaluation_results": [_result(result, one) for result in report.results for one in _shown(result)],
    }
    if samples is not None:
        record["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": samples_file,
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(samples).hexdigest(),
            "total_rows": samples.count(b"\n"),
        }
    return record


def eee_samples(report: EvalReport, result: TaskResult, told: Iterable[Told]) -> Iterator[dict[str, Any]]:
    """A record of each scored sample of a task."""
    for one in told:
        if one.sample.score is not None:
            yield _instance(report, result, one)


def as_lines(records: Iterable[Mapping[str, Any]]) -> bytes:
    """JSONL."""
    lines = (json.dumps(record, ensure_ascii=False, allow_nan=False) for record in records)
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _shown(result: TaskResult) -> Iterator[Estimate]:
    return (estimate for estimate in result.estimates if not estimate.part)


def _result(result: TaskResult, estimate: Estimate) -> dict[str, Any]:
    sampling: Any = result.settings.get("sampling")
    given = sampling if isinstance(sampling, dict) else {}
    arguments = {name: given[name] for name in ("temperature", "top_p", "max_tokens") if given.get(name) is not None}
    low, high = (0.0, 1.0) if 0 <= estimate.value <= 1 else (min(0.0, estimate.value), max(100.0, estimate.value))
    return {
        "evaluation_name": f"{result.task} {estimate.metric}",
        "source_data": _data(result),
        "metric_config": {
            "evaluation_description": f"{estimate.metric} of {result.task}, version {result.version}",
            "lower_is_better": not estimate.higher_is_better,
            "score_type": "continuous",
            "min_score": low,
            "max_score": high,
        },
        "score_details": {
            "score": estimate.value,
            "details": _texts(unscored=result.counts.unscored, missing=result.counts.missing, judge=result.judge),
            "uncertainty": _uncertainty(estimate),
        },
        "generation_config": {
            "generation_args": arguments,
            "additional_details": _texts(repeats=result.settings.get("repeats"), settings=result.settings),
        },
    }


def _uncertainty(estimate: Estimate) -> dict[str, Any]:
    found: dict[str, Any] = {"num_samples": estimate.n}
    if estimate.std_err is not None:
        found["standard_error"] = {"value": estimate.std_err, "method": "clustered by item"}
    if estimate.low is not None and estimate.high is not None:
        found["confidence_interval"] = {"lower": estimate.low, "upper": estimate.high, "confidence_level": CONFIDENCE}
    return found


def _data(result: TaskResult) -> dict[str, Any]:
    about = {"dataset_name": result.data.name, "additional_details": _texts(sha256=result.data.checksum)}
    if HUB_ID.fullmatch(result.data.source):
        return about | {"source_type": "hf_dataset", "hf_repo": result.data.source, "samples_number": result.data.count}
    return about | {"source_type": "other", "source_version": result.data.checksum}


def _instance(report: EvalReport, result: TaskResult, told: Told) -> dict[str, Any]:
    sample = told.sample
    several = len(told.prompts) > 1
    raw, reference = told.prompts[0] if told.prompts else "", [sample.gold] if sample.gold is not None else []
    turn = 2 * len(told.replies) - 1 if several else 0
    where = f"messages[{turn}].content" if several else "output.raw"
    attribution = {
        "turn_idx": turn,
        "source": where,
        "extracted_value": sample.extracted or "",
        "extraction_method": str(result.settings.get("extract", "published")),
        "is_terminal": True,
    }
    return {
        "schema_version": INSTANCES,
        "evaluation_id": _id(report),
        "model_id": _model_id(report),
        "evaluation_name": f"{result.task} {result.headline.metric}" if result.headline else result.task,
        "sample_id": sample.item,
        "sample_hash": hashlib.sha256("".join([raw, *reference]).encode("utf-8", "replace")).hexdigest(),
        "interaction_type": "multi_turn" if several else "single_turn",
        "input": {"raw": raw, "reference": reference},
        "output": None if several else {"raw": list(told.replies[:1])},
        "messages": _messages(told) if several else None,
        "answer_attribution": [] if sample.extracted is None else [attribution],
        "evaluation": {
            "score": sample.score,
            "is_correct": sample.score == 1,
            "num_turns": max(1, len(told.prompts)),
        },
        "metadata": _texts(repeat=sample.repeat, group=sample.group, reason=sample.reason),
    }


def _messages(told: Told) -> list[dict[str, Any]]:
    turns: list[tuple[str, str]] = []
    for number, prompt in enumerate(told.prompts):
        turns.append(("user", prompt))
        turns += [("assistant", told.replies[number])] if number < len(told.replies) else []
    return [{"turn_idx": index, "role": role, "content": text} for index, (role, text) in enumerate(turns)]


def _id(report: EvalReport) -> str:
    tasks = "+".join(result.task for result in report.results)
    return f"{tasks}/{_model_id(report)}/{_epoch(report, 'started_at')}"


def _model_id(report: EvalReport) -> str:
    model = report.run.model
    return model.name if "/" in model.name else f"{model.backend}/{model.name}"


def _epoch(report: EvalReport, field: str) -> str:
    moment = getattr(report.run, field) or report.run.started_at
    return str(moment.timestamp())


def _texts(**values: Any) -> dict[str, str]:
    """Values as texts, without those that are None or empty."""
    given = {name: value for name, value in values.items() if value not in (None, "")}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
