"""A conversation as a file: what was asked and answered, where it stands, and what nothing supports, as text."""

from __future__ import annotations

import io

import docx
import pymupdf

from flows.service.web.conversation_files import docx_of, pdf_of
from tasks.rag.answers import Citation
from tests.flows.web.served import answer, cited

HOSTILE = "<b>not bold</b>"
TALK = (
    answer(
        f"마을 안길의 눈은? {HOSTILE}\x00",
        "새벽 5시부터 치웁니다 [1]. It floats.\n| item | a |\n| --- | --- |\n| due | May [2] |",
        cited(1, f"from five {HOSTILE}"),
        cited(2, "May", page=None),
        unsupported=("It floats.", "Said elsewhere."),
    ),
    answer("Again?", "No."),
)


def link(one: Citation) -> str | None:
    return "http://here/pictures/a?key=1&more=2" if one.n == 1 else None


def test_a_word_document_has_the_conversation_with_links_and_doubts() -> None:
    made = docx.Document(io.BytesIO(docx_of(TALK, link=link)))
    text = "\n".join(paragraph.text for paragraph in made.paragraphs)
    assert [one.text for one in made.paragraphs if one.style and one.style.name == "Heading 2"] == [
        f"마을 안길의 눈은? {HOSTILE}",
        "Again?",
    ]
    assert "새벽 5시부터 치웁니다 [1]. It floats. (⚠ not supported)" in text
    assert "⚠ not supported: Said elsewhere." in text
    assert [[cell.text for cell in row.cells] for row in made.tables[0].rows] == [["item", "a"], ["due", "May [2]"]]
    assert {one.address for paragraph in made.paragraphs for one in paragraph.hyperlinks} == {
        "http://here/pictures/a?key=1&more=2"
    }


def test_a_pdf_has_the_conversation_with_links_and_doubts() -> None:
    content = pdf_of(TALK, link=link, language="en")
    with pymupdf.open(stream=content) as made:
        text, links = made[0].get_text(), {one["uri"] for one in made[0].get_links()}
    for said in (
        f"눈은? {HOSTILE}",
        "새벽 5시부터",
        "(! not supported)",
        "! not supported: Said elsewhere.",
        "May [2]",
        "Again?",
    ):
        assert said in text
    assert links == {"http://here/pictures/a?key=1&more=2"}
    assert len(content) < 300_000
