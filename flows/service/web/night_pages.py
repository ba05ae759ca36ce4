"""The page of nights: each score through them with its incidents, what is pinned; to accept, to pin and to unpin."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi.responses import RedirectResponse, Response

from flows.service.api import ui_of
from flows.service.web.visits import ROOT, Pages, Problem, Visit
from tasks.nightly import night_comparison, night_report
from tasks.nightly.night_history import build_pins, find_last_suite, read_nights, read_trends
from tasks.nightly.night_records import NoIncident, NoNight
from tasks.nightly.night_report import assign_colours, draw_charts
from tasks.resources import artifacts, evaluations, incidents

MOST_INCIDENTS, MOST_WORD_CHARS = 200, 2_000
SPANS = (30, 90, 365)
"""Numbers of nights that may be drawn."""
LISTED = 14
"""Nights of the table, of which one may be pinned."""
pages = Pages()


@pages.get("/nights")
def show_nights(visit: Visit) -> Response:
    """Show the scores of a suite through its nights."""
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
    """Accept a score that got worse from now on, with a word why."""
    word = visit.form.get("why", "").strip()
    if not 0 < len(word) <= MOST_WORD_CHARS:
        raise Problem(422, f"say why the figure is right from now on, in 1 to {MOST_WORD_CHARS:,} characters")
    open_incidents = incidents().of_suite(visit.form.get("suite", ""))
    try:
        accepted = night_comparison.accept_incident(
            open_incidents, visit.form.get("incident", ""), word=word, at=datetime.now(UTC)
        )
    except NoIncident as error:
        raise Problem(404, str(error)) from error
    incidents().put(accepted)
    visit.note_act("accept", visit.form.get("incident", ""))
    return _back(visit)


@pages.post("/nights/pin")
def pin_night(visit: Visit) -> Response:
    """Have later nights compared with the scores of this one."""
    suite = visit.form.get("suite", "")
    try:
        pins = build_pins(visit.form.get("run", ""), read_nights(Path(suite), artifacts()), evaluations())
    except NoIncident as error:
        raise Problem(404, str(error)) from error
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
