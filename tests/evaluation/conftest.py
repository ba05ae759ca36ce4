"""A home of its own for each test that opens models: no database is there, so answers are kept in files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flows.running.settings import configure_steps
from storage.artifacts import Artifacts
from tasks import resources

NOWHERE = "postgresql://me@127.0.0.1:9/trivet"


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(tmp_path / "store")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The home of this process for the length of a test."""
    configure_steps()
    before = resources.resources()
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("MY_KEY", "sk-mine")
    resources.configure(replace(before, home=home, store=str(tmp_path / "store"), database_url=NOWHERE, api_key=None))
    yield home
    resources.configure(before)
