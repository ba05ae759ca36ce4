"""What is kept goes by what a model is: another one under the same name is asked anew, another name is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models.registry import VARIABLE
from storage.index import open_index
from tests.command import Done, run_here
from tests.models.cross_encoders import write_random
from tests.models.picture_reader import picture_of
from tests.models.server import MODEL, serving

pytestmark = [pytest.mark.engine, pytest.mark.postgres]

OTHER = "gpt-4o-mini"


@pytest.fixture(autouse=True)
def _clients_are_closed() -> Iterator[None]:
    from tasks.resources import forget

    yield
    forget()


def test_a_renamed_model_leaves_documents_unchanged_and_another_one_describes_them_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pymupdf

    (tmp_path / "documents").mkdir()
    with pymupdf.open() as pdf:
        page = pdf.new_page()
        page.insert_text((72, 72), "A page with a figure of four colours.")
        page.insert_image(
            pymupdf.Rect(100, 150, 400, 450), stream=picture_of(("red", "green", "blue", "red"), side=200)
        )
        pdf.save(tmp_path / "documents" / "colours.pdf")
    file = tmp_path / "models.yaml"
    monkeypatch.setenv(VARIABLE, str(file))

    def index(vlm: str) -> Done:
        folders = (tmp_path / "documents", "--index", tmp_path / "index")
        return run_here("rag", "index", *folders, "--set", "figures.qwen3_vl_min_edge_energy=0", "--vlm", vlm, "--json")

    def entry(model: str, **args: Any) -> dict[str, Any]:
        return {"backend": "openai", "name": model, "base_url": server.base_url, "args": args}

    with serving() as server:
        file.write_text(json.dumps({"mine": entry(MODEL)}))
        first, asked = index("mine"), len(server.requests)
        file.write_text(json.dumps({"ours": entry(MODEL, requests_per_minute=9), "mine": entry(OTHER)}))
        renamed, asked_then = index("ours"), len(server.requests)
        other, models = index("mine"), [request["body"]["model"] for request in server.requests]
        by_hand = index(f'openai:{OTHER},{{"base_url": "{server.base_url}"}}')

    assert first.code == 0, first.stderr
    assert [done.json["documents"]["ok"] for done in (first, renamed, other, by_hand)] == [1, 0, 1, 0]
    assert [done.json["figures"]["described"] for done in (first, renamed, other, by_hand)] == [1, 1, 1, 1]
    assert (asked, asked_then, models) == (1, 1, [MODEL, OTHER])
    assert len(server.requests) == 2
    with open_index(tmp_path / "index") as opened:
        assert "mine" not in json.dumps(opened.manifest.settings)


def test_answers_are_given_anew_when_the_folder_of_the_reranker_holds_other_weights(tmp_path: Path) -> None:
    from tasks.resources import forget

    (tmp_path / "documents").mkdir()
    for colour in ("red", "green"):
        (tmp_path / "documents" / f"{colour}.txt").write_text(f"The price of the {colour} door is high.\n")
    (tmp_path / "questions.jsonl").write_text('{"id": "one", "question": "What is the price of the red door?"}\n')
    reranker, out = write_random(tmp_path / "reranker"), tmp_path / "answers.jsonl"
    assert run_here("rag", "index", tmp_path / "documents", "--index", tmp_path / "index", "--json").code == 0

    def scores() -> list[float]:
        forget()  # as another process would
        options = ("--index", tmp_path / "index", "--out", out, "--rerank", reranker, "--json")
        done = run_here("rag", "batch", tmp_path / "questions.jsonl", *options)
        assert done.code == 0, done.stderr
        return [one["score"] for one in json.loads(out.read_text())["retrieved"]]

    before = scores()
    assert scores() == before
    write_random(reranker, seed=1)
    assert scores() != before
