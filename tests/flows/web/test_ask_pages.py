"""Asking on a page: with and without scripts, kept conversations, labels, export."""

from __future__ import annotations

import ast
import csv
import inspect
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from flows.service.web import doors, workplace
from flows.service.web.ask_pages import list_examples
from flows.service.web.visits import TEMPLATES, Visit, in_korean, korean
from storage import connections
from storage.embedded import Cluster
from storage.sessions import Sessions
from tasks.evaluation.results import finding_runs, ranking
from tasks.evaluation.running import shard_grading
from tasks.rag.answering import graph
from tasks.rag.answers import Answered
from tasks.rag.measuring.ranking_metrics import Question, read_questions
from tasks.rag.retrieval import strategies
from tests.flows.asks import publish_texts
from tests.flows.web.served import Site, answer, cited, site

PRICE = answer("What is the price?", "The price is 41,000,000 won [1]. It floats.", cited(1, "price 41,000,000"))
DOUBT = answer("Does it float?", "It floats on 9 rivers.", unsupported=("It floats on 9 rivers.",))
RATIO = answer(
    "Turnover?",
    "Turnover FY2023 = 1,099 [1] ÷ average(430 [2], 402 [3]) = 2.64",
    *(cited(n, f"row {n}", cell=f"{n}:0:{n}:1") for n in (1, 2, 3)),
    reason="worked out from tables",
    value="2.641826923",
    display="2.64",
)
SHEET = answer("Cost?", "7 won [1].", cited(1, "cost: 7", document="tram.pdf", page=None))
TABLE = answer(
    "Compare",
    "| item | a | b |\n| --- | --- | --- |\n| due | May [1] | June [2] |\n",
    cited(1, "May"),
    cited(2, "June"),
)
SILENT = answer("Moon?", "The documents do not tell.", abstained=True)
ANSWERS = {one.question: one for one in (PRICE, DOUBT, RATIO, SHEET, TABLE, SILENT)}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Without a database."""
    folder = tmp_path_factory.mktemp("asked")
    with site(publish_texts(folder / "index"), folder / "home", ANSWERS) as running:
        yield running


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """With one."""
    folder, home = tmp_path_factory.mktemp("keeping"), Path(os.environ["TRIVET_HOME"])
    sessions = Sessions(lambda: connections.locate(None, home))
    with site(publish_texts(folder / "index"), folder / "home", ANSWERS, sessions=sessions) as running:
        yield running
    connections.engine(Cluster(home).start()).dispose()


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        (PRICE, ("not kept: the database is away", 'class="cite" href="/ui/place?document=', "<h2>tram.pdf</h2>")),
        (
            DOUBT,
            ('<mark class="doubt" title="No cited place holds this">It floats on 9 rivers.</mark>', "not supported"),
        ),
        (RATIO, ('"headline">2.64<', "<summary>Turnover FY2023 = 2.64</summary>", "<td>row 1</td>", "<td>row 3</td>")),
        (TABLE, ('<th scope="col">', "<td>due</td>")),
        (SHEET, ("<blockquote>cost: 7</blockquote>",)),
    ],
    ids=["place", "unsupported", "figure", "table", "no page"],
)
def test_an_answer_shows_its_places_its_doubts_and_its_figures(
    served: Site, asked: Answered, shown: tuple[str, ...]
) -> None:
    page = served.post("/ui/ask", question=asked.question).text
    assert [text for text in shown if text not in page] == []


def test_each_input_of_a_figure_leads_to_its_place_and_to_where_it_comes_from(served: Site) -> None:
    page = served.post("/ui/ask", question=RATIO.question).text
    inputs = page.partition('<th scope="col">Place</th>')[2].partition("</table>")[0]
    assert inputs.count('class="cite" href="/ui/place?document=') == 3
    links = [f'class="why" href="/ui/why?chunk={n}%3A0%3A{n}%3A1">Where it comes from' for n in (1, 2, 3)]
    assert [link for link in links if link not in inputs] == []


def test_a_browser_with_scripts_gets_stages_drafts_and_html(served: Site) -> None:
    with served.browser.stream(
        "POST",
        "/ui/ask",
        data={"token": served.token(), "question": PRICE.question},
        headers={"Accept": "text/event-stream"},
    ) as reply:
        events = [one.split("\ndata: ") for one in reply.read().decode().strip().split("\n\n")]
    assert [name for name, _ in events] == ["event: stage", "event: draft", "event: answer"]
    assert json.loads(events[0][1]) == {"name": "Looking it up"}
    assert '<article class="turn" id="turn-1">' in json.loads(events[2][1])["html"]
    empty = served.post("/ui/ask", question=" ")
    assert (empty.status_code, "the question is empty" in empty.text) == (422, True)


def test_pages_speak_the_language_of_the_browser_or_the_chosen_one(served: Site) -> None:
    korean_page = served.get("/ui/", headers={"Accept-Language": "ko-KR,ko;q=0.9,en;q=0.8"}).text
    assert ('<html lang="ko">' in korean_page, "문서에 묻기" in korean_page) == (True, True)
    chosen = served.get("/ui/language?to=en&back=/ui/", headers={"Accept-Language": "ko"})
    assert "Ask the documents" in chosen.text


def test_every_word_of_the_pages_has_its_korean() -> None:
    said = {
        word
        for file in (*TEMPLATES.glob("*.html"), ranking.PARTS / "leaderboard.html")
        for word in re.findall(r'(?:_|count)\("([^"]+)"[ ),]', file.read_text("utf-8"))
    }
    said |= {column.name.capitalize() for column in ranking.RANKED}
    assert said - korean().keys() == set()


def sentences_in(file: Path) -> Iterator[str]:
    """What a module says in problems and in notes under answers, with `1` in the place of values."""
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Call(func=ast.Name(id="Problem"), args=[_, said]):
                yield literal(said)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="notes"), attr="append"), args=[said]):
                yield literal(said)
            case ast.Assign(targets=[ast.Name(id="notes")], value=ast.Tuple(elts=[said, *_])):
                yield literal(said)
            case _:
                pass


def literal(said: ast.expr) -> str:
    match said:
        case ast.JoinedStr(values=parts):
            return "".join(map(literal, parts))
        case ast.Constant(value=str(words)):
            return words
        case _:
            return "1"


def test_every_sentence_of_the_pages_has_its_korean() -> None:
    folders = [Path(module.__file__ or "").parent for module in (workplace, strategies, graph)]
    said = {sentence for folder in folders for file in folder.glob("*.py") for sentence in sentences_in(file)}
    for module in (shard_grading, finding_runs):  # notes of evaluations, which are yielded and appended
        yielded = (node.value for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Yield))
        said |= {*map(literal, filter(None, yielded)), *sentences_in(Path(inspect.getfile(module)))}
    said = (said | set(graph.CUT_SHORT.values())) - {"1"}
    assert {sentence for sentence in said if in_korean(sentence) == sentence} == set()


@pytest.mark.parametrize(
    ("language", "number", "words"),
    [("en", 1, "1 labelled question"), ("en", 2000, "2,000 labelled questions"), ("ko", 1, "라벨 붙은 질문 1개")],
)
def test_a_count_of_one_is_singular(language: Any, number: int, words: str) -> None:
    visit = Visit(cast("Any", None), cast("Any", None), language, {}, cast("Any", None))
    assert visit.say_count("{} labelled questions", number) == words


def test_reasons_that_are_joined_are_translated_one_by_one() -> None:
    unread, alone = "2 pages were not read completely", "the model gave an empty answer"
    joined = in_korean(f"{unread}; {alone}")
    assert joined == "완전히 읽지 못한 쪽이 2개 있습니다; 모델이 빈 답을 주었습니다."


@pytest.mark.postgres
def test_a_conversation_is_kept_and_goes_on_by_its_link(keeping: Site) -> None:
    first = keeping.post("/ui/ask", question=PRICE.question)
    session = first.url.path.rpartition("/")[2]
    keeping.post("/ui/ask", question=RATIO.question, session=session)
    page = keeping.get(f"/ui/conversations/{session[:8]}").text
    assert [f'id="turn-{n}"' in page for n in (1, 2, 3)] == [True, True, False]
    assert PRICE.question in keeping.get("/ui/conversations").text


@pytest.mark.postgres
def test_conversations_are_found_by_the_words_of_a_question_or_an_answer(keeping: Site) -> None:
    keeping.post("/ui/ask", question=PRICE.question)
    for words, status in ((" 41,000,000 WON", True), ("the price?", True), ("4_,000", False)):
        assert (PRICE.question in keeping.get("/ui/conversations", params={"words": words}).text) == status


def test_a_question_goes_to_the_chosen_documents_and_model(keeping: Site) -> None:
    page = keeping.get("/ui/?documents=tram.pdf&question=Why%3F").text
    assert ('action="/ui/ask?documents=tram.pdf"' in page, ">Why?</textarea>" in page) == (True, True)
    kept = keeping.post("/ui/ask?documents=tram.pdf", question=PRICE.question)
    assert (kept.status_code, kept.url.query) == (200, b"documents=tram.pdf")
    assert keeping.post("/ui/ask?documents=nobody.pdf", question=PRICE.question).status_code == 404
    refused = keeping.post("/ui/ask", question=PRICE.question, model="http://127.0.0.1:9/v1")
    assert (refused.status_code, "is no model here; there are none" in refused.text) == (422, True)


def test_examples_ask_for_other_lines_of_other_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    def number(document: str, line: str, unit: str = "USD", period: str | None = "2023") -> dict[str, Any]:
        return {"document": document, "line": line, "unit": unit, "period": period, "doubt": None}

    lines = (
        *(("a/tram.pdf", line, "USD") for line in ("1. 2023", "Costs › Net sales", "Other")),
        *(("b.pdf", line, "KRW") for line in ("Net sales", "Adult")),
        ("b.pdf", "총사업비", "KRW"),
        ("c.pdf", "Length", "m"),
    )
    monkeypatch.setattr(doors, "numbers", lambda _: [number(*line) for line in lines])
    live: Any = object()
    assert list_examples(live, "") == ("What was Net sales in 2023 in tram?", "b: 2023 총사업비은(는) 얼마인가요?")


def test_a_conversation_is_exported_as_markdown_and_as_a_sheet_and_no_longer_as_word_or_pdf(keeping: Site) -> None:
    session = keeping.post("/ui/ask", question=PRICE.question).url.path.rpartition("/")[2]
    markdown, sheet, gone = (keeping.get(f"/ui/conversations/{session}/export.{name}") for name in ("md", "csv", "pdf"))
    assert markdown.headers["content-disposition"].startswith("attachment")
    linked = f"## {PRICE.question}\n\nThe price is 41,000,000 won [\\[1\\]]({keeping.url}/pictures/"
    assert markdown.text.startswith(linked)
    assert list(csv.reader(io.StringIO(sheet.text)))[1][:2] == [PRICE.question, PRICE.answer]
    assert (gone.status_code, "md and csv" in gone.text) == (404, True)


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("asked", "fields", "expected"),
    [
        (
            PRICE,
            {"verdict": "right"},
            Question(
                id="-",
                question=PRICE.question,
                document="tram.pdf",
                pages=(1,),
                answer="The price is 41,000,000 won. It floats.",
            ),
        ),
        (
            PRICE,
            {"verdict": "wrong", "answer": "7 won", "document": "harbor.pdf", "page": "3"},
            Question(id="-", question=PRICE.question, document="harbor.pdf", pages=(3,), answer="7 won"),
        ),
        (PRICE, {"verdict": "wrong", "document": ""}, Question(id="-", question=PRICE.question, answerable=False)),
        (SILENT, {"verdict": "right"}, Question(id="-", question=SILENT.question, answerable=False)),
    ],
    ids=["right", "corrected", "no document tells", "rightly silent"],
)
def test_a_label_is_a_question_that_eval_reads(
    keeping: Site, tmp_path: Path, asked: Answered, fields: dict[str, str], expected: Question
) -> None:
    session = keeping.post("/ui/ask", question=asked.question).url.path.rpartition("/")[2]
    keeping.post("/ui/label", session=session, turn="1", **fields).raise_for_status()
    file = tmp_path / "labelled.jsonl"
    file.write_text(keeping.get("/ui/labelled.jsonl").text, "utf-8")
    [read] = [one for one in read_questions(file) if one.id.startswith(session[:8])]
    assert read.model_copy(update={"id": "-", "labels": {}}) == expected


@pytest.mark.postgres
def test_a_second_label_replaces_the_first(keeping: Site) -> None:
    session = keeping.post("/ui/ask", question=PRICE.question).url.path.rpartition("/")[2]
    for verdict in ("right", "wrong"):
        keeping.post("/ui/label", session=session, turn="1", verdict=verdict, document="")
    lines = [json.loads(line) for line in keeping.get("/ui/labelled.jsonl").text.splitlines()]
    assert [one["verdict"] for one in lines if one["id"] == f"{session[:8]}-1"] == ["wrong"]


@pytest.mark.postgres
def test_a_conversation_on_another_index_is_not_shown(keeping: Site) -> None:
    sessions = Sessions(lambda: connections.locate(None, Path(os.environ["TRIVET_HOME"])))
    other = sessions.start("/another/index")
    reply = keeping.get(f"/ui/conversations/{other.id}")
    assert (reply.status_code, "about another index" in reply.text) == (404, True)
