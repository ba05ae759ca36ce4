"""What a night can refuse, and how it can end.

NightlyError
├── SuiteUnusable    the suite file cannot be understood: names file and line
├── NoNight          nothing to report: no night has run
├── NightUnfinished  parts are missing that may succeed another time: the report holds the rest
├── NightFailed      nothing could be measured, and nothing of it may succeed another time
└── NightRegressed   something is worse than in the nights before, and not by chance
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.nightly.records import NightReport


class NightlyError(Exception):
    """Root; its text is a full sentence with the remedy."""


class SuiteUnusable(NightlyError):
    """A suite file that cannot be understood."""


class NoNight(NightlyError):
    """No night of this suite, or none at all, was kept."""


class NightUnfinished(NightlyError):
    """Some parts of a night may still succeed; `report` holds what there is."""

    def __init__(self, message: str, *, report: NightReport) -> None:
        super().__init__(message)
        self.report = report


class NightFailed(NightlyError):
    """A night without a figure; `report` says why."""

    def __init__(self, message: str, *, report: NightReport) -> None:
        super().__init__(message)
        self.report = report


class NightRegressed(NightlyError):
    """A night in which something got worse beyond chance; `report` says what."""

    def __init__(self, message: str, *, report: NightReport) -> None:
        super().__init__(message)
        self.report = report
