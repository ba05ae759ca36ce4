"""What a step does on a pool moves the bars of the run that waits for it, as if the step were done there.

the child's bars (flows/running/shown.py) ─► Relay.look, while it runs ─► tasks/progress.py ─► whoever listens here
what the child counted (counting) ─► Relay.tell, when it has ended, for the steps that end between two looks
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterType

from tasks import progress

Counts = dict[str, list[int]]
"""Stage → [done, expected]: JSON knows no tuples."""

_BAR = re.compile(r"(?P<stage>.+): (?P<done>[\d,]+) of (?P<expected>[\d,]+)")
"""How a bar is described, `embed: 12 of 1,025`; not one whose total is a guess."""


class Relay:
    """Reports here what a child has done, each item once, however often it is told."""

    def __init__(self) -> None:
        self._told: Counts = {}

    def look(self, client: SyncPrefectClient, child: UUID) -> None:
        """Report what the bars of the child show."""
        bars = client.read_artifacts(
            artifact_filter=ArtifactFilter(
                flow_run_id=ArtifactFilterFlowRunId(any_=[child]), type=ArtifactFilterType(any_=["progress"])
            )
        )
        for bar in bars:
            if shown := _BAR.fullmatch(bar.description or ""):
                self.tell({shown["stage"]: [int(shown[each].replace(",", "")) for each in ("done", "expected")]})

    def tell(self, counts: Mapping[str, Sequence[int]]) -> None:
        """Report what these counts are ahead of what was told."""
        for stage, (done, expected) in counts.items():
            told = self._told.setdefault(stage, [0, 0])
            if expected > told[1]:
                progress.expect(stage, expected - told[1])
            if done > told[0]:
                progress.advance(stage, done - told[0])
            self._told[stage] = [max(done, told[0]), max(expected, told[1])]


@contextmanager
def counting() -> Generator[Counts]:
    """What the steps of this process report meanwhile."""
    counts: Counts = {}
    lock = Lock()

    def count(stage: str, done: int, expected: int) -> None:
        with lock:
            before = counts.get(stage, [0, 0])
            counts[stage] = [before[0] + done, before[1] + expected]

    with progress.listening(count):
        yield counts
