"""The local store under bad luck: full disk, kill, several writers, another account's folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from storage import files
from storage.artifacts import Artifacts
from storage.storage_errors import StoreUnreachable

LIMITED = """
import resource, signal, sys
from pathlib import Path
from storage.artifacts import Artifacts
from storage.storage_errors import StoreUnreachable
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
store, big = Artifacts(Path(sys.argv[1])), Path(sys.argv[2])
try:
    store.put("document", big.read_bytes()) if sys.argv[3] == "put" else store.put_file("document", big)
except StoreUnreachable as error:
    print(error)
"""

WRITER = """
import os, sys
from pathlib import Path
from storage.artifacts import Artifacts
store = Artifacts(Path(sys.argv[1]))
print("ready", flush=True)
for number in range(int(sys.argv[2])):
    store.put("document", number.to_bytes(4, "big") * 50_000)
"""


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": os.getcwd()})  # noqa: PTH109


def whole_objects(store: Artifacts) -> int:
    """How many objects there are; each must be whole."""
    found = list(store.objects())
    assert all(store.verify(each.ref) for each in found)
    return len(found)


@pytest.mark.parametrize("how", ["put", "put_file"])
def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path, how: str) -> None:
    (tmp_path / "big").write_bytes(b"x" * 300_000)
    said, _ = python(LIMITED, tmp_path / "store", tmp_path / "big", how).communicate(timeout=30)
    assert "no room left" in said
    assert "trivet gc" in said
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()] == []


def test_a_killed_writer_leaves_no_half_object(tmp_path: Path) -> None:
    writer = python(WRITER, tmp_path, 100_000)
    assert writer.stdout
    writer.stdout.readline()
    while not any(tmp_path.rglob("objects/document/*/*")):
        time.sleep(0.01)
    time.sleep(0.1)
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    assert whole_objects(Artifacts(tmp_path)) > 0


@pytest.mark.slow
def test_writers_of_the_same_objects_do_not_disturb_each_other(tmp_path: Path) -> None:
    writers = [python(WRITER, tmp_path, 50) for _ in range(4)]
    for writer in writers:
        writer.communicate(timeout=60)
    assert [writer.returncode for writer in writers] == [0, 0, 0, 0]
    assert whole_objects(Artifacts(tmp_path)) == 50
    assert list(tmp_path.rglob(f"{files.TEMPORARY}*")) == []


def test_an_object_store_that_is_away_is_said(tmp_path: Path) -> None:
    store = Artifacts.open("http://127.0.0.1:9/store", cache=tmp_path)
    with pytest.raises(StoreUnreachable, match=r"127\.0\.0\.1:9"):
        store.put("document", b"abc")
