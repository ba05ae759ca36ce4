"""A process sends requests for a run only while the server says that the run is its own."""

from __future__ import annotations

import pytest

from flows.running.ending import FRESH_S, LEASE_S, Lease, ServerAway

AWAY = -1


@pytest.mark.parametrize("clock", [0, 1], ids=["monotonic", "wall"])
@pytest.mark.parametrize(
    ("answers", "pause_s", "asked", "is_lost"),
    [
        ([1, 2], FRESH_S / 2, 1, False),
        ([1, 1], 2 * FRESH_S, 2, False),
        ([1, None], 2 * FRESH_S, 2, True),
        ([1, 2], 2 * FRESH_S, 2, True),
        ([1, AWAY], LEASE_S / 2, 2, False),
        ([1, AWAY, AWAY, 1], 2 * LEASE_S, 4, False),
        ([1, AWAY, AWAY, 2], 2 * LEASE_S, 4, True),
    ],
    ids=["just confirmed", "still its own", "deleted", "begun elsewhere", "away", "away for long", "begun meanwhile"],
)
def test_a_run_is_lost_when_the_server_says_so(
    answers: list[int | None], pause_s: float, asked: int, is_lost: bool, clock: int
) -> None:
    told, lost, now = list[int | None](), list[bool](), [0.0, 0.0]

    def count_begins() -> int | None:
        told.append(answers[len(told)])
        if told[-1] == AWAY:
            raise ServerAway
        return told[-1]

    lease = Lease(count_begins, lose=lambda: lost.append(True), clocks=(lambda: now[0], lambda: now[1]))
    now[clock] += pause_s
    lease.confirm()
    assert (len(told), lost) == (asked, [True] * is_lost)
