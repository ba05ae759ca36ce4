"""The records of steps, wherever they lie: a folder, memory, or S3 (a server in this process)."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from storage.artifacts import RESULTS, Artifacts, Folder, Results
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
    return Place(*(Results.of_store(Artifacts.open(url, cache=tmp_path / home), tmp_path / home) for home in "ab"))


def test_what_one_machine_writes_another_reads(place: Place) -> None:
    place.here.write(KEY, b"{}")
    assert place.there.read(KEY) == b"{}"


def test_a_listing_tells_name_size_and_age(place: Place) -> None:
    place.here.write(KEY, b"{}")
    [found] = place.there.records()
    assert (found.name, found.size) == (KEY, 2)
    assert abs(found.modified - datetime.now(UTC)) < timedelta(minutes=5)


def test_an_old_record_that_serves_is_young_again(tmp_path: Path) -> None:
    results = Results(Folder(tmp_path))
    results.write(KEY, b"{}")
    os.utime(tmp_path / RESULTS / KEY, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
    results.renew(KEY, b"{}")
    [found] = results.records()
    assert found.modified > LONG_AGO


@pytest.mark.parametrize(
    ("store", "expected"),
    [("home/store", "home/results"), ("shared", "shared/results"), ("memory://b/store", None)],
    ids=["in the home", "a folder that machines share", "an object store"],
)
def test_records_lie_where_the_artifacts_are_shared(store: str, expected: str | None, tmp_path: Path) -> None:
    where = store if "://" in store else tmp_path / store
    results = Results.of_store(Artifacts.open(where, cache=tmp_path / "cache"), tmp_path / "home")
    assert results.folder == (tmp_path / expected if expected else None)
