"""Collects the report of a night from the database, and keeps the history of nights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path

from storage.artifacts import Artifacts
from storage.evaluated import Evaluated, Result, Run
from storage.evaluations import Evaluations, Figure
from storage.incidents import Incident, Incidents, Pin
from storage.records import Record
from tasks.evaluation.evaluation_records import Counts, Usage
from tasks.keys import content_key
from tasks.nightly import night_baselines, night_incidents
from tasks.nightly.night_baselines import Known, Line
from tasks.nightly.night_comparing import ANSWERS, Found
from tasks.nightly.night_records import (
    Curve,
    Curves,
    Dot,
    Failure,
    Measure,
    ModelFactsOfNight,
    ModelRun,
    Night,
    NightReport,
    Nights,
    NoIncident,
    NoNight,
    Point,
    Score,
    Series,
    State,
    Trend,
)
from tasks.nightly.suite import RegressionRules

INDEX, SELECTOR = "index", "selector"
RANKED = ("page.mrr@10", "document.mrr@10")
"""Metrics by which an index is compared: by page, or by document if the documents have no pages."""
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
    night: Night,
    earlier: Sequence[Night],
    evaluations: Evaluations,
    incidents: Incidents,
    *,
    nights: int,
    rules: RegressionRules,
) -> NightReport:
    """The report of a night, over the last `nights`; `earlier` is oldest first. Raises DatabaseUnavailable.

    Nothing is stored: that is `keep`.
    """
    shown = tuple(earlier)[-(nights - 1) :]
    reading = Reading(night, shown, evaluations)
    stored = incidents.of(night.file)
    known = Known(shown, night_incidents.before(stored, night), incidents.pins(night.file))
    changes = night_baselines.changes(reading.measured_lines(), known, evaluations, rules)
    accepted = night_incidents.ended_figures(stored, night)
    now = night_incidents.after(known.incidents, changes, night, accepted=accepted)
    failures = (*night.failures, *reading.unscored())
    return NightReport(
        night=night,
        state=state_of(failures, now, fails=rules.fail, measured=reading.measured),
        models=tuple(reading.models()),
        scores=tuple(reading.scores()),
        changes=tuple(changes),
        incidents=tuple(one for one in now if one.open or not shown or one.last.at >= shown[0].started_at),
        trends=tuple(map(_recorded, trends_of((*shown, night), evaluations))),
        index=tuple(_measures(reading.only(_run_of_index(night)))),
        selector=tuple(_measures(reading.only(night.selector))),
        failures=failures,
        nights=len(earlier) + 1,
        fails_on_regression=rules.fail,
    )


def trends_of(nights: Sequence[Night], evaluations: Evaluations) -> Iterator[Curves]:
    """The figures of the last of these nights, through all of them. Raises DatabaseUnavailable."""
    runs = {run for night in nights for run in _runs_of(night)}
    figures = evaluations.figures_of(runs, metrics=(*RANKED, ANSWERS)) if runs else {}

    def read(measured: Iterable[_Measured], task: str, pick: _Pick) -> list[Dot]:
        found = ((night, run, pick(figures.get((run, task), ()))) for night, run in measured)
        return [Dot(night, run, figure) for night, run, figure in found if figure]

    of_models, last = _runs_of_models(nights), nights[-1]
    for task in dict.fromkeys(task for model in last.models for task in model.tasks):
        labels = [model.label for model in last.models if task in model.tasks]
        yield from _trend(task, {label: read(of_models[label, task], task, _first_headline) for label in labels})
    of_index = _runs_in(nights, _run_of_index)
    for metric in (*RANKED, ANSWERS):
        yield from _trend(metric, {INDEX: read(of_index, "", partial(_of_index, metric))})
    yield from _trend_of_selector(read(_runs_in(nights, _run_of_selector), "", _first_headline), last)


_Measured = tuple[datetime, str]
"""Start of a night, and a run that measured something in it."""


def _runs_of_models(nights: Iterable[Night]) -> dict[tuple[str, str], list[_Measured]]:
    """Through the nights, by label and benchmark."""
    found: dict[tuple[str, str], list[_Measured]] = {}
    for night in nights:
        for model in night.models:
            for task, run in model.tasks.items():
                found.setdefault((model.label, task), []).append((night.started_at, run))
    return found


def _runs_in(nights: Iterable[Night], run_of: Callable[[Night], str | None]) -> list[_Measured]:
    return [(night.started_at, run) for night in nights if (run := run_of(night))]


_Pick = Callable[[Sequence[Figure]], Figure | None]
"""The figure of a line among those of a run and a task."""


def _first_headline(figures: Sequence[Figure]) -> Figure | None:
    return next((one for one in figures if one.headline), None)


def _of_index(metric: str, figures: Sequence[Figure]) -> Figure | None:
    """A figure of the index; the one by document only if there is none by page."""
    named = {one.metric: one for one in figures if not one.part}
    return None if metric == RANKED[1] and RANKED[0] in named else named.get(metric)


def _trend_of_selector(dots: list[Dot], last: Night) -> Iterator[Curves]:
    """Only where the last night measured the selector."""
    if dots and dots[-1].night == last.started_at:
        yield from _trend(dots[-1].measure.metric, {SELECTOR: dots})


def pins_of(run: str, nights: Sequence[Night], evaluations: Evaluations) -> tuple[Pin, ...]:
    """The figures of a night, or of one run of it, as pins. Raises NoIncident, DatabaseUnavailable.

    run: ID of the night or of the run, or its beginning. nights: oldest first; of several the last one counts.
    """
    for night in reversed(nights) if run else ():
        reading = Reading(night, (), evaluations)
        found = list(reading.measured_lines())
        if not night.run.startswith(run):
            found = [(line, now) for line, now in found if now.measure.run.startswith(run)]
        if found:
            return tuple(Pin(of=line.of, task=line.task, run=now.measure.run, at=now.night) for line, now in found)
    known = ", ".join(f"{night.run[:8]} ({night.started_at:%Y-%m-%d})" for night in nights[-SHOWN:])
    raise NoIncident(f"no night and no run of one begins with {run!r}; the last nights are {known}")


def without_figures(night: Night, why: Failure, *, nights: int, rules: RegressionRules) -> NightReport:
    """The report of a night whose database is unavailable."""
    failures = (*night.failures, why)
    state = state_of(failures, (), fails=rules.fail, measured=False)
    return NightReport(night=night, state=state, failures=failures, nights=nights, fails_on_regression=rules.fail)


def state_of(failures: Sequence[Failure], incidents: Sequence[Incident], *, fails: bool, measured: bool) -> State:
    """The final state of the night. fails: incidents count; measured: there is a figure, or none was requested."""
    if fails and any(one.open for one in incidents):
        return "Regressed"
    if any(failure.may_pass for failure in failures) or (failures and not measured):
        return "Failed"
    return "CompletedWithFailures" if failures else "Completed"


@dataclass
class Reading:
    """The figures of a night and of those before it, read from the database; each method raises DatabaseUnavailable."""

    night: Night
    earlier: tuple[Night, ...]
    """Oldest first."""
    evaluations: Evaluations
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

    def lines(self) -> Iterator[Line]:
        """The models on their benchmarks, then the index, then the selector."""
        for model in self.night.models:
            for task in model.tasks:
                read = partial(self._of_task, task)
                yield Line("model", model.label, task, partial(_run_of_model, model.label, task), read)
        for metric in (*RANKED, ANSWERS):
            yield Line(INDEX, INDEX, metric, _run_of_index, partial(self._of_index, metric))
        read = partial(self._of_task, "")
        if self.night.selector and (now := read(self.night.selector, self.night.started_at)):
            yield Line(SELECTOR, SELECTOR, now.measure.metric, _run_of_selector, read)

    def measured_lines(self) -> Iterator[tuple[Line, Found]]:
        """The lines that have a figure in this night."""
        return ((line, now) for line in self.lines() if (now := line.at(self.night)))

    def scores(self) -> Iterator[Score]:
        for model in self.night.models:
            for task, run in model.tasks.items():
                if (row := self.found(run).get(task)) and row.task:
                    found = _headline(self.night.started_at, row)
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

    def only(self, run: str | None) -> Evaluated | None:
        """The results of a run without tasks: of an index, or of a selector."""
        return self.found(run).get("") if run else None

    def _of_task(self, task: str, run: str, at: datetime) -> Found | None:
        """The headline of a task of a run."""
        return _headline(at, self.found(run).get(task))

    def _of_index(self, metric: str, run: str, at: datetime) -> Found | None:
        """A figure of the index; the one by document only if there is none by page."""
        row = self.found(run).get("")
        named = {one.metric: one for one in row.results if not one.part} if row else {}
        if row is None or metric not in named or (metric == RANKED[1] and RANKED[0] in named):
            return None
        return Found(at, _measure(named[metric], row.run), row)

    def unscored(self) -> Iterator[Failure]:
        """Failures for samples without a score, which are in no mean and which no retry grades."""
        for score in self.scores():
            finished = self.found(score.run)[score.task].run.status == "completed"
            if score.counts.unscored and finished:
                why = f"{score.counts.unscored} of {score.counts.samples} samples are unscored, run {score.run}"
                yield Failure(what=f"{score.model}, {score.task}", why=why, may_pass=False)


def _runs_of(night: Night) -> Iterator[str]:
    """The runs that measured something in a night."""
    yield from (run for model in night.models for run in model.tasks.values())
    yield from filter(None, (_run_of_index(night), _run_of_selector(night)))


def _run_of_model(label: str, task: str, night: Night) -> str | None:
    return next((one.tasks[task] for one in night.models if one.label == label and task in one.tasks), None)


def _run_of_index(night: Night) -> str | None:
    return night.index.measured if night.index else None


def _run_of_selector(night: Night) -> str | None:
    return night.selector


def _headline(at: datetime, row: Evaluated | None) -> Found | None:
    one = next((result for result in row.results if result.headline), None) if row else None
    return Found(at, _measure(one, row.run), row) if one and row else None


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


def _trend(task: str, lines: Mapping[str, Sequence[Dot]]) -> Iterator[Curves]:
    """A benchmark over the nights; of each model only figures that are comparable with its last one."""
    drawn: list[Curve] = []
    metric = ""
    for label, dots in lines.items():
        if dots:
            metric, wanted = dots[-1].measure.metric, dots[-1].measure.comparable_by
            drawn.append(Curve(label, [one for one in dots if one.measure.comparable_by == wanted]))
    if drawn:
        yield Curves(task, metric, drawn)


def _recorded(curves: Curves) -> Trend:
    """For the report of a night."""
    series = tuple(Series(label=one.label, points=tuple(map(_point, one.points))) for one in curves.series)
    return Trend(task=curves.task, metric=curves.metric, series=series)


def _point(dot: Dot) -> Point:
    one = dot.measure
    measure = Measure(
        metric=one.metric,
        part=one.part,
        value=one.value,
        low=one.low,
        high=one.high,
        n=one.n,
        run=dot.run,
        higher_is_better=one.higher_is_better,
    )
    return Point(night=dot.night, measure=measure)


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
