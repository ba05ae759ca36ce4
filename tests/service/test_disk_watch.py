"""A disk that runs low is told once, and again only after it was well."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from flows.service.api import ApiAway
from flows.service.disk_watch import DiskWatch

GB = 1 << 30


class Use(NamedTuple):
    """As the system tells it."""

    total: int
    used: int
    free: int


def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *free_gb: float, total_gb: float = 50) -> list[int]:
    """After which looks somebody was told."""
    heard: list[str] = []
    watch = DiskWatch([tmp_path, tmp_path / "none"], lambda _, text: heard.append(text))
    counts: list[int] = []
    for free in free_gb:
        use = Use(int(total_gb * GB), 0, int(free * GB))
        monkeypatch.setattr(shutil, "disk_usage", lambda _, use=use: use)
        watch.look()
        counts.append(len(heard))
    return counts


def test_it_is_told_once_and_again_after_it_was_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(tmp_path, monkeypatch, 20, 4, 3, 6, 4, 8, 4) == [0, 1, 1, 1, 1, 1, 2]


def test_a_tenth_of_a_large_disk_is_not_low(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(tmp_path, monkeypatch, 90, 9, total_gb=1000) == [0, 1]


def test_what_the_server_has_not_heard_is_told_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([ApiAway("it begins"), None])
    heard: list[Path] = []

    def tell(folder: Path, _: str) -> None:
        if error := next(answers):
            raise error
        heard.append(folder)

    watch = DiskWatch([tmp_path], tell)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Use(50 * GB, 49 * GB, GB))
    with pytest.raises(ApiAway):
        watch.look()
    watch.look()
    assert heard == [tmp_path]
