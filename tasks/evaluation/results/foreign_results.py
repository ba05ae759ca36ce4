"""Reads results files of evalchemy and the lm-evaluation-harness; writes the latter, and logs of inspect_ai.

A log of inspect_ai, `.eval`, which `inspect view` opens and `read_eval_log` reads, is a ZIP of `header.json`,
`summaries.json` and a JSON file for each sample; source: the format documented in inspect_ai's eval-logs page and
written by inspect_ai 0.3 (log version 2).
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import JsonValue

from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import (
    Counts,
    Dataset,
    Estimate,
    EvalReport,
    ModelFacts,
    RunFacts,
    Sample,
    TaskResult,
    mask_secrets,
)

HEADLINES = (
    *("accuracy_avg", "accuracy", "prompt_level_strict", "prompt_level_strict_acc", "Average", "pass@1"),
    *("python_pass@1", "acc_norm", "acc", "exact_match", "score", "win_rate"),
)
"""Names of headline metrics: the first that is among the metrics of a task is its headline, else its first metric."""
STD_ERRS = ("{}_std_err{}", "{}_stderr{}", "{}_std_error{}")
"""Names of the standard error of a metric with a filter; of `accuracy_avg` it is `accuracy_std_err`."""
SIZES = ("num_total", "num_examples", "sample_len", "num_questions")
"""Names under which evalchemy and the harness give the number of items."""
NOT_METRICS = (*SIZES, "num_repeat", "num_solved", "solved_avg")
MODEL_ARGS = ("peft", "pretrained", "model", "path")
"""Arguments that name a model, in the order in which the harness looks for them."""
UNKNOWN_DATA = "0" * 64
"""Checksum of data that a foreign results file does not name."""
SEEDS = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
NOTE = "taken from a file that does not say on which data: it counts as evaluated on no other"


def read_foreign_report(data: Mapping[str, Any], *, file: Path, content: bytes) -> EvalReport:
    """Return the report in a foreign results file, whose content gives the run its ID. Raises ResultsUnusable."""
    info, config = dict_or_empty(data.get("model_info")), dict_or_empty(data.get("config"))
    args = info.get("model_args", config.get("model_args"))
    if isinstance(args, str):  # a=1,b=2, as lm_eval writes them
        pairs = (pair.partition("=") for pair in args.split(",") if "=" in pair)
        args = {name.strip(): value for name, _, value in pairs}
    args = _replace_nonfinite(mask_secrets(dict_or_empty(args)))
    names = (info.get("model_name"), data.get("model_name"), *(args.get(name) for name in MODEL_ARGS))
    name = next(filter(None, map(_nonempty_text, names)), None)
    if not name:
        raise ResultsUnusable(f"{file} names no model; add `model_info: {{model_name: …}}` to it")
    backend = _nonempty_text(config.get("model")) or _nonempty_text(data.get("model_source")) or "recorded"
    revision = _nonempty_text(config.get("model_revision")) or ""
    results = tuple(_read_results(data, config, file))
    if not results:
        raise ResultsUnusable(f"{file} has no task with a figure; name a results file of an evaluation")
    started = _parse_time(info.get("timestamp"), data.get("date"))
    return EvalReport(
        run=RunFacts(
            id=hashlib.sha256(content).hexdigest()[:32],
            model=ModelFacts(name=name, backend=backend, revision=revision, args=args),
            started_at=started,
            ended_at=started,
            status="completed",
            version=f"results file {file.name}",
            git_commit=_nonempty_text(info.get("git_hash")) or _nonempty_text(data.get("git_hash")),
            config=_replace_nonfinite(mask_secrets(config)),
        ),
        results=results,
        notes=(NOTE,),
    )


def _read_results(data: Mapping[str, Any], config: dict[str, Any], file: Path) -> Iterator[TaskResult]:
    """Yield a result for each task that has a metric with a numeric value."""
    for task, plain in dict_or_empty(data["results"]).items():
        metrics = dict_or_empty(plain)
        sample_sizes = dict_or_empty(dict_or_empty(data.get("n-samples")).get(task))
        sizes = (*(metrics.get(name) for name in SIZES), sample_sizes.get("effective"))
        size = next((value for value in sizes if isinstance(value, int) and value >= 0), 0)
        better = dict_or_empty(dict_or_empty(data.get("higher_is_better")).get(task))
        estimates = tuple(
            estimate.model_copy(update={"higher_is_better": better.get(estimate.metric.partition(",")[0]) is not False})
            for estimate in read_estimates(metrics, n=size)
        )
        if not estimates:
            continue
        yield TaskResult(
            task=task,
            version=str(dict_or_empty(data.get("versions")).get(task, "")),
            family="pretrain" if any("," in name for name in metrics) else "own",
            data=Dataset(name=task, source=str(file), checksum=UNKNOWN_DATA, count=size),
            settings={"results_file": _replace_nonfinite(mask_secrets(config))},
            metrics=_replace_nonfinite(metrics),
            estimates=estimates,
            counts=Counts(items=size),
            notes=(NOTE,),
        )


def read_estimates(metrics: Mapping[str, Any], *, n: int) -> Iterator[Estimate]:
    """Yield an estimate for every finite number among metrics but counts, with its standard error where it is named."""
    numbers = {name: value for name, value in metrics.items() if _finite_number(value) is not None}
    std_errs: dict[str, str | None] = {}  # metric → name of its standard error
    for name in numbers:
        metric, comma, filter_name = name.partition(",")
        stems = (metric, metric.removesuffix("_avg"))
        candidates = (pattern.format(stem, comma + filter_name) for stem in stems for pattern in STD_ERRS)
        std_errs[name] = next((candidate for candidate in candidates if candidate in numbers), None)
    names = [name for name in numbers if name not in std_errs.values() and name not in NOT_METRICS]
    names = [name for name in names if "_stderr" not in name and "std_err" not in name]
    headline = next((name for head in HEADLINES for name in names if strip_filter(name) == head), (*names, "")[0])
    for name in names:
        std_err = numbers.get(std_errs[name] or "")
        yield Estimate(metric=strip_filter(name), value=numbers[name], std_err=std_err, n=n, headline=name == headline)


def strip_filter(name: str) -> str:
    """Return the name of a metric without the filter `none`, which the harness adds behind a comma."""
    return name.removesuffix(",none")


def _parse_time(*candidates: Any) -> datetime:
    """Return the first readable moment, in UTC without a zone; else 1970, so that each reading gives the same run."""
    for value in candidates:
        if isinstance(value, str):
            try:
                moment = datetime.fromisoformat(value)
            except ValueError:
                continue
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        seconds = _finite_number(value)
        if seconds is not None and 0 <= seconds < 1e11:  # above are milliseconds, or a year beyond 5000
            return datetime.fromtimestamp(seconds, UTC)
    return datetime.fromtimestamp(0, UTC)


def _finite_number(value: Any) -> float | None:
    # True and False are integers to Python
    return value if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None


def _nonempty_text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _replace_nonfinite(value: Any) -> Any:
    """Return plain JSON with None for NaN and infinity, which neither JSON nor the database can hold."""
    return json.loads(json.dumps(value), parse_constant=lambda _: None)


def as_lm_eval(report: EvalReport) -> dict[str, Any]:
    """Return a run, without its groups, as lm_eval 0.4.13 has it in `EvaluationTracker.save_results_aggregated`."""
    run, model, config = report.run, report.run.model, mask_secrets(report.run.config)
    metrics_by_task, configs, better = dict[str, Any](), dict[str, Any](), dict[str, Any]()
    for result in report.results:
        # lm_eval's keys: `metric,filter`, and the standard error beside it, `N/A` where there is none
        metrics_by_task[result.task] = {"alias": result.task}
        better[result.task] = {}
        for estimate in result.estimates:
            if estimate.part:  # lm_eval has no groups within a task
                continue
            metric, _, filter_name = estimate.metric.partition(",")
            filter_name = filter_name or "none"  # metrics of the harness name their filter already
            std_err = "N/A" if estimate.std_err is None else estimate.std_err
            metrics_by_task[result.task] |= {
                f"{metric},{filter_name}": estimate.value,
                f"{metric}_stderr,{filter_name}": std_err,
            }
            better[result.task][metric] = estimate.higher_is_better
        sampling = result.settings.get("sampling")
        configs[result.task] = {
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
                "partial": result.name != result.task,
                "judge": result.judge,
            },
        }
    seeds = config.get("seed")
    seed_values: list[Any] = seeds if isinstance(seeds, list) else []
    seconds = (run.ended_at - run.started_at).total_seconds() if run.ended_at else None
    return {
        "results": metrics_by_task,
        "group_subtasks": {result.task: [] for result in report.results},
        "configs": configs,
        "versions": {result.task: result.version for result in report.results},
        "n-shot": {result.task: result.settings.get("num_fewshot") or 0 for result in report.results},
        "higher_is_better": better,
        "n-samples": {
            result.task: {"original": result.data.count, "effective": result.counts.items} for result in report.results
        },
        "config": {
            "model": model.backend,
            "model_args": mask_secrets(format_arguments(model.args)),
            "model_revision": model.revision,
            "limit": config.get("limit"),
            "batch_size": config.get("batch_size"),
            "gen_kwargs": config.get("gen_kwargs"),
            **dict(zip(SEEDS, [*seed_values, None, None, None, None], strict=False)),  # those that were given
        },
        "git_hash": run.git_commit,
        "date": run.started_at.timestamp(),
        "model_source": model.backend,
        "model_name": model.name,
        "model_name_sanitized": model.name.replace("/", "__"),
        "total_evaluation_time_seconds": None if seconds is None else str(seconds),  # a text in lm_eval
    }


def format_arguments(args: dict[str, JsonValue]) -> str:
    """Return arguments of a model as they are typed behind `--model_args`."""
    pairs = ((name, value if isinstance(value, str) else json.dumps(value)) for name, value in args.items())
    return ",".join(f"{name}={value}" for name, value in pairs)


def dict_or_empty(value: Any) -> dict[str, Any]:
    """Return `value` of a JSON file if it is an object, else an empty dict."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


LOG_VERSION = 2
"""Version of inspect_ai's log format that is written."""
SAMPLING = ("temperature", "top_p", "max_tokens", "seed", "stop_seqs")


class SampleTexts(NamedTuple):
    """A sample with its prompts and replies, turn by turn; both are empty where the run stored none."""

    sample: Sample
    prompts: Sequence[str]
    replies: Sequence[str]


def render_inspect_log(report: EvalReport, result: TaskResult, samples: Iterable[SampleTexts]) -> bytes:
    """Return the log of one task, as bytes of a ZIP; unscored samples have the reason in their metadata."""
    buffer = io.BytesIO()
    ids: dict[str, None] = {}
    summaries: list[dict[str, Any]] = []
    scorer = result.headline.metric if result.headline else result.family
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in samples:
            sample = _inspect_sample(entry, model=report.run.model.name, scorer=scorer)
            ids.setdefault(entry.sample.item)
            archive.writestr(f"samples/{entry.sample.item}_epoch_{sample['epoch']}.json", _encode_json(sample))
            summaries.append({name: sample[name] for name in ("id", "epoch", "input", "target", "metadata", "scores")})
        header = _inspect_header(report, result, ids=list(ids), samples=len(summaries), scorer=scorer)
        archive.writestr(
            "_journal/start.json", _encode_json({name: header[name] for name in ("version", "eval", "plan")})
        )
        archive.writestr("summaries.json", _encode_json(summaries))
        archive.writestr("header.json", _encode_json(header))
    return buffer.getvalue()


def _inspect_sample(texts: SampleTexts, *, model: str, scorer: str) -> dict[str, Any]:
    """Return a sample as inspect_ai's log holds it."""
    sample = texts.sample
    turns = [("user", text) for text in texts.prompts]
    for number, reply in enumerate(texts.replies, start=1):
        turns.insert(2 * number - 1, ("assistant", reply))  # behind its prompt
    messages = [{"role": role, "content": text, "id": f"m{number}"} for number, (role, text) in enumerate(turns)]
    stop = "max_tokens" if sample.truncated else "stop"
    choices = [{"message": messages[-1], "stop_reason": stop}] if texts.replies else []
    score = {"value": sample.score, "answer": sample.extracted, "explanation": sample.reason, "metadata": sample.values}
    about = {"status": sample.status, "group": sample.group, "missing": sample.missing, "detail": sample.detail}
    return {
        "id": sample.item,
        "epoch": sample.repeat + 1,  # inspect_ai counts from 1
        "input": texts.prompts[0] if texts.prompts else "",
        "target": sample.gold or "",
        "messages": messages,
        "output": {"model": model, "choices": choices, "completion": texts.replies[-1] if texts.replies else ""},
        "scores": {scorer: score} if sample.score is not None else {},
        "metadata": about | ({"reason": sample.reason} if sample.score is None else {}),
        "store": {},
        "events": [],
        "model_usage": {},
    }


def _inspect_header(
    report: EvalReport, result: TaskResult, *, ids: Sequence[str], samples: int, scorer: str
) -> dict[str, Any]:
    """Return the content of `header.json`: the run as a specification, its results and its times."""
    run, sampling = report.run, result.settings.get("sampling")
    sampling_values: Mapping[str, Any] = sampling if isinstance(sampling, dict) else {}
    spec = {
        "eval_id": f"{run.id}-{result.task}",
        "run_id": run.id,
        "created": run.started_at.isoformat(timespec="seconds"),
        "task": result.task,
        "task_id": f"{run.id}-{result.task}",
        "task_version": result.version,
        "task_attribs": {},
        "task_args": {},
        "dataset": {"name": result.data.name, "location": result.data.source, "samples": len(ids), "sample_ids": ids},
        "model": f"{run.model.backend}/{run.model.name}",
        "model_generate_config": {
            name: sampling_values[name] for name in SAMPLING if sampling_values.get(name) is not None
        },
        "model_args": mask_secrets(dict(run.model.args)),
        "config": {"epochs": result.settings.get("repeats", 1)},
        "packages": {"trivet": run.version},
        "revision": {"type": "git", "origin": "", "commit": run.git_commit} if run.git_commit else None,
        "metadata": {"settings": result.settings, "data_sha256": result.data.checksum, "notes": list(result.notes)}
        | ({"partial": True} if result.name != result.task else {}),
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
    ended = (run.ended_at or run.started_at).isoformat(timespec="seconds")
    return {
        "version": LOG_VERSION,
        "status": "success" if run.status == "completed" else "error",
        "eval": spec,
        "plan": {"name": "plan", "steps": [{"solver": "generate", "params": {}}], "config": {}},
        "results": {"total_samples": samples, "completed_samples": samples, "scores": scores},
        "stats": {"started_at": spec["created"], "completed_at": ended, "model_usage": {}},
    }


def _encode_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str).encode("utf-8", "replace")
