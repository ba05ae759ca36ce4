"""The history of a suite: stores nights, reads their scores from the database, and makes the report of a night."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from storage.artifacts import Artifacts
from storage.evaluated import Evaluated
from storage.evaluations import Evaluations, RunScore
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
LISTED_NIGHTS = 5
"""Most nights that an error lists."""
MOST_NIGHTS = 400
"""Most nights that are stored of a suite."""
ScoresByRun = Mapping[tuple[str, str], Sequence[RunScore]]
"""Scores by run and task; the task is empty for an index and a selector."""


class _Last(Record):
    """The suite that ran last, which is the default of `trivet nightly report`."""

    file: str


def read_nights(file: Path, artifacts: Artifacts) -> tuple[Night, ...]:
    """Return the nights of a suite file, oldest first; empty if it never ran."""
    ref = artifacts.recall(_history_key(str(file)))
    return artifacts.load(Nights, ref).nights if ref else ()


def store_night(night: Night, artifacts: Artifacts) -> None:
    """Store a night in place of one of the same run, as after a retry; the last MOST_NIGHTS are kept."""
    past_nights = [past for past in read_nights(Path(night.file), artifacts) if past.run != night.run]
    nights = sorted([*past_nights, night], key=lambda entry: entry.started_at)[-MOST_NIGHTS:]
    artifacts.remember(_history_key(night.file), artifacts.save("nights", Nights(nights=tuple(nights))))
    artifacts.remember(_history_key(None), artifacts.save("nights", _Last(file=night.file)))


def find_last_suite(artifacts: Artifacts) -> Path:
    """Return the file of the suite that ran last. Raises NoNight."""
    ref = artifacts.recall(_history_key(None))
    if ref is None:
        raise NoNight("no night has run here; begin with `trivet nightly run SUITE.yaml`")
    return Path(artifacts.load(_Last, ref).file)


def _history_key(suite: str | None) -> str:
    """Return the key of the nights of a suite file or, for None, of the suite that ran last."""
    return content_key("nights", 1, {"suite": suite})


def build_report(
    night: Night,
    earlier: Sequence[Night],
    evaluations: Evaluations,
    incidents: Incidents,
    *,
    nights: int,
    rules: RegressionRules,
) -> NightReport:
    """Return a night's report over the last `nights`, 2 or more; earlier: oldest first. Raises DatabaseUnavailable."""
    window = tuple(earlier)[-(nights - 1) :]  # nights is 2 or more: [-0:] would be all
    pins = incidents.pins(night.file)
    before = night_comparison.rewind_incidents(incidents.of_suite(night.file), night)  # a retried night counts once
    unsettled = [incident for incident in before if incident.open]
    other_runs = [*(pin.run for pin in pins), *(incident.baseline_run for incident in unsettled)]
    scores_by_run = _read_scores((*window, night), evaluations, other_runs=other_runs)
    pinned = (_find_cell((pin.of, pin.task), pin.run, scores_by_run, at=pin.at) for pin in pins)
    last_good = (
        _find_cell(incident.key, incident.baseline_run, scores_by_run, at=incident.baseline_at)
        for incident in unsettled
    )
    history = History(
        earlier=_group_by_key(window, scores_by_run),
        pinned={cell.key: cell for cell in pinned if cell},
        before_incident={cell.key: cell for cell in last_good if cell},
        incidents=before,
        pins=pins,
    )
    now = list(_list_cells(night, scores_by_run))
    changes = night_comparison.compare_night(now, history, evaluations)
    after = night_comparison.update_incidents(before, changes, night)
    rows: _Rows = {
        run: {row.task.task if row.task else "": row for row in evaluations.task_results(run)}
        for run in _list_runs(night)
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
    only_built = night.index is not None and not index_run and all(failure.what == INDEX for failure in night.failures)
    return NightReport(
        night=night,
        state=decide_state(failures, after, fails=rules.fail, measured=bool(now) or only_built),
        models=tuple(_build_facts(model, rows) for model in night.models),
        scores=tuple(scores),
        changes=tuple(changes),
        incidents=tuple(
            incident for incident in after if incident.open or not window or incident.last.at >= window[0].started_at
        ),
        trends=tuple(_build_trends((*window, night), scores_by_run)),
        index=tuple(_build_measures(rows, index_run)),
        selector=tuple(_build_measures(rows, night.selector)),
        failures=tuple(failures),
        nights=len(earlier) + 1,
        fails_on_regression=rules.fail,
    )


def decide_state(failures: Sequence[Failure], incidents: Sequence[Incident], *, fails: bool, measured: bool) -> State:
    """Return the final state of a night; fails: open incidents count; measured: has a score, or none was asked for."""
    if fails and any(incident.open for incident in incidents):
        return "Regressed"
    if any(failure.may_pass for failure in failures) or (failures and not measured):
        return "Failed"
    return "CompletedWithFailures" if failures else "Completed"


def read_trends(nights: Sequence[Night], evaluations: Evaluations) -> list[Trend]:
    """Return the trend of each score of the last night through all nights, oldest first. Raises DatabaseUnavailable."""
    return _build_trends(nights, _read_scores(nights, evaluations))


def build_pins(run: str, nights: Sequence[Night], evaluations: Evaluations) -> tuple[Pin, ...]:
    """Return the scores of a night, or of a single run of it, as pins. Raises NoIncident, DatabaseUnavailable.

    run: ID of the night or of the run, or its beginning. nights: oldest first; of several the last one counts.
    """
    scores_by_run = _read_scores(nights, evaluations) if run else {}
    for night in reversed(nights) if run else ():
        cells = [
            cell for cell in _list_cells(night, scores_by_run) if night.run.startswith(run) or cell.run.startswith(run)
        ]
        if cells:
            return tuple(Pin(of=cell.of, task=cell.task, run=cell.run, at=cell.night) for cell in cells)
    listing = ", ".join(f"{night.run[:8]} ({night.started_at:%Y-%m-%d})" for night in nights[-LISTED_NIGHTS:])
    raise NoIncident(f"no night and no run of one begins with {run!r}; the last nights are {listing}")


def _read_scores(nights: Iterable[Night], evaluations: Evaluations, *, other_runs: Iterable[str] = ()) -> ScoresByRun:
    """Return the scores by which nights are compared, in one query. other_runs: runs beside those of the nights."""
    runs = {*other_runs, *(run for night in nights for run in _list_runs(night))}
    return evaluations.scores_of(runs, metrics=OF_INDEX) if runs else {}


def _list_runs(night: Night) -> Iterator[str]:
    """Yield the IDs of the runs that measured something in a night."""
    yield from (run for model in night.models for run in model.tasks.values())
    yield from filter(None, (night.index and night.index.measured, night.selector))


def _list_cells(night: Night, scores_by_run: ScoresByRun) -> Iterator[Cell]:
    """Yield the scores of a night: those of models on their benchmarks, then the index, then the selector."""
    runs = [((model.label, task), run) for model in night.models for task, run in model.tasks.items()]
    if night.index and night.index.measured:
        runs += [((INDEX, metric), night.index.measured) for metric in OF_INDEX]
    if night.selector:
        metric = next((score.metric for score in scores_by_run.get((night.selector, ""), ()) if score.headline), "")
        runs += [((SELECTOR, metric), night.selector)]
    yield from (cell for key, run in runs if (cell := _find_cell(key, run, scores_by_run, at=night.started_at)))


def _find_cell(key: tuple[str, str], run: str, scores_by_run: ScoresByRun, *, at: datetime) -> Cell | None:
    """Return a score of a run, None without one; of an index by document only where there is none by page."""
    of, task = key
    stored_task = task if (run, task) in scores_by_run else ""
    scores = scores_by_run.get((run, stored_task), ())
    if not stored_task and task in OF_INDEX:
        by_metric = {score.metric: score for score in scores if not score.part}
        score_row = None if task == BY_DOCUMENT and BY_PAGE in by_metric else by_metric.get(task)
    else:
        score_row = next((score for score in scores if score.headline), None)
    return Cell(of, task, at, run, stored_task, score_row) if score_row else None


def _group_by_key(nights: Iterable[Night], scores_by_run: ScoresByRun) -> dict[tuple[str, str], list[Cell]]:
    """Return the scores of all nights by key, in the order of the nights."""
    by_key: dict[tuple[str, str], list[Cell]] = {}
    for night in nights:
        for cell in _list_cells(night, scores_by_run):
            by_key.setdefault(cell.key, []).append(cell)
    return by_key


def _build_trends(nights: Sequence[Night], scores_by_run: ScoresByRun) -> list[Trend]:
    """Return a trend for each benchmark and metric of index and selector, of scores comparable with the last one."""
    through, last = _group_by_key(nights, scores_by_run), nights[-1]
    keys = [(model.label, task) for model in last.models for task in model.tasks]
    keys += [(INDEX, metric) for metric in OF_INDEX]
    keys += [cell.key for cell in _list_cells(last, scores_by_run) if cell.of == SELECTOR and not cell.stored_task]
    by_task: dict[str, Trend] = {}
    for of, task in keys:
        if cells := through.get((of, task)):
            last_score = cells[-1].score
            points = tuple(
                Point.model_construct(night=cell.night, measure=cell.measure)
                for cell in cells
                if cell.score.comparable_by == last_score.comparable_by
            )
            before = by_task[task].series if task in by_task else ()
            series = (*before, Series.model_construct(label=of, points=points))
            by_task[task] = Trend.model_construct(task=task, metric=last_score.metric, series=series)
    return list(by_task.values())


_Rows = Mapping[str, Mapping[str, Evaluated]]
"""Rows of the evaluation tables by run and task."""


def _build_measures(rows: _Rows, run: str | None) -> Iterator[Measure]:
    """Yield an index's scores over all items, or a selector's at its trained shots; no `correct.…` and `gain.…`."""
    row = rows[run].get("") if run else None
    results = row.results if row else ()
    part = next((result.part for result in results if result.headline), "")
    for result in results:
        if row and result.part == part and not result.metric.startswith(("correct.", "gain.")):
            yield Measure(run=row.run.id, **result.model_dump())


def _build_facts(model: ModelRun, rows: _Rows) -> ModelFactsOfNight:
    """Return a model with the answers and tokens of its benchmarks, and the name and backend that its run has."""
    task_rows = [row for task, run in model.tasks.items() if (row := rows[run].get(task))]
    usages = [Usage.model_validate(row.task.usage) for row in task_rows if row.task]
    runs = [row.run for row in task_rows]
    model_run = next((run for run in runs if run.id == model.run), runs[0] if runs else None)
    measured = model_run.model if model_run else None
    return ModelFactsOfNight(
        **model.model_dump(exclude={"run"}),
        run=model_run.id if model_run else model.run,
        status=model_run.status if model_run else "failed",
        name=measured.name if measured else model.label,
        backend=measured.backend if measured else "",
        revision=measured.revision if measured else "",
        answers=sum(usage.calls for usage in usages),
        tokens=sum(usage.prompt_tokens + usage.completion_tokens for usage in usages),
    )
