from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from pydantic import BaseModel

from storage import segments
from storage.index import Generation, is_current, open_index
from storage.publishing import publish_segments
from storage.records import Ref
from storage.segments import CatalogueEntry, pack_segment
from storage.storage_errors import DamagedIndex, NotAnIndex, StoreUnreachable, WrongEmbedder
from tests.storage.publishing import publish


class Piece(BaseModel):
    document: str
    text: str


def content(texts: list[str], **other: Any) -> dict[str, Any]:
    """One document per first letter of a text; `other` replaces parts."""
    documents = sorted({text[0] for text in texts})
    vectors = np.random.default_rng(len(texts)).standard_normal((len(texts), 8))
    return {
        "chunks": [Piece(document=text[0] * 64, text=text) for text in texts],
        "vectors": (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16),
        "tokens": [text.split() for text in texts],
        "catalogue": [CatalogueEntry(document=name * 64, name=f"{name}.pdf") for name in documents],
        "embedder": "minilm@1:fp32",
        "tokenizer": "bigram",
        "settings": {"chunk_chars": 800},
    } | other


OLD, NEW = ["a first text", "b second text"], ["a first text", "b second text", "c third 글"]


def put(out: Path, texts: list[str]) -> Generation:
    return publish(out, **content(texts))


def files_of(out: Path) -> dict[str, str]:
    folder = out / "generations" / json.loads((out / "CURRENT").read_text())["generation"]
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def generations(out: Path) -> list[str]:
    return sorted(path.name.partition("-")[0] for path in (out / "generations").iterdir())


def test_an_index_of_a_former_format_is_refused_by_name_and_replaced_by_publishing(tmp_path: Path) -> None:
    put(tmp_path, NEW)
    pointer = json.loads((tmp_path / "CURRENT").read_text())
    manifest = tmp_path / "generations" / pointer["generation"] / "manifest.json"
    manifest.write_text(json.dumps({"format": "trivet-index", "version": 1, "files": {}}))
    pointer["manifest"] = hashlib.sha256(manifest.read_bytes()).hexdigest()
    (tmp_path / "CURRENT").write_text(json.dumps(pointer))
    said = f"{tmp_path} was written by an older version; run `trivet rag index` again to replace it"
    with pytest.raises(NotAnIndex, match=re.escape(said)):
        open_index(tmp_path)
    assert put(tmp_path, NEW).created
    open_index(tmp_path).verify()


def large(count: int, *, first: str = "") -> dict[str, Any]:
    """Documents of three chunks each, whose digests are spread as SHA-256 spreads them."""
    names = [first or "0", *map(str, range(1, count))]
    documents = sorted(hashlib.sha256(name.encode()).hexdigest() for name in names)
    chunks = [Piece(document=document, text=f"{document[:9]} part {at}") for document in documents for at in range(3)]
    vectors = np.array([np.frombuffer(hashlib.sha256(one.text.encode()).digest(), np.int8) for one in chunks])
    unit = vectors / np.linalg.norm(vectors.astype(np.float32), axis=1, keepdims=True)
    return content(
        [],
        chunks=chunks,
        vectors=unit.astype(np.float16),
        tokens=[one.text.split() for one in chunks],
        catalogue=[CatalogueEntry(document=document, name=document[:9]) for document in documents],
    )


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MOST_CHUNKS", 40)


def inodes(out: Path) -> dict[str, int]:
    folder = out / "generations" / json.loads((out / "CURRENT").read_text())["generation"]
    return {path.name: path.stat().st_ino for path in (folder / "files").iterdir()}


@pytest.mark.usefixtures("small_segments")
def test_a_document_that_changes_rewrites_only_its_segments(tmp_path: Path) -> None:
    publish(tmp_path, **large(80))
    before = inodes(tmp_path)
    publish(tmp_path, **large(80, first="another"))
    after = inodes(tmp_path)
    new = [name for name, _ in after.items() - before.items() if name.endswith("text")]
    assert len(new) in (1, 2)  # the segment that it left and the one that it came to
    assert sum(name.endswith("text") for name in before) > 8
    with open_index(tmp_path) as index:
        index.verify()
        at = len(index) // 2
        assert json.loads(index.chunk(at))["document"] == index.document(at).document
        assert index.lexical
        assert at in index.lexical.search(json.loads(index.chunk(at))["text"].split(), 3).rows
        own = index.vectors.reconstruct(np.array([at]))[0]
        assert index.vectors.search(own, 1).rows.tolist() == [at]


def test_the_bytes_depend_on_the_content_alone(tmp_path: Path) -> None:
    put(tmp_path / "one", NEW)
    put(tmp_path / "two", OLD)
    put(tmp_path / "two", NEW)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


def test_only_the_current_and_the_previous_generation_are_kept(tmp_path: Path) -> None:
    for count in range(1, 5):
        put(tmp_path, [f"a text {number}" for number in range(count)])
    assert generations(tmp_path) == ["000003", "000004"]


def test_another_embedder_is_refused_with_both_names(tmp_path: Path) -> None:
    put(tmp_path, OLD)
    with pytest.raises(WrongEmbedder, match=r"minilm@1:fp32.*bge-m3"):
        open_index(tmp_path, embedder="bge-m3")


def file_of(out: Path, generation: Generation, kind: str) -> Path:
    [path] = (out / "generations" / generation.id).rglob(f"*{kind}*")
    return path


def test_a_flipped_bit_is_found_by_verify_and_mended_by_publishing(tmp_path: Path) -> None:
    path = file_of(tmp_path, put(tmp_path, OLD), "segment-text")
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    with open_index(tmp_path) as index, pytest.raises(DamagedIndex, match="segment-text fails its checksum"):
        index.verify()
    assert put(tmp_path, OLD).created
    open_index(tmp_path).verify()


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.docx").write_text("mine")
    with pytest.raises(NotAnIndex, match=r"thesis\.docx"):
        put(tmp_path, OLD)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.docx"]


def publish_with_little_room(out: Path) -> None:
    """Ends with code 7 if that is refused as it should be."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))  # acts as a full disk
    try:
        put(out, [f"a text {number}" for number in range(2_000)])
    except StoreUnreachable:
        sys.exit(7)


def publish_until_killed(out: Path) -> None:
    """Says on stdout when it has begun to write, and never ends."""

    def written(_: Ref) -> Path:
        sys.stdout.write("writing\n")
        sys.stdout.flush()
        time.sleep(60)
        raise AssertionError

    publish_segments(
        out,
        segments=[pack_segment(()).segment],
        path_of=written,
        catalogue=(),
        embedder="made@1",
        tokenizer=None,
        settings={},
    )


def publish_often(out: Path) -> None:
    for count in range(1, 9):
        put(out, [f"{os.getpid()} text {number}" for number in range(count)])


def start(work: Callable[[Path], None], out: Path) -> subprocess.Popen[str]:
    """Run a function of this file in a process of its own."""
    command = [sys.executable, __file__, work.__name__, str(out)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_a_full_disk_leaves_the_old_generation(tmp_path: Path) -> None:
    old = put(tmp_path, OLD)
    with start(publish_with_little_room, tmp_path) as process:
        assert process.wait(60) == 7
    assert is_current(tmp_path, old.digest)
    assert generations(tmp_path) == ["000001"]


def test_a_killed_build_leaves_the_old_generation_and_is_cleared_away(tmp_path: Path) -> None:
    old = put(tmp_path, OLD)
    with start(publish_until_killed, tmp_path) as builder:
        assert builder.stdout is not None
        assert builder.stdout.readline() == "writing\n"
        builder.kill()
    assert is_current(tmp_path, old.digest)
    assert len(generations(tmp_path)) == 2
    put(tmp_path, NEW)
    assert generations(tmp_path) == ["000001", "000002"]


def test_two_publishers_and_a_reader_see_only_whole_generations(tmp_path: Path) -> None:
    put(tmp_path, OLD)
    with start(publish_often, tmp_path) as one, start(publish_often, tmp_path) as other:
        while one.poll() is None or other.poll() is None:
            with open_index(tmp_path) as index:
                index.verify()
    assert (one.returncode, other.returncode) == (0, 0)
    assert len(generations(tmp_path)) <= 3  # two, and what the reader held at the last switch


if __name__ == "__main__":
    {work.__name__: work for work in (publish_with_little_room, publish_until_killed, publish_often)}[sys.argv[1]](
        Path(sys.argv[2])
    )


def test_numbers_that_an_older_version_wrote_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.index.has_content", lambda *_: True)  # that version knew their digest
    put(tmp_path, NEW)
    index = open_index(tmp_path)
    [path] = tmp_path.rglob("*.segment-numbers")
    duckdb.execute(
        f"COPY (SELECT * EXCLUDE (doubt, statement) FROM read_parquet('{path}')) TO '{path}.old' (FORMAT parquet)"
    )
    Path(f"{path}.old").replace(path)
    with pytest.raises(NotAnIndex, match=r"older version, without doubt, statement; run `trivet rag index` again"):
        _ = index.numbers
