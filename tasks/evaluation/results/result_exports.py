"""A run in the forms that others read: results of the lm-evaluation-harness, the `model-index` of a model card."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tasks.evaluation.evaluation_records import Estimate, EvalReport, TaskResult
from tasks.evaluation.masking import masked
from tasks.evaluation.results.results_file import arguments

HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
SEEDS = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
TASK_TYPE = "text-generation"
"""Hugging Face's name of what all our benchmarks let a model do."""


def lm_eval_of(report: EvalReport) -> dict[str, Any]:
    """The run as lm_eval 0.4 writes its results file, so that its readers take it.

    Source: `simple_evaluate` and `EvaluationTracker.save_results_aggregated` of lm_eval 0.4.13.
    """
    run, results = report.run, report.results
    seconds = (run.ended_at - run.started_at).total_seconds() if run.ended_at else None
    return {
        "results": {result.task: {"alias": result.task} | _figures(result) for result in results},
        "group_subtasks": {result.task: [] for result in results},
        "configs": {result.task: _config(result) for result in results},
        "versions": {result.task: result.version for result in results},
        "n-shot": {result.task: result.settings.get("num_fewshot") or 0 for result in results},
        "higher_is_better": {result.task: _directions(result) for result in results},
        "n-samples": {
            result.task: {"original": result.data.count, "effective": result.counts.items} for result in results
        },
        "config": _run_config(report),
        "git_hash": run.git_commit,
        "date": run.started_at.timestamp(),
        "model_source": run.model.backend,
        "model_name": run.model.name,
        "model_name_sanitized": run.model.name.replace("/", "__"),
        "total_evaluation_time_seconds": None if seconds is None else str(seconds),
    }


def model_card_of(report: EvalReport) -> str:
    """The front matter of a model card, with the run's headline figures and their groups as `model-index`.

    Source: huggingface/hub-docs, modelcard.md (model-index metadata).
    """
    import yaml

    entries = [entry for result in report.results for entry in _card_entries(result)]
    front = {"model-index": [{"name": report.run.model.name, "results": entries}]}
    return f"---\n{yaml.safe_dump(front, allow_unicode=True, sort_keys=False)}---\n"


def _figures(result: TaskResult) -> dict[str, float | str]:
    """lm_eval's keys: `metric,filter`, and the standard error beside it, `N/A` where there is none."""
    figures: dict[str, float | str] = {}
    for estimate in _whole(result):
        metric, chosen = _key(estimate)
        figures[f"{metric},{chosen}"] = estimate.value
        figures[f"{metric}_stderr,{chosen}"] = "N/A" if estimate.std_err is None else estimate.std_err
    return figures


def _directions(result: TaskResult) -> dict[str, bool]:
    return {_key(estimate)[0]: estimate.higher_is_better for estimate in _whole(result)}


def _whole(result: TaskResult) -> Iterator[Estimate]:
    """Figures over all items: lm_eval knows no groups within a task."""
    return (estimate for estimate in result.estimates if not estimate.part)


def _key(estimate: Estimate) -> tuple[str, str]:
    """Name of the metric and of its filter; figures of the harness may carry one already."""
    metric, _, chosen = estimate.metric.partition(",")
    return metric, chosen or "none"


def _config(result: TaskResult) -> dict[str, Any]:
    sampling = result.settings.get("sampling")
    return {
        "task": result.task,
        "dataset_path": result.data.source,
        "dataset_name": result.data.name,
        "output_type": "generate_until",
        "repeats": result.settings.get("repeats", 1),
        "generation_kwargs": sampling if isinstance(sampling, dict) else {},
        "metadata": {
            "version": result.version,
            "data_sha256": result.data.checksum,
            "settings": result.settings,
            "counts": result.counts.model_dump(),
            "judge": result.judge,
        },
    }


def _run_config(report: EvalReport) -> dict[str, Any]:
    model, config = report.run.model, masked(report.run.config)
    seeds = config.get("seed")
    given: list[Any] = seeds if isinstance(seeds, list) else []
    return {
        "model": model.backend,
        "model_args": masked(arguments(model.args)),
        "model_revision": model.revision,
        "limit": config.get("limit"),
        "batch_size": config.get("batch_size"),
        "gen_kwargs": config.get("gen_kwargs"),
        **dict(zip(SEEDS, [*given, None, None, None, None], strict=False)),
    }


def _card_entries(result: TaskResult) -> Iterator[dict[str, Any]]:
    shown = [estimate for estimate in _whole(result) if estimate.headline] or list(_whole(result))[:1]
    for estimate in shown:
        yield {
            "task": {"type": TASK_TYPE, "name": f"{result.task} ({result.family})"},
            "dataset": {"type": _dataset_id(result), "name": result.task, "args": {"checksum": result.data.checksum}},
            "metrics": [_card_metric(result, estimate)],
        }


def _dataset_id(result: TaskResult) -> str:
    """The hub's id of the data; a path of this machine tells nobody anything."""
    return result.data.source if HUB_ID.fullmatch(result.data.source) else result.data.name


def _card_metric(result: TaskResult, estimate: Estimate) -> dict[str, Any]:
    about = {
        "n": estimate.n,
        "std_err": estimate.std_err,
        "low": estimate.low,
        "high": estimate.high,
        "repeats": result.settings.get("repeats"),
        "unscored": result.counts.unscored or None,
        "judge": result.judge,
    }
    args = {name: value for name, value in about.items() if value is not None}
    return {"type": estimate.metric, "value": estimate.value, "name": _interval(estimate), "args": args}


def _interval(estimate: Estimate) -> str:
    """`accuracy [95 % 0.61 to 0.69]`."""
    if estimate.low is None or estimate.high is None:
        return estimate.metric
    return f"{estimate.metric} [95 % {estimate.low:.3g} to {estimate.high:.3g}]"
