"""Answers that cite: gold numbers in any spelling, gold words, abstentions, rewrites that keep their evidence."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.grading.cited_answers import abstains, has_numbers, has_words, same_evidence
from tests.grading.marked_texts import ANSWERS


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("예산은 3,575만 원이다.", "35,750,000원"),
        ("예산은 3천 5백 7십 5만원이다.", "35,750,000원"),
        ("It cost $1.2 billion in all.", "$1,200 million"),
        ("마감은 2024년 5월 7일 17시이다.", "2024. 5. 7. 17:00"),
        ("야간에는 90 % 이상이어야 한다.", "야간 90% 이상"),
        ("Capex was $737 million.", "737"),
        ("소장 자료는 61만 4천 권이다.", "61만 4천 권"),
        ("A costs 1,190,000,000원, B 12억 5천만 원", "1,250,000,000원, 1,190,000,000원"),
    ],
)
def test_a_gold_number_may_be_spelled_otherwise(answer: str, gold: str) -> None:
    assert has_numbers(answer, gold)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("예산은 35,750,001원이다.", "35,750,000원"),
        ("Capex was $7,370 million.", "737"),
        ("Capex was 1.737 billion.", "737"),
        ("A costs 1,190,000,000원", "1,250,000,000원, 1,190,000,000원"),
        ("", "20"),
    ],
)
def test_another_number_is_not_the_gold_one(answer: str, gold: str) -> None:
    assert not has_numbers(answer, gold)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("발주 기관은 나래시교통정책과이다.", "나래시 교통정책과"),
        ("발주 기관은 나래시 교통 정책과이다.", "나래시 교통정책과"),
        (unicodedata.normalize("NFD", "나래시 교통정책과"), "나래시 교통정책과"),
        ("Because of LOWER product-margin rates.", "lower product margin rates"),
        ("The «Port Ellery Transit Authority» issued it", "Port Ellery Transit Authority."),
        ("PostgreSQL을 쓴다", "PostgreSQL"),
        ("담당: Dan, 2층", "Dan"),
        ("값은 ₩", "₩"),
        ("답은 …", "…"),
    ],
)
def test_gold_words_count_whatever_case_spaces_and_punctuation(answer: str, gold: str) -> None:
    assert has_words(answer, gold)


@pytest.mark.parametrize(("answer", "gold"), [("in abundance", "dan"), ("교통과", "교통정책과"), ("", "x")])
def test_a_part_of_another_word_is_not_the_gold_word(answer: str, gold: str) -> None:
    assert not has_words(answer, gold)


@given(st.text(), st.text(), st.text(min_size=1))
def test_gold_between_spaces_is_found(before: str, after: str, gold: str) -> None:
    assert has_words(f"{before} | {gold} | {after}", gold)


@pytest.mark.parametrize(
    ("text", "abstained"),
    [
        ("문서에서 답을 찾지 못했습니다.", True),
        ("The passages do not say who won.", True),
        ("The documents do not state it [1].", True),
        ("The service is not available on Sundays [2].", True),  # its mark names no block: it is removed
        ("예산은 35,750,000원이다 [1].", False),
        ("", False),
    ],
)
def test_an_answer_without_blocks_abstains_if_it_only_says_that_nothing_tells(text: str, abstained: bool) -> None:
    assert abstains(text) is abstained


@pytest.mark.parametrize(
    ("draft", "rewritten", "same"),
    [
        ("예산은 3,575만 원이다 [1].", "예산: 35,750,000원 [1]", True),
        ("A is 5 [1]. B is 7 [2].", "B is 7 [2], and A is 5 [1].", True),
        ("A is 5 [1]. B is 7 [2].", "A is 7 [1]. B is 5 [2].", False),
        ("A is 5 [1].", "A is 6 [1].", False),
        ("A is 5 [1].", "A is 5.", False),
        ("A is 5.", "A is 5 [1].", False),
        ("A is 5 [1].", "A is 5 [1][2].", False),
        ("A is 5 [1].", "A is 5 [2].", False),
        ("A is 5 [1].", "A is 5 [1] of 100.", False),
        ("기간은 6개월이다 [1].", "기간은 6일이다 [1].", False),
        ("Nothing is told.", "The documents tell nothing.", True),
    ],
)
def test_a_rewrite_keeps_every_number_with_its_marks(draft: str, rewritten: str, same: bool) -> None:
    assert same_evidence(draft, rewritten) is same


@given(ANSWERS)
def test_a_text_has_the_same_evidence_as_itself(text: str) -> None:
    assert same_evidence(text, text)


@pytest.mark.parametrize(
    ("answer", "gold", "held"),
    [
        ("Two depots, at Elm Falls and at Port Rowe, receive the goods.", "Elm Falls and Port Rowe", True),
        ("Two depots, at Elm Falls and at Port Dale, receive the goods.", "Elm Falls and Port Rowe", False),
        ("종속회사는 새솔필름과 HNR Europe GmbH 2개사이다", "새솔필름, HNR Europe GmbH", True),
        ("종속회사는 새솔필름이다", "새솔필름, HNR Europe GmbH", False),
    ],
    ids=["apart", "one lacks", "Korean", "Korean, one lacks"],
)
def test_every_item_of_a_list_must_be_there(answer, gold, held):
    assert has_words(answer, gold) is held
