"""An index that is served follows its folder of documents."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from flows.service import live_index
from flows.service.live_index import Indexing
from tests.command import until

STILL_S = 0.2


def test_files_are_indexed_once_they_are_still_and_a_folder_that_is_away_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_index, "STILL_S", STILL_S)
    documents = tmp_path / "documents"
    indexing = Indexing(documents, documents / "index", command=("true",))
    indexing.watch()
    documents.mkdir()
    with (documents / "copied.txt").open("w") as copied:
        for _ in range(20):
            copied.write("part")
            copied.flush()
            time.sleep(STILL_S / 4)
            assert not indexing.state().ended
    until(lambda: indexing.state().ended == 1)

    (documents / ".hidden").write_text("part of a download")
    (documents / "index").mkdir()
    (documents / "index" / "CURRENT").write_text("1")
    (documents / "copied.txt").rename(tmp_path / "elsewhere.txt")
    time.sleep(5 * STILL_S)
    assert indexing.state().ended == 1
    (documents / "another.txt").write_text("text")
    until(lambda: indexing.state().ended == 2)
    indexing.close()


def test_a_run_that_cannot_be_started_is_told_and_followed_by_another(tmp_path: Path) -> None:
    indexing = Indexing(tmp_path, tmp_path / "index", command=(str(tmp_path / "no program"),))
    for ended in (1, 2):
        indexing.start()
        until(lambda ended=ended: (indexing.state().ended, indexing.state().running) == (ended, False))
    assert indexing.state().failure.startswith("no process could be started ([Errno 2]")
