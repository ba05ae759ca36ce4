"""Why a part of the service fails: a full disk, named once, or the end of its log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flows.service import lifecycle
from flows.service.place import Place


def test_a_full_disk_is_named_once_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "store").mkdir()
    assert lifecycle.full_disks(Place(tmp_path), store=tmp_path / "store") == [], "there is room"
    monkeypatch.setattr(lifecycle, "LEAST_BYTES", 1 << 62)
    [told] = lifecycle.full_disks(Place(tmp_path), store=tmp_path / "store")
    assert told.startswith(f"the disk of {tmp_path} is full")
    assert "free disk space (see `trivet gc`)" in told


def test_the_log_of_an_earlier_start_explains_no_failure(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.keep(place.address, "{}")
    place.keep(log := place.log_of("server"), "disk on fire\n")
    assert lifecycle.explain_failure(place, "server") == f"disk on fire; the whole is in {log}"
    os.utime(log, (0, 0))
    assert lifecycle.explain_failure(place, "server") == f"nothing is written yet; the whole is in {log}"
