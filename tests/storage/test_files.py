"""Atomic writes."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from storage import files
from storage.storage_errors import StoreUnreachable


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    files.write(tmp_path / "file", b"old")
    with files.replacing(tmp_path / "file") as file:
        file.write(b"new")
        file.flush()
        assert (tmp_path / "file").read_bytes() == b"old"
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_failed_block_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    files.write(tmp_path / "file", b"old")
    with pytest.raises(KeyError), files.replacing(tmp_path / "file") as file:  # noqa: PT012
        file.write(b"half")
        raise KeyError
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "no room left"),
        (errno.EDQUOT, "no room left"),
        (errno.EROFS, "may not be used"),
        (errno.EIO, "cannot be used"),
    ],
)
def test_refusals_are_sentences_with_a_remedy(number: int, words: str) -> None:
    with pytest.raises(StoreUnreachable, match=words), files.reachable(Path("/store")):
        raise OSError(number, "reason")
