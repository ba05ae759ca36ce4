"""Writes a task of a run as a log of inspect_ai, `.eval`, which `inspect view` opens and `read_eval_log` reads.

A log is a ZIP of `header.json`, `summaries.json` and a JSON file for each sample; source: the format documented in
inspect_ai's eval-logs page and written by inspect_ai 0.3 (log version 2).
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tasks.evaluation.evaluation_records import EvalReport, Sample, TaskResult
from tasks.evaluation.masking import masked

LOG_VERSION = 2
SAMPLING = ("temperature", "top_p", "max_tokens", "seed", "stop_seqs")


class Told(NamedTuple):
    """A sample with its texts; both are empty where the run kept none."""

    sample: Sample
    prompts: Sequence[str]
    replies: Sequence[str]


def inspect_log(report: EvalReport, result: TaskResult, told: Iterable[Told]) -> bytes:
    """The log of one task. Unscored samples have no score, and the reason in their metadata."""
    buffer = io.BytesIO()
    ids: dict[str, None] = {}
    summaries: list[dict[str, Any]] = []
    scorer = result.headline.metric if result.headline else result.family
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in told:
            sample = _sample(one, model=report.run.model.name, scorer=scorer)
            ids.setdefault(one.sample.item)
            archive.writestr(f"samples/{one.sample.item}_epoch_{sample['epoch']}.json", _json(sample))
            summaries.append({name: sample[name] for name in ("id", "epoch", "input", "target", "metadata", "scores")})
        header = _header(report, result, ids=list(ids), samples=len(summaries), scorer=scorer)
        archive.writestr("_journal/start.json", _json({name: header[name] for name in ("version", "eval", "plan")}))
        archive.writestr("summaries.json", _json(summaries))
        archive.writestr("header.json", _json(header))
    return buffer.getvalue()


def _sample(told: Told, *, model: str, scorer: str) -> dict[str, Any]:
    sample = told.sample
    turns = [("user", text) for text in told.prompts]
    for number, reply in enumerate(told.replies, start=1):
        turns.insert(2 * number - 1, ("assistant", reply))
    messages = [{"role": role, "content": text, "id": f"m{number}"} for number, (role, text) in enumerate(turns)]
    stop = "max_tokens" if sample.truncated else "stop"
    choices = [{"message": messages[-1], "stop_reason": stop}] if told.replies else []
    score = {"value": sample.score, "answer": sample.extracted, "explanation": sample.reason, "metadata": sample.values}
    about = {"status": sample.status, "group": sample.group, "missing": sample.missing, "detail": sample.detail}
    return {
        "id": sample.item,
        "epoch": sample.repeat + 1,
        "input": told.prompts[0] if told.prompts else "",
        "target": sample.gold or "",
        "messages": messages,
        "output": {"model": model, "choices": choices, "completion": told.replies[-1] if told.replies else ""},
        "scores": {scorer: score} if sample.score is not None else {},
        "metadata": about | ({"reason": sample.reason} if sample.score is None else {}),
        "store": {},
        "events": [],
        "model_usage": {},
    }


def _header(report: EvalReport, result: TaskResult, *, ids: Sequence[str], samples: int, scorer: str) -> dict[str, Any]:
    run, sampling = report.run, result.settings.get("sampling")
    given: Mapping[str, Any] = sampling if isinstance(sampling, dict) else {}
    spec = {
        "eval_id": f"{run.id}-{result.task}",
        "run_id": run.id,
        "created": _time(run.started_at),
        "task": result.task,
        "task_id": f"{run.id}-{result.task}",
        "task_version": result.version,
        "task_attribs": {},
        "task_args": {},
        "dataset": {"name": result.data.name, "location": result.data.source, "samples": len(ids), "sample_ids": ids},
        "model": f"{run.model.backend}/{run.model.name}",
        "model_generate_config": {name: given[name] for name in SAMPLING if given.get(name) is not None},
        "model_args": masked(dict(run.model.args)),
        "config": {"epochs": result.settings.get("repeats", 1)},
        "packages": {"trivet": run.version},
        "revision": {"type": "git", "origin": "", "commit": run.git_commit} if run.git_commit else None,
        "metadata": {"settings": result.settings, "data_sha256": result.data.checksum, "notes": list(result.notes)},
        "scorers": [{"name": scorer, "options": {}, "metrics": [], "metadata": {}}],
    }
    metrics = {
        name: {"name": name, "value": value, "params": {}}
        for estimate in result.estimates
        if not estimate.part
        for name, value in ((estimate.metric, estimate.value), (f"{estimate.metric}_stderr", estimate.std_err))
        if value is not None
    }
    scores = [{"name": scorer, "scorer": scorer, "params": {}, "metrics": metrics, "metadata": {}}]
    ended = _time(run.ended_at or run.started_at)
    return {
        "version": LOG_VERSION,
        "status": "success" if run.status == "completed" else "error",
        "eval": spec,
        "plan": {"name": "plan", "steps": [{"solver": "generate", "params": {}}], "config": {}},
        "results": {"total_samples": samples, "completed_samples": samples, "scores": scores},
        "stats": {"started_at": _time(run.started_at), "completed_at": ended, "model_usage": {}},
    }


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str).encode("utf-8", "replace")
