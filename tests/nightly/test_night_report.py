"""The report of a night: every figure with its run, nothing fetched, nothing acted on."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest

from flows.running.nightly_plan import Parts
from storage.incidents import IncidentEvent
from storage.storage_errors import EngineAway, NotAnIndex
from tasks.nightly.night_history import decide_state
from tasks.nightly.night_records import Failure, NightReport, Point, Series, Trend
from tasks.nightly.night_report import draw_charts, fit_scale, render_markdown, render_page, summarise_night
from tests.nightly.nights import HOSTILE, TWO, incident, measure, night, report, run, worse

PASSING = Failure(what="model large", why="it is away; start it", may_pass=True)
LASTING = Failure(what="index", why="1 of 9 documents could not be read", may_pass=False)


@pytest.mark.parametrize(
    ("failures", "fails", "measured", "state"),
    [
        ((), True, True, "Completed"),
        ((LASTING,), True, True, "CompletedWithFailures"),
        ((LASTING,), True, False, "Failed"),
        ((LASTING, PASSING), True, True, "Failed"),
    ],
)
def test_a_night_ends_as_its_failures_say(
    failures: tuple[Failure, ...], fails: bool, measured: bool, state: str
) -> None:
    assert decide_state(failures, (), fails=fails, measured=measured) == state


@pytest.mark.parametrize(("error", "may_pass"), [(EngineAway, True), (NotAnIndex, False)])
def test_an_engine_that_is_away_may_come_back(error: type[Exception], may_pass: bool) -> None:
    def fail() -> None:
        raise error("why")

    parts = Parts("night")
    parts.attempt("index", fail)
    assert parts.failures == [Failure(what="index", why="why", may_pass=may_pass)]


@pytest.mark.parametrize(("fails", "state"), [(True, "Regressed"), (False, "Completed")])
def test_a_regression_ends_a_night_where_the_suite_says_so(fails: bool, state: str) -> None:
    assert decide_state((), (incident(),), fails=fails, measured=True) == state
    assert decide_state((), (incident(status="accepted"),), fails=fails, measured=True) == "Completed"


def test_the_sentence_names_what_got_worse_and_what_is_missing() -> None:
    said = summarise_night(report(failures=(PASSING, LASTING)))
    assert said.startswith("1 regression: small on Sums 0.900 → 0.500 (-0.400, p = 0.0004; run ")
    assert "not finished: model large (it is away; start it); Retry does only these" in said
    assert "failed for good: index (1 of 9 documents could not be read)" in said


def test_an_open_incident_is_told_on_every_night_until_it_ends() -> None:
    quiet = report(changes=(), failures=())
    assert summarise_night(quiet).startswith(
        "1 open incident: small on Sums 0.900 → 0.500, since 2026-03-01, 1 night, worse"
    )
    ended = report(changes=(), failures=(), incidents=(incident(status="accepted", word="a harder prompt"),))
    assert summarise_night(ended) == "1 score, none worse beyond noise"
    for told in (render_markdown(ended), render_page(ended)):
        assert "a harder prompt" in told


@pytest.mark.parametrize("render", [render_markdown, render_page])
def test_every_figure_names_its_run(render: object) -> None:
    assert callable(render)
    told = str(render(report()))
    assert all(run(number)[:8] in told for number in (1, 2, 902))
    assert "0.900" in told
    assert "0.500" in told


def test_the_page_fetches_nothing_and_runs_nothing() -> None:
    page = render_page(report())
    assert not re.search(r"(?:src|href)=|url\(|@import|<script|<link|style=", page)
    assert "default-src 'none'; style-src 'sha256-" in unescape(page)


@pytest.mark.parametrize("render", [render_markdown, render_page])
def test_names_are_shown_not_acted_on(render: object) -> None:
    assert callable(render)
    hostile = report(
        changes=(worse(HOSTILE, task=HOSTILE),),
        incidents=(incident(of=HOSTILE, task=HOSTILE, status="accepted", word=HOSTILE),),
        failures=(Failure(what=HOSTILE, why=HOSTILE, may_pass=False),),
    )
    assert "<script" not in str(render(hostile)).replace("&lt;script", "")


def test_a_night_without_a_figure_has_a_report_too() -> None:
    bare = NightReport(night=night(models=()), state="Failed", failures=(PASSING,))
    assert "it is away; start it" in render_markdown(bare)
    assert "it is away; start it" in render_page(bare)


@pytest.mark.parametrize("values", [[0.4, 0.93], [0.5], [0.0, 0.0], [-0.5, 0.1], [7.5, 8.25], [1.0, 1.0]], ids=str)
def test_an_axis_reaches_around_all_values(values: list[float]) -> None:
    scale = fit_scale(values)
    assert scale.low <= min(values) <= max(values) <= scale.high
    assert scale.low < scale.high
    assert (scale.ticks[0], scale.ticks[-1]) == (scale.low, scale.high)


def test_many_nights_are_a_line_and_an_incident_is_a_band() -> None:
    points = tuple(Point(night=TWO + timedelta(days=at), measure=measure(0.9, at)) for at in range(100))
    trend = Trend(task="Sums", metric="accuracy", series=(Series(label="small", points=points),))
    late = incident(events=(IncidentEvent(night="n", at=TWO + timedelta(days=98), run="r", value=0.5, found="worse"),))
    [chart] = draw_charts([trend], [late, incident(task="Squares")])
    assert [(one.left, one.width) for one in chart.spans] == [("98.48%", "1.52%")]
    page = render_page(report(trends=(trend,), incidents=(late,)))
    assert (page.count("<polyline"), page.count('<rect class="span"')) == (1, 1)
