"""Documents of a corpus as segments: which belong together, and that each segment is made once."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from storage import segments, vectors
from storage.artifacts import Artifacts
from storage.index import open_index
from storage.publishing import publish_segments
from storage.records import Ref
from storage.segments import Segment
from storage.storage_errors import MissingArtifact
from storage.vectors import Vectors
from tasks.rag.corpus import Chunked, Embedded, Searchable
from tasks.rag.indexing.chunks import Chunk
from tasks.rag.indexing.document_stages import find_centres, make_segment, shard_segments

DIMENSION = 8


def embedded(number: int, artifacts: Artifacts, *, chunks: int = 5) -> Embedded:
    """A document of made-up chunks, kept."""
    digest = hashlib.sha256(str(number).encode()).hexdigest()
    texts = [f"{digest[:6]} part {at} of document {number}" for at in range(chunks)]
    held = [
        Chunk(id=f"{digest[:16]}-{at:05d}", document=digest, page=1, bbox=None, kind="text", text=text)
        for at, text in enumerate(texts)
    ]
    tokens = tuple(tuple(text.split()) for text in texts)
    rows = np.random.default_rng(number).standard_normal((chunks, DIMENSION))
    file = io.BytesIO()
    np.save(file, (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16), allow_pickle=False)
    return Embedded(
        chunked=Chunked(
            digest=digest,
            chunks=artifacts.save("chunks", Searchable(chunks=tuple(held), tokens=tokens, tokenizer="bigram")),
            numbers=artifacts.put("numbers", b""),
            count=chunks,
            chars=sum(map(len, texts)),
            shortest=1,
            longest=99,
        ),
        vectors=artifacts.put("vectors", file.getvalue()),
        embedder="minilm@1:fp32",
    )


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MOST_CHUNKS", 40)


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(tmp_path / "home")


def make_all(documents: list[Embedded], artifacts: Artifacts, centres: Ref | None = None) -> list[Segment]:
    return [make_segment(leaf, artifacts, centres=centres) for shard in shard_segments(documents) for leaf in shard]


def test_a_new_document_leaves_all_segments_but_its_own(artifacts: Artifacts) -> None:
    documents = [embedded(number, artifacts) for number in range(90)]
    before, after = (set(make_all(some, artifacts)) for some in (documents[:-1], documents))
    assert len(before) > 12
    assert 1 <= len(after - before) <= 2  # two where its segment is full
    assert make_all(documents[::-1], artifacts) == make_all(documents, artifacts)


def test_a_segment_that_was_made_is_recalled_until_it_is_damaged(artifacts: Artifacts) -> None:
    documents = [embedded(number, artifacts) for number in range(5)]
    [made] = make_all(documents, artifacts)
    lost = artifacts.path(documents[0].vectors)
    lost.rename(lost.with_suffix(".away"))
    assert make_all(documents, artifacts) == [made]
    artifacts.path(made.text).write_bytes(b"damage")
    with pytest.raises(MissingArtifact):
        make_all(documents, artifacts)
    lost.with_suffix(".away").rename(lost)
    assert make_all(documents, artifacts) == [made]


def test_centres_of_an_index_serve_its_next_generation(
    artifacts: Artifacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "RECALL", 0.1)  # so that rows without groups are grouped
    documents = [embedded(number, artifacts) for number in range(60)]
    index = tmp_path / "index"
    made = find_centres(documents, artifacts, index=index)
    publish_segments(
        index,
        segments=make_all(documents, artifacts, made),
        path_of=artifacts.path,
        catalogue=[],
        embedder="e",
        tokenizer=None,
        settings={},
        centres=made,
    )
    with open_index(index) as opened:
        assert isinstance(opened.vectors, Vectors)
        assert opened.vectors.lists
        opened.verify()
    more = [*documents, embedded(60, artifacts)]
    assert find_centres(more, artifacts, index=index) == made
    assert find_centres(more, artifacts, index=tmp_path / "absent") != made


def make_until_killed(home: Path) -> None:
    """Makes 20 segments and more, and says so after each."""
    segments.MOST_CHUNKS = 40
    artifacts = Artifacts(home)
    documents = [embedded(number, artifacts) for number in range(160)]
    for shard in shard_segments(documents):
        for leaf in shard:
            make_segment(leaf, artifacts, centres=None)
            print("made", flush=True)


@pytest.mark.drill
def test_segments_that_were_finished_before_a_kill_are_not_made_again(artifacts: Artifacts) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, __file__, str(artifacts.root)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(7):
            assert process.stdout.readline() == "made\n"
        process.send_signal(signal.SIGKILL)
    finished = {found.ref: found.modified for found in artifacts.objects() if found.ref.kind == "segment"}
    documents = [embedded(number, artifacts) for number in range(160)]
    made = make_all(documents, artifacts)
    after = {found.ref: found.modified for found in artifacts.objects() if found.ref.kind == "segment"}
    assert len(made) >= 20
    assert 7 <= len(finished) < len(made)
    assert finished.items() <= after.items()  # what is put again has another date


if __name__ == "__main__":
    make_until_killed(Path(sys.argv[1]))
