"""Atomic writes; a home that is its owner's alone; locks that have one holder, and none after its death."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
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


@pytest.fixture
def no_homes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that knows no home yet, and the usual umask."""
    monkeypatch.setattr(files, "_homes", set[Path]())
    os.umask(before := os.umask(0o022))
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("no_homes")
def test_folders_made_in_a_home_are_closed_and_others_are_not(tmp_path: Path):
    files.close_home(tmp_path / "home")
    files.write(tmp_path / "home" / "store" / "objects" / "one", b"secret")
    files.write(tmp_path / "index" / "manifest.json", b"{}")
    assert mode(tmp_path / "home" / "store") == 0o700
    assert mode(tmp_path / "home") == (0o711 if os.geteuid() == 0 else 0o700)
    assert mode(tmp_path / "index") == 0o755


@pytest.mark.usefixtures("no_homes")
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


HOLDS = """
import sys
from pathlib import Path
from storage.files import alone
with alone(Path(sys.argv[1]), "run", wait=lambda: None):
    print("held", flush=True)
    sys.stdin.read()
"""


class Waited(Exception):
    pass


def give_up() -> None:
    raise Waited


def test_another_process_waits_until_the_holder_is_gone_even_when_it_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDS, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Waited), files.alone(tmp_path, "run", wait=give_up):
            pass
        holder.kill()
        holder.wait()
        with files.alone(tmp_path, "run", wait=give_up):
            pass
