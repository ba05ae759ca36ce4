"""The pages of runs: what runs now, what failed and why, Retry, lineage, what a run would do, and cost by day.

What Prefect knows is asked for at each visit; the pages lead to its own UI for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

from fastapi.responses import RedirectResponse, Response

from flows.service import flow_runs
from flows.service.api import ApiAway, ApiFailed
from flows.service.flow_runs import FlowRun, Server
from flows.service.web.lineage_pages import picture
from flows.service.web.visits import ROOT, Page, Problem, Visit
from storage.lineage import Ran
from storage.storage_errors import DatabaseUnavailable, StorageError
from tasks.measure.page_style import Axis, axis_around

COSTS = timedelta(days=30)
"""How far back costs are shown."""
TICKS, DATES = 3, 6


def _runs(visit: Visit) -> Response:
    now = datetime.now(UTC)
    server, away = _server(visit)
    found = None
    if server:
        try:
            found = flow_runs.look(server.api, now=now, since=now - flow_runs.RECENT)
        except ApiFailed as error:
            away = _without_address(error)
    return visit.page("flows.html", found=found, away=away, ui=server.ui if server else "", **_costs(now))


def _server(visit: Visit) -> tuple[Server | None, str]:
    """The Prefect server, or why there is none."""
    try:
        return flow_runs.server_of(visit.workplace.home), ""
    except ApiAway as error:
        return None, str(error)


def _without_address(error: ApiFailed) -> str:
    if isinstance(error, ApiAway):
        return f"{error}; `trivet status` tells more, `trivet up` starts it again"
    return str(error)


class _Day(NamedTuple):
    """A day of the plot of costs; places are per cent."""

    day: date
    cost: float
    kinds: Mapping[str, float]
    left: str
    width: str
    top: str
    height: str


def _costs(now: datetime) -> dict[str, Any]:
    """What the plot of costs needs."""
    from tasks.resources import totals

    try:
        found = totals().costs_by_day(datetime.combine((now - COSTS).date(), datetime.min.time(), UTC))
    except DatabaseUnavailable as error:
        return {"costs": None, "no_costs": str(error)}
    if not found:
        return {"costs": None, "no_costs": ""}
    sums = {day: sum(kinds.values()) for day, kinds in found.items()}
    scale = axis_around(0, max(sums.values()), step_at_least=max(sums.values()) / TICKS)
    days = [(now - COSTS).date() + timedelta(days=at) for at in range(COSTS.days + 1)]
    return {
        "costs": {
            "days": [
                _day(at, day, sums[day], found[day], scale, len(days)) for at, day in enumerate(days) if day in sums
            ],
            "rows": [(scale.down(tick), f"{tick:g}") for tick in scale.ticks],
            "columns": [
                (f"{100 * (at + 0.5) / len(days):.2f}%", f"{day:%m-%d}")
                for at, day in enumerate(days)
                if at % DATES == 0
            ],
            "total": sum(sums.values()),
        },
        "no_costs": "",
    }


def _day(at: int, day: date, cost: float, kinds: Mapping[str, float], scale: Axis, days: int) -> _Day:
    wide = 100 / days
    height = f"{100 * scale.share(cost):.2f}%"
    return _Day(day, cost, kinds, f"{wide * (at + 0.15):.2f}%", f"{wide * 0.7:.2f}%", scale.down(cost), height)


def _found(visit: Visit) -> tuple[Server, FlowRun]:
    """The run of the address. Raises Problem."""
    server, away = _server(visit)
    if server is None:
        raise Problem(503, away)
    try:
        run = flow_runs.one(server.api, visit.path["run"])
    except ApiFailed as error:
        raise Problem(503, _without_address(error)) from error
    if run is None:
        raise Problem(404, f"the server has no run {visit.path['run'][:40]}; it may have been removed as old")
    return server, run


def _run(visit: Visit) -> Response:
    server, run = _found(visit)
    served = True
    if run.pool and run.type == "SCHEDULED":
        try:
            served = flow_runs.is_served(server.api, run.pool)
        except ApiFailed:
            served = True  # the page says nothing that it does not know
    results, untold = _results(run.id)
    page = visit.page(
        "flow.html",
        run=run,
        served=served,
        elsewhere=server.page(run.id),
        results=results,
        untold=untold,
        picture=f"{ROOT}/flows/{run.id}/lineage.svg",
        moves=not run.has_ended,
    )
    if visit.is_part and run.has_ended:
        page.headers["HX-Refresh"] = "true"  # for its lineage
    return page


def _steps(run: str) -> list[Ran]:
    from tasks.origins.lineage_picture import steps_of_run
    from tasks.resources import lineage

    return steps_of_run(run, lineage())


def _results(run: str) -> tuple[list[tuple[str, str, str]] | None, str]:
    """Kind, digest and page of what a run made, None where no step is known; and why nothing can be told."""
    from tasks.origins.lineage_picture import MOST_RESULTS, results_of

    try:
        steps = _steps(run)
    except StorageError as error:
        return None, str(error)
    results = results_of(steps)[:MOST_RESULTS]
    return [(one.kind, one.digest, f"{ROOT}/why?thing={one.digest}") for one in results] if steps else None, ""


def _lineage(visit: Visit) -> Response:
    run = visit.path["run"]
    return picture(_steps(run), run=run)


def _retry(visit: Visit) -> Response:
    """Schedule the run again, as Retry in Prefect's UI does."""
    from flows.running.reruns import CannotRerun, ServerAway

    server, run = _found(visit)
    try:
        flow_runs.retry(server, run.id)
    except CannotRerun as error:
        raise Problem(409, str(error)) from error
    except ServerAway as error:
        raise Problem(503, str(error)) from error
    return RedirectResponse(f"{ROOT}/flows/{run.id}", 303)


PAGES = (
    Page("GET", "/flows", _runs),
    Page("GET", "/flows/{run}", _run),
    Page("GET", "/flows/{run}/lineage.svg", _lineage),
    Page("POST", "/flows/{run}/retry", _retry, acts=True),
)
