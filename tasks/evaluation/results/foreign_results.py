"""Results files of evalchemy and of the lm-evaluation-harness, as far as they say what was measured."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import (
    Counts,
    DataFacts,
    Estimate,
    EvalReport,
    ModelFacts,
    RunFacts,
    TaskResult,
)
from tasks.evaluation.masking import masked

HEADLINES = (
    *("accuracy_avg", "accuracy", "prompt_level_strict", "prompt_level_strict_acc", "Average"),
    *("pass@1", "python_pass@1", "acc_norm", "acc", "exact_match", "score"),
)
"""The figure that a leaderboard shows, the first of these that is there; else the first figure."""
SIZES = ("num_total", "num_examples", "sample_len", "num_questions")
"""What evalchemy and the harness call the number of items."""
NO_FIGURES = (*SIZES, "num_repeat", "num_solved", "solved_avg")
STD_ERRS = {"accuracy_avg": "accuracy_std_err"}
MODEL_ARGS = ("peft", "pretrained", "model", "path")
"""Arguments that name a model, as the harness looks for them."""
UNKNOWN_DATA = "0" * 64
NOTE = "taken from a file that does not say on which data: it counts as evaluated on no other"


def report_of(data: Mapping[str, Any], *, file: Path, content: bytes) -> EvalReport:
    """What a results file of others says; the same file always gives the same run. Raises ResultsUnusable."""
    info, config = _dict(data.get("model_info")), _dict(data.get("config"))
    facts = _model(info, config, data, file)
    started = _time(info.get("timestamp"), data.get("date"))
    tasks = _results(data, config, file)
    if not tasks:
        raise ResultsUnusable(f"{file} has no task with a figure; name a results file of an evaluation")
    return EvalReport(
        run=RunFacts(
            id=hashlib.sha256(content).hexdigest()[:32],
            model=facts,
            started_at=started,
            ended_at=started,
            status="completed",
            version=f"results file {file.name}",
            git_commit=_words(info.get("git_hash")) or _words(data.get("git_hash")),
            config=_finite(masked(config)),
        ),
        results=tuple(tasks),
        notes=(NOTE,),
    )


def _model(info: dict[str, Any], config: dict[str, Any], data: Mapping[str, Any], file: Path) -> ModelFacts:
    args = _arguments(info.get("model_args", config.get("model_args")))
    named = (_words(args.get(name)) for name in MODEL_ARGS)
    name = _words(info.get("model_name")) or _words(data.get("model_name")) or next(filter(None, named), None)
    if not name:
        raise ResultsUnusable(f"{file} names no model; add `model_info: {{model_name: …}}` to it")
    backend = _words(config.get("model")) or _words(data.get("model_source")) or "recorded"
    return ModelFacts(name=name, backend=backend, revision=_words(config.get("model_revision")) or "", args=args)


def _arguments(given: Any) -> dict[str, JsonValue]:
    if isinstance(given, str):
        pairs = (pair.partition("=") for pair in given.split(",") if "=" in pair)
        return masked({name.strip(): value for name, _, value in pairs})
    return _finite(masked(_dict(given)))


def _results(data: Mapping[str, Any], config: dict[str, Any], file: Path) -> list[TaskResult]:
    return [
        TaskResult(
            task=task,
            version=str(_dict(data.get("versions")).get(task, "")),
            family="pretrain" if any("," in name for name in metrics) else "own",
            data=DataFacts(name=task, source=str(file), checksum=UNKNOWN_DATA, count=_size(data, task, metrics)),
            settings={"results_file": _finite(masked(config))},
            metrics=_finite(metrics),
            estimates=estimates,
            counts=Counts(items=_size(data, task, metrics)),
            notes=(NOTE,),
        )
        for task, metrics in _dict(data["results"]).items()
        if isinstance(metrics, dict) and (estimates := tuple(_estimates(data, task, cast("dict[str, Any]", metrics))))
    ]


def _estimates(data: Mapping[str, Any], task: str, metrics: dict[str, Any]) -> Iterator[Estimate]:
    better = _dict(_dict(data.get("higher_is_better")).get(task))
    names = [name for name, value in metrics.items() if _is_figure(name, value)]
    shown = next((name for head in HEADLINES for name in names if _plain(name) == head), names[0] if names else None)
    for name in names:
        yield Estimate(
            metric=_plain(name),
            value=metrics[name],
            std_err=_number(metrics.get(_std_err_of(name))),
            n=_size(data, task, metrics),
            headline=name == shown,
            higher_is_better=better.get(name.partition(",")[0]) is not False,
        )


def _is_figure(name: str, value: Any) -> bool:
    is_error = "_stderr" in name or "std_err" in name
    return _number(value) is not None and name not in NO_FIGURES and not is_error


def _plain(name: str) -> str:
    """The harness names the filter behind a comma; `none` is none."""
    return name.removesuffix(",none")


def _std_err_of(name: str) -> str:
    metric, comma, chosen = name.partition(",")
    return STD_ERRS.get(name, f"{metric}_stderr{comma}{chosen}")


def _size(data: Mapping[str, Any], task: str, metrics: dict[str, Any]) -> int:
    said = (*(metrics.get(name) for name in SIZES), _dict(_dict(data.get("n-samples")).get(task)).get("effective"))
    return next((value for value in said if isinstance(value, int) and value >= 0), 0)


def _time(*said: Any) -> datetime:
    """The first that can be read; of a file that tells none 1970, so that each reading gives the same run."""
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


def _dict(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _finite(value: Any) -> Any:
    """`value` with None for what is no number: neither JSON nor the database hold it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_finite(item) for item in cast("list[Any]", value)]
    return {name: _finite(item) for name, item in _dict(value).items()} if isinstance(value, dict) else value
