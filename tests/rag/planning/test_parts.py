from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tasks.rag.planning.plan import question_parts

SEVERAL = {
    "two whats": (
        "What is the budget of the ferry, and what is the fee for gauges in 2026?",
        ("What is the budget of the ferry", "what is the fee for gauges in 2026?"),
    ),
    "two sentences": (
        "When is the fair? How many people came to it?",
        ("When is the fair", "How many people came to it?"),
    ),
    "compare with": (
        "Compare the rate of the state loan with the rate that Calder pays.",
        ("the rate of the state loan", "the rate that Calder pays"),
    ),
    "difference between": (
        "What is the difference between the budget of 2022 and the budget of 2023?",
        ("the budget of 2022", "the budget of 2023"),
    ),
    "몇 … 이고 … 얼마": (
        "하늬군의 인구는 몇 명이고, 약국 사업의 금액은 얼마인가?",
        ("하늬군의 인구는 몇 명이고", "약국 사업의 금액은 얼마인가?"),
    ),
    "언제이며 어디": (
        "현장 설명회는 언제 열리며 접수 장소는 어디이며 담당자는 누구인가?",
        ("현장 설명회는 언제 열리며 접수 장소는 어디이며", "담당자는 누구인가?"),
    ),
    "누구인지 … 얼마": (
        "사업의 담당자가 누구인지 그리고 사업 예산은 얼마인지 알려 줘.",
        ("사업의 담당자가 누구인지", "그리고 사업 예산은 얼마인지 알려 줘."),
    ),
}
ONE = {
    "a list": "What were the sales of shoes, and of shirts, in 2023?",
    "and in a name": "What does Research and Development cost?",
    "and between nouns": "Compare the operating income of Retail and Wholesale.",
    "a condition": "When the ferry is late, what is paid?",
    "a follow-up": "And when?",
    "고 in a noun": "재고 관리 시스템의 예산은 얼마인가?",
    "참고 문헌": "참고 문헌은 어디에 몇 개 있는가?",
    "고 without a question before": "접속 기록을 암호화하고 보관하는 기간은 얼마인가?",
    "plain": "사업 예산은 얼마인가?",
}


@pytest.mark.parametrize(("question", "parts"), SEVERAL.values(), ids=SEVERAL)
def test_what_asks_for_several_things_is_parted(question: str, parts: tuple[str, ...]) -> None:
    assert question_parts(question) == parts


@pytest.mark.parametrize("question", ONE.values(), ids=ONE)
def test_what_asks_for_one_thing_stays_whole(question: str) -> None:
    assert question_parts(question) == (question,)


@given(some.text())
def test_nothing_but_signs_between_the_parts_is_lost(question: str) -> None:
    parts = question_parts(question)
    assert parts
    assert all(part in question for part in parts)
