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
from tasks.evaluation.results.results_file import lines_beside, read_results, report_from_rows, samples_beside

if TYPE_CHECKING:
    from storage.evaluations import Evaluations
    from storage.responses import StoredResponse

LOOKED_AT = 20
"""Number of latest runs of a model among which a finished one takes precedence over a running one."""
Recall = Callable[[list[str]], "dict[str, StoredResponse]"]


class FoundRun:
    """A run, read from a results file or from the database."""

    def __init__(self, report: EvalReport, *, path: Path | None = None, evaluations: Evaluations | None = None) -> None:
        self.report = report
        self.path = path
        """Its results file; None if it is from the database."""
        self._evaluations = evaluations

    def samples(self, task: str) -> Iterator[Sample]:
        """The samples of a task, one at a time. Raises ResultsUnusable, DatabaseUnavailable."""
        self.require(task)
        if self.path:
            return samples_beside(self.path, task)
        assert self._evaluations
        return self._evaluations.samples(self.report.run.id, task)

    def graded(self, task: str) -> Iterator[Sample | Graded]:
        """The samples of a task as a comparison needs them. Raises as `samples` does."""
        if self._evaluations and not self.path:
            self.require(task)
            return self._evaluations.graded(self.report.run.id, task)
        return self.samples(task)

    def item(self, task: str, item: str) -> list[Sample]:
        """The samples of one item, by repeat; none where it is not there. Raises as `samples` does."""
        self.require(task)
        if self._evaluations and not self.path:
            return self._evaluations.sample(self.report.run.id, task, item)
        return sorted((one for one in self.samples(task) if one.item == item), key=lambda one: one.repeat)

    def texts(self, task: str, sample: Sample) -> tuple[list[str], list[str]]:
        """Prompts and replies of a sample, if the results file has them beside it. Raises ResultsUnusable."""
        for one, prompts, replies in lines_beside(self.path, task) if self.path else ():
            if (one.item, one.repeat) == (sample.item, sample.repeat):
                return list(prompts), list(replies)
        return [], []

    def samples_with_texts(self, result: TaskResult, artifacts: Artifacts) -> Iterator[SampleTexts]:
        """The samples of a task with their texts, one at a time. Raises as `samples` does."""
        if self.path:
            yield from lines_beside(self.path, result.task)
            return
        try:
            asked = RecordedTask(result, artifacts)
        except (MissingArtifact, DamagedArtifact):
            asked = None
        for sample in self.samples(result.task):
            item, response = asked(sample) if asked else Texts(None, None)
            yield SampleTexts(
                sample, item.prompts if item else (), [one.text for one in response.turns] if response else ()
            )

    def require(self, task: str) -> None:
        """Raises ResultsUnusable naming the tasks of the run."""
        tasks = [result.task for result in self.report.results]
        if task not in tasks:
            raise ResultsUnusable(f"run {self.report.run.id} has no task {task}; it has {', '.join(tasks) or 'none'}")


def find_run(which: str, evaluations: Evaluations | None) -> FoundRun:
    """The run called `which`: a results file, a folder of one, an id or how it begins, or a model, whose last it is.

    evaluations: None to look at files only. Raises ResultsUnusable, DatabaseUnavailable.
    """
    path = Path(which)
    if which.endswith(".json") or path.is_file():
        return FoundRun(read_results(path), path=path)
    if path.is_dir():
        found = [*path.glob("results_*.json"), *path.glob("*/results_*.json")]
        if not found and len(named := [*path.glob("*.json")]) == 1:
            found = named
        if not found:
            raise ResultsUnusable(f"{path} has no results_TIME.json; name a results file or its folder")
        newest = max(found, key=lambda file: (file.name, file.parent.name))  # the name ends with the time
        return FoundRun(read_results(newest), path=newest)
    if evaluations is None:
        raise ResultsUnusable(f"{which} is no results file and no folder of one; name one")
    return find_stored_run(which, evaluations)


def find_stored_run(which: str, evaluations: Evaluations) -> FoundRun:
    """The run of the database called `which`, an id or how it begins, or a model. No file is looked at.

    Raises ResultsUnusable, DatabaseUnavailable.
    """
    try:
        run = evaluations.run(which)
    except UnknownRun as unknown:
        runs = evaluations.runs(kind="benchmark", model=which, limit=LOOKED_AT)
        if not runs:
            raise ResultsUnusable(
                f"{which} is no results file, no run and no model that was evaluated: {unknown}"
            ) from unknown
        run = next((one for one in runs if one.status != "running"), runs[0])
    try:
        report = report_from_rows(run, evaluations.task_results(run.id))
    except ValueError as error:
        raise ResultsUnusable(f"{error}; name a run of `trivet eval run`") from error
    return FoundRun(report, evaluations=evaluations)


class PromptTurn(Record):
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
    """The request without its messages."""
    sent: dict[str, JsonValue]
    """Sampling parameters as the backend received them."""
    prompt_tokens: int | None
    completion_tokens: int | None
    latency_s: float


class Looked(Record):
    """A graded response with its texts."""

    sample: Sample
    system: str | None = None
    prompts: tuple[str, ...] = ()
    replies: tuple[str, ...] = ()
    missed: str | None = None
    calls: tuple[Call, ...] = ()
    notes: tuple[str, ...] = ()


def look_up(found: FoundRun, task: str, sample: Sample, artifacts: Artifacts, recall: Recall) -> Looked:
    """The sample with its texts: from the results file, the artifacts, or the response store (`recall`, by key)."""
    (result,) = (one for one in found.report.results if one.task == task)
    try:
        item, response = RecordedTask(result, artifacts, only=sample.item)(sample)
    except (MissingArtifact, DamagedArtifact):  # another machine's run, or one that `trivet gc` has cleared
        item, response = None, None
    notes: list[str] = []
    answer_keys = [turn.key for turn in response.turns if turn.key] if response else list(sample.keys[:1])
    try:
        stored = recall(list(sample.keys)) if sample.keys else {}
    except DatabaseUnavailable as error:
        stored = {}
        notes.append(f"the model calls are not shown: {error}")
    calls: list[Call] = []
    for key in sample.keys:
        if key in stored:
            calls.append(_call(key, stored[key], by="model" if key in answer_keys else "judge"))
    prompts = item.prompts if item else ()
    replies = tuple(turn.text for turn in response.turns) if response else ()
    if not (prompts and replies):
        beside = found.texts(task, sample)
        prompts, replies = prompts or tuple(beside[0]), replies or tuple(beside[1])
    if own := [call for call in calls if call.by == "model"]:  # the last turn's messages hold the turns before it
        prompts = prompts or tuple(said.text for said in own[-1].prompt if said.role == "user")
        replies = replies or tuple(call.answer for call in own)
    if not (prompts or replies):
        notes.append("neither prompt nor answer has been kept of it")
    return Looked(
        sample=sample,
        system=item.system if item else None,
        prompts=prompts,
        replies=replies,
        missed=response.missed if response else None,
        calls=tuple(calls),
        notes=tuple(notes),
    )


def _call(key: str, stored: StoredResponse, *, by: Literal["model", "judge"]) -> Call:
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
