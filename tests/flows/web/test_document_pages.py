"""Documents with their status, and the numbers of their tables."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from storage.segments import CatalogueEntry
from tasks.rag.indexing.chunks import Chunk
from tests.flows.asks import digest
from tests.flows.web.served import Site, site
from tests.storage.publishing import publish

SCRIPT = "<script>alert(1)</script>"
ROWS = 150


def number(n: int) -> bytes:
    row = {
        "document": digest("a.pdf"),
        "value": f"{n}.5",
        "shown": str(n),
        "scale": "1",
        "unit": "USD",
        "sign": "plain",
        "period": {"kind": "year", "start": "2020-01-01", "end": "2020-12-31", "label": "2020", "year": 2020 + n % 2},
        "row_path": ["Sales", f"{SCRIPT}{n}"],
        "column_path": ["2020"],
        "page": 2,
        "bbox": [1.0, 2.0, 3.0, 4.0],
        "cells": None,
        "table": 0,
        "row": n,
        "col": 1,
        "identities": [],
        "statement": "income",
        "doubt": "",
    }
    return json.dumps(row).encode() + b"\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("documents")
    chunk = Chunk(id="a", document=digest("a.pdf"), page=1, bbox=None, kind="text", text="words")
    bad = CatalogueEntry(document=digest("bad"), name=f"{SCRIPT}.pdf", status="encrypted")
    publish(
        folder / "index",
        chunks=[chunk],
        catalogue=[CatalogueEntry(document=digest("a.pdf"), name="a.pdf", chunks=1, pages=3, format="pdf"), bad],
        settings={"embedder": "minilm"},
        numbers=map(number, range(ROWS)),
    )
    with site(folder / "index", folder / "home", {}) as running:
        yield running


def test_documents_tell_what_became_of_them_and_are_filtered(served: Site) -> None:
    page = served.get("/ui/documents").text
    assert ("a.pdf</a>" in page, "encrypted" in page, SCRIPT in page) == (True, True, False)
    assert "a.pdf</a>" not in served.get("/ui/documents?only=failed").text
    assert "No document fits" in served.get("/ui/documents?words=nothing").text


def test_numbers_come_page_by_page_and_filtered(served: Site) -> None:
    first = served.get("/ui/numbers").text
    rest = served.get("/ui/numbers?first=100").text
    assert [page.count('<th scope="row">') for page in (first, rest)] == [100, 50]
    assert served.get("/ui/numbers?period=2021").text.count('<th scope="row">') == 75
    assert SCRIPT not in first
    assert f"/ui/why?chunk={digest('a.pdf')[:16]}%3A0%3A7%3A1" in first  # document, table, row, column


@pytest.mark.parametrize("query", ["period=lately", "first=-1", "first=x", "period=2021..2019"])
def test_filters_that_mean_nothing_are_sentences(served: Site, query: str) -> None:
    assert served.get(f"/ui/numbers?{query}").status_code in (404, 422)


def test_numbers_are_downloaded_with_the_same_filters_and_programs_read_the_same(served: Site) -> None:
    reply = served.get("/ui/numbers.csv?period=2021")
    assert reply.headers["content-disposition"].startswith("attachment")
    assert len(reply.text.strip().splitlines()) == 1 + 75
    [first, *_] = served.program("/numbers?most=1").json()["numbers"]
    assert (first["value"], first["unit"], first["period"], first["page"]) == ("0.5", "USD", "2020", 2)
