"""Finds a run by results file, folder, ID or model, and looks up the texts and model calls of its graded responses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import JsonValue

from storage.artifacts import Artifacts
from storage.evaluated import Graded
from storage.records import Record
from storage.storage_errors import DamagedArtifact, DatabaseUnavailable, MissingArtifact, UnknownRun
from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import EvalReport, Sample, TaskResult
from tasks.evaluation.record_lines import RecordedTask, Texts
from tasks.evaluation.results.foreign_results import SampleTexts, dict_or_empty
from tasks.evaluation.results.results_file import read_results, read_samples, read_samples_with_texts, report_from_rows

if TYPE_CHECKING:
    from storage.evaluations import Evaluations
    from storage.responses import StoredResponse

RECENT_RUNS = 20
"""Number of latest runs of a model among which a finished one takes precedence over a running one."""
Recall = Callable[[list[str]], "dict[str, StoredResponse]"]


class FoundRun:
    """A run that was read from a results file or from the database."""

    def __init__(self, report: EvalReport, *, path: Path | None = None, evaluations: Evaluations | None = None) -> None:
        self.report = report
        self.path = path
        """Path of the results file; None for a run of the database."""
        self._evaluations = evaluations

    def samples(self, task: str) -> Iterator[Sample]:
        """Yield the samples of a task, one at a time. Raises ResultsUnusable, DatabaseUnavailable."""
        self.require(task)
        if self._evaluations:
            return self._evaluations.samples(self.report.run.id, task)
        assert self.path
        return read_samples(self.path, task)

    def graded(self, task: str) -> Iterator[Sample | Graded]:
        """Yield the samples of a task with what a comparison needs of them. Raises as `samples` does."""
        if self._evaluations:
            self.require(task)
            return self._evaluations.graded(self.report.run.id, task)
        return self.samples(task)

    def item(self, task: str, item: str) -> list[Sample]:
        """Return the samples of one item, by repeat; empty where the run has no such item. Raises as `samples` does."""
        self.require(task)
        if self._evaluations:
            return self._evaluations.sample(self.report.run.id, task, item)
        item_samples = (sample for sample in self.samples(task) if sample.item == item)
        return sorted(item_samples, key=lambda sample: sample.repeat)

    def samples_with_texts(self, result: TaskResult, artifacts: Artifacts) -> Iterator[SampleTexts]:
        """Yield the samples of a task with prompts and replies, empty where they are gone. Raises as `samples` does."""
        if self.path:
            yield from read_samples_with_texts(self.path, result.task)
            return
        try:
            texts_of = RecordedTask(result, artifacts)
        except (MissingArtifact, DamagedArtifact):
            texts_of = None
        for sample in self.samples(result.task):
            texts = texts_of(sample) if texts_of else Texts()
            yield SampleTexts(sample, texts.prompts, texts.replies)

    def require(self, task: str) -> None:
        """Refuse a task that the run does not have. Raises ResultsUnusable, naming the tasks that it has."""
        tasks = [result.task for result in self.report.results]
        if task not in tasks:
            raise ResultsUnusable(f"run {self.report.run.id} has no task {task}; it has {', '.join(tasks) or 'none'}")


def find_run(name: str, evaluations: Evaluations | None) -> FoundRun:
    """Return the run called `name`: a results file, a folder (its newest), an ID or its beginning, a model's last run.

    evaluations: None to look at files only. Raises ResultsUnusable, DatabaseUnavailable.
    """
    path = Path(name)
    if name.endswith(".json") or path.is_file():
        return FoundRun(read_results(path), path=path)
    if path.is_dir():
        files = [*path.glob("results_*.json"), *path.glob("*/results_*.json")]
        if not files:
            json_files = list(path.glob("*.json"))
            files = json_files if len(json_files) == 1 else []
        if not files:
            raise ResultsUnusable(f"{path} has no results_TIME.json; name a results file or its folder")
        newest = max(files, key=lambda file: (file.name, file.parent.name))  # the name ends with the time
        return FoundRun(read_results(newest), path=newest)
    if evaluations is None:
        raise ResultsUnusable(f"{name} is no results file and no folder of one; name one")
    return find_stored_run(name, evaluations)


def find_stored_run(name: str, evaluations: Evaluations) -> FoundRun:
    """Return the run of an ID, its beginning, or a model (last ended). Raises ResultsUnusable, DatabaseUnavailable."""
    try:
        run = evaluations.run(name)
    except UnknownRun as unknown:
        runs = evaluations.runs(kind="benchmark", model=name, limit=RECENT_RUNS)
        if not runs:
            raise ResultsUnusable(
                f"{name} is no results file, no run and no model that was evaluated: {unknown}"
            ) from unknown
        run = next((candidate for candidate in runs if candidate.status != "running"), runs[0])
    try:
        report = report_from_rows(run, evaluations.task_results(run.id))
    except ValueError as error:
        raise ResultsUnusable(f"{error}; name a run of `trivet eval run`") from error
    return FoundRun(report, evaluations=evaluations)


class PromptTurn(Record):
    """A turn of the prompt that a model was sent."""

    role: str
    text: str


class Call(Record):
    """A model call behind a sample, from the response store."""

    key: str
    by: Literal["model", "judge"]
    model: str
    prompt: tuple[PromptTurn, ...]
    answer: str
    finish_reason: str
    parameters: dict[str, JsonValue]
    """Parameters of the request, which is everything but its messages."""
    sent: dict[str, JsonValue]
    """Sampling parameters as the backend received them."""
    prompt_tokens: int | None
    completion_tokens: int | None
    latency_s: float


class SampleDetails(Record):
    """A graded response with its prompts, its replies and the model calls behind it."""

    sample: Sample
    system: str | None = None
    prompts: tuple[str, ...] = ()
    replies: tuple[str, ...] = ()
    missed: str | None = None
    calls: tuple[Call, ...] = ()
    notes: tuple[str, ...] = ()


def look_up(run: FoundRun, task: str, sample: Sample, artifacts: Artifacts, recall: Recall) -> SampleDetails:
    """Return a sample with its texts, from the artifacts, the results file or the response store (`recall`, by key)."""
    (result,) = (task_result for task_result in run.report.results if task_result.task == task)
    try:
        texts = RecordedTask(result, artifacts, only=sample.item)(sample)
    except (MissingArtifact, DamagedArtifact):  # another machine's run, or one that `trivet gc` has cleared
        texts = Texts()
    (item, response), notes = texts, list[str]()
    # without the response only the first key is surely the model's: those of its turns precede the judge's
    answer_keys = [turn.key for turn in response.turns if turn.key] if response else list(sample.keys[:1])
    try:
        stored = recall(list(sample.keys)) if sample.keys else {}
    except DatabaseUnavailable as error:
        stored = {}
        notes.append(f"the model calls are not shown: {error}")
    calls = [
        _read_call(key, stored[key], by="model" if key in answer_keys else "judge")
        for key in sample.keys
        if key in stored
    ]
    prompts, replies = texts.prompts, texts.replies
    if run.path and not (prompts and replies):
        lines, own = read_samples_with_texts(run.path, task), (sample.item, sample.repeat)
        if line := next((line for line in lines if (line.sample.item, line.sample.repeat) == own), None):
            prompts, replies = prompts or tuple(line.prompts), replies or tuple(line.replies)
    model_calls = [call for call in calls if call.by == "model"]
    if model_calls:  # the last turn's messages hold the turns before it
        prompts = prompts or tuple(turn.text for turn in model_calls[-1].prompt if turn.role == "user")
        replies = replies or tuple(call.answer for call in model_calls)
    if not (prompts or replies):
        notes.append("neither prompt nor answer has been kept of it")
    return SampleDetails(
        sample=sample,
        system=item.system if item else None,
        prompts=prompts,
        replies=replies,
        missed=response.missed if response else None,
        calls=tuple(calls),
        notes=tuple(notes),
    )


def _read_call(key: str, stored: StoredResponse, *, by: Literal["model", "judge"]) -> Call:
    """Return a stored response as a call, with the text of its prompt; pictures are `(image)`."""
    request, response = dict_or_empty(stored.request), dict_or_empty(stored.response)
    messages, prompt = request.get("messages"), list[PromptTurn]()
    for message in map(dict_or_empty, messages if isinstance(messages, list) else ()):
        parts = [dict_or_empty(part) for part in message.get("content") or []]
        text = "".join(str(part.get("text", "")) or "(image)" for part in parts)
        prompt.append(PromptTurn(role=str(message.get("role", "")), text=text))
    return Call(
        key=key,
        by=by,
        model=f"{stored.backend}:{stored.model}",
        prompt=tuple(prompt),
        answer=str(response.get("text", "")),
        finish_reason=str(response.get("finish_reason", "")),
        parameters={name: value for name, value in request.items() if name != "messages"},
        sent=dict_or_empty(response.get("sent")),
        prompt_tokens=stored.prompt_tokens,
        completion_tokens=stored.completion_tokens,
        latency_s=stored.latency_s,
    )
