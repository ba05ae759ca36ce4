"""Results of the lm-evaluation-harness as our records: figures with error bars, and samples."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import JsonValue

from models.model_errors import ModelError, TransientModelError
from tasks.calls import Answer
from tasks.evaluation.evaluation_records import Dataset, Estimate, Item, Response, Sample, TaskResult, Usage
from tasks.evaluation.harness.harness_model import Doc, Heard
from tasks.evaluation.harness.harness_tasks import LoadedTasks, installed_version
from tasks.evaluation.running.generation import reply_of
from tasks.grading.sample_statistics import tally
from tasks.measure.estimates import Z, estimate

NO_FILTER = "none"
NOT_FOUND = ("", "[invalid]")
"""Outputs of the harness's filters for a response without an answer."""
ELSEWHERE = ("metadata", "dataset_kwargs", "num_fewshot", "generation_kwargs", "repeats")
"""Keys of a task's configuration that are not part of its definition."""
HOUSEKEEPING = ("name", "alias", "sample_len", "sample_count")


class HarnessOutcome(NamedTuple):
    """Results of a model on a task, a group or a tag of the harness."""

    result: TaskResult
    """Without artifacts; its usage is that of log-probability requests, as generating calls are counted by the caller.

    Metrics: lm_eval's keys, `acc,none` and `acc_stderr,none`; of several tasks each under its name too.
    Estimates: standard errors are lm_eval's; figures of one of several tasks have the part `task=NAME`.
    """
    samples: tuple[Sample, ...]
    """Score = the first metric under the first filter; a perplexity's is the negative log-likelihood per unit. The id
    of an item is its number in its task, behind the task's name where there are several."""
    items: tuple[Item, ...]
    responses: tuple[Response, ...]


def outcome_of(
    name: str,
    found: Mapping[str, Any],
    loaded: LoadedTasks,
    heard: Heard,
    *,
    settings: dict[str, Any],
    usage: Usage,
    notes: tuple[str, ...],
) -> HarnessOutcome:
    """The results of `simple_evaluate` as our records."""
    read = [_Task(task, found, heard, alone=len(loaded.tasks) == 1) for task in loaded.tasks]
    samples = tuple(sample for task in read for sample in task.samples())
    settings |= {
        "lm_eval": installed_version(),
        "num_fewshot": _of_all({task.name: found["n-shot"].get(task.name) for task in read}),
        "generation_kwargs": _of_all({task.name: task.config.get("generation_kwargs") for task in read}),
        "output_type": _of_all({task.name: task.config.get("output_type") for task in read}),
    }
    data = _data(name, loaded)
    result = TaskResult(
        task=data.name,
        version=_version(found, read),
        family="pretrain",
        data=data,
        settings=settings,
        metrics=_figures(read[0].results)
        if len(read) == 1
        else {**_figures(_of_group(name, found)), **{task.name: _figures(task.results) for task in read}},
        estimates=tuple(_estimates(name, found, read, samples)),
        counts=tally(samples).counts,
        usage=usage,
        notes=(*notes, *_notes(heard)),
    )
    return HarnessOutcome(
        result,
        samples,
        items=tuple(item for task in read for item in task.items()),
        responses=tuple(response for task in read for response in task.responses()),
    )


class _Task:
    """One task of the harness with its results."""

    def __init__(self, name: str, found: Mapping[str, Any], heard: Heard, *, alone: bool) -> None:
        self.name = name
        self.results: Mapping[str, Any] = found["results"][name]
        self.config: Mapping[str, Any] = found["configs"][name]
        self.higher_is_better: Mapping[str, bool | None] = found["higher_is_better"].get(name, {})
        self.generates = self.config.get("output_type", "generate_until") == "generate_until"
        self._heard = heard
        self._alone = alone
        self._group = None if alone else name
        self._by_doc: dict[int, list[Mapping[str, Any]]] = {}
        for logged in found["samples"][name]:
            self._by_doc.setdefault(logged["doc_id"], []).append(logged)

    @property
    def main(self) -> str:
        """Key of the figure that stands for the task: its first metric under its first filter."""
        return next(_keys(self.results))

    def rises(self, key: str) -> bool:
        """Whether a higher figure is better."""
        return self.higher_is_better.get(key.partition(",")[0]) is not False

    def items(self) -> Iterator[Item]:
        for number, logged in self._by_doc.items():
            prompts = dict.fromkeys(str(arguments[0]) for arguments in logged[0]["arguments"])
            yield Item(
                id=self._id(number),
                prompts=tuple(prompts)[:1],
                gold=_plain(logged[0]["target"]),
                group=self._group,
                detail={"continuations": [_plain(one[1]) for one in logged[0]["arguments"] if isinstance(one[1], str)]}
                if not self.generates and len(logged[0]["arguments"][0]) > 1
                else {},
            )

    def responses(self) -> Iterator[Response]:
        if not self.generates:
            return
        for number in self._by_doc:
            for repeat, answer in enumerate(self._heard.answers[Doc(self.name, number)]):
                if isinstance(answer, Answer):
                    yield Response(item=self._id(number), repeat=repeat, turns=(reply_of(answer),))
                else:
                    yield Response(item=self._id(number), repeat=repeat, missed=str(answer))

    def samples(self) -> Iterator[Sample]:
        for number, logged in self._by_doc.items():
            yield self._sample(Doc(self.name, number), logged)

    def _sample(self, doc: Doc, logged: Sequence[Mapping[str, Any]]) -> Sample:
        answers = self._heard.answers[doc]
        values = dict(_values(logged))
        why_not = next((str(answer) for answer in answers if isinstance(answer, TransientModelError)), None)
        score = None if why_not else values.get(_short(self.main))
        said = ", ".join(f"{metric} = {value:g}" for metric, value in values.items())
        extracted = _extracted(logged[0], generates=self.generates)
        return Sample(
            item=self._id(doc.number),
            status="unscored" if score is None else "scored",
            score=score,
            extracted=extracted,
            gold=_text(logged[0]["target"]),
            reason=why_not or (said if score is not None else "its metric is one of all answers together"),
            group=self._group,
            values=values,
            truncated=any(isinstance(one, Answer) and one.response.finish_reason == "length" for one in answers),
            missing=self.generates and not extracted,
            keys=tuple(one.key for one in answers if isinstance(one, Answer)) or tuple(self._heard.keys[doc]),
        )

    def _id(self, number: int) -> str:
        return str(number) if self._alone else f"{self.name}/{number}"


def _figures(results: Mapping[str, Any]) -> dict[str, JsonValue]:
    """lm_eval's figures; `N/A`, NaN and infinity become None."""
    return {key: _number(value) for key, value in results.items() if key not in HOUSEKEEPING and "," in key}


def _estimates(
    name: str, found: Mapping[str, Any], read: Sequence[_Task], samples: Sequence[Sample]
) -> Iterator[Estimate]:
    if len(read) == 1:
        yield from _of_task(read[0], samples, part="", headline=True)
        return
    group = _of_group(name, found)
    keys = list(_keys(group))
    n = sum(task.results["sample_len"] for task in read)
    for key in keys:
        better = all(task.rises(key) for task in read)
        if one := _estimate(group, key, n=n, headline=key == keys[0], better=better):
            yield one
    if not keys and (scores := tally(samples).scores):
        better = all(task.rises(task.main) for task in read)
        yield estimate(_short(read[0].main), scores, headline=True, higher_is_better=better)
    for task in read:
        of_task = [sample for sample in samples if sample.group == task.name]
        yield from _of_task(task, of_task, part=f"task={task.name}", headline=False)


def _of_group(name: str, found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Figures of a group; empty for a tag and for a group that defines none."""
    return found["results"].get(name) or next(iter(found.get("groups", {}).values()), {})


def _of_task(task: _Task, samples: Sequence[Sample], *, part: str, headline: bool) -> Iterator[Estimate]:
    values = tally(samples).values
    for key in _keys(task.results):
        is_headline, n = headline and key == task.main, task.results["sample_len"]
        found = _estimate(task.results, key, n=n, part=part, headline=is_headline, better=task.rises(key))
        if found is None:
            continue
        by_item = values.get(_short(key), {})
        if by_item and math.isclose(found.value, sum(map(sum, by_item.values())) / len(by_item), abs_tol=1e-9):
            interval = estimate(key, by_item)
            found = found.model_copy(update={"low": interval.low, "high": interval.high})
        yield found


def _estimate(
    results: Mapping[str, Any], key: str, *, n: int, headline: bool, better: bool, part: str = ""
) -> Estimate | None:
    """A figure of the harness, `metric,filter`, with its standard error; None if it is no number."""
    value, std_err = _number(results[key]), _number(results.get(key.replace(",", "_stderr,", 1)))
    if value is None:
        return None
    reach = None if std_err is None else Z * std_err
    return Estimate(
        metric=_short(key),
        part=part,
        value=value,
        std_err=std_err,
        low=None if reach is None else value - reach,
        high=None if reach is None else value + reach,
        n=n,
        headline=headline,
        higher_is_better=better,
    )


def _keys(results: Mapping[str, Any]) -> Iterator[str]:
    """Keys of figures, `metric,filter`, without those of standard errors."""
    return (key for key in results if "," in key and "_stderr," not in key)


def _short(key: str) -> str:
    """A figure's name, without the filter `none`."""
    return key.removesuffix(f",{NO_FILTER}")


def _values(logged: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    """An item's numeric metrics, under all filters."""
    for row in logged:
        for metric in row["metrics"]:
            value = row.get(metric)
            if isinstance(value, tuple | list) and len(value) == 2 and all(_number(part) is not None for part in value):
                value = -float(value[0]) / float(value[1]) if value[1] else None  # (log-likelihood, words or bytes)
            if (number := _number(value)) is not None:
                yield _short(f"{metric},{row['filter']}"), number


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _extracted(logged: Mapping[str, Any], *, generates: bool) -> str | None:
    """The filtered answer, or the most likely continuation."""
    filtered: Sequence[Any] = logged["filtered_resps"]
    if generates:
        first: Any = filtered[0] if filtered else None
        found = _text(first[0] if isinstance(first, list) and first else first)
        return None if found in NOT_FOUND else found
    pairs = [arguments for arguments in logged["arguments"] if len(arguments) > 1]
    if not pairs or len(filtered) < 2:
        return None
    likeliest = max(range(len(filtered)), key=lambda at: filtered[at][0])
    return _text(pairs[likeliest][1]).strip()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str)) if not isinstance(value, str) else str(value)


def _of_all(by_task: Mapping[str, Any]) -> Any:
    """The value if it is the same for all tasks; else the values by task."""
    plain: dict[str, Any] = {name: _plain(value) for name, value in by_task.items()}
    first = next(iter(plain.values()))
    return first if all(value == first for value in plain.values()) else plain


def _version(found: Mapping[str, Any], read: Sequence[_Task]) -> str:
    """Version numbers of the tasks, version of lm_eval, and digest of the definitions."""
    definitions = {
        task.name: {name: value for name, value in task.config.items() if name not in ELSEWHERE} for task in read
    }
    numbers = {str(found["versions"].get(task.name)) for task in read}
    digest = hashlib.sha256(json.dumps(definitions, sort_keys=True, default=str).encode()).hexdigest()
    return f"{'+'.join(sorted(numbers))}-lm_eval-{installed_version()}-{digest[:12]}"


def _data(name: str, loaded: LoadedTasks) -> Dataset:
    digest, count, sources = hashlib.sha256(), 0, dict[str, None]()
    for task in loaded.tasks.values():
        sources[_source(task)] = None
        for doc in task.eval_docs:
            count += 1
            digest.update(json.dumps(doc, sort_keys=True, default=str).encode() + b"\n")
    plain = name.rpartition("/")[2].removesuffix(".yaml").removesuffix(".yml")
    return Dataset(name=plain, source=", ".join(sources), checksum=digest.hexdigest(), count=count)


def _source(task: Any) -> str:
    config = task.config
    files: Any = (config.dataset_kwargs or {}).get("data_files")
    if files:
        named: Iterable[Any] = files.values() if isinstance(files, Mapping) else [files]
        return ", ".join(str(each) for each in named)
    return "/".join(str(part) for part in (config.dataset_path, config.dataset_name) if part)


def _notes(heard: Heard) -> Iterator[str]:
    answers = [answer for of_doc in heard.answers.values() for answer in of_doc]
    errors = [answer for answer in answers if isinstance(answer, ModelError)]
    for_now = sum(isinstance(error, TransientModelError) for error in errors)
    if for_now:
        yield f"{for_now} of {len(answers)} answers are missing for now; lm_eval's figures take them for empty ones"
    if len(errors) > for_now:
        yield f"{len(errors) - for_now} of {len(answers)} questions are longer than the model's context"
