"""A backup brings everything back, and a bad one brings nothing."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from storage import connections, embedded
from storage.artifacts import Artifacts
from storage.backup import Manifest, backup, restore
from storage.embedded import Cluster
from storage.postgres_binaries import installed
from storage.records import Ref
from storage.responses import Responses, StoredResponse
from storage.storage_errors import BackupUnusable

KEY = hashlib.sha256(b"inputs").hexdigest()


def furnish(home: Path) -> Ref:
    """A home with one remembered artifact and one result; no database."""
    store = Artifacts(home / "store")
    ref = store.put("document", b"abc" * 1000)
    store.remember(KEY, ref)
    (home / "results" / "한글").mkdir(parents=True)
    (home / "results" / "한글" / "key").write_text("{}")
    for name in ("labelled/index-1.jsonl", "service/asked.json", "service/auth"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text("{}")
    return ref


def pack(home: Path) -> Path:
    backup(home, Artifacts(home / "store"), None, home.parent / "backup.tar")
    return home.parent / "backup.tar"


def unpack(source: Path, home: Path) -> Manifest:
    return restore(source, home, Artifacts(home / "store"), None)


def rewrite(source: Path, change: Callable[[tarfile.TarInfo, bytes], bytes]) -> Path:
    """A copy of the archive with each member changed."""
    target = source.with_name("changed.tar")
    with tarfile.open(source) as old, tarfile.open(target, "w") as new:
        for member in old:
            content = old.extractfile(member)
            member.pax_headers = {}  # an old name in there would win
            changed = change(member, content.read() if content else b"")
            new.addfile(member, io.BytesIO(changed))
    return target


def test_artifacts_keys_and_results_come_back(tmp_path: Path) -> None:
    ref = furnish(tmp_path / "old")
    manifest = unpack(pack(tmp_path / "old"), tmp_path / "new")
    assert (manifest.artifacts, manifest.keys, manifest.results, manifest.database) == (1, 1, 1, False)
    assert Artifacts(tmp_path / "new" / "store").recall(KEY) == ref
    assert (tmp_path / "new" / "results" / "한글" / "key").read_text() == "{}"
    assert manifest.files == 2
    assert (tmp_path / "new" / "labelled" / "index-1.jsonl").read_text() == "{}"
    assert (tmp_path / "new" / "service" / "asked.json").exists()
    assert not (tmp_path / "new" / "service" / "auth").exists()  # the new home makes secrets of its own


def test_a_backup_goes_from_an_object_store_to_another(tmp_path: Path) -> None:
    old = Artifacts.open(f"memory://{tmp_path.name}/old", cache=tmp_path / "cache")
    new = Artifacts.open(f"memory://{tmp_path.name}/new", cache=tmp_path / "other")
    ref = old.put("document", b"abc")
    old.remember(KEY, ref)
    backup(tmp_path / "home", old, None, tmp_path / "backup.tar")
    restore(tmp_path / "backup.tar", tmp_path / "home", new, None)
    assert new.recall(KEY) == ref


def test_a_damaged_artifact_is_left_out(tmp_path: Path) -> None:
    ref = furnish(tmp_path / "old")
    Artifacts(tmp_path / "old" / "store").path(ref).write_bytes(b"damage")
    assert unpack(pack(tmp_path / "old"), tmp_path / "new").artifacts == 0


@pytest.mark.postgres
def test_the_database_comes_back(home: Path) -> None:
    asked = StoredResponse(backend="scripted", model="m", request="q\x00", response=["답"], latency_s=1.0)
    old, new = home / "old", home / "new"
    Responses(lambda: connections.locate(None, old)).put_many({KEY: asked})
    source = pack(old)
    try:
        assert unpack(source, new).database
        got = Responses(lambda: connections.locate(None, new)).many([KEY]).get(KEY)
        assert got
        assert got.model_copy(update={"created_at": None}) == asked
    finally:
        for each in (old, new):
            connections.engine(Cluster(each).start()).dispose()
            Cluster(each).remove()


@pytest.mark.postgres
def test_a_database_that_holds_tables_is_not_overwritten(home: Path) -> None:
    url = Cluster(home).start()
    connections.upgrade(url)
    backup(home, Artifacts(home / "store"), url, home / "backup.tar")
    with pytest.raises(BackupUnusable, match="already holds alembic_version"):
        restore(home / "backup.tar", home / "new", Artifacts(home / "new" / "store"), url)
    assert list((home / "new").iterdir()) == []
    connections.engine(url).dispose()


def test_a_home_that_holds_something_is_refused(tmp_path: Path) -> None:
    furnish(tmp_path / "old")
    with pytest.raises(BackupUnusable, match="is not empty"):
        unpack(pack(tmp_path / "old"), tmp_path / "old")


def refused(source: Path, home: Path, match: str) -> None:
    with pytest.raises(BackupUnusable, match=match):
        unpack(source, home)
    assert list(home.iterdir()) == []
    assert not (home.parent / "evil").exists()


@pytest.mark.parametrize("content", [None, b"", b"not a tar", bytes(10240)], ids=["missing", "empty", "text", "zeros"])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "file.tar").write_bytes(content)
    refused(tmp_path / "file.tar", tmp_path / "new", "no whole backup")


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    furnish(tmp_path / "old")
    source = pack(tmp_path / "old")
    whole = source.read_bytes().rstrip(b"\0")
    source.write_bytes(whole[: len(whole) // 2])
    refused(source, tmp_path / "new", "no whole backup")


@pytest.mark.parametrize("part", ["store/objects", "store/keys", "results"])
@pytest.mark.parametrize("name", ["", "../evil"], ids=["byte", "name"])
def test_a_changed_byte_or_name_is_noticed(tmp_path: Path, part: str, name: str) -> None:
    furnish(tmp_path / "old")

    def change(member: tarfile.TarInfo, data: bytes) -> bytes:
        if not member.name.startswith(part):
            return data
        member.name = name or member.name
        return b"!" + data[1:]

    refused(rewrite(pack(tmp_path / "old"), change), tmp_path / "new", "not what its manifest says")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    with tarfile.open(tmp_path / "links.tar", "w") as tar:
        member = tarfile.TarInfo("results/link")
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)
    refused(tmp_path / "links.tar", tmp_path / "new", "no plain file")


@pytest.mark.postgres
def test_a_laptops_database_moves_to_a_server_of_another_version(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [each for each in installed() if each.major < 17]
    assert others, "the wheel brings PostgreSQL 16 too"
    old, server = home / "old", home / "server"
    asked = StoredResponse(backend="scripted", model="m", request=1, response="답", latency_s=1.0)
    Responses(lambda: connections.locate(None, old)).put_many({KEY: asked})
    source = pack(old)
    with monkeypatch.context() as patched:
        patched.setattr(embedded, "installed", lambda: iter(others[:1]))
        url = Cluster(server).start()
    try:
        restore(source, home / "new", Artifacts(home / "new" / "store"), url)
        got = Responses(lambda: url).many([KEY]).get(KEY)
        assert got
        assert got.response == "답"
    finally:
        for each in (old, server):
            connections.engine(Cluster(each).start()).dispose()
            Cluster(each).remove()
