"""A sweep runs the whole flow for each way to cut, measures every point once, and goes on where it was killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flows.running.settings import settings
from storage import connections
from storage.evaluations import Evaluations
from tests.command import Done, run_here

pytestmark = [pytest.mark.engine, pytest.mark.postgres]

TEXTS = {
    "price.txt": "The bid price is 35,750,000 won.",
    "delivery.txt": "Delivery takes twelve months.",
    "warranty.txt": "The warranty lasts three years.",
}
QUESTIONS: tuple[dict[str, Any], ...] = (
    {"id": "price", "question": "What is the bid price?", "document": "price.txt"},
    {"id": "delivery", "question": "How long does delivery take?", "document": "delivery.txt"},
    {"id": "nobody", "question": "Who painted the ceiling?", "document": None},
)


def sweep(folder: Path) -> Done:
    words = ("rag", "sweep", folder / "questions.jsonl", "--documents", folder / "documents", "--out", folder / "out")
    searches = ("--strategy", "bm25", "--strategy", "rrf", "--bm25-weight", "1", "--rerank", "scripted")
    return run_here(*words, "--chunk", "800/120,300/50", *searches, "--json")


def test_a_sweep_measures_every_point_once_and_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    for name, text in TEXTS.items():
        (tmp_path / "documents" / name).write_text(f"{text} " * 30)
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in QUESTIONS))
    points = tmp_path / "out" / "points.jsonl"

    first = sweep(tmp_path).json
    lines = points.read_text().splitlines()
    points.write_text("\n".join(lines[:4]) + "\n" + lines[4][:100])  # killed while it wrote the fifth of eight
    again = sweep(tmp_path).json

    after = points.read_text().splitlines()
    assert (len(first["points"]), len(lines), len(after)) == (8, 8, 9)
    assert after[:4] == lines[:4]
    assert [json.loads(line)["key"] for line in after[5:]] == [json.loads(line)["key"] for line in lines[4:]]
    assert [point["evaluation"] for point in again["points"]] == [point["evaluation"] for point in first["points"]]
    assert (first["notes"], again["notes"][0].split(";")[0]) == ([], "4 of 8 points were measured before")
    assert (first["unit"], first["baseline"]["bm25_weight"]) == ("document", 1.0)
    assert [point["point"]["reranker"] for point in first["points"]].count("scripted") == 4
    assert {path.name for path in points.parent.iterdir()} >= {"sweep.json", "sweep.csv", "sweep.png", "sweep.svg"}
    assert in_database(first["points"][0]["key"]) == [2]


def in_database(run: str) -> list[int]:
    """How many questions each data set of the run has."""
    url = connections.locate(None, settings().home)
    try:
        return [evaluated.dataset.count for evaluated in Evaluations(lambda: url).read(run)]
    finally:
        connections.engine(url).dispose()
