"""Two runs paired by item (means over repeats): their difference, its significance, and the items that cause it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING, NamedTuple

from pydantic import JsonValue

from storage.artifacts import Artifacts
from storage.evaluated import SHOWN_CHARS, EvalSettings, Graded
from storage.records import Record
from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import AgainstLast, EvalReport, Sample, TaskResult
from tasks.evaluation.record_lines import read_shards
from tasks.evaluation.results.results_file import report_from_rows
from tasks.measure.estimates import is_binary
from tasks.measure.paired_tests import SIGNIFICANT, Method, newcombe, paired_test

if TYPE_CHECKING:
    from storage.evaluations import Evaluations

SHOWN_VALUE_CHARS = 60
"""Most characters of a setting's value in a phrase of difference."""


class Change(Record):
    """An item on which the two runs differ."""

    item: str
    before: float
    """Score of the item in the first run, the mean over repeats."""
    after: float
    answer_before: str | None = None
    """Extracted in the first repeat, shortened; empty: nothing is extracted in this task; None: no answer."""
    answer_after: str | None = None
    gold: str | None = None


class Comparison(Record):
    """The second run minus the first, over the items that both could score."""

    n: int
    """Number of items that are scored in both runs."""
    before: float
    after: float
    difference: float
    low: float | None
    """Lower end of the 95 % interval of the difference; None for a single item with a non-binary score."""
    high: float | None
    p: float
    """Two-sided p-value of the difference."""
    method: Method
    wins: int
    """Items on which the second run is better."""
    ties: int
    losses: int
    better: tuple[Change, ...]
    """The items that the second run wins, the largest change first."""
    worse: tuple[Change, ...]
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()
    unscored: tuple[str, ...] = ()
    """Items of both runs that have no score in one or both of them; not compared."""
    differs: tuple[str, ...] = ()
    """Differences in data, settings or graders, which confound the comparison."""

    @property
    def significant(self) -> bool:
        """Whether the difference is significant at the 95 % level."""
        return self.p < SIGNIFICANT


def compare(
    before: Iterable[Sample | Graded],
    after: Iterable[Sample | Graded],
    *,
    differs: Sequence[str] = (),
    higher_is_better: bool = True,
) -> Comparison:
    """Return how the run `after` differs from the run `before`; each is read once, a few numbers of an item are held.

    differs: what `find_differences` says of the two. Raises ResultsUnusable if there is no item that both could score.
    """
    first, second = _sum_by_item(before), _sum_by_item(after)
    shared = [item for item in first if item in second]
    paired = [_Pair(item, first[item], second[item]) for item in shared if first[item].n and second[item].n]
    if not paired:
        why = f"no item in common among {len(first)} and {len(second)}; compare runs of the same task on the same data"
        if shared:
            why = f"none of the {len(shared)} items that both runs have was scored in both; score them again first"
        raise ResultsUnusable(why)
    moved = [pair.after.mean - pair.before.mean for pair in paired]
    binary = is_binary(scores.mean for pair in paired for scores in (pair.before, pair.after))
    interval, p, method = paired_test(moved, binary=binary, seed=0)  # the same resamples each time
    better = [pair for pair in paired if (pair.gain > 0 if higher_is_better else pair.gain < 0)]
    worse = [pair for pair in paired if (pair.gain < 0 if higher_is_better else pair.gain > 0)]
    return Comparison(
        n=len(paired),
        before=fsum(pair.before.mean for pair in paired) / len(paired),
        after=fsum(pair.after.mean for pair in paired) / len(paired),
        difference=fsum(moved) / len(paired),
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        p=p,
        method=method,
        wins=len(better),
        ties=len(paired) - len(better) - len(worse),
        losses=len(worse),
        better=_build_changes(better),
        worse=_build_changes(worse),
        only_before=tuple(item for item in first if item not in second),
        only_after=tuple(item for item in second if item not in first),
        unscored=tuple(item for item in shared if not (first[item].n and second[item].n)),
        differs=tuple(differs),
    )


class TaskComparison(Record):
    """The comparison of two runs on one task."""

    task: str
    comparison: Comparison
    regressed: bool
    """Whether the second run is worse beyond chance, at the 95 % level."""


def compare_task(
    before: TaskResult,
    before_samples: Iterable[Sample | Graded],
    after: TaskResult,
    after_samples: Iterable[Sample | Graded],
) -> TaskComparison:
    """Compare two runs on the same task. Raises ResultsUnusable as `compare` does."""
    higher_is_better = after.headline.higher_is_better if after.headline else True
    comparison = compare(
        before_samples, after_samples, differs=find_differences(before, after), higher_is_better=higher_is_better
    )
    is_worse = is_regression(comparison.difference, comparison.p, higher_is_better=higher_is_better)
    return TaskComparison(task=after.task, comparison=comparison, regressed=is_worse)


def find_differences(before: TaskResult, after: TaskResult) -> tuple[str, ...]:
    """Return a phrase for each difference between two results of a task besides the model."""
    of_each = (
        {"data": result.data.checksum[:12], "version": result.version, "judge": result.judge}
        | dict(sorted(flatten_settings(result.settings)))
        for result in (before, after)
    )
    return describe_differences(*of_each)


def describe_differences(first: Mapping[str, JsonValue], second: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Return `name: first value and second value` for every name whose values differ."""
    names = [name for name in dict.fromkeys([*first, *second]) if first.get(name) != second.get(name)]
    return tuple(f"{name}: {_abbreviate(first.get(name))} and {_abbreviate(second.get(name))}" for name in names)


def is_regression(difference: float, p: float | None, *, higher_is_better: bool) -> bool:
    """Return whether a difference is for the worse, and p significant at 95 %; False without a p."""
    worse = difference < 0 if higher_is_better else difference > 0
    return worse and p is not None and p < SIGNIFICANT


class _Scores(NamedTuple):
    """The sum of an item's scores, with answer and gold of its first sample."""

    n: int
    total: float
    answer: str | None
    gold: str | None

    @property
    def mean(self) -> float:
        """Mean score of the item over its repeats."""
        return self.total / self.n


class _Pair(NamedTuple):
    item: str
    before: _Scores
    after: _Scores

    @property
    def gain(self) -> float:
        """Mean score after minus mean score before."""
        return self.after.mean - self.before.mean


def _sum_by_item(samples: Iterable[Sample | Graded]) -> dict[str, _Scores]:
    """Return number and sum of scores, first answer and gold of each item."""
    by_item = dict[str, _Scores]()
    for sample in samples:
        # empty where rules or judges grade the whole text, None without an answer
        extracted, gold = (text and _abbreviate(text, SHOWN_CHARS) for text in (sample.extracted, sample.gold))
        answer = extracted if sample.missing or extracted is not None else ""
        scores = by_item.get(sample.item) or _Scores(0, 0.0, answer, gold)
        if sample.status == "scored" and sample.score is not None:
            scores = scores._replace(n=scores.n + 1, total=scores.total + sample.score)
        by_item[sample.item] = scores
    return by_item


def _build_changes(pairs: Iterable[_Pair]) -> tuple[Change, ...]:
    """Return the changes of pairs, the largest first."""
    return tuple(
        Change(
            item=item,
            before=before.mean,
            after=after.mean,
            answer_before=before.answer,
            answer_after=after.answer,
            gold=after.gold or before.gold,
        )
        for item, before, after in sorted(pairs, key=lambda pair: -abs(pair.gain))
    )


def flatten_settings(settings: Mapping[str, JsonValue], within: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Yield each setting with its dotted name, such as `sampling.max_tokens`."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from flatten_settings(value, f"{within}{name}.")
        else:
            yield f"{within}{name}", value


def _abbreviate(value: JsonValue, chars: int = SHOWN_VALUE_CHARS) -> str:
    text = "not set" if value is None else str(value)
    return text if len(text) <= chars else f"{text[:chars]}…"


def compare_with_last_run(report: EvalReport, artifacts: Artifacts, evaluations: Evaluations) -> AgainstLast:
    """Compare each task with the last run of same model name, data and settings, if any. Raises DatabaseUnavailable."""
    lines, worse = list[str](), list[str]()
    for result in report.results:
        run = evaluations.previous(
            model_name=report.run.model.name,
            task=result.task,
            dataset_checksum=result.data.checksum,
            settings_digest=EvalSettings(name=result.task, parameters=result.settings).digest,
            before=report.run.started_at,
        )
        if run is None:
            continue
        last = report_from_rows(evaluations.run(run), evaluations.task_results(run))
        new = result.headline
        old = next((earlier.headline for earlier in last.results if earlier.task == result.task), None)
        if new is None or old is None:
            continue
        try:
            samples = read_shards(artifacts, result.samples, Sample)
            compared = compare(evaluations.graded(run, result.task), samples)
            difference, p = compared.difference, compared.p
        except ResultsUnusable:  # nothing that both could score
            difference, p = new.value - old.value, newcombe(new, old)
        if is_worse := is_regression(difference, p, higher_is_better=new.higher_is_better):
            worse.append(result.task)
        word, chance = "REGRESSION, " if is_worse else "", "" if p is None else f", p = {p:.3f}"
        moved = f"{old.value:.3f} → {new.value:.3f} ({difference:+.3f}{chance})"
        others = "" if last.run.model.label == report.run.model.label else f" of other weights, {last.run.model.label}"
        lines.append(f"{result.task}: {word}{moved} since run {run[:8]}{others}")
    return AgainstLast(lines=tuple(lines), regressions=tuple(worse))
