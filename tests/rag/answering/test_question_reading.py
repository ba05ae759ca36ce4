from __future__ import annotations

import pytest

from tasks.language.tokens import BIGRAM, installed_tokenizer
from tasks.rag.answering.passage_scores import has_answer_type, yes_or_no
from tasks.rag.answering.passages import Passage
from tasks.rag.answering.question_reading import Question, read_question

KIWI = pytest.mark.skipif(installed_tokenizer() == BIGRAM, reason="kiwipiepy is not installed")


def read(text: str) -> Question:
    return read_question(text, tokenizer=installed_tokenizer())


@pytest.mark.parametrize(
    ("question", "wants"),
    [
        ("사업 예산은 얼마인가?", "money"),
        ("신호제어기는 몇 대인가?", "count"),
        ("제출 서류를 모두 들어 주세요.", "list"),
        ("입찰 참여 마감 일시는?", "date"),
        ("검수 방법은?", "text"),
        ("What share of stores is leased?", "percent"),
        ("What rate applies when the gate is out?", "number"),
        ("Where does the tour take place?", "where"),
        ("What was the cost of the defined contribution plans?", "money"),
    ],
)
def test_a_question_shows_the_kind_of_answer_that_would_do(question: str, wants: str) -> None:
    assert read(question).wants == wants


@KIWI
@pytest.mark.parametrize(
    ("question", "focus"),
    [
        ("나래시 지능형 교통신호 구축의 사업 예산은 얼마인가?", {"사업", "예산"}),
        ("어느 기관이 발주하였는가?", {"기관", "발주"}),
        ("What is the daily cap for seniors?", {"daili", "cap"}),
        ("How much operating lease payment falls due in fiscal 2027?", {"oper", "leas", "payment"}),
        ("What did Calder Ridge spend on capital expenditures in fiscal 2023?", {"capit", "expenditur"}),
    ],
)
def test_the_focus_is_what_is_asked_for_and_not_of_whom(question: str, focus: set[str]) -> None:
    assert {term.word for term in read(question).terms if term.focus} == focus


@KIWI
@pytest.mark.parametrize(
    ("question", "word", "gone"),
    [
        ("재공고의 예산은?", "재공고", "공고"),
        ("가온시의 인구는?", "가온시", "시"),
        ("제23기 매출액은?", "23기", "23"),
        ("SFR-002의 기한은?", "sfr-002", "002"),
        ("예산이 13억 8천만 원인 사업은?", "1380000000", "13"),
        ("교통신호는 몇 개인가?", "교통", "교통신호"),
        ("What was FY2022 capex?", "2022", "fy2022"),
    ],
    ids=["prefix", "name", "ordinal", "id", "amount", "compound", "short form"],
)
def test_words_are_those_that_evidence_would_hold(question: str, word: str, gone: str) -> None:
    words = [term.word for term in read(question).terms]
    assert word in words
    assert gone not in words


def test_names_and_numbers_are_literal_and_words_are_not() -> None:
    literal = {term.word: term.literal for term in read("What sales did Acme report for fiscal 2023?").terms}
    assert literal == {"sale": False, "acm": True, "report": False, "fiscal": False, "2023": True}


@pytest.mark.parametrize(
    ("question", "counter"),
    [("How many paid memberships did it count?", "membership"), ("How many Xbox consoles were sold?", "consol")],
)
def test_what_is_counted_is_the_last_noun_before_the_verb(question: str, counter: str) -> None:
    assert read(question).counter == counter


def fits(question: str, passage: Passage) -> bool:
    return has_answer_type(read_question(question, tokenizer=installed_tokenizer()), passage)


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
