"""What a step on a pool has done so far is reported by the run that waits for it, once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flows.running.configuring import configure_steps

configure_steps()

from prefect import flow  # noqa: E402
from prefect.client.orchestration import SyncPrefectClient  # noqa: E402

from flows.running.dispatch import Relay, counting  # noqa: E402
from flows.running.shown import watched  # noqa: E402
from tasks import progress  # noqa: E402
from tests.engine.deployed import Ran, work  # noqa: E402

pytestmark = pytest.mark.engine


@pytest.fixture
def heard() -> Iterator[list[tuple[str, int, int]]]:
    reports: list[tuple[str, int, int]] = []
    with progress.listening(lambda *report: reports.append(report)):
        yield reports


def test_the_bars_of_a_child_are_reported_by_who_waits_for_it(client: SyncPrefectClient) -> None:
    @flow(name="on-a-pool")
    @watched
    def on_a_pool() -> None:
        work(1_200, fails_after=1_100)

    child, relay = Ran(client, on_a_pool), Relay()
    with counting() as counts:
        relay.look(client, child.id)
        relay.look(client, child.id)
    assert counts == {"train SFT": [1_100, 1_200]}


def test_what_a_child_counted_in_the_end_is_reported_beyond_what_its_bars_showed(
    heard: list[tuple[str, int, int]],
) -> None:
    relay = Relay()
    relay.tell({"embed": [3, 10]})
    relay.tell({"embed": [10, 12]})
    assert heard == [("embed", 0, 10), ("embed", 3, 0), ("embed", 0, 2), ("embed", 7, 0)]


def test_a_child_that_begins_again_takes_nothing_back(heard: list[tuple[str, int, int]]) -> None:
    relay = Relay()
    for done in (8, 2, 9):
        relay.tell({"embed": [done, 10]})
    assert heard == [("embed", 0, 10), ("embed", 8, 0), ("embed", 1, 0)]
