"""The recipe `add_a_retrieval_strategy.md`, followed outside the repository: a package adds a way to rank chunks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storage.segments import CatalogueEntry
from tasks.rag.indexing.chunks import Chunk
from tests.command import run_apart
from tests.recipes.packages import Package
from tests.storage.publishing import publish

TEXTS = (
    ("harbor.pdf", "The bid price of the harbor: bid price 35 million won, a bid price without tax."),
    ("harbor.pdf", "The bid price is the bid price of the harbor, paid once."),
    ("tram.pdf", "A tram is built by the city, and the bid price is told in the annex of its contract."),
    ("bridge.pdf", "The bridge opens in May. It was painted last year by a company of the region."),
)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Two chunks of one document hold the question's words best, a third of another holds them too."""
    digests = {name: name.encode().hex().ljust(64, "0")[:64] for name, _ in TEXTS}
    chunks = [
        Chunk(id=f"{digests[name][:16]}-{n:05}", document=digests[name], page=1, bbox=None, kind="text", text=text)
        for n, (name, text) in enumerate(TEXTS)
    ]
    publish(
        tmp_path / "index",
        chunks=chunks,
        catalogue=[CatalogueEntry(document=digest, name=name, chunks=1) for name, digest in digests.items()],
        settings={"embedder": "minilm"},
    )
    return tmp_path / "index"


def found(package: Package, index: Path, strategy: str) -> list[str]:
    asked = ("rag", "search", "bid price", "--index", index, "--strategy", strategy, "--top-k", 2, "--json")
    return [hit["document"] for hit in package.run(*asked).json["hits"]]


def test_the_strategy_ranks_the_chunks_of_a_search(package: Package, index: Path) -> None:
    assert found(package, index, "bm25") == ["harbor.pdf", "harbor.pdf"]
    assert found(package, index, "one_each") == ["harbor.pdf", "tram.pdf"]


def test_help_and_a_wrong_name_list_the_strategy(package: Package) -> None:
    assert "one_each" in package.run("rag", "search", "--help").stdout
    wrong = package.run("rag", "search", "q", "--index", "x", "--strategy", "psychic")
    assert "'similarity', 'mmr', 'bm25', 'rrf', 'one_each'" in wrong.stderr


def test_an_answer_is_planned_and_measured_with_it(package: Package, index: Path, tmp_path: Path) -> None:
    asked = package.run("rag", "ask", "What is the bid price?", "--index", index, "--strategy", "one_each", "--json")
    assert asked.json["plan"]["strategy"] == "one_each"
    questions = tmp_path / "questions.jsonl"
    questions.write_text(json.dumps({"id": "1", "question": "bid price", "document": "tram.pdf", "pages": [1]}))
    measured = package.run("rag", "eval", questions, "--index", index, "--strategy", "one_each", "--no-store", "--json")
    assert measured.json["page"]["mrr@10"]["value"] == 0.5


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("import no_such_module", "cannot be imported (ModuleNotFoundError"),
        ("ONE_EACH = 'x'", "expected a tasks.rag.retrieval.strategies.RetrievalStrategy, found str"),
    ],
    ids=["broken", "no strategy"],
)
def test_a_package_that_cannot_be_used_is_named_when_it_is_asked_for(
    package: Package, index: Path, module: str, said: str
) -> None:
    (package.site / "my_retriever.py").write_text(module)

    refused = package.run("rag", "search", "q", "--index", index, "--strategy", "one_each")

    assert refused.code == 2
    assert "entry point one_each = my_retriever:ONE_EACH:" in refused.stderr
    assert said in " ".join(refused.stderr.split())
    assert found(package, index, "bm25") == ["harbor.pdf", "harbor.pdf"]


def test_without_the_package_there_is_no_such_strategy(index: Path) -> None:
    assert run_apart("rag", "search", "q", "--index", index, "--strategy", "one_each").code == 2
