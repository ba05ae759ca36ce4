"""A full disk is named, once, with what to do about it."""

from __future__ import annotations

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
