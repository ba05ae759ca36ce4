"""The commands that keep house, as a user runs them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.running.settings import settings
from storage import embeddings
from storage.artifacts import Artifacts
from storage.embeddings import EmbeddingCache


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TRIVET_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    settings.cache_clear()
    yield tmp_path / "home"
    settings.cache_clear()


def run(*arguments: str, code: int = 0) -> dict[str, object]:
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout) if done.stdout else {}


def test_gc_shows_then_removes(home: Path) -> None:
    Artifacts(home / "store").put("document", b"abc")
    shown = run("gc", "--dry-run", "--older-than", "0")
    assert (shown["dry_run"], shown["removed_bytes"]) == (True, 3)
    assert run("gc")["removed_bytes"] == 0  # younger than a week
    assert run("gc", "--older-than", "0")["removed_bytes"] == 3
    assert run("gc", "--older-than", "0")["removed_bytes"] == 0


def test_gc_forgets_embeddings_that_no_run_has_used_for_a_season(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = EmbeddingCache.below(home)
    cache.put_many("m", ["text"], np.ones((1, 4), np.float32))
    assert run("gc")["removed_vectors"] == 0
    today = embeddings._today()
    monkeypatch.setattr(embeddings, "_today", lambda: today + 91)
    assert run("gc", "--dry-run")["removed_vectors"] == 1
    assert run("gc")["removed_vectors"] == 1
    assert cache.get_many("m", ["text"]) == {}


def test_backup_then_restore(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = Artifacts(home / "store").put("document", b"abc")
    assert run("backup", str(tmp_path / "b.tar"))["artifacts"] == 1
    monkeypatch.setenv("TRIVET_HOME", str(tmp_path / "new"))
    settings.cache_clear()
    assert run("restore", str(tmp_path / "b.tar"))["artifacts"] == 1
    assert Artifacts(tmp_path / "new" / "store").get(ref) == b"abc"
    run("restore", str(tmp_path / "b.tar"), code=2)


def test_stop_starts_nothing(home: Path) -> None:
    assert run("down") == {"stopped": []}
    assert not home.exists()


def test_a_database_that_is_away_ends_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:hunter2@127.0.0.1:9/db")
    settings.cache_clear()
    done = CliRunner().invoke(app, ["db", "upgrade"])
    assert done.exit_code == 1
    assert "127.0.0.1:9" in done.output
    assert "hunter2" not in done.output


@pytest.mark.parametrize("arguments", [["doctor"], ["gc"], ["down"]], ids=" ".join)
def test_people_get_words(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert done.output.strip()
