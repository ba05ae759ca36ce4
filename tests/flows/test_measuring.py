"""`trivet rag eval` as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.running.settings import settings
from storage import connections
from storage.evaluations import Evaluations
from tests.command import Done, run_apart, run_here
from tests.flows.asks import publish_pages

TEXTS = ("The bid price is 35,750,000 won.", "Delivery takes twelve months.", "The warranty lasts three years.")
PRICE = {"id": "price", "question": "What is the bid price?", "document": "a.pdf", "pages": [1], "answer": "3,575만 원"}
DELIVERY = {"id": "delivery", "question": "How long does delivery take?", "document": "copy.pdf", "pages": [2]}
NOBODY = {"id": "nobody", "question": "Who painted the ceiling?", "document": None, "pages": []}
NOWHERE = "postgresql://me@127.0.0.1:9/trivet"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three pages with words and no vectors worth the name; one name more for the document."""
    return publish_pages(tmp_path_factory.mktemp("index"), *TEXTS)


def questions(folder: Path, *lines: dict[str, Any]) -> Path:
    file = folder / "questions.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def evaluate(file: Path, index: Path, *options: object) -> Done:
    return run_here("rag", "eval", file, "--index", index, "--strategy", "bm25", "--no-store", *options)


def test_the_page_and_document_figures_keep_their_shape(index: Path, tmp_path: Path) -> None:
    told = evaluate(questions(tmp_path, PRICE, DELIVERY), index, "--no-answers", "--json").json
    assert (told["n"], told["paged"], told["answers"], told["notes"], told["run"]) == (2, 2, None, [], None)
    assert told["page"]["hit@1"] == told["document"]["mrr@10"] == {"value": 1.0, "low": 1.0, "high": 1.0}


def test_answers_are_checked_where_lines_have_an_answer(index: Path, tmp_path: Path) -> None:
    told = evaluate(questions(tmp_path, PRICE, DELIVERY, NOBODY), index, "--llm", "none", "--json").json
    answers = told["answers"]
    assert (told["n"], answers["n"], answers["unscored"]) == (2, 3, 0)
    assert answers["number"] == {"value": 1.0, "low": 1.0, "high": 1.0, "n": 1}
    assert answers["citation"]["value"] == 1.0
    assert [answers[name]["value"] for name in ("right", "wrong", "abstained")] == [0.5, 0.0, 0.5]
    assert answers["abstention"]["false_answer_rate"]["value"] == 0.0


def test_lines_without_answers_ask_nobody(index: Path, tmp_path: Path) -> None:
    assert evaluate(questions(tmp_path, DELIVERY), index, "--json").json["answers"] is None


def test_people_see_figures_and_answers(index: Path, tmp_path: Path) -> None:
    file = questions(tmp_path, PRICE, DELIVERY, NOBODY)
    shown = evaluate(file, index).stdout
    for words in ("hit@5", "citation on a gold page", "unanswerable: answered all the same"):
        assert words in shown


def test_details_are_a_line_per_question(index: Path, tmp_path: Path) -> None:
    evaluate(questions(tmp_path, PRICE, NOBODY), index, "--out", tmp_path / "details.jsonl")
    price, nobody = map(json.loads, (tmp_path / "details.jsonl").read_text().splitlines())
    assert price["item"] == "price"
    assert price["detail"]["page"]["hit@1"] == 1.0
    assert price["detail"]["checks"]["number"] is True
    assert nobody["detail"]["checks"]["abstained"] is True


def test_a_gold_document_that_the_index_lacks_is_noted_and_a_miss(index: Path, tmp_path: Path) -> None:
    file = questions(tmp_path, PRICE, DELIVERY | {"document": "lost.pdf"})
    told = evaluate(file, index, "--no-answers", "--json").json
    assert told["page"]["hit@1"]["value"] == 0.5
    assert told["notes"] == [
        "the index has no document lost.pdf, which is the gold of 1 of 2 questions; they count as misses"
    ]


@pytest.mark.parametrize(
    ("lines", "options", "said"),
    [
        ([], [], "no questions to evaluate"),
        ([PRICE, PRICE], [], "line 2: line 1 has the id 'price' too"),
        ([PRICE | {"question": ""}], [], "the question is empty"),
    ],
    ids=["empty file", "double id", "empty question"],
)
def test_questions_that_cannot_be_used_are_refused(
    lines: list[dict[str, Any]], options: list[str], said: str, index: Path, tmp_path: Path
) -> None:
    done = evaluate(questions(tmp_path, *lines), index, *options)
    assert (done.code, done.stdout, said in done.stderr) == (2, "", True)


def test_a_file_that_is_not_jsonl_is_refused_with_the_line(index: Path, tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("id,question\n1,what\n")
    done = evaluate(tmp_path / "q.csv", index)
    assert (done.code, "q.csv, line 1: expected {id, question" in done.stderr) == (2, True)


def test_a_database_that_is_away_costs_a_note_and_not_the_figures(index: Path, tmp_path: Path) -> None:
    file = questions(tmp_path, PRICE)
    words = ("rag", "eval", file, "--index", index, "--strategy", "bm25", "--no-answers", "--json")
    done = run_apart(*words, DATABASE_URL=NOWHERE)
    assert (done.code, done.json["run"], done.json["page"]["hit@1"]["value"]) == (0, None, 1.0)
    assert "127.0.0.1:9" in done.json["notes"][0]


@pytest.fixture
def kept() -> Iterator[Evaluations]:
    url = connections.locate(None, settings().home)
    yield Evaluations(lambda: url)
    connections.engine(url).dispose()


@pytest.mark.postgres
def test_figures_and_items_are_in_the_database(index: Path, tmp_path: Path, kept: Evaluations) -> None:
    file = questions(tmp_path, PRICE, NOBODY)
    told = run_here("rag", "eval", file, "--index", index, "--strategy", "bm25", "--json").json
    (evaluated,) = kept.task_results(told["run"])
    figures = {result.metric: result.value for result in evaluated.results}
    assert figures["page.hit@1"] == told["page"]["hit@1"]["value"]
    assert figures["answers.abstention.false_answer_rate"] == 0.0
    assert [sample.item for sample in kept.samples(told["run"], "")] == ["nobody", "price"]
    assert evaluated.settings.parameters["strategy"] == "bm25"
