"""What `trivet gc` keeps and removes."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from storage.artifacts import Artifacts, Folder, Results
from storage.cleanup import Cleanup, collect
from storage.embeddings import EmbeddingCache

LATER = datetime.now(UTC) + timedelta(days=30)
KEY = hashlib.sha256(b"inputs").hexdigest()


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Artifacts:
    where = tmp_path / "store" if request.param == "folder" else f"memory://{tmp_path.name}/store"
    return Artifacts.open(where, cache=tmp_path / "cache")


def clean(
    store: Artifacts,
    results: Path,
    *,
    now: datetime = LATER,
    dry_run: bool = False,
    unused_for: timedelta = timedelta(days=7),
) -> Cleanup:
    week = timedelta(days=7)
    return collect(
        store,
        Results(Folder(results.parent)),
        older_than=week,
        unused_for=unused_for,
        now=now,
        dry_run=dry_run,
        embeddings=EmbeddingCache.below(results),
    )


def left(store: Artifacts) -> set[str]:
    return {each.ref.digest for each in store.objects()}


def test_a_key_keeps_its_artifact(store: Artifacts, tmp_path: Path) -> None:
    ref = store.put("document", b"abc")
    store.remember(KEY, ref)
    clean(store, tmp_path / "results")
    assert left(store) == {ref.digest}


def test_a_result_keeps_what_it_mentions_even_in_an_escaped_string(store: Artifacts, tmp_path: Path) -> None:
    ref = store.put("document", b"abc")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "key").write_text(json.dumps({"result": json.dumps({"ref": ref.model_dump()})}))
    clean(store, tmp_path / "results", unused_for=timedelta(days=365))
    assert left(store) == {ref.digest}


def test_a_result_that_serves_no_run_goes_and_what_it_kept_goes_with_it(store: Artifacts, tmp_path: Path) -> None:
    ref = store.put("document", b"abc")
    Results(Folder(tmp_path)).write("key", ref.model_dump_json().encode())
    done = clean(store, tmp_path / "results")
    assert [each.name for each in done.removed] == ["results/key", f"document/{ref.digest}"]
    assert (left(store), done.kept_results) == (set(), 0)


def test_a_manifest_keeps_what_it_mentions_through_others(store: Artifacts, tmp_path: Path) -> None:
    vectors = store.put("vectors", b"\x93NUMPY")
    inner = store.put("chunks", json.dumps([{"digest": vectors.digest}]).encode())
    outer = store.put("manifest", json.dumps({"digest": inner.digest}).encode())
    store.remember(KEY, outer)
    clean(store, tmp_path / "results")
    assert left(store) == {vectors.digest, inner.digest, outer.digest}


def test_unfinished_files_go_after_an_hour_and_damaged_ones_after_the_grace(tmp_path: Path) -> None:
    store = Artifacts(tmp_path)
    ref = store.put("document", b"abc")
    store.path(ref).write_bytes(b"abd")
    assert not store.verify(ref)
    old, young = tmp_path / "objects" / ".writing-old", tmp_path / "objects" / ".writing-young"
    old.write_bytes(b"half")
    young.write_bytes(b"half")
    now = datetime.now(UTC)
    two_hours_ago = (now - timedelta(hours=2)).timestamp()
    os.utime(old, (two_hours_ago, two_hours_ago))
    assert [each.name for each in clean(store, tmp_path / "results", now=now).removed] == ["objects/.writing-old"]
    assert young.exists()
    assert [each.name for each in clean(store, tmp_path / "results").removed] == [
        "objects/.writing-young",
        f"damaged/document-{ref.digest}",
    ]
