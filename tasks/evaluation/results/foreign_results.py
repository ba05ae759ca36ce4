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
    masked,
)

HEADLINES = (
    *("accuracy_avg", "accuracy", "prompt_level_strict", "prompt_level_strict_acc", "Average"),
    *("pass@1", "python_pass@1", "acc_norm", "acc", "exact_match", "score"),
)
"""The headline: the first of these that is present; else the first figure."""
SIZES = ("num_total", "num_examples", "sample_len", "num_questions")
"""Names of the number of items in evalchemy and the harness."""
NO_FIGURES = (*SIZES, "num_repeat", "num_solved", "solved_avg")
STD_ERRS = {"accuracy_avg": "accuracy_std_err"}
MODEL_ARGS = ("peft", "pretrained", "model", "path")
"""Arguments that name a model, in the order in which the harness looks for them."""
UNKNOWN_DATA = "0" * 64
SEEDS = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
NOTE = "taken from a file that does not say on which data: it counts as evaluated on no other"


def report_of(data: Mapping[str, Any], *, file: Path, content: bytes) -> EvalReport:
    """The report in a foreign results file; the same file always gives the same run. Raises ResultsUnusable."""
    info, config = dict_or_empty(data.get("model_info")), dict_or_empty(data.get("config"))
    args = info.get("model_args", config.get("model_args"))
    if isinstance(args, str):
        pairs = (pair.partition("=") for pair in args.split(",") if "=" in pair)
        args = {name.strip(): value for name, _, value in pairs}
    args = _finite(masked(dict_or_empty(args)))
    names = (info.get("model_name"), data.get("model_name"), *(args.get(name) for name in MODEL_ARGS))
    name = next(filter(None, map(_words, names)), None)
    if not name:
        raise ResultsUnusable(f"{file} names no model; add `model_info: {{model_name: …}}` to it")
    backend = _words(config.get("model")) or _words(data.get("model_source")) or "recorded"
    revision = _words(config.get("model_revision")) or ""
    results = tuple(_results(data, config, file))
    if not results:
        raise ResultsUnusable(f"{file} has no task with a figure; name a results file of an evaluation")
    started = _time(info.get("timestamp"), data.get("date"))
    return EvalReport(
        run=RunFacts(
            id=hashlib.sha256(content).hexdigest()[:32],
            model=ModelFacts(name=name, backend=backend, revision=revision, args=args),
            started_at=started,
            ended_at=started,
            status="completed",
            version=f"results file {file.name}",
            git_commit=_words(info.get("git_hash")) or _words(data.get("git_hash")),
            config=_finite(masked(config)),
        ),
        results=results,
        notes=(NOTE,),
    )


def _results(data: Mapping[str, Any], config: dict[str, Any], file: Path) -> Iterator[TaskResult]:
    """Each task that has a figure."""
    for task, plain in dict_or_empty(data["results"]).items():
        metrics = dict_or_empty(plain)
        names = [
            name
            for name, value in metrics.items()
            if _number(value) is not None and name not in NO_FIGURES and "_stderr" not in name and "std_err" not in name
        ]
        if not names:
            continue
        of_samples = dict_or_empty(dict_or_empty(data.get("n-samples")).get(task))
        sizes = (*(metrics.get(name) for name in SIZES), of_samples.get("effective"))
        size = next((value for value in sizes if isinstance(value, int) and value >= 0), 0)
        better = dict_or_empty(dict_or_empty(data.get("higher_is_better")).get(task))
        shown = next((name for head in HEADLINES for name in names if _plain(name) == head), names[0])
        estimates: list[Estimate] = []
        for name in names:
            metric, comma, chosen = name.partition(",")
            std_err = STD_ERRS.get(name, f"{metric}_stderr{comma}{chosen}")
            estimates.append(
                Estimate(
                    metric=_plain(name),
                    value=metrics[name],
                    std_err=_number(metrics.get(std_err)),
                    n=size,
                    headline=name == shown,
                    higher_is_better=better.get(metric) is not False,
                )
            )
        yield TaskResult(
            task=task,
            version=str(dict_or_empty(data.get("versions")).get(task, "")),
            family="pretrain" if any("," in name for name in metrics) else "own",
            data=Dataset(name=task, source=str(file), checksum=UNKNOWN_DATA, count=size),
            settings={"results_file": _finite(masked(config))},
            metrics=_finite(metrics),
            estimates=tuple(estimates),
            counts=Counts(items=size),
            notes=(NOTE,),
        )


def _plain(name: str) -> str:
    """The metric without the filter `none`, which the harness adds behind a comma."""
    return name.removesuffix(",none")


def _time(*said: Any) -> datetime:
    """The first that can be read; else 1970, so that each reading gives the same run."""
    for value in said:
        if isinstance(value, str):
            try:
                read = datetime.fromisoformat(value)
            except ValueError:
                continue
            return read if read.tzinfo else read.replace(tzinfo=UTC)
        if (seconds := _number(value)) is not None and 0 <= seconds < 1e11:
            return datetime.fromtimestamp(seconds, UTC)
    return datetime.fromtimestamp(0, UTC)


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None


def _words(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _finite(value: Any) -> Any:
    """`value` with None for NaN and infinity, which neither JSON nor the database can hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_finite(item) for item in cast("list[Any]", value)]
    return {name: _finite(item) for name, item in dict_or_empty(value).items()} if isinstance(value, dict) else value


def lm_eval_of(report: EvalReport) -> dict[str, Any]:
    """The run as a results file of lm_eval 0.4.13 (`EvaluationTracker.save_results_aggregated`)."""
    run, model, config = report.run, report.run.model, masked(report.run.config)
    figures, configs, better = dict[str, Any](), dict[str, Any](), dict[str, Any]()
    for result in report.results:
        # lm_eval's keys: `metric,filter`, and the standard error beside it, `N/A` where there is none
        figures[result.task] = {"alias": result.task}
        better[result.task] = {}
        for estimate in result.estimates:
            if estimate.part:  # lm_eval has no groups within a task
                continue
            metric, _, chosen = estimate.metric.partition(",")
            chosen = chosen or "none"  # figures of the harness name their filter already
            std_err = "N/A" if estimate.std_err is None else estimate.std_err
            figures[result.task] |= {f"{metric},{chosen}": estimate.value, f"{metric}_stderr,{chosen}": std_err}
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
                "judge": result.judge,
            },
        }
    seeds = config.get("seed")
    given: list[Any] = seeds if isinstance(seeds, list) else []
    seconds = (run.ended_at - run.started_at).total_seconds() if run.ended_at else None
    return {
        "results": figures,
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
            "model_args": masked(arguments(model.args)),
            "model_revision": model.revision,
            "limit": config.get("limit"),
            "batch_size": config.get("batch_size"),
            "gen_kwargs": config.get("gen_kwargs"),
            **dict(zip(SEEDS, [*given, None, None, None, None], strict=False)),
        },
        "git_hash": run.git_commit,
        "date": run.started_at.timestamp(),
        "model_source": model.backend,
        "model_name": model.name,
        "model_name_sanitized": model.name.replace("/", "__"),
        "total_evaluation_time_seconds": None if seconds is None else str(seconds),
    }


def arguments(args: dict[str, JsonValue]) -> str:
    """`--model_args` as they are typed."""
    shown = ((name, value if isinstance(value, str) else json.dumps(value)) for name, value in args.items())
    return ",".join(f"{name}={value}" for name, value in shown)


def dict_or_empty(value: Any) -> dict[str, Any]:
    """`value` of a JSON file if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


LOG_VERSION = 2
SAMPLING = ("temperature", "top_p", "max_tokens", "seed", "stop_seqs")


class SampleTexts(NamedTuple):
    """A sample with its texts; both are empty where the run kept none."""

    sample: Sample
    prompts: Sequence[str]
    replies: Sequence[str]


def inspect_log(report: EvalReport, result: TaskResult, told: Iterable[SampleTexts]) -> bytes:
    """The log of one task. Unscored samples have no score, and the reason in their metadata."""
    buffer = io.BytesIO()
    ids: dict[str, None] = {}
    summaries: list[dict[str, Any]] = []
    scorer = result.headline.metric if result.headline else result.family
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in told:
            sample = _inspect_sample(one, model=report.run.model.name, scorer=scorer)
            ids.setdefault(one.sample.item)
            archive.writestr(f"samples/{one.sample.item}_epoch_{sample['epoch']}.json", _json(sample))
            summaries.append({name: sample[name] for name in ("id", "epoch", "input", "target", "metadata", "scores")})
        header = _inspect_header(report, result, ids=list(ids), samples=len(summaries), scorer=scorer)
        archive.writestr("_journal/start.json", _json({name: header[name] for name in ("version", "eval", "plan")}))
        archive.writestr("summaries.json", _json(summaries))
        archive.writestr("header.json", _json(header))
    return buffer.getvalue()


def _inspect_sample(told: SampleTexts, *, model: str, scorer: str) -> dict[str, Any]:
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


def _inspect_header(
    report: EvalReport, result: TaskResult, *, ids: Sequence[str], samples: int, scorer: str
) -> dict[str, Any]:
    run, sampling = report.run, result.settings.get("sampling")
    given: Mapping[str, Any] = sampling if isinstance(sampling, dict) else {}
    spec = {
        "eval_id": f"{run.id}-{result.task}",
        "run_id": run.id,
        "created": _iso(run.started_at),
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
    ended = _iso(run.ended_at or run.started_at)
    return {
        "version": LOG_VERSION,
        "status": "success" if run.status == "completed" else "error",
        "eval": spec,
        "plan": {"name": "plan", "steps": [{"solver": "generate", "params": {}}], "config": {}},
        "results": {"total_samples": samples, "completed_samples": samples, "scores": scores},
        "stats": {"started_at": _iso(run.started_at), "completed_at": ended, "model_usage": {}},
    }


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str).encode("utf-8", "replace")
