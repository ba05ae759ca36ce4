"""A task of the lm-evaluation-harness as one of a run: known by its name, measured like the others, kept like them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from storage.artifacts import Artifacts
from tasks.evaluation.evaluation_errors import BenchmarkUnusable
from tasks.evaluation.evaluation_records import TaskResult, Usage
from tasks.evaluation.harness.harness_outcome import HarnessOutcome
from tasks.evaluation.record_lines import write_lines
from tasks.evaluation.running.open_models import Asking
from tasks.evaluation.running.planning import RunSettings
from tasks.resources import kept_responses, resources

HARNESS_YAML = re.compile(r"^(task|group|tag):", re.MULTILINE)
"""What a YAML of the harness begins with, and one of ours never has."""


def is_harness_task(name: str, include_path: Path | None) -> bool:
    """True for a task, group or tag of the harness, and for a YAML file of its kind; False where it is not installed.

    Raises UnknownTask if there is no folder `include_path`.
    """
    from tasks.evaluation.harness import list_tasks

    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return path.is_file() and bool(HARNESS_YAML.search(path.read_text("utf-8", "replace")))
    try:
        return name in list_tasks(include_path, cache_folder=resources().home / "cache")
    except BenchmarkUnusable:
        return False


def result_of(
    name: str, asking: Asking, artifacts: Artifacts, *, settings: RunSettings, include_path: Path | None
) -> TaskResult:
    """What the harness finds. Raises NeedsLogLikelihood, DataMissing, BenchmarkUnusable before anything is asked."""
    from tasks.evaluation.harness import HarnessOptions, evaluate_harness

    options = HarnessOptions(
        limit=settings.first,
        num_fewshot=settings.num_fewshot,
        n_repeat=settings.n_repeat,
        max_tokens=settings.max_tokens,
        gen_kwargs=settings.gen_kwargs,
        apply_chat_template=settings.apply_chat_template,
        fewshot_as_multiturn=settings.fewshot_as_multiturn,
        system_instruction=settings.system_instruction,
        seed=settings.seed,
        include_path=include_path,
    )
    found = evaluate_harness(
        name, model=asking.chat, ask_all=asking.ask_all, responses=kept_responses(), options=options
    )
    return _result(found, asking, artifacts)


def _result(found: HarnessOutcome, asking: Asking, artifacts: Artifacts) -> TaskResult:
    facts: dict[str, Any] = {
        "version": found.version,
        "data": found.data,
        "settings": found.settings,
        "metrics": found.metrics,
        "estimates": found.estimates,
        "counts": found.counts,
        "notes": found.notes,
    }
    return TaskResult(
        task=found.data.name,
        family="pretrain",
        usage=asking.usage.plus(found.usage or Usage()),
        samples=(write_lines(artifacts, "samples", found.samples),),
        items=write_lines(artifacts, "items", found.items),
        responses=(write_lines(artifacts, "responses", found.responses),) if found.responses else (),
        **facts,
    )
