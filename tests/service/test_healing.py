"""Which crashed runs are done again, and how often."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flows.service.run_worker import RETRY, crashes_of

AT = datetime(2026, 1, 5, tzinfo=UTC)
AUTOMATIC = ("SCHEDULED", "AwaitingRetry", f"{RETRY} 1 of 2: it was killed")
BY_HAND = ("SCHEDULED", "AwaitingRetry", "Scheduled by a person")
BEGAN = [("PENDING", "Pending", None), ("RUNNING", "Running", None)]
CRASH = ("CRASHED", "Crashed", "it was killed")
ONCE = [*BEGAN, CRASH]


def states(told: list[tuple[str, str, str | None]]) -> list[dict[str, Any]]:
    """As the server gives them, which is in no order."""
    listed = [
        {"type": kind, "name": name, "message": message, "timestamp": (AT + timedelta(seconds=number)).isoformat()}
        for number, (kind, name, message) in enumerate(told)
    ]
    return listed[::-1]


@pytest.mark.parametrize(
    ("told", "crashes"),
    [
        (ONCE, 1),
        ([*ONCE, AUTOMATIC, *ONCE], 2),
        ([*ONCE, AUTOMATIC, *ONCE, AUTOMATIC, *ONCE], 3),
        ([*ONCE, AUTOMATIC, *ONCE, AUTOMATIC, *ONCE, BY_HAND, *ONCE], 1),
        ([("PENDING", "Pending", None), CRASH], 0),
        ([*ONCE, AUTOMATIC, ("PENDING", "Pending", None), CRASH], 0),
    ],
    ids=["once", "twice", "three times", "begun again by a person", "never begun", "refused when retried"],
)
def test_crashes_are_counted_since_somebody_began_the_run(
    told: list[tuple[str, str, str | None]], crashes: int
) -> None:
    assert crashes_of(states(told)) == crashes
