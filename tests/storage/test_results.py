"""The records of steps, wherever they lie: a folder, memory, or S3 (a server in this process)."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from storage.artifacts import RESULTS, Artifacts, Results
from storage.backup import backup, restore
from storage.stores import Folder
from tests.storage.buckets import bucket_of, s3

KEY = "a" * 64
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class Place(NamedTuple):
    """The records of one store, as two machines with homes of their own see them."""

    here: Results
    there: Results


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    with s3() as url:
        yield url


@pytest.fixture(params=["folder", "memory", pytest.param("s3", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    url = str(tmp_path / "shared")
    if request.param == "memory":
        url = f"memory://{uuid.uuid4().hex}/store"
    if request.param == "s3":
        place = bucket_of(request.getfixturevalue("s3_server"))
        for name, value in place.environment.items():
            monkeypatch.setenv(name, value)
        url = place.url
    return Place(*(Results.beside(Artifacts.open(url, cache=tmp_path / home), tmp_path / home) for home in "ab"))


def test_what_one_machine_writes_another_reads(place: Place) -> None:
    place.here.write(KEY, b"{}")
    assert place.there.read(KEY) == b"{}"


def test_there_is_no_record_that_nobody_wrote(place: Place) -> None:
    assert place.here.read(KEY) is None


def test_a_record_is_replaced_as_a_whole(place: Place) -> None:
    place.here.write(KEY, b"a long first record")
    place.there.write(KEY, b"{}")
    assert place.here.read(KEY) == b"{}"


def test_a_removed_record_is_gone_and_may_be_removed_again(place: Place) -> None:
    place.here.write(KEY, b"{}")
    assert (place.there.remove(KEY), place.there.remove(KEY), place.here.read(KEY)) == (True, True, None)


def test_a_record_that_has_served_since_is_not_removed(place: Place) -> None:
    place.here.write(KEY, b"{}")
    assert (place.there.remove(KEY, before=LONG_AGO), place.here.read(KEY)) == (False, b"{}")


def test_a_listing_tells_name_size_and_age(place: Place) -> None:
    place.here.write(KEY, b"{}")
    [found] = place.there.listed()
    assert (found.name, found.size) == (KEY, 2)
    assert abs(found.modified - datetime.now(UTC)) < timedelta(minutes=5)


def test_nothing_is_listed_where_nothing_was_written(place: Place) -> None:
    assert list(place.here.listed()) == []


def test_an_old_record_that_serves_is_young_again(tmp_path: Path) -> None:
    results = Results(Folder(tmp_path))
    results.write(KEY, b"{}")
    os.utime(tmp_path / RESULTS / KEY, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
    results.renew(KEY, b"{}")
    [found] = results.listed()
    assert found.modified > LONG_AGO


def test_a_young_record_that_serves_is_left_alone(tmp_path: Path) -> None:
    results = Results(Folder(tmp_path))
    results.write(KEY, b"{}")
    before = (tmp_path / RESULTS / KEY).stat().st_ino
    results.renew(KEY, b"{}")
    assert (tmp_path / RESULTS / KEY).stat().st_ino == before


@pytest.mark.parametrize(
    ("store", "expected"),
    [("home/store", "home/results"), ("shared", "shared/results"), ("memory://b/store", None)],
    ids=["in the home", "a folder that machines share", "an object store"],
)
def test_records_lie_where_the_artifacts_are_shared(store: str, expected: str | None, tmp_path: Path) -> None:
    where = store if "://" in store else tmp_path / store
    results = Results.beside(Artifacts.open(where, cache=tmp_path / "cache"), tmp_path / "home")
    assert results.folder == (tmp_path / expected if expected else None)


def test_a_backup_brings_the_records_of_an_object_store_to_another(tmp_path: Path) -> None:
    old, new = (Artifacts.open(f"memory://{uuid.uuid4().hex}/store", cache=tmp_path / name) for name in ("old", "new"))
    Results.beside(old, tmp_path / "home").write(KEY, b"{}")
    backup(tmp_path / "home", old, None, tmp_path / "backup.tar")
    assert restore(tmp_path / "backup.tar", tmp_path / "home", new, None).results == 1
    assert Results.beside(new, tmp_path / "home").read(KEY) == b"{}"
