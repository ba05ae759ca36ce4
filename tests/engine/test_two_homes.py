"""Two machines with homes of their own and one store: what one has done, the other need not do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from storage.index import open_index
from tests.command import Done, run_apart
from tests.storage.buckets import Bucket, bucket_of, s3

pytestmark = [pytest.mark.engine, pytest.mark.slow]


class Machine(NamedTuple):
    """A home, and the index that is made there."""

    home: Path
    done: Done

    @property
    def parsed(self) -> list[str]:
        """What parser children noted."""
        log = self.home / "logs" / "documents.log"
        return log.read_text().splitlines() if log.exists() else []

    @property
    def digest(self) -> str:
        with open_index(self.home / "index") as index:
            return index.digest


@pytest.fixture(scope="module")
def store() -> Iterator[Bucket]:
    with s3() as server:
        yield bucket_of(server, key="hunter2", secret="hunter3")


@pytest.fixture(scope="module")
def machines(store: Bucket, tmp_path_factory: pytest.TempPathFactory) -> list[Machine]:
    """Two that index the same documents, one after the other."""
    documents = tmp_path_factory.mktemp("documents")
    for word in ("zirconium", "hafnium"):
        (documents / f"{word}.txt").write_text(f"The {word} budget is 41,000 won.")
    homes = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
    return [Machine(home, _index(documents, home, store)) for home in homes]


def _index(documents: Path, home: Path, store: Bucket) -> Done:
    own = {"TRIVET_HOME": str(home), "TRIVET_STORE": store.url}
    environment = own | store.environment
    return run_apart("rag", "index", documents, "--index", home / "index", "--json", before=None, **environment)


def test_the_second_machine_finds_what_the_first_has_done(machines: list[Machine]) -> None:
    first, second = machines
    assert (first.done.code, second.done.code) == (0, 0), first.done.stderr + second.done.stderr
    assert first.parsed
    assert second.parsed == []
    assert second.digest == first.digest


def test_no_record_lies_in_a_home(machines: list[Machine]) -> None:
    assert [(machine.home / "results").exists() for machine in machines] == [False, False]


def test_no_record_tells_how_to_get_into_the_store(
    machines: list[Machine], store: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    from storage.artifacts import Artifacts, Results

    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    results = Results.of_store(Artifacts.open(store.url, cache=machines[0].home / "cache"), machines[0].home)
    records = [results.read(each.name) or b"" for each in results.records()]
    assert records
    assert not [record for record in records if b"hunter" in record]
