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
        ("When is the hearing?", "It is set for May 6.", "It is set for the summer."),
        ("회의는 언제 여는가?", "회의는 8월 29일에 연다.", "회의는 시청에서 연다."),
        ("개찰은 몇 시에 하나?", "개찰은 14시에 한다.", "개찰은 5월 6일에 한다."),
        ("Who runs the plant?", "The plant is run by Ida Marsh.", "The plant runs day and night."),
        ("누가 승인하는가?", "시설과장이 승인한다.", "미리 승인한다."),
        ("Where is the depot?", "The depot is in Tarn Harbor.", "The depot is large."),
        ("How many ferries are there?", "Today 14 electric ferries sail.", "Today 14 crews sail."),
        ("어선은 몇 척인가?", "어선은 293척이다.", "어선은 2023년에 줄었다."),
        ("How much did the dredger cost?", "The dredger cost $4.2 million.", "The dredger took 42 weeks."),
        ("공사비는 몇 원인가?", "공사비는 3억 7,500만 원이다.", "공사비는 6명이 나눈다."),
        ("What share of visitors came by boat?", "By boat came 12% of them.", "By boat came 1,200 of them."),
        ("응답률은 몇 %인가?", "응답률은 43%이다.", "응답자는 43명이다."),
        ("What are the criteria?", "They are price, quality and delivery.", "They are strict."),
        ("What does tare mean?", "Tare means the weight of the empty cart.", "Tare was measured twice."),
        ("Why did fares rise?", "Fares rose because of fuel.", "Fares rose again."),
    ],
)
def test_a_candidate_holds_the_type_that_is_asked_for(question: str, answers: str, does_not: str) -> None:
    assert (fits(question, Passage(answers)), fits(question, Passage(does_not))) == (True, False)


def test_a_row_is_counted_and_priced_by_the_words_and_the_unit_of_its_table() -> None:
    row = Passage("Tarn — 2023: 41", is_row=True, before="Ferries by port")
    assert fits("How many ferries has Tarn?", row)
    assert not fits("How many crews has Tarn?", row)
    assert fits("What was the cost of the quay?", Passage("Quay — 2023: 812", is_row=True, unit="in thousands"))
    assert not fits("What was the cost of the quay?", Passage("Quay — crew: 12 people", is_row=True))


@pytest.mark.parametrize(
    "text", ["See Note 7.", "Item 12 has more.", "2023", "제12조에 있다.", "3. The fee is waived."], ids=str
)
def test_numbers_of_notes_items_articles_and_years_are_no_amounts(text: str) -> None:
    assert not fits("How large is the fee?", Passage(text))


def test_a_row_of_many_numbers_is_read_in_time_that_grows_with_its_length() -> None:
    row = Passage("총투자 " + " ".join(f"{number}.6" for number in range(100, 400)))
    assert not fits("총투자액은 몇 억 달러였나요?", row)
    assert fits("공사비는 몇 원인가?", Passage("공사비는 1조 2,345억 6,789만 5천 원이다."))


def test_a_number_that_the_question_says_does_not_answer_it() -> None:
    assert not fits("How many of the 412 stations are open?", Passage("There are 412 stations."))


@pytest.mark.parametrize(
    ("question", "text", "affirms"),
    [
        ("Is parking allowed?", "Parking is allowed.", True),
        ("Is parking allowed?", "Parking is not allowed.", False),
        ("설명회를 여는가?", "설명회는 개최하지 않음", False),
        ("설명회를 여는가?", "설명회를 연다.", True),
        ("Is parking not allowed?", "Parking is allowed.", None),
        ("Where may one park?", "Parking is not allowed.", None),
        ("Is parking allowed?", "Parking on the closed quay is allowed.", None),
        ("Is the offer due in May?", "The offer is due no later than May 3.", None),
        ("Was the store closed?", "The store was closed in May.", None),
        ("주차가 되는가?", "3층을 제외하고 주차가 된다.", None),
    ],
)
def test_a_sentence_affirms_or_denies_what_is_asked(question: str, text: str, affirms: bool | None) -> None:
    assert yes_or_no(read_question(question, tokenizer=installed_tokenizer()), text) is affirms
