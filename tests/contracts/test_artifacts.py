"""What every artifact store does, wherever it lies: a folder, memory, or S3 (a server in this process)."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from storage.artifacts import Artifacts, Remote
from storage.records import Record, Ref
from storage.storage_errors import DamagedArtifact, MissingArtifact
from tests.storage.buckets import bucket_of, s3

KEY = hashlib.sha256(b"inputs").hexdigest()


class Note(Record):
    words: str


class Place(NamedTuple):
    """One store, as two machines see it, and a way to spoil what lies in it."""

    store: Artifacts
    elsewhere: Artifacts
    spoil: Callable[[Ref, bytes], None]


@pytest.fixture(params=["folder", "memory", pytest.param("s3", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "folder":
        root = tmp_path / "store"

        def spoil(ref: Ref, data: bytes) -> None:
            (root / name(ref)).write_bytes(data)

        by_url = Artifacts.open(f"file://{root}", cache=tmp_path / "unused")
        yield Place(Artifacts.open(root, cache=tmp_path / "unused"), by_url, spoil)
        return
    url = f"memory://{uuid.uuid4().hex}/store" if request.param == "memory" else request.getfixturevalue("bucket")
    yield Place(
        Artifacts.open(url, cache=tmp_path / "here"),
        Artifacts.open(url, cache=tmp_path / "there"),
        lambda ref, data: Remote(url).write(name(ref), data),
    )


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    with s3() as address:
        yield address


@pytest.fixture
def bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    made = bucket_of(s3_server)
    for variable, value in made.environment.items():
        monkeypatch.setenv(variable, value)
    return made.url


def name(ref: Ref) -> str:
    return f"objects/{ref.kind}/{ref.digest[:2]}/{ref.digest}"


def test_the_name_of_an_artifact_is_the_sha256_of_its_bytes(place: Place) -> None:
    ref = place.store.put("document", b"abc")
    assert ref == Ref(
        kind="document", digest="ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", size=3
    )


def test_what_one_machine_puts_another_gets(place: Place) -> None:
    assert place.elsewhere.get(place.store.put("document", b"\x00\xff" * 1000)) == b"\x00\xff" * 1000


def test_putting_twice_keeps_one(place: Place) -> None:
    place.store.put("document", b"abc")
    place.store.put("document", b"abc")
    assert [each.ref.size for each in place.store.objects()] == [3]


def test_a_file_and_its_bytes_are_the_same_artifact(place: Place, tmp_path: Path) -> None:
    data = bytes(range(256)) * 10_000  # more than one block
    (tmp_path / "big").write_bytes(data)
    ref = place.store.put_file("document", tmp_path / "big")
    assert ref == Ref(kind="document", digest=hashlib.sha256(data).hexdigest(), size=len(data))
    assert place.elsewhere.get(ref) == data


def test_values_survive_the_round_trip(place: Place) -> None:
    note = Note(words="예산 35,750,000원 — ㎡ ℃")
    assert place.elsewhere.load(Note, place.store.save("note", note)) == note


def test_a_key_recalls_what_was_remembered(place: Place) -> None:
    ref = place.store.put("document", b"abc")
    place.store.remember(KEY, ref)
    assert place.elsewhere.recall(KEY) == ref
    assert [key for key, _ in place.elsewhere.notes()] == [KEY]


def test_the_last_note_of_a_key_counts(place: Place) -> None:
    place.store.remember(KEY, place.store.put("document", b"old"))
    new = place.store.put("document", b"new")
    place.store.remember(KEY, new)
    assert place.elsewhere.recall(KEY) == new


def test_a_key_that_is_no_digest_is_refused(place: Place) -> None:
    with pytest.raises(ValueError, match="64 hex digits"):
        place.store.recall("../../etc/passwd")


@pytest.mark.parametrize("read", ["get", "path"])
def test_a_missing_artifact_is_named(place: Place, read: str) -> None:
    ref = Ref(kind="document", digest="0" * 64, size=3)
    with pytest.raises(MissingArtifact, match="run the flow again"):
        getattr(place.store, read)(ref)
    assert not place.store.verify(ref)


@pytest.mark.parametrize("damage", [b"abd", b"ab"], ids=["bit", "truncated"])
@pytest.mark.parametrize("read", ["get", "path"])
def test_a_damaged_artifact_is_set_aside_and_made_anew(place: Place, read: str, damage: bytes) -> None:
    ref = place.store.put("document", b"abc")
    place.spoil(ref, damage)
    with pytest.raises(DamagedArtifact):
        getattr(place.elsewhere, read)(ref)
    with pytest.raises(MissingArtifact):
        getattr(place.elsewhere, read)(ref)
    assert place.store.put("document", b"abc") == ref
    assert place.elsewhere.get(ref) == b"abc"


def test_a_key_whose_artifact_is_gone_recalls_nothing(place: Place) -> None:
    ref = place.store.put("document", b"abc")
    place.store.remember(KEY, ref)
    assert place.store.remove(ref, before=datetime.now(UTC) + timedelta(hours=1))
    assert place.store.recall(KEY) is None


def test_an_artifact_put_since_is_not_removed(place: Place) -> None:
    ref = place.store.put("document", b"abc")
    assert not place.store.remove(ref, before=datetime.now(UTC) - timedelta(hours=1))
    assert place.store.get(ref) == b"abc"


def test_objects_are_listed_with_size_and_date(place: Place) -> None:
    ref = place.store.put("document", b"abc")
    (listed,) = place.elsewhere.objects()
    assert listed.ref == ref
    assert abs(listed.modified - datetime.now(UTC)) < timedelta(minutes=1)


def test_the_first_byte_tells_json_apart(place: Place) -> None:
    assert place.elsewhere.starts_with(place.store.put("manifest", b"{}"), (b"{", b"["))
    assert not place.elsewhere.starts_with(place.store.put("vectors", b"\x93NUMPY"), (b"{", b"["))
