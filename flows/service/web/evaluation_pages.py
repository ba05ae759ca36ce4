"""The pages of evaluations: leaderboard, runs, samples by kind, one sample, two runs side by side; and of nights."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, cast, get_args
from urllib.parse import urlencode

from fastapi.responses import RedirectResponse, Response

from flows.service.api import ui_of
from flows.service.web.visits import ROOT, Pages, Problem, Visit
from storage.evaluations import After, SampleKind
from tasks.evaluation.evaluation_errors import ResultsUnusable
from tasks.evaluation.evaluation_records import TaskResult
from tasks.evaluation.results.finding_runs import FoundRun, find_stored_run, look_up
from tasks.evaluation.results.ranking import page_values, rank
from tasks.evaluation.results.run_comparison import TaskComparison, compare_task, flatten_settings
from tasks.grading.reading import READINGS, readings_of
from tasks.measure.page_style import axis_around
from tasks.nightly import night_comparison, night_report
from tasks.nightly.night_history import build_pins, find_last_suite, read_nights, read_trends
from tasks.nightly.night_records import NoNight
from tasks.nightly.night_report import assign_colours, draw_charts
from tasks.resources import artifacts, evaluations, incidents, responses

PAGE = 50
"""Rows of a page of samples or flips."""
MOST_RUNS, MOST_GROUPS = 100, 40
MOST_TEXT_CHARS = 40_000
STEPS = 5
MOST_INCIDENTS, MOST_WORD_CHARS = 200, 2_000
SPANS = (30, 90, 365)
"""Numbers of nights that may be drawn."""
LISTED = 14
"""Nights of the table, of which one may be pinned."""
pages = Pages()


@pages.get("/evaluations")
def show_leaderboard(visit: Visit) -> Response:
    """Show the leaderboard as it is now."""
    values = page_values(rank(visit.workplace.evaluations().scores()), made_at=datetime.now(UTC))
    return visit.page("leaderboard_page.html", **values, run_link=f"{ROOT}/runs/")


@pages.get("/runs")
def show_runs(visit: Visit) -> Response:
    """Show the latest runs of evaluations."""
    return visit.page("runs.html", runs=visit.workplace.evaluations().runs(limit=MOST_RUNS))


def _find_run(visit: Visit, which: str) -> FoundRun:
    """Return a run of the database; a name is never taken for a file. Raises ResultsUnusable."""
    return find_stored_run(which, visit.workplace.evaluations())


@pages.get("/runs/{run}")
def show_run(visit: Visit) -> Response:
    """Show a run with its scores, and the runs that it can be compared with."""
    stored_run = _find_run(visit, visit.path["run"])
    run = stored_run.report.run
    results = [_task_values(run.id, result) for result in stored_run.report.results]
    evaluations = visit.workplace.evaluations()
    comparable = evaluations.comparable(run.id)  # those that share a task with it
    others = [other_run for other_run in evaluations.runs(limit=MOST_RUNS) if other_run.id in comparable]
    return visit.page("run.html", run=run, report=stored_run.report, results=results, others=others)


def _task_values(run: str, result: TaskResult) -> dict[str, Any]:
    """Return the values of the template of one task of a run; of its groups, the MOST_GROUPS with the lowest scores."""
    overall = [estimate for estimate in result.estimates if not estimate.part]
    groups = [
        estimate
        for estimate in result.estimates
        if estimate.part and estimate.metric == (overall[0].metric if overall else "")
    ]
    ends = [
        end
        for estimate in (*overall, *groups)
        for end in (estimate.low, estimate.value, estimate.high)
        if end is not None
    ]
    reach = max(max(ends) - min(ends), 1e-3) if ends else 1.0  # equal scores get an axis too
    axis = axis_around(min(ends), max(ends), step_at_least=reach / STEPS) if ends else None
    counts = result.counts
    kinds = {"all": counts.samples, "wrong": None, "unscored": counts.unscored, "refused": counts.refused}
    kinds |= {"too long": counts.too_long, "truncated": counts.truncated, "missing": counts.missing}
    return {
        "result": result,
        "figures": [*overall, *sorted(groups, key=lambda estimate: estimate.value)[:MOST_GROUPS]],
        "axis": axis,
        "settings": list(flatten_settings(result.settings)),
        "kinds": [(name, n, _samples_link(run, result.task, name)) for name, n in kinds.items() if n != 0],
    }


def _samples_link(run: str, task: str, kind: str, after: After | None = None, *, words: str = "") -> str:
    query = {"task": task, "kind": kind} | ({"words": words} if words else {})
    query |= {"item": after.item, "repeat": str(after.repeat)} if after else {}
    return f"{ROOT}/runs/{run}/samples?{urlencode(query)}"


def _sample_link(run: str, task: str, item: str, **beside: str) -> str:
    return f"{ROOT}/runs/{run}/sample?{urlencode({'task': task, 'item': item} | beside)}"


def _result_of_task(stored_run: FoundRun, task: str) -> TaskResult:
    stored_run.require(task)
    return next(result for result in stored_run.report.results if result.task == task)


@pages.get("/runs/{run}/samples")
def show_samples(visit: Visit) -> Response:
    """Show a page of the samples of a task that are of one kind. Raises Problem."""
    stored_run, task = _find_run(visit, visit.path["run"]), visit.query.get("task", "")
    result, kind = _result_of_task(stored_run, task), visit.query.get("kind", "all")
    if kind not in get_args(SampleKind):
        raise Problem(
            404, f"there are no samples of the kind {kind[:40]}; choose one of {', '.join(get_args(SampleKind))}"
        )
    run, item = stored_run.report.run.id, visit.query.get("item")
    after = None if item is None else After(item, visit.number("repeat"))
    words, evaluations = visit.query.get("words", "").strip(), visit.workplace.evaluations()
    page = evaluations.sample_page(run, task, kind=cast("SampleKind", kind), after=after, most=PAGE + 1, words=words)

    def link(name: str = kind, after: After | None = None) -> str:
        return _samples_link(run, task, name, after, words=words)

    return visit.page(
        "samples.html",
        run=stored_run.report.run,
        result=result,
        kind=kind,
        kinds=[(name, link(name)) for name in get_args(SampleKind)],
        words=words,
        rows=[(sample, _sample_link(run, task, sample.item)) for sample in page[:PAGE]],
        first=link() if after else "",
        more=link(after=After(page[PAGE - 1].item, page[PAGE - 1].repeat)) if len(page) > PAGE else "",
    )


@pages.get("/runs/{run}/sample")
def show_sample(visit: Visit) -> Response:
    """Show one item with all its repeats and what stands behind their scores; a run that is named stands beside."""
    task, item = visit.query.get("task", ""), visit.query.get("item", "")
    runs = [visit.path["run"], *filter(None, [visit.query.get("beside")])]
    sides = [_read_side(_find_run(visit, run), task, item) for run in runs]
    return visit.page("sample.html", task=task, item=item, sides=sides, cut=_shorten)


def _read_side(stored_run: FoundRun, task: str, item: str) -> dict[str, Any]:
    """Return what the template shows of an item in one run. Raises Problem."""
    run, rows = stored_run.report.run, stored_run.item(task, item)
    if not rows:
        raise Problem(404, f"{task} of run {run.id} has no item {item[:80]}")
    looked_up = [look_up(stored_run, task, row, artifacts(), responses().many) for row in rows]
    repeats = [
        {
            "looked": repeat,
            "readings": readings_of(repeat.sample),
            "detail": [(name, value) for name, value in repeat.sample.detail.items() if name != READINGS],
        }
        for repeat in looked_up
    ]
    return {"run": run, "repeats": repeats, "back": _samples_link(run.id, task, "all")}


def _shorten(value: object) -> str:
    """Return a value as text, without its middle where it is longer than MOST_TEXT_CHARS."""
    text, half = str(value), MOST_TEXT_CHARS // 2
    left_out = len(text) - MOST_TEXT_CHARS
    return text if left_out <= 0 else f"{text[:half]}\n… {left_out:,} characters more …\n{text[-half:]}"


@pages.get("/compare")
def show_comparison(visit: Visit) -> Response:
    """Show two runs of a task with the items that one of them alone has right. Raises Problem."""
    first, second = (_find_run(visit, visit.query.get(name, "")) for name in ("a", "b"))
    tasks_of_second = {result.task for result in second.report.results}
    shared_tasks = [result.task for result in first.report.results if result.task in tasks_of_second]
    if not shared_tasks:
        raise Problem(404, "the two runs have no task in common; compare runs of the same benchmark")
    task = visit.query.get("task") or shared_tasks[0]
    kind = "better" if visit.query.get("kind") == "better" else "worse"
    a, b, start = first.report.run, second.report.run, visit.number("start")
    comparison = _compare_runs(a.id, b.id, task, (str(a.ended_at), str(b.ended_at)))
    compared = comparison.comparison
    flips = (compared.better if kind == "better" else compared.worse)[start : start + PAGE + 1]

    def link(**changed: Any) -> str:
        return f"{ROOT}/compare?{urlencode({'a': a.id, 'b': b.id, 'task': task, 'kind': kind} | changed)}"

    return visit.page(
        "compare.html",
        a=a,
        b=b,
        task=task,
        tasks=[(name, link(task=name)) for name in shared_tasks],
        compared=compared,
        is_worse=comparison.regressed,
        kinds=[("worse", compared.losses, link(kind="worse")), ("better", compared.wins, link(kind="better"))],
        kind=kind,
        rows=[(flip, _sample_link(a.id, task, flip.item, beside=b.id)) for flip in flips[:PAGE]],
        more=link(start=start + PAGE) if len(flips) > PAGE else "",
        first=link() if start else "",
    )


@lru_cache(maxsize=8)
def _compare_runs(a: str, b: str, task: str, _ended: tuple[str, str]) -> TaskComparison:
    """Compare two runs; cached by when they ended, as an ended run does not change. Raises ResultsUnusable."""
    first, second = (find_stored_run(run, evaluations()) for run in (a, b))
    results = _result_of_task(first, task), _result_of_task(second, task)
    try:
        return compare_task(results[0], first.graded(task), results[1], second.graded(task))
    except ResultsUnusable as error:
        raise ResultsUnusable(f"{task}: {error}") from error


@pages.get("/nights")
def show_nights(visit: Visit) -> Response:
    """Show the scores of a suite through its nights. Raises Problem for a suite that never ran."""
    recent = incidents().recent(MOST_INCIDENTS)
    suites = list(dict.fromkeys(incident.suite for incident in recent))
    with suppress(NoNight):  # the one that ran last stands first
        last = str(find_last_suite(artifacts()))
        suites = [last, *(name for name in suites if name != last)]
    suite = visit.query.get("suite") or next(iter(suites), "")
    nights = read_nights(Path(suite), artifacts()) if suite else ()
    if suite and not nights and suite not in suites:
        raise Problem(404, f"{suite[:200]} never ran here; `trivet nightly run SUITE.yaml` begins")
    span = next((n for n in SPANS if str(n) == visit.query.get("last")), SPANS[0])
    drawn, of_suite = nights[-span:], [incident for incident in recent if incident.suite == suite]

    def link(**changed: Any) -> str:
        return f"{ROOT}/nights?{urlencode({'suite': suite, 'last': span} | changed)}"

    return visit.page(
        "nights.html",
        suite=suite,
        suites=[(name, Path(name).stem, link(suite=name)) for name in suites],
        spans=[(n, link(last=n)) for n in SPANS],
        span=span,
        nights=len(nights),
        listed=[
            (night, "; ".join(f"{failure.what}: {failure.why}" for failure in night.failures))
            for night in reversed(nights[-LISTED:])
        ],
        incidents=of_suite,
        pins=incidents().pins(suite),
        runs=f"{ROOT}/runs/",
        prefect=ui_of(visit.workplace.home),
        say=night_report,
        most_chars=MOST_WORD_CHARS,
        # scores that are comparable with those of the last night
        charts=draw_charts(read_trends(drawn, evaluations()), of_suite) if drawn else [],
        colour=assign_colours([model.label for model in drawn[-1].models]) if drawn else {},
    )


@pages.post("/nights/accept")
def accept_incident(visit: Visit) -> Response:
    """Accept a score that got worse from now on, with a word why. Raises Problem."""
    word = visit.form.get("why", "").strip()
    if not 0 < len(word) <= MOST_WORD_CHARS:
        raise Problem(422, f"say why the figure is right from now on, in 1 to {MOST_WORD_CHARS:,} characters")
    open_incidents = incidents().of_suite(visit.form.get("suite", ""))
    incident, now = visit.form.get("incident", ""), datetime.now(UTC)
    incidents().put(night_comparison.accept_incident(open_incidents, incident, word=word, at=now))
    visit.note_act("accept", incident)
    return _back(visit)


@pages.post("/nights/pin")
def pin_night(visit: Visit) -> Response:
    """Have later nights compared with the scores of this one. Raises Problem."""
    suite = visit.form.get("suite", "")
    pins = build_pins(visit.form.get("run", ""), read_nights(Path(suite), artifacts()), evaluations())
    incidents().pin(suite, pins)
    visit.note_act("pin", suite, visit.form.get("run", ""))
    return _back(visit)


@pages.post("/nights/unpin")
def unpin_nights(visit: Visit) -> Response:
    """Have later nights compared with the last good scores again."""
    incidents().pin(visit.form.get("suite", ""), [])
    visit.note_act("unpin", visit.form.get("suite", ""))
    return _back(visit)


def _back(visit: Visit) -> Response:
    return RedirectResponse(f"{ROOT}/nights?{urlencode({'suite': visit.form.get('suite', '')})}", 303)
