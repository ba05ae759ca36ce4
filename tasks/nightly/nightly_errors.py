"""What a night can refuse, and how it can end.

NightlyError
├── SuiteUnusable    the suite file cannot be understood: names file and line
├── NoNight          nothing to report: no night has run
├── NightUnfinished  parts are missing that may succeed another time: the report holds the rest
├── NightFailed      nothing could be measured, and nothing of it may succeed another time
└── NightRegressed   a figure is worse than in the nights before, beyond chance
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.nightly.night_records import NightReport


class NightlyError(Exception):
    """Root; its text is a full sentence with the remedy."""


class SuiteUnusable(NightlyError):
    """A suite file that cannot be understood."""


class NoNight(NightlyError):
    """No night of this suite, or none at all, was kept."""


class _EndedNight(NightlyError):
    """A night that did not end well; `report` holds what there is."""

    def __init__(self, message: str, *, report: NightReport) -> None:
        super().__init__(message)
        self.report = report


class NightUnfinished(_EndedNight):
    """Some parts of the night are missing and may still succeed."""


class NightFailed(_EndedNight):
    """The night measured nothing; the report says why."""


class NightRegressed(_EndedNight):
    """Something got worse beyond chance; the report says what."""
