"""Incidents over nights in a real database: a regression stays one until it is back or somebody accepts it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from storage import connections
from storage.embedded import Cluster
from tasks.nightly.night_history import build_pins
from tasks.nightly.night_records import NightReport, NoIncident
from tests.nightly.suites import Suite
from tests.storage.conftest import open_home

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with open_home() as home:
        url = Cluster(home).start()
        yield url
        connections.engine(url).dispose()


@pytest.fixture
def suite(database: str, request: pytest.FixtureRequest) -> Suite:
    return Suite(request.node.name, database)


def state_and_found(report: NightReport) -> tuple[str, str, str]:
    (one,) = report.incidents
    return report.state, one.status, one.last.found


def test_a_regression_stays_red_until_the_figure_is_back(suite: Suite) -> None:
    assert suite.night(36).state == "Completed"
    assert state_and_found(suite.night(16)) == ("Regressed", "open", "worse")
    assert state_and_found(suite.night(16)) == ("Regressed", "open", "worse"), "nothing was mended"
    assert state_and_found(suite.night(35)) == ("Completed", "back", "back")
    (one,) = suite.known()
    assert [event.value for event in one.events] == [0.4, 0.4, 0.875]
    assert (one.baseline_value, one.kind) == (0.9, "drop")
    after = suite.night(16)
    assert after.state == "Regressed"
    assert after.changes[0].before
    assert after.changes[0].before.value == 0.875, "the last good night"


def test_within_noise_of_the_baseline_is_not_yet_back(suite: Suite) -> None:
    suite.night(20)
    suite.night(10)
    half = suite.night(15)  # five lost, none won: p = .0625 against the baseline, in the middle between the two
    assert half.changes[0].verdict == "within noise"
    assert state_and_found(half) == ("Regressed", "open", "not back")
    assert state_and_found(suite.night(16)) == ("Completed", "back", "back")


def test_an_accepted_figure_is_the_next_baseline(suite: Suite) -> None:
    suite.night(36)
    suite.night(16)
    (one,) = suite.known()
    suite.accept(one.short_id, "a harder prompt")
    assert suite.report(suite.nights[-1]).state == "Completed", "the report of the same night, made again"
    after = suite.night(17)
    assert state_and_found(after) == ("Completed", "accepted", "worse")
    assert after.changes[0].before
    assert (after.changes[0].before.value, after.incidents[0].word) == (0.4, "a harder prompt")
    assert suite.night(4).state == "Regressed", "a fall from there is another incident"
    assert len(suite.known()) == 2


def test_a_night_that_runs_again_replaces_what_it_said(suite: Suite) -> None:
    suite.night(36)
    suite.night(16)
    assert suite.night(36, again=True).state == "Completed"
    assert suite.known() == ()
    suite.night(16)
    suite.night(36)
    assert state_and_found(suite.night(12, again=True)) == ("Regressed", "open", "worse")
    (one,) = suite.known()
    assert [event.value for event in one.events] == [0.4, 0.3]


def test_a_pinned_night_is_the_baseline_of_all_later_ones(suite: Suite) -> None:
    for right in (36, 33, 30, 27):  # three lost from one night to the next: none is beyond noise
        last = suite.night(right)
        assert last.state == "Completed"
    suite.incidents.pin(suite.file, build_pins(suite.nights[0].run[:8], suite.nights, suite.evaluations))
    pinned = suite.report(suite.nights[-1])
    assert pinned.changes[0].before
    assert (pinned.state, pinned.changes[0].before.value) == ("Regressed", 0.9)
    with pytest.raises(NoIncident, match="no night and no run of one begins with 'zz'"):
        build_pins("zz", suite.nights, suite.evaluations)


def test_a_slow_fall_is_told_where_no_night_is_worse_than_the_last(suite: Suite) -> None:
    states: list[str] = []
    for right in (36, 35, 37, 36, 35, 36, 37, 36, 35, 34, 34, 33, 32, 31, 31, 30):
        report = suite.night(right)
        states.append(report.state)
        if report.state == "Regressed":
            break
    (one,) = report.incidents
    assert (one.kind, report.changes[0].verdict) == ("drift", "drifting")
    assert one.baseline_value >= 0.875
    assert states[:8] == ["Completed"] * 8, "a figure that only moves to and fro makes no alarm"


def test_of_many_figures_one_that_barely_moved_is_taken_for_chance(suite: Suite) -> None:
    tasks = [f"Sums{number}" for number in range(12)]
    suite.night(dict.fromkeys(tasks, 36))
    alone = suite.night({"Sums0": 30})  # six lost: p = .031
    assert alone.state == "Regressed"
    among = suite.night(dict.fromkeys(tasks, 36) | {"Sums0": 30}, again=True)
    assert (among.state, {one.verdict for one in among.changes}) == ("Completed", {"within noise"})
    assert suite.night(dict.fromkeys(tasks, 36) | {"Sums0": 10}, again=True).state == "Regressed"


def test_a_figure_that_cannot_be_compared_any_more_stays_open(suite: Suite) -> None:
    suite.night(36)
    suite.night(16)
    assert state_and_found(suite.night(36, limit=40)) == ("Regressed", "open", "not comparable")
