"""Runs a task of the lm-evaluation-harness on one of our models, quietly and without side effects on the process."""

from __future__ import annotations

import os
import random
import re
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any
from unittest.mock import patch

from models.protocols import Chat, LogLikelihood
from storage.artifacts import Artifacts
from tasks.calls import ResponseStore
from tasks.evaluation.benchmarks.base import AskAll
from tasks.evaluation.evaluation_errors import BenchmarkUnusable, NeedsLogLikelihood
from tasks.evaluation.evaluation_records import TaskResult, Usage
from tasks.evaluation.harness.harness_model import Heard, Likelihoods, harness_model
from tasks.evaluation.harness.harness_outcome import HarnessOutcome, outcome_of
from tasks.evaluation.harness.harness_tasks import LoadedTasks, installed_version, list_tasks, load_tasks, quiet_loggers
from tasks.evaluation.record_lines import write_lines
from tasks.evaluation.running.open_models import Asking
from tasks.evaluation.running.planning import RunSettings
from tasks.evaluation.running.whole_benchmarks import MAX_TOKENS, STOP
from tasks.resources import kept_responses, resources

RESAMPLES = 1000
"""Bootstrap resamples for standard errors without a formula; lm_eval draws 100,000 in one process per CPU."""

SETTINGS = (
    *("limit", "num_fewshot", "n_repeat", "max_tokens", "gen_kwargs", "apply_chat_template"),
    *("fewshot_as_multiturn", "system_instruction", "seed"),
)
"""The run's settings that are stored with results."""
NO_TEMPLATE = "no chat template was applied: log-probabilities are of plain texts"
HARNESS_YAML = re.compile(r"^(task|group|tag):", re.MULTILINE)
"""Keys of a YAML task of the harness, which ours never have."""

_one_at_a_time = Lock()
"""The harness uses the global random generators of the process."""


def evaluate_harness(
    name: str,
    *,
    model: Chat,
    ask_all: AskAll,
    responses: ResponseStore,
    settings: RunSettings,
    include_path: Path | None = None,
) -> HarnessOutcome:
    """What the harness finds about a model on the task, group or tag called `name`, or in a YAML file of that path.

    ask_all: asks `model`. responses: keeps log-probabilities, each under model, context and continuation.
    include_path: folder with YAML tasks of the user's own.
    Raises UnknownTask, DataMissing, BenchmarkUnusable and NeedsLogLikelihood before anything is asked; then what
    `ask_all` and the store raise.
    """
    with _quiet():
        loaded = load_tasks(name, include_path)
        _refuse_what_cannot_run(loaded, model)
        if settings.n_repeat is not None:
            for task in loaded.tasks.values():
                task.set_config("repeats", settings.n_repeat)
        likelihoods = Likelihoods(model, responses) if isinstance(model, LogLikelihood) else None
        effective = settings
        if loaded.wants_likelihoods and settings.apply_chat_template is not False:  # these are of plain texts
            effective = settings.model_copy(update={"apply_chat_template": False, "fewshot_as_multiturn": False})
        heard = Heard()
        lm = harness_model(
            model.id,
            ask_all=ask_all,
            likelihoods=likelihoods,
            heard=heard,
            template=effective.apply_chat_template,
            seed=settings.seed[0],
        )
        found = _simple_evaluate(lm, loaded, effective)
    plain = effective.model_dump(mode="json") | {"limit": effective.first}
    return outcome_of(
        name,
        found,
        loaded,
        heard,
        settings={name: plain[name] for name in SETTINGS},
        usage=likelihoods.usage if likelihoods else Usage(),
        notes=() if effective == settings else (NO_TEMPLATE,),
    )


def _refuse_what_cannot_run(loaded: LoadedTasks, model: Chat) -> None:
    if (wanting := loaded.wants_likelihoods) and not isinstance(model, LogLikelihood):
        more = f" and {len(wanting) - 1} more" if len(wanting) > 1 else ""
        raise NeedsLogLikelihood(
            f"{wanting[0]}{more} wants log-probabilities of given texts, which {model.id} does not give; evaluate it "
            "with `--model hf`, or choose a task that generates its answers"
        )
    for name, task in loaded.tasks.items():
        if getattr(task, "UNSAFE_CODE", False):
            raise BenchmarkUnusable(f"{name} runs code that the model writes in this process, which is not done here")
        if getattr(task, "MULTIMODAL", False):
            raise BenchmarkUnusable(f"{name} shows images or plays sounds, which is not done through the harness here")


def _simple_evaluate(lm: Any, loaded: LoadedTasks, settings: RunSettings) -> dict[str, Any]:
    from lm_eval.evaluator import simple_evaluate

    generates = len(loaded.wants_likelihoods) < len(loaded.tasks)
    python, numpy, torch, examples = settings.seed
    found: Any = simple_evaluate(
        model=lm,
        tasks=loaded.parts,
        task_manager=loaded.manager,
        limit=settings.first,
        num_fewshot=settings.num_fewshot,
        gen_kwargs=_gen_kwargs(settings) if generates else None,
        apply_chat_template=settings.apply_chat_template,
        fewshot_as_multiturn=settings.fewshot_as_multiturn,
        system_instruction=settings.system_instruction,
        bootstrap_iters=RESAMPLES,
        random_seed=python,
        numpy_random_seed=numpy,
        torch_random_seed=torch,
        fewshot_random_seed=examples,
    )
    return found


def _gen_kwargs(settings: RunSettings) -> dict[str, Any]:
    """Under the names that are read first, so that they override those of the task."""
    named: dict[str, Any] = {**settings.gen_kwargs}
    tokens = [settings.max_tokens, *(named.pop(name, None) for name in MAX_TOKENS)]
    stops = [named.pop(name, None) for name in STOP]
    named |= {MAX_TOKENS[0]: next((value for value in tokens if value), None)}
    named |= {STOP[0]: next((value for value in stops if value), None)}
    return {name: value for name, value in named.items() if value is not None}


@contextmanager
def _quiet() -> Generator[None]:
    """Keep the harness from printing, starting processes, and changing the environment and the generators."""
    with _one_at_a_time, ExitStack() as undo:
        undo.enter_context(patch.dict(os.environ))
        undo.enter_context(quiet_loggers())
        undo.enter_context(_same_generators())
        installed_version()
        import datasets
        from lm_eval import evaluator
        from lm_eval.api import metrics, task

        undo.enter_context(patch.object(task, "tqdm", lambda items, **_: items))
        undo.enter_context(patch.object(metrics, "bootstrap_stderr", _bootstrap_std_err))
        # facts about machine and tokenizer, found by running a dozen programs
        for finding in ("add_env_info", "add_tokenizer_info", "get_git_commit_hash"):
            undo.enter_context(patch.object(evaluator, finding, lambda *_, **__: None))
        if not datasets.utils.are_progress_bars_disabled():
            datasets.disable_progress_bars()
            undo.callback(datasets.enable_progress_bars)
        yield


def _bootstrap_std_err(metric: Callable[[Sequence[Any]], float], values: Sequence[Any], iters: int) -> float:
    """Standard deviation of a metric over resamples, drawn as lm_eval draws its first thousand."""
    from lm_eval.api.metrics import sample_stddev

    draws = random.Random(0)
    return sample_stddev([metric(draws.choices(values, k=len(values))) for _ in range(iters)])


@contextmanager
def _same_generators() -> Generator[None]:
    import numpy as np

    python, numpy = random.getstate(), np.random.get_state()
    torch = sys.modules.get("torch")
    torch_state = torch.get_rng_state() if torch else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch and torch_state is not None:
            torch.set_rng_state(torch_state)


def is_harness_task(name: str, include_path: Path | None) -> bool:
    """Whether a task, group, tag or YAML file is the harness's. Raises UnknownTask for a missing `include_path`."""
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
    """Evaluate a harness task and store its items, responses and samples. Raises as `evaluate_harness` does."""
    found = evaluate_harness(
        name,
        model=asking.chat,
        ask_all=asking.ask_all,
        responses=kept_responses(),
        settings=settings,
        include_path=include_path,
    )
    kept = {
        "usage": asking.usage.plus(found.result.usage),
        "samples": (write_lines(artifacts, "samples", found.samples),),
        "items": write_lines(artifacts, "items", found.items),
        "responses": (write_lines(artifacts, "responses", found.responses),) if found.responses else (),
    }
    return found.result.model_copy(update=kept)
