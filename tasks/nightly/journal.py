"""History of nights: one artifact per suite, replaced by a longer one after each night."""

from __future__ import annotations

from pathlib import Path

from storage.artifacts import Artifacts
from storage.records import Record
from tasks.keys import content_key
from tasks.nightly.night_records import Night, Nights
from tasks.nightly.nightly_errors import NoNight

KEPT = 400
"""Most nights kept per suite: more than a year."""


class _Last(Record):
    """The suite that ran last: the default of `trivet nightly report`."""

    file: str


def nights_of(file: Path, artifacts: Artifacts) -> tuple[Night, ...]:
    """The nights of a suite file, the first one first; none where it never ran."""
    ref = artifacts.recall(_key(str(file)))
    return artifacts.load(Nights, ref).nights if ref else ()


def keep(night: Night, artifacts: Artifacts) -> None:
    """Add a night; one of the same run, as after a retry, is replaced."""
    others = [one for one in nights_of(Path(night.file), artifacts) if one.run != night.run]
    nights = sorted([*others, night], key=lambda one: one.started_at)[-KEPT:]
    artifacts.remember(_key(night.file), artifacts.save("nights", Nights(nights=tuple(nights))))
    artifacts.remember(_LAST, artifacts.save("nights", _Last(file=night.file)))


def last_suite(artifacts: Artifacts) -> Path:
    """The suite whose night was kept last. Raises NoNight."""
    ref = artifacts.recall(_LAST)
    if ref is None:
        raise NoNight("no night has run here; begin with `trivet nightly run SUITE.yaml`")
    return Path(artifacts.load(_Last, ref).file)


def _key(file: str) -> str:
    return content_key("nights", 1, {"suite": file})


_LAST = content_key("nights", 1, {"suite": None})
