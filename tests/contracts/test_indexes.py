"""What every place that an index is kept in must do: a folder, and each engine."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import BaseModel
from rank_bm25 import BM25Okapi

from flows.service.live_index import LiveIndex
from storage import segments
from storage.embedded import Cluster
from storage.engines import ENGINE_FILE, engine_of, is_address, place_of, read_address
from storage.index import claim, is_current, open_index, pointer_of
from storage.numbers import query_numbers
from storage.publishing import publish_segments
from storage.records import Ref
from storage.segments import CatalogueEntry, DocumentContent, pack_segment
from storage.storage_errors import EngineAway, IndexUnusable, NotAnIndex
from storage.vectors import Centres
from tests.conftest import HOME
from tests.storage.publishing import publish

WORDS = ["profit", "loss", "revenue", "tender", "budget", "예산", "공고", "사업", "deadline", "points", "ledger"]
DOCUMENTS, CHUNKS, WIDE = 24, 5, 32
CELL = {"document": hashlib.sha256(b"03").hexdigest(), "value": "1099.4", "shown": "1,099.4", "row_path": ["Sales"]}


class Piece(BaseModel):
    document: str
    text: str


def content(*, changed: int = 0) -> dict[str, Any]:
    """Documents of a few chunks each; `changed` gives the last document another text and digest."""
    random = np.random.default_rng(7)
    chunks, tokens, entries, unit = list[Piece](), list[list[str]](), list[CatalogueEntry](), list[NDArray[Any]]()
    names = [f"{at:02d}{f'-{changed}' if changed and at == DOCUMENTS - 1 else ''}" for at in range(DOCUMENTS)]
    for name in sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest()):
        document = hashlib.sha256(name.encode()).hexdigest()
        entries.append(CatalogueEntry(document=document, name=f"{name}.pdf", chunks=CHUNKS))
        for at in range(CHUNKS):
            said = [f"only{name}", *random.choice(WORDS, random.integers(3, 30)).tolist()]
            vector = random.standard_normal(WIDE)
            chunks.append(Piece(document=document, text=f"{at} {' '.join(said)}"))
            tokens.append(said)
            unit.append(vector / np.linalg.norm(vector))
    return {
        "chunks": chunks,
        "vectors": np.array(unit, np.float16),
        "tokens": tokens,
        "catalogue": entries,
        "embedder": "minilm@1:fp32",
        "tokenizer": "bigram",
        "settings": {"chunk_chars": 800},
    }


@pytest.fixture(autouse=True, scope="module")
def _small_segments() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "MOST_CHUNKS", 40)
        yield


def folder(home: Path) -> Path:
    return home / "index"


def postgres(home: Path) -> Path:
    return place_of(f"{Cluster(HOME).start()}&schema=t{uuid.uuid4().hex[:8]}", home)


PLACES: dict[str, Callable[[Path], Path]] = {"folder": folder, "postgres": postgres}
LAST_STEP = {"folder": "storage.publishing._switch", "postgres": "storage.pg_index.PostgresEngine._sweep"}
"""What a publisher does last."""


KINDS = [pytest.param(name, marks=pytest.mark.postgres) if name == "postgres" else name for name in PLACES]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def place(kind: str, tmp_path: Path) -> Path:
    return PLACES[kind](tmp_path)


@pytest.fixture(scope="module", params=KINDS)
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with `content()`, for tests that only read."""
    place = PLACES[request.param](tmp_path_factory.mktemp("published"))
    publish(place, **content(), numbers=[json.dumps(CELL).encode() + b"\n"])
    return place


def generations_in(place: Path) -> int:
    """How many generations are kept."""
    engine: Any = engine_of(place)
    if engine is None:
        return len(list(place.glob("generations/0*")))
    with engine.cursor() as cursor:
        return len(cursor.execute("SELECT FROM generations").fetchall())


def test_words_are_ranked_as_rank_bm25_ranks_them(published: Path) -> None:
    made = content()
    okapi: Any = BM25Okapi(made["tokens"])
    with open_index(published) as index:
        assert index.lexical
        for query in (["profit", "예산"], ["only03", "points", "points"], ["nowhere"]):
            wanted = okapi.get_scores(query)
            best = index.lexical.search(query, 20)
            assert best.scores == pytest.approx(np.sort(wanted[wanted > 0])[::-1][:20], abs=1e-6)
            assert best.scores == pytest.approx(wanted[best.rows], abs=1e-6)


def test_words_of_the_ranking_by_documents_stand_where_the_folder_has_them(published: Path, tmp_path: Path) -> None:
    publish(tmp_path / "other", **content())
    with open_index(published) as index, open_index(tmp_path / "other") as folder:
        assert index.lexical
        assert folder.lexical
        for word in ("budget", "only07"):
            posting, wanted = index.lexical.posting(word), folder.lexical.posting(word)
            assert posting
            assert wanted
            assert posting.rows.tolist() == wanted.rows.tolist()
            assert posting.weights == pytest.approx(wanted.weights, abs=1e-9)
        assert index.lexical.posting("nowhere") is None


def test_vectors_are_ranked_exactly(published: Path) -> None:
    made = content()
    stored = made["vectors"].astype(np.float32)
    with open_index(published) as index:
        for at in (0, 77):
            query = stored[at] + 0.1
            scores = stored @ query
            found = index.vectors.search(query, 15)
            assert found.rows.tolist() == np.argsort(-scores, kind="stable")[:15].tolist()
            assert found.scores == pytest.approx(scores[found.rows], abs=1e-5)
        rows = np.array([80, 3, 3, 119])
        assert index.vectors.reconstruct(rows).tolist() == stored[rows].tolist()
        with pytest.raises(ValueError, match="holds vectors of 32 numbers"):
            index.vectors.search(query[:5], 3)


def test_lists_of_centres_find_what_a_folder_finds_in_them(place: Path, tmp_path: Path) -> None:
    made = content()
    stored = made["vectors"].astype(np.float32)
    grouped = Centres(stored[::15].copy(), 2, len(stored))
    centres = Ref.of("centres", grouped.pack())
    files = [(centres, grouped.pack())]
    entries = {entry.document: entry for entry in made["catalogue"]}
    held = [
        DocumentContent(name, [b"{}"] * CHUNKS, made["vectors"][at : at + CHUNKS], made["tokens"][at : at + CHUNKS])
        for at, name in zip(range(0, len(stored), CHUNKS), entries, strict=True)
    ]
    packed = [pack_segment(part, centres=grouped) for part in (held[:11], held[11:])]
    for one in packed:
        files += one.files.items()
    for ref, data in files:
        (tmp_path / ref.digest).write_bytes(data)
    for out in (place, tmp_path / "other"):
        publish_segments(
            out,
            segments=[one.segment for one in packed],
            path_of=lambda ref: tmp_path / ref.digest,
            centres=centres,
            **{name: made[name] for name in ("catalogue", "embedder", "tokenizer", "settings")},
        )
    with open_index(place) as index, open_index(tmp_path / "other") as folder:
        for query in (stored[4], stored[70] + 0.2):
            for k in (6, len(stored)):  # the probed lists hold fewer than all rows
                found, wanted = index.vectors.search(query, k), folder.vectors.search(query, k)
                assert found.rows.tolist() == wanted.rows.tolist()
                assert found.scores == pytest.approx(wanted.scores, abs=1e-5)


def test_a_filter_is_applied_before_the_best_are_taken(published: Path) -> None:
    made = content()
    stored, query = made["vectors"].astype(np.float32), made["vectors"][40].astype(np.float32)
    with open_index(published) as index:
        assert index.lexical
        allowed = index.rows_of([index.document(row).document for row in (10, 60, 100)])
        allowed[62] = False
        assert allowed.sum() == 14
        near = index.vectors.search(query, 20, allowed=allowed)
        assert near.rows.tolist() == sorted(np.flatnonzero(allowed), key=lambda row: -(stored[row] @ query))
        okapi: Any = BM25Okapi(made["tokens"])
        wanted = np.where(allowed, okapi.get_scores(["budget", "loss"]), 0)
        best = index.lexical.search(["budget", "loss"], 20, allowed=allowed)
        assert sorted(best.rows) == np.flatnonzero(wanted > 0).tolist()
        assert best.scores == pytest.approx(wanted[best.rows], abs=1e-6)
        assert not len(index.lexical.search(["budget"], 5, allowed=np.zeros(len(index), np.bool_)).rows)


def test_chunks_and_documents_are_told_by_row_and_by_digest(published: Path) -> None:
    made = content()
    with open_index(published) as index:
        assert [json.loads(index.chunk(row))["text"] for row in range(len(index))] == [
            one.text for one in made["chunks"]
        ]
        assert [index.document(row).document for row in range(len(index))] == [one.document for one in made["chunks"]]
        assert tuple(index.catalogue) == tuple(made["catalogue"])
        entry = made["catalogue"][5]
        assert index.entry(entry.document) == entry
        assert index.names[entry.document] == entry.name
        assert index.entry("0" * 64) is None


def test_numbers_are_those_that_were_published(published: Path) -> None:
    with open_index(published) as index:
        found = query_numbers(index.numbers, index.names, "SELECT name, value FROM numbers").rows
    assert [(name, float(value)) for name, value in found] == [("03.pdf", 1099.4)]


def test_equal_content_has_the_digest_that_a_folder_gives_it_and_is_not_published_twice(
    place: Path, tmp_path: Path
) -> None:
    wanted = publish(tmp_path / "other", **content())
    made = publish(place, **content())
    assert (made.digest, made.created) == (wanted.digest, True)
    assert publish(place, **content()) == made.model_copy(update={"created": False})
    assert is_current(place, wanted.digest)
    assert not is_current(place, "0" * 64)


def test_a_reader_keeps_its_generation_while_others_are_published(place: Path) -> None:
    publish(place, **content())
    with open_index(place) as reader:
        for changed in (1, 2, 3):
            publish(place, **content(changed=changed))
        assert reader.lexical
        assert len(reader.lexical.search(["only23"], 9).rows) == CHUNKS
        assert json.loads(reader.chunk(len(reader) - 1))["text"]
        assert len(reader.vectors.search(np.ones(WIDE, np.float32), 200).rows) == DOCUMENTS * CHUNKS
        with open_index(place) as now:
            assert now.lexical
            assert not len(now.lexical.search(["only23"], 9).rows)
            assert len(now.lexical.search(["only23-3"], 9).rows) == CHUNKS
            assert now.digest == pointer_of(place).manifest != reader.digest
    publish(place, **content(changed=4))
    assert generations_in(place) == 2  # nobody reads the others any more


def test_an_index_without_chunks_finds_nothing(place: Path) -> None:
    empty: dict[str, Any] = {"chunks": [], "vectors": np.empty((0, WIDE), np.float16), "tokens": []}
    publish(place, **content() | empty)
    with open_index(place) as index:
        assert len(index) == 0
        assert index.lexical
        assert not len(index.lexical.search(["budget"], 3).rows)
        assert not len(index.vectors.search(np.ones(WIDE, np.float32), 3).rows)
        assert len(index.catalogue) == DOCUMENTS


def test_a_place_without_an_index_says_how_to_make_one(place: Path) -> None:
    with pytest.raises(NotAnIndex, match="`trivet rag index …"):
        open_index(place)
    claim(place)
    with pytest.raises(NotAnIndex, match="holds no finished index; run `trivet rag index"):
        open_index(place)


def test_a_publisher_that_fails_at_the_end_leaves_the_old_generation(
    kind: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = publish(place, **content())
    monkeypatch.setattr(LAST_STEP[kind], lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        publish(place, **content(changed=1))
    monkeypatch.undo()
    assert is_current(place, old.digest)
    assert publish(place, **content(changed=1)).created


def test_an_engine_that_is_away_is_one_sentence_without_a_password(tmp_path: Path) -> None:
    address = read_address("postgresql://me:s3cret@127.0.0.1:1/trivet?sslpassword=s3cret")
    place = place_of(address.url, tmp_path)
    for use in (open_index, claim, pointer_of):
        with pytest.raises(EngineAway, match=r"^the index at .* cannot be used: .*; see that the") as said:
            use(place)
        assert "\n" not in str(said.value)
        assert "s3cret" not in str(said.value)
    assert all(b"s3cret" not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_server_tells_that_the_engine_is_away(tmp_path: Path) -> None:
    place = folder(tmp_path)
    publish(place, **content())

    @contextmanager
    def current() -> Generator[Any]:
        with open_index(place) as index:
            yield SimpleNamespace(index=index)

    live = LiveIndex(place, current)
    with live.borrow() as opened:
        assert len(opened.index.catalogue) == DOCUMENTS
    (place / ENGINE_FILE).write_text(json.dumps({"address": "postgresql://me@127.0.0.1:1/trivet"}))
    with pytest.raises(EngineAway), live.borrow():
        pass
    live.close()


@pytest.mark.postgres
def test_a_schema_of_the_last_version_is_refused_by_name_and_upgraded_by_publishing(tmp_path: Path) -> None:
    place = postgres(tmp_path)
    made = publish(place, **content())
    engine: Any = engine_of(place)
    with engine.cursor() as cursor:
        cursor.execute("ALTER TABLE segments ADD documents text[], ADD rows integer[]")
        cursor.execute("CREATE TABLE postings (term bigint)")
        cursor.execute("CREATE TABLE chunks (segment bigint)")
        cursor.execute("DELETE FROM blobs")
    with pytest.raises(IndexUnusable, match="files of its segments; run `trivet rag index` again to put them there"):
        open_index(place)
    assert publish(place, **content()).digest == made.digest
    with open_index(place) as index:
        index.verify()


@pytest.mark.parametrize(
    "word", ["redis://host/1", "postgresql://[bad/x", "lancedb:///folder", "postgresql:me:s3cret@host/x"]
)
def test_an_address_of_no_engine_is_refused(word: str) -> None:
    assert is_address(word)
    with pytest.raises(
        NotAnIndex, match=r"no engine is called redis|cannot be read|no longer kept in LanceDB; index again with"
    ) as refused:
        read_address(word)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("word", ["out", "/data/out", "C:/out", "a:b", "./postgresql:/x"])
def test_a_folder_is_no_address(word: str) -> None:
    assert not is_address(word)
