"""Collects the report of a night from the database, and keeps the history of nights.

A figure is compared with that of the last night with equal data and settings, paired by item. It is worse if the drop
exceeds the tolerance of the suite, its 95 % interval excludes zero, and p is below 0.05.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from storage.artifacts import Artifacts
from storage.evaluated import Evaluated, Result, Run
from storage.evaluated import Sample as Row
from storage.evaluations import Evaluations
from storage.records import Record
from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import Counts, Estimate, Sample, Usage
from tasks.evaluation.results.result_rows import sample_from_row
from tasks.evaluation.results.results_file import dict_or_empty
from tasks.evaluation.results.run_comparison import Comparison, compare, differing, regressed
from tasks.keys import content_key
from tasks.measure.paired_tests import SIGNIFICANT, newcombe
from tasks.nightly.night_records import (
    Change,
    Failure,
    Measure,
    ModelFactsOfNight,
    ModelRun,
    Night,
    NightReport,
    Nights,
    NoNight,
    Point,
    Score,
    Series,
    State,
    Trend,
    Verdict,
)
from tasks.nightly.suite import RegressionRules

INDEX, SELECTOR = "index", "selector"
RANKED = ("page.mrr@10", "document.mrr@10")
"""Metrics by which an index is compared: by page, or by document if the documents have no pages."""
ANSWERS = "answers.correct"
SHOWN = 5
KEPT = 400
"""Maximum number of nights kept per suite."""


class _Last(Record):
    """The suite that ran last: the default of `trivet nightly report`."""

    file: str


def nights_of(file: Path, artifacts: Artifacts) -> tuple[Night, ...]:
    """The nights of a suite file, oldest first; empty if it never ran."""
    ref = artifacts.recall(_history(str(file)))
    return artifacts.load(Nights, ref).nights if ref else ()


def keep(night: Night, artifacts: Artifacts) -> None:
    """Store a night, in place of one of the same run, as after a retry."""
    others = [one for one in nights_of(Path(night.file), artifacts) if one.run != night.run]
    nights = sorted([*others, night], key=lambda one: one.started_at)[-KEPT:]
    artifacts.remember(_history(night.file), artifacts.save("nights", Nights(nights=tuple(nights))))
    artifacts.remember(_history(None), artifacts.save("nights", _Last(file=night.file)))


def last_suite(artifacts: Artifacts) -> Path:
    """The suite that ran last. Raises NoNight."""
    ref = artifacts.recall(_history(None))
    if ref is None:
        raise NoNight("no night has run here; begin with `trivet nightly run SUITE.yaml`")
    return Path(artifacts.load(_Last, ref).file)


def _history(suite: str | None) -> str:
    """Key of the nights of a suite file, or of the suite that ran last."""
    return content_key("nights", 1, {"suite": suite})


def collect(
    night: Night, earlier: Sequence[Night], evaluations: Evaluations, *, nights: int, rules: RegressionRules
) -> NightReport:
    """The report of a night, over the last `nights`; `earlier` is oldest first. Raises DatabaseUnavailable."""
    reading = _Reading(night, tuple(earlier)[-(nights - 1) :], evaluations, rules)
    changes = tuple(reading.changes())
    failures = (*night.failures, *reading.unscored())
    return NightReport(
        night=night,
        state=state_of(failures, changes, fails=rules.fail, measured=reading.measured),
        models=tuple(reading.models()),
        scores=tuple(reading.scores()),
        changes=changes,
        trends=tuple(reading.trends()),
        index=tuple(_measures(reading.index(night))),
        selector=tuple(_measures(reading.selector(night))),
        failures=failures,
        nights=len(earlier) + 1,
        fails_on_regression=rules.fail,
    )


def without_figures(night: Night, why: Failure, *, nights: int, rules: RegressionRules) -> NightReport:
    """The report of a night whose database is unavailable."""
    failures = (*night.failures, why)
    state = state_of(failures, (), fails=rules.fail, measured=False)
    return NightReport(night=night, state=state, failures=failures, nights=nights, fails_on_regression=rules.fail)


def state_of(failures: Sequence[Failure], changes: Sequence[Change], *, fails: bool, measured: bool) -> State:
    """The final state of the night. fails: regressions count; measured: there is a figure, or none was requested."""
    if fails and any(change.regressed for change in changes):
        return "Regressed"
    if any(failure.may_pass for failure in failures) or (failures and not measured):
        return "Failed"
    return "CompletedWithFailures" if failures else "Completed"


class Found(NamedTuple):
    """A figure of a night, with what determines whether another is comparable."""

    night: datetime
    measure: Measure
    at: Evaluated
    """The rows of its run, without samples."""

    @property
    def comparable_by(self) -> tuple[str, str, str]:
        """Checksum of the data, digest of the settings, metric."""
        return self.at.dataset.checksum, self.at.settings.digest, self.measure.metric


class _Line(NamedTuple):
    """A figure through the nights."""

    kind: str
    of: str
    task: str
    at: Callable[[Night], Found | None]


@dataclass
class _Reading:
    night: Night
    earlier: tuple[Night, ...]
    evaluations: Evaluations
    rules: RegressionRules
    _known: dict[str, dict[str, Evaluated]] = field(default_factory=dict[str, "dict[str, Evaluated]"])

    def found(self, run: str) -> dict[str, Evaluated]:
        """The results of a run by task, read once."""
        if run not in self._known:
            rows = self.evaluations.task_results(run)
            self._known[run] = {row.task.task if row.task else "": row for row in rows}
        return self._known[run]

    @cached_property
    def measured(self) -> bool:
        """Whether there is a figure, or nothing was to be measured."""
        wanted = [*(run for model in self.night.models for run in model.tasks.values())]
        wanted += [run for run in (self.night.index and self.night.index.measured, self.night.selector) if run]
        index, failures = self.night.index, self.night.failures
        built_only = index is not None and not index.measured and all(one.what == INDEX for one in failures)
        return built_only or any(row.results for run in wanted for row in self.found(run).values())

    def lines(self) -> Iterator[_Line]:
        """The models on their benchmarks, then the index, then the selector."""
        for model in self.night.models:
            for task in model.tasks:
                yield _Line("model", model.label, task, partial(self._of_model, model.label, task))
        for metric in (*RANKED, ANSWERS):
            yield _Line(INDEX, INDEX, metric, partial(self._of_index, metric))
        if now := self._of_selector(self.night):
            yield _Line(SELECTOR, SELECTOR, now.measure.metric, self._of_selector)

    def scores(self) -> Iterator[Score]:
        for model in self.night.models:
            for task, run in model.tasks.items():
                if (row := self.found(run).get(task)) and row.task:
                    found = _headline(self.night, row)
                    yield Score(
                        model=model.label,
                        task=task,
                        measure=found.measure if found else None,
                        counts=Counts.model_validate(row.task.counts),
                        usage=Usage.model_validate(row.task.usage),
                        judge_usage=Usage.model_validate(row.task.judge_usage) if row.task.judge_usage else None,
                        run=run,
                        earlier=run != model.run,
                        notes=row.task.notes,
                    )

    def models(self) -> Iterator[ModelFactsOfNight]:
        for model in self.night.models:
            yield _facts(model, [row for task, run in model.tasks.items() if (row := self.found(run).get(task))])

    def changes(self) -> Iterator[Change]:
        for line in self.lines():
            if now := line.at(self.night):
                before = filter(None, map(line.at, reversed(self.earlier)))
                least = self.rules.least_drop
                yield change(line.of, line.task, now, before, evaluations=self.evaluations, least_drop=least)

    def trends(self) -> Iterator[Trend]:
        drawn: dict[tuple[str, str], dict[str, list[Found]]] = {}
        for line in self.lines():
            points = [found for night in (*self.earlier, self.night) if (found := line.at(night))]
            drawn.setdefault((line.kind, line.task), {})[line.of] = points
        for (_, task), lines in drawn.items():
            yield from _trend(task, lines)

    def index(self, night: Night) -> Evaluated | None:
        run = night.index.measured if night.index else None
        return self.found(run).get("") if run else None

    def selector(self, night: Night) -> Evaluated | None:
        return self.found(night.selector).get("") if night.selector else None

    def _of_model(self, label: str, task: str, night: Night) -> Found | None:
        model = next((one for one in night.models if one.label == label and task in one.tasks), None)
        return _headline(night, self.found(model.tasks[task]).get(task) if model else None)

    def _of_index(self, metric: str, night: Night) -> Found | None:
        """A figure of the index; the one by document only if there is none by page."""
        row = self.index(night)
        named = {one.metric: one for one in row.results if not one.part} if row else {}
        if row is None or metric not in named or (metric == RANKED[1] and RANKED[0] in named):
            return None
        return Found(night.started_at, _measure(named[metric], row.run), row)

    def _of_selector(self, night: Night) -> Found | None:
        return _headline(night, self.selector(night))

    def unscored(self) -> Iterator[Failure]:
        """Failures for samples without a score, which are in no mean and which no retry grades."""
        for score in self.scores():
            finished = self.found(score.run)[score.task].run.status == "completed"
            if score.counts.unscored and finished:
                why = f"{score.counts.unscored} of {score.counts.samples} samples are unscored, run {score.run}"
                yield Failure(what=f"{score.model}, {score.task}", why=why, may_pass=False)


def _headline(night: Night, row: Evaluated | None) -> Found | None:
    one = next((result for result in row.results if result.headline), None) if row else None
    return Found(night.started_at, _measure(one, row.run), row) if one and row else None


def _measure(one: Result, run: Run) -> Measure:
    return Measure(run=run.id, **one.model_dump(exclude={"std_err", "headline"}))


def _measures(row: Evaluated | None) -> Iterator[Measure]:
    """The figures of an index or a selector in the report: those over all, or of the trained number of shots."""
    if row is None:
        return
    headline = next((one for one in row.results if one.headline), None)
    for one in row.results:
        if one.part == (headline.part if headline else "") and not one.metric.startswith(("correct.", "gain.")):
            yield _measure(one, row.run)


def _trend(task: str, lines: dict[str, list[Found]]) -> Iterator[Trend]:
    """A benchmark over the nights; of each model only figures that are comparable with its last one."""
    drawn: list[Series] = []
    metric = ""
    for label, known in lines.items():
        if known:
            last = known[-1]
            metric = last.measure.metric
            points = (
                Point(night=one.night, measure=one.measure) for one in known if one.comparable_by == last.comparable_by
            )
            drawn.append(Series(label=label, points=tuple(points)))
    if drawn:
        yield Trend(task=task, metric=metric, series=tuple(drawn))


def _facts(model: ModelRun, rows: Sequence[Evaluated]) -> ModelFactsOfNight:
    runs = [row.run for row in rows]
    usages = [Usage.model_validate(row.task.usage) for row in rows if row.task]
    known = next((run for run in runs if run.id == model.run), runs[0] if runs else None)
    measured = known.model if known else None
    return ModelFactsOfNight(
        label=model.label,
        name=measured.name if measured else model.label,
        backend=measured.backend if measured else "",
        revision=measured.revision if measured else "",
        run=known.id if known else model.run,
        status=known.status if known else "failed",
        answers=sum(usage.calls for usage in usages),
        calls=model.calls,
        tokens=sum(usage.prompt_tokens + usage.completion_tokens for usage in usages),
        cost=model.cost,
        seconds=model.seconds,
    )


def change(
    of: str, task: str, now: Found, earlier: Iterable[Found], *, evaluations: Evaluations, least_drop: float = 0.0
) -> Change:
    """A figure against the last comparable one of `earlier`, newest first. Raises DatabaseUnavailable."""
    others = iter(earlier)
    last = next(others, None)
    if last is None:
        return Change(of=of, task=task, verdict="first", now=now.measure)
    before = next((one for one in chain([last], others) if one.comparable_by == now.comparable_by), None)
    if before is None:
        return Change(of=of, task=task, verdict="not comparable", now=now.measure, why=_differences(last, now))
    told: dict[str, Any] = {"of": of, "task": task, "now": now.measure, "before": before.measure, "night": before.night}
    if before.measure.run == now.measure.run:
        return Change(verdict="same run", difference=0.0, **told)
    try:
        compared = compare(
            _samples(before, task, evaluations),
            _samples(now, task, evaluations),
            higher_is_better=now.measure.higher_is_better,
        )
    except ResultsUnusable:  # no samples were kept, or none that both could score
        return _from_intervals(now, before, told, least_drop=least_drop)
    return Change(
        verdict=_verdict(compared, up=now.measure.higher_is_better, least_drop=least_drop),
        difference=compared.difference,
        low=compared.low,
        high=compared.high,
        p=compared.p,
        n=compared.n,
        wins=compared.wins,
        losses=compared.losses,
        paired=True,
        worse=compared.worse[:SHOWN],
        **told,
    )


def _verdict(compared: Comparison, *, up: bool, least_drop: float) -> Verdict:
    gain = compared.difference if up else -compared.difference
    low, high = compared.low, compared.high
    if not compared.significant or low is None or high is None or low <= 0 <= high:
        return "within noise"
    if gain > 0:
        return "better"
    return "worse" if -gain >= least_drop else "within noise"


def _from_intervals(now: Found, before: Found, told: Mapping[str, Any], *, least_drop: float) -> Change:
    """For runs without shared items: compare the two intervals."""
    new, last = (Estimate.model_validate(one.measure.model_dump(exclude={"run"})) for one in (now, before))
    difference, p = new.value - last.value, newcombe(new, last)
    sure = p is not None and p < SIGNIFICANT and abs(difference) >= least_drop
    worse = regressed(difference, p, higher_is_better=new.higher_is_better)
    verdict: Verdict = ("worse" if worse else "better") if sure else "within noise"
    return Change(verdict=verdict, difference=difference, p=p, **told)


def _samples(found: Found, task: str, evaluations: Evaluations) -> Iterable[Sample]:
    """The samples behind a figure, with the score of its metric."""
    kept = evaluations.samples(found.measure.run, found.at.task.task if found.at.task else "")
    if found.at.run.kind == "rag":
        return (_of_question(row, task) for row in kept)
    return map(sample_from_row, kept)


def _of_question(row: Row, metric: str) -> Sample:
    """The score of a question in one metric of an index: `page.mrr@10`, `answers.correct`."""
    unit, _, name = metric.partition(".")
    value: Any = None
    if metric == ANSWERS:
        checks = dict_or_empty(row.detail.get("checks"))
        value = checks.get("contains") if checks.get("number") is None else checks["number"]
    elif isinstance(ranked := dict_or_empty(row.detail.get(unit)).get(name), int | float):
        value = ranked
    if value is None:
        return Sample(item=row.item, repeat=row.repeat, status="unscored", reason="it has no gold for this figure")
    return Sample(item=row.item, repeat=row.repeat, score=float(value))


def _differences(before: Found, now: Found) -> tuple[str, ...]:
    """Differences of data and settings, a phrase each."""
    first, second = ({"data": one.at.dataset.checksum[:8]} | one.at.settings.parameters for one in (before, now))
    return differing(first, second) or ("another figure is the headline",)
