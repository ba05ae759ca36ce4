"""Everything that is known of one graded response: what was asked, answered, sent, judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from pydantic import JsonValue

from storage.artifacts import Artifacts
from storage.records import Record
from storage.storage_errors import DamagedArtifact, DatabaseUnavailable, MissingArtifact
from tasks.evaluation.evaluation_records import Sample
from tasks.evaluation.results.finding_runs import FoundRun
from tasks.evaluation.running.asked_samples import Asked, Texts

if TYPE_CHECKING:
    from storage.responses import StoredResponse


class Said(Record):
    """A message of a model call."""

    role: str
    text: str


class Call(Record):
    """A model call behind a sample, as the response store has it."""

    key: str
    by: Literal["model", "judge"]
    model: str
    prompt: tuple[Said, ...]
    answer: str
    finish_reason: str
    parameters: dict[str, JsonValue]
    """What was asked for besides the messages."""
    sent: dict[str, JsonValue]
    """Sampling parameters as the backend got them."""
    prompt_tokens: int | None
    completion_tokens: int | None
    latency_s: float


class Looked(Record):
    """A graded response with its texts."""

    sample: Sample
    system: str | None = None
    prompts: tuple[str, ...] = ()
    """What the user said, turn by turn."""
    replies: tuple[str, ...] = ()
    """What the model said to it."""
    missed: str | None = None
    """Why the model did not answer."""
    calls: tuple[Call, ...] = ()
    notes: tuple[str, ...] = ()


class Store(Protocol):
    """The response store."""

    def many(self, keys: Sequence[str]) -> dict[str, StoredResponse]:
        """The answers that are there."""
        ...


def look_up(found: FoundRun, task: str, sample: Sample, artifacts: Artifacts, store: Store) -> Looked:
    """The sample with its texts: from beside the results file, the artifacts, or else the response store."""
    texts = _texts(found, task, sample, artifacts)
    notes: list[str] = []
    answers = [turn.key for turn in texts.response.turns if turn.key] if texts.response else list(sample.keys[:1])
    try:
        calls = _calls(sample, answers, store.many(list(sample.keys)) if sample.keys else {})
    except DatabaseUnavailable as error:
        calls = ()
        notes.append(f"the model calls are not shown: {error}")
    prompts = texts.item.prompts if texts.item else ()
    replies = tuple(turn.text for turn in texts.response.turns) if texts.response else ()
    if not (prompts and replies):
        beside = found.texts(task, sample)
        prompts, replies = prompts or tuple(beside[0]), replies or tuple(beside[1])
    if not (prompts and replies):
        prompts, replies = _from_calls(calls, prompts, replies)
    if not (prompts or replies):
        notes.append("neither prompt nor answer has been kept of it")
    return Looked(
        sample=sample,
        system=texts.item.system if texts.item else None,
        prompts=prompts,
        replies=replies,
        missed=texts.response.missed if texts.response else None,
        calls=calls,
        notes=tuple(notes),
    )


def _texts(found: FoundRun, task: str, sample: Sample, artifacts: Artifacts) -> Texts:
    (result,) = (one for one in found.report.results if one.task == task)
    try:
        return Asked(result, artifacts)(sample)
    except (MissingArtifact, DamagedArtifact):  # another machine's run, or one that `trivet gc` has cleared
        return Texts(None, None)


def _calls(sample: Sample, answers: Sequence[str], stored: dict[str, StoredResponse]) -> tuple[Call, ...]:
    """Those that are there, in the order of the keys."""
    return tuple(
        _call(key, stored[key], by="model" if key in answers else "judge") for key in sample.keys if key in stored
    )


def _call(key: str, stored: StoredResponse, *, by: Literal["model", "judge"]) -> Call:
    asked, said = _dict(stored.request), _dict(stored.response)
    messages = asked.get("messages")
    return Call(
        key=key,
        by=by,
        model=f"{stored.backend}:{stored.model}",
        prompt=tuple(map(_said, messages if isinstance(messages, list) else ())),
        answer=str(said.get("text", "")),
        finish_reason=str(said.get("finish_reason", "")),
        parameters={name: value for name, value in asked.items() if name != "messages"},
        sent=_dict(said.get("sent")),
        prompt_tokens=stored.prompt_tokens,
        completion_tokens=stored.completion_tokens,
        latency_s=stored.latency_s,
    )


def _said(message: Any) -> Said:
    content: list[Any] = _dict(message).get("content") or []
    parts = (_dict(part) for part in content)
    text = "".join(str(part.get("text", "")) or "(image)" for part in parts)
    return Said(role=str(_dict(message).get("role", "")), text=text)


def _from_calls(
    calls: Sequence[Call], prompts: tuple[str, ...], replies: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Texts out of the response store: the last turn's messages hold the turns before it."""
    own = [call for call in calls if call.by == "model"]
    if not own:
        return prompts, replies
    asked = tuple(said.text for said in own[-1].prompt if said.role == "user")
    return prompts or asked, replies or tuple(call.answer for call in own)


def _dict(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
