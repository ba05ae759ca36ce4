"""Collects the report of a night from the database: its figures, and those of the nights before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from storage.evaluated import Evaluated, Result, Run
from storage.evaluations import Evaluations
from tasks.evaluation.evaluation_records import Counts, Usage
from tasks.nightly.night_records import (
    Change,
    Failure,
    Measure,
    ModelFactsOfNight,
    ModelRun,
    Night,
    NightReport,
    Point,
    Score,
    Series,
    State,
    Trend,
)
from tasks.nightly.regressions import ANSWERS, Found, change
from tasks.nightly.suite import RegressionRules

INDEX, SELECTOR = "index", "selector"
RANKED = ("page.mrr@10", "document.mrr@10")
"""Metrics that an index is compared by: by page, or by document where the documents have no pages."""


def collect(
    night: Night, earlier: Sequence[Night], evaluations: Evaluations, *, nights: int, rules: RegressionRules
) -> NightReport:
    """The report of a night. Raises DatabaseUnavailable.

    earlier: the nights before it, the last one last. nights: how many nights are read, this one included.
    """
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
    """The report of a night whose database is away."""
    failures = (*night.failures, why)
    state = state_of(failures, (), fails=rules.fail, measured=False)
    return NightReport(night=night, state=state, failures=failures, nights=nights, fails_on_regression=rules.fail)


def state_of(failures: Sequence[Failure], changes: Sequence[Change], *, fails: bool, measured: bool) -> State:
    """The final state of the night. fails: regressions count; measured: there is a figure, or none was asked for."""
    if fails and any(change.regressed for change in changes):
        return "Regressed"
    if any(failure.may_pass for failure in failures) or (failures and not measured):
        return "Failed"
    return "CompletedWithFailures" if failures else "Completed"


@dataclass
class _Reading:
    night: Night
    earlier: tuple[Night, ...]
    evaluations: Evaluations
    rules: RegressionRules
    _known: dict[str, dict[str, Evaluated]] = field(default_factory=dict[str, "dict[str, Evaluated]"])

    def found(self, run: str) -> dict[str, Evaluated]:
        """What a run found, by task; read once."""
        if run not in self._known:
            rows = self.evaluations.task_results(run)
            self._known[run] = {row.task.task if row.task else "": row for row in rows}
        return self._known[run]

    @cached_property
    def measured(self) -> bool:
        """There is a figure, or nothing was to be measured."""
        wanted = [*(run for model in self.night.models for run in model.tasks.values())]
        wanted += [run for run in (self.night.index and self.night.index.measured, self.night.selector) if run]
        index, failures = self.night.index, self.night.failures
        built_only = index is not None and not index.measured and all(one.what == INDEX for one in failures)
        return built_only or any(row.results for run in wanted for row in self.found(run).values())

    def figure(self, label: str, task: str, night: Night) -> Found | None:
        """The headline of a model on a task in a night; None where there is none."""
        model = next((one for one in night.models if one.label == label and task in one.tasks), None)
        row = self.found(model.tasks[task]).get(task) if model else None
        return _headline(night, row)

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
            rows = [self.found(run).get(task) for task, run in model.tasks.items()]
            runs = [row.run for row in rows if row]
            usages = [Usage.model_validate(row.task.usage) for row in rows if row and row.task]
            yield _facts(model, runs, usages)

    def changes(self) -> Iterator[Change]:
        """Changes of the models on their benchmarks, then of the index, then of the selector."""
        for model in self.night.models:
            for task in model.tasks:
                if now := self.figure(model.label, task, self.night):
                    before = (self.figure(model.label, task, night) for night in reversed(self.earlier))
                    yield self._change(model.label, task, now, before)
        for metric in (*RANKED, ANSWERS):
            if now := self._of_index(self.night, metric):
                before = (self._of_index(night, metric) for night in reversed(self.earlier))
                yield self._change(INDEX, metric, now, before)
        if now := self._of_selector(self.night):
            before = (self._of_selector(night) for night in reversed(self.earlier))
            yield self._change(SELECTOR, now.measure.metric, now, before)

    def _change(self, of: str, task: str, now: Found, before: Iterator[Found | None]) -> Change:
        others = (one for one in before if one)
        return change(of, task, now, others, evaluations=self.evaluations, least_drop=self.rules.least_drop)

    def trends(self) -> Iterator[Trend]:
        shown = [*self.earlier, self.night]
        tasks = dict.fromkeys(task for model in self.night.models for task in model.tasks)
        for task in tasks:
            labels = [model.label for model in self.night.models if task in model.tasks]
            lines = {label: [self.figure(label, task, night) for night in shown] for label in labels}
            yield from _trend(task, lines)
        for metric in (*RANKED, ANSWERS):
            yield from _trend(metric, {INDEX: [self._of_index(night, metric) for night in shown]})
        if now := self._of_selector(self.night):
            yield from _trend(now.measure.metric, {SELECTOR: [self._of_selector(night) for night in shown]})

    def index(self, night: Night) -> Evaluated | None:
        run = night.index.measured if night.index else None
        return self.found(run).get("") if run else None

    def selector(self, night: Night) -> Evaluated | None:
        return self.found(night.selector).get("") if night.selector else None

    def _of_index(self, night: Night, metric: str) -> Found | None:
        """A figure of the index; the one by document only where there is none by page."""
        row = self.index(night)
        named = {one.metric: one for one in row.results if not one.part} if row else {}
        if row is None or metric not in named or (metric == RANKED[1] and RANKED[0] in named):
            return None
        return Found(night.started_at, _measure(named[metric], row.run), row)

    def _of_selector(self, night: Night) -> Found | None:
        return _headline(night, self.selector(night))

    def unscored(self) -> Iterator[Failure]:
        """Samples that no grader could judge: they are in no mean, and no retry finds them."""
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
    """The figures of an index or a selector that a report shows: those over all, or of the shots trained for."""
    if row is None:
        return
    headline = next((one for one in row.results if one.headline), None)
    for one in row.results:
        if one.part == (headline.part if headline else "") and not one.metric.startswith(("correct.", "gain.")):
            yield _measure(one, row.run)


def _trend(task: str, lines: dict[str, list[Found | None]]) -> Iterator[Trend]:
    """A benchmark through the nights; of each model only what can be compared with its last figure."""
    drawn: list[Series] = []
    metric = ""
    for label, line in lines.items():
        known = [one for one in line if one]
        if known:
            last = known[-1]
            metric = last.measure.metric
            alike = [one for one in known if one.same == last.same and one.measure.metric == metric]
            drawn.append(
                Series(label=label, points=tuple(Point(night=one.night, measure=one.measure) for one in alike))
            )
    if drawn:
        yield Trend(task=task, metric=metric, series=tuple(drawn))


def _facts(model: ModelRun, runs: Sequence[Run], usages: Sequence[Usage]) -> ModelFactsOfNight:
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
