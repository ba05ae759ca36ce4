"""Runs a task of the lm-evaluation-harness on one of our models, and reads its results as our records."""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from unittest.mock import patch

from pydantic import JsonValue

from models.protocols import Chat, LogLikelihood
from storage.storage_errors import list_some
from tasks.calls import ResponseStore
from tasks.evaluation.benchmarks.base import AskAll
from tasks.evaluation.evaluation_errors import BenchmarkUnusable, NeedsLogLikelihood
from tasks.evaluation.evaluation_records import Dataset, Estimate, Item, Response, Sample, TaskResult, Usage
from tasks.evaluation.harness.harness_model import AnswerLog, DocKey, Likelihoods, harness_model, leave_out_unanswered
from tasks.evaluation.harness.harness_tasks import (
    LoadedTasks,
    installed_version,
    list_tasks,
    load_tasks,
    silence_loggers,
)
from tasks.evaluation.results.foreign_results import read_estimates, strip_filter
from tasks.evaluation.running.planning import RunSettings
from tasks.evaluation.running.shard_grading import measure_coverage
from tasks.evaluation.running.whole_benchmarks import MAX_TOKENS, STOP
from tasks.grading.grading_records import make_unanswered_sample
from tasks.grading.sample_statistics import tally_samples
from tasks.measure.estimates import Z, estimate
from tasks.resources import resources

RESAMPLES = 1000
"""Bootstrap resamples for standard errors without a formula; lm_eval draws 100,000 in one process per CPU."""

SETTINGS = (
    *("limit", "samples", "metadata", "num_fewshot", "n_repeat", "max_tokens", "gen_kwargs", "apply_chat_template"),
    *("fewshot_as_multiturn", "system_instruction", "seed"),
)
"""Names of those settings of a run that are stored with results of the harness."""
NO_TEMPLATE = "no chat template was applied: log-probabilities are of plain texts"
HARNESS_YAML = re.compile(r"^(task|group|tag):", re.MULTILINE)
"""Keys of a YAML task of the harness, which ours never have."""
NOT_FOUND = ("", "[invalid]")
"""Outputs of the harness's filters for a response without an answer."""
NOT_DEFINITION = ("metadata", "dataset_kwargs", "num_fewshot", "generation_kwargs", "repeats")
"""Keys of a task's configuration that are not part of its definition."""

_rng_lock = Lock()
"""The harness uses the global random generators of the process."""


class HarnessOutcome(NamedTuple):
    """Results of a model on a task, a group or a tag of the harness."""

    result: TaskResult
    """Without artifacts; its usage is that of log-probability requests, as generating calls are counted by the caller.

    Metrics: lm_eval's keys, `acc,none` and `acc_stderr,none`; of several tasks each under its name too.
    Estimates: standard errors are lm_eval's; those of one of several tasks have the part `task=NAME`.
    """
    samples: tuple[Sample, ...]
    """Score = the first metric under the first filter; a perplexity's is the negative log-likelihood per unit. The id
    of an item is its number in its task, behind the task's name where there are several."""
    items: tuple[Item, ...]
    responses: tuple[Response, ...]


def is_harness_task(name: str, include_path: Path | None) -> bool:
    """Return whether a YAML file has the harness's keys, or lm_eval, where installed, the name. Raises UnknownTask."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return path.is_file() and bool(HARNESS_YAML.search(path.read_text("utf-8", "replace")))
    try:
        return name in list_tasks(include_path, cache_folder=resources().home / "cache")
    except BenchmarkUnusable:
        return False


def evaluate_harness(
    name: str,
    *,
    model: Chat,
    ask_all: AskAll,
    responses: ResponseStore,
    settings: RunSettings,
    include_path: Path | None = None,
) -> HarnessOutcome:
    """Evaluate a model on the task, group or tag of the harness called `name`, or on the tasks of a YAML file.

    ask_all: asks `model`. responses: keeps log-probabilities, each under model, context and continuation.
    include_path: folder with YAML tasks of the user's own.
    Raises UnknownTask, DataMissing, BenchmarkUnusable and NeedsLogLikelihood before anything is asked; then what
    `ask_all` and the store raise.
    """
    with _silence_harness():
        loaded = load_tasks(name, include_path, settings.metadata)
        wanting = loaded.wants_likelihoods
        if wanting and not isinstance(model, LogLikelihood):
            raise NeedsLogLikelihood(
                f"{list_some(wanting, 1)} wants log-probabilities of given texts, which {model.id} does not give; "
                "evaluate it with `--model hf`, or choose a task that generates its answers"
            )
        for own_name, task in loaded.tasks.items():
            if getattr(task, "UNSAFE_CODE", False):  # lm_eval's mark of such tasks
                why = "runs code that the model writes in this process, which is not done here"
                raise BenchmarkUnusable(f"{own_name} {why}")
            if getattr(task, "MULTIMODAL", False):
                why = "shows images or plays sounds, which is not done through the harness here"
                raise BenchmarkUnusable(f"{own_name} {why}")
        if settings.n_repeat is not None:
            for task in loaded.tasks.values():
                task.set_config("repeats", settings.n_repeat)
        likelihoods = Likelihoods(model, responses) if isinstance(model, LogLikelihood) else None
        effective = settings
        if wanting and settings.apply_chat_template is not False:  # these are of plain texts
            effective = settings.model_copy(update={"apply_chat_template": False, "fewshot_as_multiturn": False})
        answer_log = AnswerLog(settings.samples)
        for own_name, task in loaded.tasks.items():
            leave_out_unanswered(own_name, task, answer_log)
        lm = harness_model(
            model.id,
            ask_all=ask_all,
            likelihoods=likelihoods,
            answer_log=answer_log,
            template=effective.apply_chat_template,
            seed=settings.seed[0],
        )
        results = _simple_evaluate(lm, loaded, effective)
    plain_settings = effective.model_dump(mode="json") | {"limit": effective.first}
    return read_outcome(
        name,
        results,
        loaded,
        answer_log,
        settings={name: plain_settings[name] for name in SETTINGS if name in plain_settings},
        usage=likelihoods.usage if likelihoods else Usage(),
        notes=() if effective == settings else (NO_TEMPLATE,),
    )


def _simple_evaluate(lm: Any, loaded: LoadedTasks, settings: RunSettings) -> dict[str, Any]:
    """Return what lm_eval's `simple_evaluate` finds for loaded tasks under the settings of a run."""
    from lm_eval.evaluator import simple_evaluate

    # under the names that are read first, so that they override those of the task
    gen_kwargs: dict[str, Any] = {**settings.gen_kwargs}
    # --max_tokens first, then the run's gen_kwargs under any name
    tokens = [settings.max_tokens, *(gen_kwargs.pop(name, None) for name in MAX_TOKENS)]
    stops = [gen_kwargs.pop(name, None) for name in STOP]
    gen_kwargs |= {MAX_TOKENS[0]: next(filter(None, tokens), None), STOP[0]: next(filter(None, stops), None)}
    generates = len(loaded.wants_likelihoods) < len(loaded.tasks)
    python, numpy, torch, examples = settings.seed
    results: Any = simple_evaluate(
        model=lm,
        tasks=loaded.parts,
        task_manager=loaded.manager,
        limit=settings.first,
        samples={task: list(places) for task, places in settings.samples.items()} or None,
        num_fewshot=settings.num_fewshot,
        gen_kwargs={name: value for name, value in gen_kwargs.items() if value is not None} if generates else None,
        apply_chat_template=settings.apply_chat_template,
        fewshot_as_multiturn=settings.fewshot_as_multiturn,
        system_instruction=settings.system_instruction,
        bootstrap_iters=RESAMPLES,
        random_seed=python,
        numpy_random_seed=numpy,
        torch_random_seed=torch,
        fewshot_random_seed=examples,
    )
    return results


@contextmanager
def _silence_harness() -> Generator[None]:
    """Keep the harness from printing, starting processes and changing the environment, for one thread at a time."""
    with _rng_lock, ExitStack() as undo:
        undo.enter_context(patch.dict(os.environ))  # importing lm_eval sets variables of the hub's client
        undo.enter_context(silence_loggers())
        installed_version()
        import datasets
        from lm_eval import evaluator
        from lm_eval.api import metrics, task

        undo.enter_context(patch.object(task, "tqdm", lambda items, **_: items))
        undo.enter_context(patch.object(metrics, "bootstrap_stderr", _bootstrap_std_err))
        # facts about machine and tokenizer, found by running a dozen programs
        for collector in ("add_env_info", "add_tokenizer_info", "get_git_commit_hash"):
            undo.enter_context(patch.object(evaluator, collector, lambda *_, **__: None))
        if not datasets.utils.are_progress_bars_disabled():
            datasets.disable_progress_bars()
            undo.callback(datasets.enable_progress_bars)
        yield


def _bootstrap_std_err(metric: Callable[[Sequence[Any]], float], values: Sequence[Any], iters: int) -> float:
    """Return the standard deviation of a metric over `iters` resamples, drawn as lm_eval draws its first thousand."""
    from lm_eval.api.metrics import sample_stddev

    draws = random.Random(0)  # lm_eval's seed of its first chunk
    return sample_stddev([metric(draws.choices(values, k=len(values))) for _ in range(iters)])


def read_outcome(
    name: str,
    results: Mapping[str, Any],
    loaded: LoadedTasks,
    answer_log: AnswerLog,
    *,
    settings: dict[str, Any],
    usage: Usage,
    notes: Iterable[str],
) -> HarnessOutcome:
    """Return the results of lm_eval's `simple_evaluate` as our records. settings: is added to."""
    tasks = [_Task(task, results, answer_log, alone=len(loaded.tasks) == 1) for task in loaded.tasks]
    samples = tuple(sample for task in tasks for sample in task.samples())
    data = _describe_data(name, loaded)
    # metrics of a group; empty for a tag and for a group that defines none
    group = results["results"].get(name) or next(iter(results.get("groups", {}).values()), {})
    settings |= {
        "lm_eval": installed_version(),
        "num_fewshot": _merge_values({task.name: results["n-shot"].get(task.name) for task in tasks}),
        "generation_kwargs": _merge_values({task.name: task.config.get("generation_kwargs") for task in tasks}),
        "output_type": _merge_values({task.name: task.config.get("output_type") for task in tasks}),
    }
    # version numbers of the tasks, and a digest of the definitions
    definitions = {
        task.name: {name: value for name, value in task.config.items() if name not in NOT_DEFINITION} for task in tasks
    }
    numbers = {str(results["versions"].get(task.name)) for task in tasks}
    digest = hashlib.sha256(json.dumps(definitions, sort_keys=True, default=str).encode()).hexdigest()
    # a metric of all answers together leaves each without a score of its own
    counts = tally_samples(samples).counts
    answered = counts.model_copy(update={"scored": counts.scored + counts.unscored, "unscored": 0})
    has_bounds = all(task.rises(task.main) for task in tasks) and counts.scored == answered.scored
    has_bounds &= all(0 <= sample.score <= 1 for sample in samples if sample.score is not None)
    items = tuple(task.item(number) for task in tasks for number in task.by_doc)
    responses = tuple(response for task in tasks for number in task.by_doc for response in task.responses(number))
    coverage = measure_coverage(len(items), answered, samples, has_bounds=has_bounds)
    by_task: dict[str, JsonValue] = {task.name: _read_metrics(task.results) for task in tasks}
    result = TaskResult(
        task=data.name,
        version=f"{'+'.join(sorted(numbers))}-lm_eval-{installed_version()}-{digest[:12]}",
        family="pretrain",
        data=data,
        settings=settings,
        metrics={
            **(_read_metrics(tasks[0].results) if len(tasks) == 1 else {**_read_metrics(group), **by_task}),
            **coverage.metrics,
        },
        estimates=tuple(_read_estimates(group, tasks, samples)),
        counts=counts,
        usage=usage,
        notes=(*notes, *coverage.notes),
    )
    return HarnessOutcome(result, samples, items, responses)


class _Task:
    """One task of the harness with its results."""

    def __init__(self, name: str, results: Mapping[str, Any], answer_log: AnswerLog, *, alone: bool) -> None:
        self.name = name
        self.results: Mapping[str, Any] = results["results"][name]
        self.config: Mapping[str, Any] = results["configs"][name]
        self.higher_is_better: Mapping[str, bool | None] = results["higher_is_better"].get(name, {})
        self.generates = self.config.get("output_type", "generate_until") == "generate_until"
        # the first metric, `metric,filter`, that is no standard error
        self.main = next((key for key in self.results if "," in key and "_stderr," not in key), "")
        """Key of the task's headline metric: its first metric under its first filter; empty without any answer."""
        self._answer_log = answer_log
        self._alone = alone
        self.by_doc: dict[int, list[Mapping[str, Any]]] = {}
        """Number of each item, in the order in which they were asked, with what was logged of it, once per filter."""
        for logged in results["samples"][name]:
            self.by_doc.setdefault(logged["doc_id"], []).append(logged)

    def rises(self, key: str) -> bool:
        """Return whether a higher value of the metric is better; True where lm_eval does not say."""
        return self.higher_is_better.get(key.partition(",")[0]) is not False

    def item(self, number: int) -> Item:
        """Return an item of the task, as the harness asked it."""
        logged = self.by_doc[number][0]  # of several filters each logs the item
        arguments: Sequence[Any] = logged["arguments"]
        continuations = [
            _as_plain_json(argument[1]) for argument in arguments if len(argument) > 1 and isinstance(argument[1], str)
        ]
        return Item(
            id=self._id(number),
            prompts=(str(arguments[0][0]),),
            gold=_as_plain_json(logged["target"]),
            group=None if self._alone else self.name,
            detail={} if self.generates or len(arguments[0]) < 2 else {"continuations": continuations},
        )

    def responses(self, number: int) -> list[Response]:
        """Return the model's responses to an item, one per repeat; none for log-probabilities."""
        return self._answer_log.responses(DocKey(self.name, number), item=self._id(number))

    def samples(self) -> Iterator[Sample]:
        """Yield a graded sample for each item, scored by the headline metric; none where an answer failed for now."""
        for number, logged in self.by_doc.items():
            doc, responses = DocKey(self.name, number), self.responses(number)
            if len(responses) < len(self._answer_log.answers[doc]):
                continue
            if unanswered := next((response for response in responses if response.unanswered), None):
                yield make_unanswered_sample(self.item(number), unanswered)
                continue
            # numeric metrics, under all filters
            values: dict[str, float] = {}
            for row in logged:
                for metric in row["metrics"]:
                    value = row.get(metric)
                    if isinstance(value, tuple | list) and len(value) == 2 and None not in map(_parse_number, value):
                        log_likelihood, units = map(float, value)  # units: words or bytes
                        value = -log_likelihood / units if units else None
                    metric_value = _parse_number(value)
                    if metric_value is not None:
                        values[strip_filter(f"{metric},{row['filter']}")] = metric_value
            score = values.get(strip_filter(self.main))
            values_text = ", ".join(f"{metric} = {value:g}" for metric, value in values.items())
            extracted = _extract_answer(logged[0], generates=self.generates)
            yield Sample(
                item=self._id(number),
                status="unscored" if score is None else "scored",
                score=score,
                extracted=extracted,
                gold=_as_text(logged[0]["target"]),
                reason=values_text if score is not None else "its metric is one of all answers together",
                group=None if self._alone else self.name,
                values=values,
                truncated=any(response.truncated for response in responses),
                missing=self.generates and not extracted,
                keys=tuple(key for response in responses for key in response.call_keys)
                or tuple(self._answer_log.keys[doc]),
            )

    def _id(self, number: int) -> str:
        return str(number) if self._alone else f"{self.name}/{number}"


def _read_metrics(results: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return lm_eval's metrics; `N/A`, NaN and infinity become None."""
    return {key: _parse_number(value) for key, value in results.items() if "," in key}


def _read_estimates(group: Mapping[str, Any], read: Sequence[_Task], samples: Sequence[Sample]) -> Iterator[Estimate]:
    """Yield a single task's estimates, or a group's (without any, its samples' mean) and each task's as parts of it."""
    if len(read) > 1:
        n = sum(task.results["sample_len"] for task in read)
        group_metrics = list(read_estimates(_read_metrics(group), n=n))
        for place, metric in enumerate(group_metrics):
            better = all(task.rises(metric.metric) for task in read)
            yield metric.model_copy(
                update={"headline": place == 0, "higher_is_better": better, **_normal_interval(metric)}
            )
        scores = {} if group_metrics else tally_samples(samples).scores
        if scores:
            better = all(task.rises(task.main) for task in read)
            yield estimate(strip_filter(read[0].main), scores, headline=True, higher_is_better=better)
    for task in read:
        task_samples = [sample for sample in samples if len(read) == 1 or sample.group == task.name]
        values, part = tally_samples(task_samples).values, "" if len(read) == 1 else f"task={task.name}"
        for metric in read_estimates(_read_metrics(task.results), n=task.results["sample_len"]):
            by_item, interval = values.get(metric.metric, {}), _normal_interval(metric)
            # where the metric is the mean over the items, the interval is computed as for benchmarks of ours
            if by_item and math.isclose(metric.value, sum(map(sum, by_item.values())) / len(by_item), abs_tol=1e-9):
                interval = estimate(metric.metric, by_item).model_dump(include={"low", "high"})
            headline = len(read) == 1 and metric.metric == strip_filter(task.main)
            better = {"headline": headline, "higher_is_better": task.rises(metric.metric)}
            yield metric.model_copy(update={"part": part, **better, **interval})


def _normal_interval(metric: Estimate) -> dict[str, float | None]:
    """Return the ends of a metric's 95 % interval by its standard error; empty without one."""
    reach = None if metric.std_err is None else Z * metric.std_err
    return {} if reach is None else {"low": metric.value - reach, "high": metric.value + reach}


def _parse_number(value: Any) -> float | None:
    """Return what `float` makes of a value, a text too; None for NaN, infinity and anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _extract_answer(logged: Mapping[str, Any], *, generates: bool) -> str | None:
    """Return the answer that the harness's filter extracted, or the likeliest continuation; None without one."""
    filtered: Sequence[Any] = logged["filtered_resps"]
    if generates:
        first: Any = filtered[0] if filtered else None
        answer = _as_text(first[0] if isinstance(first, list) and first else first)
        return None if answer in NOT_FOUND else answer
    pairs = [arguments for arguments in logged["arguments"] if len(arguments) > 1]
    if not pairs or len(filtered) < 2:
        return None
    likeliest = max(range(len(filtered)), key=lambda number: filtered[number][0])
    return _as_text(pairs[likeliest][1]).strip()


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(_as_plain_json(value), ensure_ascii=False)


def _as_plain_json(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str)) if not isinstance(value, str) else str(value)


def _merge_values(by_task: Mapping[str, Any]) -> Any:
    """Return the value that all tasks share, else the values by task."""
    plain: dict[str, Any] = {name: _as_plain_json(value) for name, value in by_task.items()}
    first = next(iter(plain.values()))
    return first if all(value == first for value in plain.values()) else plain


def _describe_data(name: str, loaded: LoadedTasks) -> Dataset:
    """Return sources, number and checksum of the documents that all tasks ask."""
    digest, count, sources = hashlib.sha256(), 0, dict[str, None]()
    for task in loaded.tasks.values():
        files: Any = (task.config.dataset_kwargs or {}).get("data_files")
        dataset_parts = (task.config.dataset_path, task.config.dataset_name)
        listed: Iterable[Any] = files.values() if isinstance(files, Mapping) else [files]
        sources[", ".join(map(str, listed)) if files else "/".join(str(part) for part in dataset_parts if part)] = None
        for doc in task.eval_docs:
            count += 1
            digest.update(json.dumps(doc, sort_keys=True, default=str).encode() + b"\n")
    plain = name.rpartition("/")[2].removesuffix(".yaml").removesuffix(".yml")
    return Dataset(name=plain, source=", ".join(sources), checksum=digest.hexdigest(), count=count)
