"""The nights of a suite: they are kept, their figures are read from the database, and a night becomes its report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from storage.artifacts import Artifacts
from storage.evaluated import Evaluated
from storage.evaluations import Evaluations, Figure
from storage.incidents import Incident, Incidents, Pin
from storage.records import Record
from tasks.evaluation.evaluation_records import Counts, Usage
from tasks.keys import content_key
from tasks.nightly import night_comparison
from tasks.nightly.night_comparison import BY_DOCUMENT, BY_PAGE, OF_INDEX, Cell, History
from tasks.nightly.night_records import (
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
SHOWN = 5
KEPT = 400
"""Maximum number of nights kept per suite."""
Figures = Mapping[tuple[str, str], Sequence[Figure]]
"""By run and task, which is empty for an index and a selector."""


class _Last(Record):
    """The suite that ran last: the default of `trivet nightly report`."""

    file: str


def nights_of(file: Path, artifacts: Artifacts) -> tuple[Night, ...]:
    """The nights of a suite file, oldest first; empty if it never ran."""
    ref = artifacts.recall(_key(str(file)))
    return artifacts.load(Nights, ref).nights if ref else ()


def keep(night: Night, artifacts: Artifacts) -> None:
    """Store a night, in place of one of the same run, as after a retry."""
    others = [one for one in nights_of(Path(night.file), artifacts) if one.run != night.run]
    nights = sorted([*others, night], key=lambda one: one.started_at)[-KEPT:]
    artifacts.remember(_key(night.file), artifacts.save("nights", Nights(nights=tuple(nights))))
    artifacts.remember(_key(None), artifacts.save("nights", _Last(file=night.file)))


def last_suite(artifacts: Artifacts) -> Path:
    """The suite that ran last. Raises NoNight."""
    ref = artifacts.recall(_key(None))
    if ref is None:
        raise NoNight("no night has run here; begin with `trivet nightly run SUITE.yaml`")
    return Path(artifacts.load(_Last, ref).file)


def _key(suite: str | None) -> str:
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
    pins = incidents.pins(night.file)
    before = night_comparison.incidents_before(incidents.of(night.file), night)
    unsettled = [one for one in before if one.open]
    more = [*(pin.run for pin in pins), *(one.baseline_run for one in unsettled)]
    figures = _figures_of((*shown, night), evaluations, more=more)
    pinned = (_cell((pin.of, pin.task), pin.run, figures, at=pin.at) for pin in pins)
    good = (_cell(one.figure, one.baseline_run, figures, at=one.baseline_at) for one in unsettled)
    known = History(
        earlier=_by_figure(shown, figures),
        pinned={cell.key: cell for cell in pinned if cell},
        before_incident={cell.key: cell for cell in good if cell},
        incidents=before,
        pins=pins,
    )
    now = list(_cells(night, figures))
    changes = night_comparison.changes(now, known, evaluations, rules)
    after = night_comparison.incidents_after(before, changes, night)

    rows: _Rows = {
        run: {row.task.task if row.task else "": row for row in evaluations.task_results(run)}
        for run in _runs_of(night)
    }
    measures, scores, failures = {cell.key: cell.measure for cell in now}, list[Score](), list(night.failures)
    for model in night.models:
        for task, run in model.tasks.items():
            row = rows[run].get(task)
            if not (row and row.task):
                continue
            counts = Counts.model_validate(row.task.counts)
            measure, is_earlier = measures.get((model.label, task)), run != model.run
            scores.append(
                Score(model=model.label, task=task, measure=measure, counts=counts, run=run, earlier=is_earlier)
            )
            if counts.unscored and row.run.status == "completed":  # they are in no mean, and no retry grades them
                why = f"{counts.unscored} of {counts.samples} samples are unscored, run {run}"
                failures.append(Failure(what=f"{model.label}, {task}", why=why, may_pass=False))
    index_run = night.index.measured if night.index else None
    only_built = night.index is not None and not index_run and all(one.what == INDEX for one in night.failures)
    return NightReport(
        night=night,
        state=state_of(failures, after, fails=rules.fail, measured=bool(now) or only_built),
        models=tuple(_facts(model, rows) for model in night.models),
        scores=tuple(scores),
        changes=tuple(changes),
        incidents=tuple(one for one in after if one.open or not shown or one.last.at >= shown[0].started_at),
        trends=tuple(_trends((*shown, night), figures)),
        index=tuple(_measures(rows, index_run)),
        selector=tuple(_measures(rows, night.selector)),
        failures=tuple(failures),
        nights=len(earlier) + 1,
        fails_on_regression=rules.fail,
    )


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


def trends_of(nights: Sequence[Night], evaluations: Evaluations) -> list[Trend]:
    """The figures of the last of these nights, through all of them. Raises DatabaseUnavailable."""
    return _trends(nights, _figures_of(nights, evaluations))


def pins_of(run: str, nights: Sequence[Night], evaluations: Evaluations) -> tuple[Pin, ...]:
    """The figures of a night, or of one run of it, as pins. Raises NoIncident, DatabaseUnavailable.

    run: ID of the night or of the run, or its beginning. nights: oldest first; of several the last one counts.
    """
    figures = _figures_of(nights, evaluations) if run else {}
    for night in reversed(nights) if run else ():
        found = [cell for cell in _cells(night, figures) if night.run.startswith(run) or cell.run.startswith(run)]
        if found:
            return tuple(Pin(of=cell.of, task=cell.task, run=cell.run, at=cell.night) for cell in found)
    known = ", ".join(f"{night.run[:8]} ({night.started_at:%Y-%m-%d})" for night in nights[-SHOWN:])
    raise NoIncident(f"no night and no run of one begins with {run!r}; the last nights are {known}")


def _figures_of(nights: Iterable[Night], evaluations: Evaluations, *, more: Iterable[str] = ()) -> Figures:
    """The figures that nights are compared by, in one query. more: further runs."""
    runs = {*more, *(run for night in nights for run in _runs_of(night))}
    return evaluations.figures_of(runs, metrics=OF_INDEX) if runs else {}


def _runs_of(night: Night) -> Iterator[str]:
    """The runs that measured something in a night."""
    yield from (run for model in night.models for run in model.tasks.values())
    yield from filter(None, (night.index and night.index.measured, night.selector))


def _cells(night: Night, figures: Figures) -> Iterator[Cell]:
    """The figures of a night: models on their benchmarks, then the index, then the selector."""
    named = [((model.label, task), run) for model in night.models for task, run in model.tasks.items()]
    if night.index and night.index.measured:
        named += [((INDEX, metric), night.index.measured) for metric in OF_INDEX]
    if night.selector:
        metric = next((one.metric for one in figures.get((night.selector, ""), ()) if one.headline), "")
        named += [((SELECTOR, metric), night.selector)]
    yield from (cell for key, run in named if (cell := _cell(key, run, figures, at=night.started_at)))


def _cell(key: tuple[str, str], run: str, figures: Figures, *, at: datetime) -> Cell | None:
    """A figure of a run; the one of an index by document only if there is none by page."""
    of, task = key
    stored_task = task if (run, task) in figures else ""
    found = figures.get((run, stored_task), ())
    if not stored_task and task in OF_INDEX:
        by_metric = {one.metric: one for one in found if not one.part}
        figure = None if task == BY_DOCUMENT and BY_PAGE in by_metric else by_metric.get(task)
    else:
        figure = next((one for one in found if one.headline), None)
    return Cell(of, task, at, run, stored_task, figure) if figure else None


def _by_figure(nights: Iterable[Night], figures: Figures) -> dict[tuple[str, str], list[Cell]]:
    """Each figure through the nights."""
    found: dict[tuple[str, str], list[Cell]] = {}
    for night in nights:
        for cell in _cells(night, figures):
            found.setdefault(cell.key, []).append(cell)
    return found


def _trends(nights: Sequence[Night], figures: Figures) -> list[Trend]:
    """A benchmark each; of each model only figures that are comparable with its last one."""
    through, last = _by_figure(nights, figures), nights[-1]
    drawn = [(model.label, task) for model in last.models for task in model.tasks]
    drawn += [(INDEX, metric) for metric in OF_INDEX]
    drawn += [cell.key for cell in _cells(last, figures) if cell.of == SELECTOR and not cell.stored_task]
    found: dict[str, Trend] = {}
    for of, task in drawn:
        if cells := through.get((of, task)):
            last_figure = cells[-1].figure
            points = tuple(
                Point.model_construct(night=cell.night, measure=cell.measure)
                for cell in cells
                if cell.figure.comparable_by == last_figure.comparable_by
            )
            before = found[task].series if task in found else ()
            series = (*before, Series.model_construct(label=of, points=points))
            found[task] = Trend.model_construct(task=task, metric=last_figure.metric, series=series)
    return list(found.values())


_Rows = Mapping[str, Mapping[str, Evaluated]]
"""What the runs of a night found, by run and task."""


def _measures(rows: _Rows, run: str | None) -> Iterator[Measure]:
    """The figures of an index or a selector in the report: those over all, or of the trained number of shots."""
    row = rows[run].get("") if run else None
    results = row.results if row else ()
    part = next((one.part for one in results if one.headline), "")
    for one in results:
        if row and one.part == part and not one.metric.startswith(("correct.", "gain.")):
            yield Measure(run=row.run.id, **one.model_dump(exclude={"std_err", "headline"}))


def _facts(model: ModelRun, rows: _Rows) -> ModelFactsOfNight:
    found = [row for task, run in model.tasks.items() if (row := rows[run].get(task))]
    usages = [Usage.model_validate(row.task.usage) for row in found if row.task]
    runs = [row.run for row in found]
    known = next((run for run in runs if run.id == model.run), runs[0] if runs else None)
    measured = known.model if known else None
    return ModelFactsOfNight(
        **model.model_dump(exclude={"run"}),
        run=known.id if known else model.run,
        status=known.status if known else "failed",
        name=measured.name if measured else model.label,
        backend=measured.backend if measured else "",
        revision=measured.revision if measured else "",
        answers=sum(usage.calls for usage in usages),
        tokens=sum(usage.prompt_tokens + usage.completion_tokens for usage in usages),
    )
