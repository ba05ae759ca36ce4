"""A home is its owner's alone: as it is made, and as earlier versions left it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import files


@pytest.fixture(autouse=True)
def _forgets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(files, "_homes", set[Path]())
    os.umask(before := os.umask(0o022))
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_made_in_a_home_are_closed_and_others_are_not(tmp_path: Path):
    files.close_home(tmp_path / "home")
    files.write(tmp_path / "home" / "store" / "objects" / "one", b"secret")
    files.write(tmp_path / "index" / "manifest.json", b"{}")
    assert mode(tmp_path / "home" / "store") == 0o700
    assert mode(tmp_path / "home") == (0o711 if os.geteuid() == 0 else 0o700)
    assert mode(tmp_path / "index") == 0o755


def test_a_home_of_an_earlier_version_is_mended_and_things_of_others_are_left(tmp_path: Path):
    for name in ("store", "logs", "server", "postgres/cluster", "holidays"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "chat_history").write_text("what was asked")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "elsewhere")
    files.close_home(tmp_path)
    passed = 0o711 if os.geteuid() == 0 else 0o700
    modes = {path.name: mode(path) for path in tmp_path.iterdir()}
    ours = {"store": 0o700, "logs": 0o700, "server": passed, "postgres": passed, "chat_history": 0o600}
    assert modes == ours | dict.fromkeys(("holidays", "elsewhere", "cache"), 0o755)
    assert mode(tmp_path / "postgres" / "cluster") == 0o700
