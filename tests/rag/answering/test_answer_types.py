"""The type of answer that a question asks for is checked on the candidate."""

from __future__ import annotations

import pytest

from tasks.language.tokens import installed_tokenizer
from tasks.rag.answering.passage_scores import fits_type, yes_or_no
from tasks.rag.answering.passages import Passage
from tasks.rag.answering.question_reading import read_question


def fits(question: str, passage: Passage) -> bool:
    return fits_type(read_question(question, tokenizer=installed_tokenizer()), passage)


@pytest.mark.parametrize(
    ("question", "answers", "does_not"),
    [
        ("When was Harrow Mills founded?", "It was founded in 1987.", "The 1987 Harrow Mills notes are sold."),
        ("회의는 언제 여는가?", "회의는 8월 29일에 연다.", "회의는 시청에서 연다."),
        ("Who runs the plant?", "The plant is run by Ida Marsh.", "The plant runs day and night."),
        ("Where is the depot?", "The depot is in Tarn Harbor.", "The depot is large."),
        ("어선은 몇 척인가?", "어선은 293척이다.", "어선은 2023년에 줄었다."),
        ("공사비는 몇 원인가?", "공사비는 3억 7,500만 원이다.", "공사비는 6명이 나눈다."),
        ("응답률은 몇 %인가?", "응답률은 43%이다.", "응답자는 43명이다."),
        ("What does tare mean?", "Tare means the weight of the empty cart.", "Tare was measured twice."),
    ],
)
def test_a_candidate_holds_the_type_that_is_asked_for(question: str, answers: str, does_not: str) -> None:
    assert (fits(question, Passage(answers)), fits(question, Passage(does_not))) == (True, False)


@pytest.mark.parametrize(
    "text", ["See Note 7.", "Item 12 has more.", "2023", "제12조에 있다.", "3. The fee is waived."], ids=str
)
def test_numbers_of_notes_items_articles_and_years_are_no_amounts(text: str) -> None:
    assert not fits("How large is the fee?", Passage(text))


@pytest.mark.parametrize(
    ("question", "text", "affirms"),
    [
        ("Is parking allowed?", "Parking is allowed.", True),
        ("설명회를 여는가?", "설명회는 개최하지 않음", False),
        ("설명회를 여는가?", "설명회를 연다.", True),
        ("Where may one park?", "Parking is not allowed.", None),
        ("Is parking allowed?", "Parking on the closed quay is allowed.", None),
        ("Was the store closed?", "The store was closed in May.", None),
        ("주차가 되는가?", "3층을 제외하고 주차가 된다.", None),
    ],
)
def test_a_sentence_affirms_or_denies_what_is_asked(question: str, text: str, affirms: bool | None) -> None:
    assert yes_or_no(read_question(question, tokenizer=installed_tokenizer()), text) is affirms
