"""What every place that an index is kept in must do: a folder, and each engine."""

from __future__ import annotations

import hashlib
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import BaseModel
from rank_bm25 import BM25Okapi

from storage import segments
from storage.embedded import Cluster
from storage.engines import place_of
from storage.index import CatalogueEntry, open_index, publish
from tests.conftest import HOME

WORDS = ["profit", "loss", "revenue", "tender", "budget", "예산", "공고", "사업", "deadline", "points", "ledger"]
DOCUMENTS, CHUNKS, WIDE = 24, 5, 32


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


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MOST_CHUNKS", 40)


def postgres(home: Path) -> Path:
    url = Cluster(HOME).start()
    return place_of(f"{url}&schema=t{uuid.uuid4().hex[:8]}", home)


PLACES = {"folder": lambda home: home / "index", "postgres": postgres}


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return PLACES[request.param](tmp_path)


def test_words_are_ranked_as_rank_bm25_ranks_them(place: Path) -> None:
    made = content()
    publish(place, **made)
    okapi: Any = BM25Okapi(made["tokens"])
    with open_index(place) as index:
        assert index.lexical
        for query in (["profit", "예산"], ["only03", "points", "points"], ["nowhere"]):
            wanted = okapi.get_scores(query)
            best = index.lexical.search(query, 20)
            assert best.scores == pytest.approx(np.sort(wanted[wanted > 0])[::-1][:20], abs=1e-6)
            assert best.scores == pytest.approx(wanted[best.rows], abs=1e-6)
